"""What a user's git operation under way looks like from outside. Git itself is never run."""

from __future__ import annotations

from collections.abc import Collection

# Names in the `.git` folder of a work tree, and what is going on while they are there.
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or the applying of patches",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "index.lock": "a git command",
}


def blocked_by_git(names_in_dot_git: Collection[str]) -> str | None:
    """Why nothing may be written into the work tree just now; None where git rests (or there is none)."""
    for name, what in _UNDER_WAY.items():
        if name in names_in_dot_git:
            return f"{what} is under way in the git work tree (.git/{name})"
    return None
