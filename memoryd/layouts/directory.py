"""Evidence for recognising the layout of a directory: file names, and the beginnings of a few files.

Common names prove nothing (`memories`, `tasks.jsonl`, a dated heading), so each layout checks file contents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from itertools import islice

HEAD_SIZE = 64 * 1024  # bytes read of a file
MAX_HEADS = 40  # files that one layout reads
# Names that mark something else: a repository, a vault, a package, a site, another program's memory.
MARKERS = frozenset({".git", ".obsidian", "package.json", "mkdocs.yml", "_config.yml", "MEMORY.md"})

_MAX_DEPTH = 3  # levels of a cut-off value that are parsed
_decoder = json.JSONDecoder()


class Directory:
    """A listing of relative paths, including directories that were not entered; `head(path)` returns the first
    `HEAD_SIZE` bytes of a file, or b"" if it cannot be read."""

    def __init__(self, files: Collection[str], directories: Collection[str], head: Callable[[str], bytes]) -> None:
        self.files = files
        self.directories = directories
        self.head = head

    @cached_property
    def marked_directories(self) -> frozenset[str]:
        """The directories with one of `MARKERS` at their top, "" for the root itself."""
        paths = (path.rpartition("/") for path in (*self.files, *self.directories))
        return frozenset(directory for directory, _, name in paths if name in MARKERS)

    def within(self, name: str) -> Directory:
        """Return the listing of the subdirectory `name` as a listing of its own."""
        prefix = f"{name}/"
        files = [path.removeprefix(prefix) for path in self.files if path.startswith(prefix)]
        directories = [path.removeprefix(prefix) for path in self.directories if path.startswith(prefix)]
        return Directory(files, directories, lambda path: self.head(prefix + path))

    def first(self, fits: Callable[[str], object]) -> Iterable[str]:
        """Return the first `MAX_HEADS` files, by name, that match."""
        return islice(filter(fits, sorted(self.files)), MAX_HEADS)

    def json(self, path: str) -> object:
        """Return the first JSON value of a file, cut off at `HEAD_SIZE` if the file is longer; None if there is
        none."""
        data = self.head(path)
        return _parse_cut_off(_text(data), 0, 0)[0] if len(data) >= HEAD_SIZE else first_value(data)


def is_other_json(content: bytes, keys: Collection[str], common: Collection[str] = ()) -> bool:
    """Return True if `content` is JSON, perhaps cut off, and not an object with one of these keys. Returns False for
    what is no JSON at all, and for an object of which only the `common` keys, with texts as values, are left."""
    text = _text(content.strip(b"\0 \t\r\n"))
    value, end = _value(text, 0)
    if not end:
        value = _parse_cut_off(text, 0, 0)[0]
    if value is None or (isinstance(value, dict | list) and not value):
        return False
    if not isinstance(value, dict):
        return True
    if all(key in common and isinstance(each, str) for key, each in value.items()):
        return False
    return not any(key in value for key in keys)


def first_value(data: bytes) -> object:
    """Return the JSON value at the beginning of `data`, ignoring the rest; None if there is none."""
    return _value(_text(data), 0)[0]


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").lstrip(" \t\r\n")


def _value(text: str, at: int) -> tuple[object, int]:
    """Return the value at offset `at` and the offset after it; (None, 0) if there is none."""
    try:
        return _decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, 0


def _parse_cut_off(text: str, at: int, depth: int) -> tuple[object, int]:
    """Return a value and the offset after it. If the value is cut off, it holds the members before the cut, and the
    offset is 0."""
    value, end = _value(text, at)
    bracket = text[at : at + 1]
    if end or bracket not in ("{", "[") or depth == _MAX_DEPTH:
        return value, end
    members: dict[str, object] = {}
    items: list[object] = []
    at = _next(text, at + 1)
    while at:
        key: object = None
        if bracket == "{":
            key, at = _value(text, at)
            if not at or not isinstance(key, str):
                break
            at = _next(text, at)
        value, at = _parse_cut_off(text, at, depth + 1)
        if value is None and not at:
            break
        if isinstance(key, str):
            members[key] = value
        else:
            items.append(value)
        at = at and _next(text, at)
    return (members if bracket == "{" else items), 0


def _next(text: str, at: int) -> int:
    """Return the offset after white space, commas and colons."""
    while text[at : at + 1] in (" ", "\t", "\r", "\n", ",", ":"):
        at += 1
    return at
