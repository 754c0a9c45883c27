"""What a git work tree around a root is busy with, by the names in its `.git`: git itself is never run."""

from __future__ import annotations

import os

HIGHEST = 40  # folders walked up at most


def names_in_git_dir(path: str) -> frozenset[str]:
    """Names in the git folder of the work tree that holds `path`; empty when there is none or it cannot be read."""
    here = path
    for _ in range(HIGHEST):
        folder = _git_dir(os.path.join(here, ".git"))
        if folder is not None:
            try:
                return frozenset(os.listdir(folder))
            except OSError:
                return frozenset()
        above = os.path.dirname(here)
        if above == here:
            break
        here = above
    return frozenset()


def _git_dir(path: str) -> str | None:
    """`.git` itself, or where a file of that name (a linked work tree, a submodule) points to."""
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
    return os.path.join(os.path.dirname(path), first.removeprefix("gitdir:").strip())
