"""What is left alone beneath a root: the folders of tools, which hold no memories, and what the configuration names."""

from __future__ import annotations

import re
from functools import lru_cache

FOLDERS = (
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
_MEANS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


def skips(path: str, ignore: tuple[str, ...] = ()) -> bool:
    """Is the path, or a folder above it, to be left alone? A folder's own path ends in a slash.

    `ignore` are globs: `*` and `?` stay within a name, `**` does not. One without a slash is held against each name on
    the way, any other against the path from the root on."""
    return _rule(ignore).search(path) is not None


@lru_cache(maxsize=64)
def _rule(ignore: tuple[str, ...]) -> re.Pattern[str]:
    folders = "|".join(map(re.escape, FOLDERS))
    return re.compile("|".join([f"(?:^|/)(?:{folders})/", *map(_pattern, ignore)]), re.DOTALL)


def _pattern(glob: str) -> str:
    body = "".join(_MEANS.get(token, re.escape(token)) for token in _TOKEN.findall(glob.strip("/")))
    anywhere = "/" not in glob.strip("/") and not glob.startswith("/")
    return f"{'(?:^|/)' if anywhere else '^'}{body}{'/' if glob.endswith('/') else '(?:/|$)'}"
