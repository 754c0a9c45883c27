"""What a folder shows of itself when its layout is to be recognised: names, and how a few of its files begin.

A common name proves nothing (`memories`, `tasks.jsonl`, a dated heading), so each layout goes by what the files say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from itertools import islice
from typing import Any

HEAD = 64 * 1024  # bytes that are read of a file
LOOKED_AT = 40  # files that one layout looks into
# Names at the top of what is surely something else: a repository, a vault, a package, a site, another program's memory.
MARKERS = frozenset({".git", ".obsidian", "package.json", "mkdocs.yml", "_config.yml", "MEMORY.md"})

_DEEPEST = 3  # levels of a cut text that are walked
_decoder = json.JSONDecoder()


class Folder:
    """`files` and `directories` are relative paths, directories that nobody enters included; `head(path)` gives the
    first `HEAD` bytes of a file, none where it cannot be read."""

    def __init__(self, files: Collection[str], directories: Collection[str], head: Callable[[str], bytes]) -> None:
        self.files = files
        self.directories = directories
        self.head = head

    @cached_property
    def marked(self) -> frozenset[str]:
        """The folders that have a marker at their top, "" for the folder itself."""
        paths = (path.rpartition("/") for path in (*self.files, *self.directories))
        return frozenset(folder for folder, _, name in paths if name in MARKERS)

    def within(self, name: str) -> Folder:
        """The folder of that name below this one, as if it were given alone."""
        lead = f"{name}/"
        files = [path.removeprefix(lead) for path in self.files if path.startswith(lead)]
        folders = [path.removeprefix(lead) for path in self.directories if path.startswith(lead)]
        return Folder(files, folders, lambda path: self.head(lead + path))

    def first(self, fits: Callable[[str], object]) -> Iterable[str]:
        """The first files, by name, of those that fit."""
        return islice(filter(fits, sorted(self.files)), LOOKED_AT)

    def json(self, path: str) -> Any:
        """The first JSON value of a file; of one that is longer than its head, as much as stands there. None where
        there is none."""
        data = self.head(path)
        return _begun(_text(data), 0, 0)[0] if len(data) >= HEAD else first_value(data)


def says_other(content: bytes, keys: Collection[str]) -> bool:
    """Is a file that should be an object with some of these keys something else? Neither is an empty one, nor one that
    is cut off before it says anything."""
    text = _text(content.strip(b"\0 \t\r\n"))
    value = _value(text, 0)[0]
    value = _begun(text, 0, 0)[0] if value is None else value
    if isinstance(value, dict | list) and not value:
        return False
    return bool(text) and not (isinstance(value, dict) and any(key in value for key in keys))


def first_value(data: bytes) -> Any:
    """The JSON value that a text begins with, whatever follows it; None where there is none."""
    return _value(_text(data), 0)[0]


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").lstrip(" \t\r\n")


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins there and the offset after it; 0 where none does."""
    try:
        return _decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, 0


def _begun(text: str, at: int, depth: int) -> tuple[Any, int]:
    """The same of a text that is cut off: a container holds what stands before the cut, and its offset is 0."""
    value, end = _value(text, at)
    opened = text[at : at + 1]
    if end or opened not in ("{", "[") or depth == _DEEPEST:
        return value, end
    found: Any = {} if opened == "{" else []
    at = _next(text, at + 1)
    while at:
        key: Any = None
        if opened == "{":
            key, at = _value(text, at)
            if not at or not isinstance(key, str):
                break
            at = _next(text, at)
        value, at = _begun(text, at, depth + 1)
        if value is None and not at:
            break
        found.update({key: value}) if opened == "{" else found.append(value)
        at = at and _next(text, at)
    return found, 0


def _next(text: str, at: int) -> int:
    """The offset of what comes after white space and one comma or colon."""
    while text[at : at + 1] in (" ", "\t", "\r", "\n", ",", ":"):
        at += 1
    return at
