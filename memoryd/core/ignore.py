"""Paths below a root that are ignored: directories of tools, which hold no memories, and the configured globs."""

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
