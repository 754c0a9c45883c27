"""Text of an index file that grows: a further memory costs its own text, not that of all others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec


class Form(NamedTuple):
    """The form of a list of ids: the text before and after each id (none after the last), and the end of a list
    that is not empty."""

    before: bytes
    after: bytes
    end: bytes


IN_ONE_LINE = Form(b"", b", ", b"]")
A_LINE_EACH = Form(b"\n      ", b",", b"\n    ]")


def json_text(value: object) -> bytes:
    """Return the compact JSON of a value; a lone surrogate, which only Python's parser accepts, is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class _List:
    """The text of one list: its begin, and the ids of each part. `first` is the first part that has the key."""

    __slots__ = ("first", "head", "parts")

    def __init__(self, key: str, first: int, parts: int) -> None:
        self.head = b",\n    %b: [" % json_text(key)
        self.parts = [bytearray() for _ in range(parts)]
        self.first = first


class IdLists:
    """A JSON object of lists of ids, as a member of an index file.

    The ids come from several parts, such as files, one part after the other. Keys are in the order in which the parts
    have them; `keys` come first, and stay where their lists are empty.
    """

    def __init__(self, form: Form, keys: Iterable[str] = (), parts: int = 1) -> None:
        self._form = form
        self._parts = parts
        self._lists = {key: _List(key, -1, parts) for key in keys}

    def append(self, key: str, identity: bytes, part: int = 0) -> None:
        """Add an id, as JSON, after all others of its part."""
        found = self._lists.get(key)
        if found is None or part < found.first:
            found = self._place(key, part)
        found.parts[part] += b"%b%b%b" % (self._form.before, identity, self._form.after)

    def _place(self, key: str, part: int) -> _List:
        """Place a key that is new in this part after all keys of this part and those before it."""
        found = self._lists.pop(key, None) or _List(key, part, self._parts)
        found.first = part
        later = [each for each, ids in self._lists.items() if ids.first > part]
        self._lists[key] = found
        for each in later:
            self._lists[each] = self._lists.pop(each)
        return found

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the text, each piece to be used before the next id is added."""
        after, end = self._form.after, self._form.end
        skip = 1  # the comma before the first key
        yield b"{"
        for each in self._lists.values():
            yield each.head[skip:]
            *filled, last = [b"", *filter(None, each.parts)]
            yield from filled
            yield memoryview(last)[: -len(after)]
            yield end if filled else b"]"
            skip = 0
        yield b"}" if skip else b"\n  }"
