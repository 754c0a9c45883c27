"""Operations in progress in the git work tree around a root, recognised by file names in `.git`; git is never run.

During a git operation memoryd writes nothing into the work tree.
"""

from __future__ import annotations

import os
from collections.abc import Collection

MAX_PARENTS = 40  # maximum number of parent directories


def paths_in_git_dir(path: str) -> frozenset[str]:
    """List the git directory of the work tree that contains `path`; empty if there is none or it cannot be read."""
    here = path
    for _ in range(MAX_PARENTS):
        git_dir = _git_dir(os.path.join(here, ".git"))
        if git_dir is not None:
            try:
                return frozenset(os.path.join(git_dir, name) for name in os.listdir(git_dir))
            except OSError:
                return frozenset()
        above = os.path.dirname(here)
        if above == here:
            break
        here = above
    return frozenset()


def _git_dir(path: str) -> str | None:
    """Return `.git` if it is a directory, or the directory that such a file (linked work tree, submodule) names."""
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
    """Return the reason not to write into the work tree now; None if git is idle or there is no work tree."""
    paths = {path.rpartition("/")[2]: path for path in paths_in_dot_git}
    for name, what in _UNDER_WAY.items():
        if name in paths:
            return f"{what} is under way in the git work tree ({paths[name]})"
    return None
