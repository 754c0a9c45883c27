"""Paths below a root that hold no memories: directories of tools, temporary files, and what the configured globs
match."""

from __future__ import annotations

import re
from functools import lru_cache

TOOL_DIRECTORIES = (
    ".git",
    ".obsidian",
    ".trash",
    ".venv",
    "__pycache__",
    "dist",
    "node_modules",
    "target",
    "venv",
)

_TOKEN = re.compile(r"\*\*|\*|\?|[^*?]+")
_REGEX = {"**": ".*", "*": "[^/]*", "?": "[^/]"}

# Temporary and backup names of other programs, as real writers use them. Each alternative begins with a sign, to which
# the search skips: that takes a quarter of the time.
_FOREIGN_TEMP = re.compile(
    r"\.tmp$|\.tmp\.|\.bak$|~$|\.sw[px]$|\.sync-conflict-|\(conflicted copy|\.(?<=^\.)(?:tmp-|#|nfs[0-9a-f]+$)"
)


def is_temp(path: str) -> bool:
    """Return True for a temporary or backup file of any program, which is never read or indexed."""
    return _FOREIGN_TEMP.search(path.rpartition("/")[2]) is not None


def is_ignored(path: str, ignore: tuple[str, ...] = ()) -> bool:
    """True if the path, relative to its root, or a directory above it is ignored. A directory ends in a slash.

    `ignore` holds globs: `*` and `?` match within a name, `**` across slashes. A glob without a slash is matched
    against each name in the path, any other against the whole path.
    """
    return _rule(ignore).search(path) is not None


@lru_cache(maxsize=64)
def _rule(ignore: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, TOOL_DIRECTORIES))
    return re.compile("|".join([f"(?:^|/)(?:{names})/", *map(_pattern, ignore)]), re.DOTALL)


def _pattern(glob: str) -> str:
    body = "".join(_REGEX.get(token, re.escape(token)) for token in _TOKEN.findall(glob.strip("/")))
    anywhere = "/" not in glob.strip("/") and not glob.startswith("/")
    return f"{'(?:^|/)' if anywhere else '^'}{body}{'/' if glob.endswith('/') else '(?:/|$)'}"
