"""What a git work tree around a root is busy with, by the names in its `.git`: git itself is never run.

While a git operation is under way nothing is written into its work tree.
"""

from __future__ import annotations

import os
from collections.abc import Collection

MAX_PARENTS = 40  # maximum number of parent directories


def paths_in_git_dir(path: str) -> frozenset[str]:
    """List the git directory of the work tree that contains `path`; empty if there is none or it cannot be read."""
    here = path
    for _ in range(MAX_PARENTS):
        folder = _git_dir(os.path.join(here, ".git"))
        if folder is not None:
            try:
                return frozenset(os.path.join(folder, name) for name in os.listdir(folder))
            except OSError:
                return frozenset()
        above = os.path.dirname(here)
        if above == here:
            break
        here = above
    return frozenset()


def _git_dir(path: str) -> str | None:
    """Return `.git` itself, or what a file of that name (a linked work tree, a submodule) points to."""
    if os.path.isdir(path):
        return path
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            first = file.read(4096).strip()
    except OSError:
        return None
    if not first.startswith("gitdir:"):
        return None
    return os.path.realpath(os.path.join(os.path.dirname(path), first.removeprefix("gitdir:").strip()))


# Names in the `.git` directory of a work tree, and the operation that is in progress while they exist.
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or the applying of patches",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "index.lock": "a git command",
}


def blocked_by_git(paths_in_dot_git: Collection[str]) -> str | None:
    """Return why nothing may be written into the work tree now; None if git is idle or there is no work tree."""
    paths = {path.rpartition("/")[2]: path for path in paths_in_dot_git}
    for name, what in _UNDER_WAY.items():
        if name in paths:
            return f"{what} is under way in the git work tree ({paths[name]})"
    return None
