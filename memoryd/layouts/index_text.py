"""Lists of ids in an index file, as text that grows: a further memory costs its own text, not that of all others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    """The text of one list without its end; `ends` tells where in it the ids of each part end. `first` is the first
    part that has the key."""

    __slots__ = ("ends", "first", "text")

    def __init__(self, key: str, first: int, parts: int = 0) -> None:
        self.text = bytearray(b",\n    %b: [" % json_text(key))
        self.ends = [len(self.text)] * parts
        self.first = first


class IdLists:
    """A JSON object of lists of ids, as a member of an index file.

    The ids come from several parts, such as files, one part after the other: `counts` has, for each part but the last,
    how many ids of each list there are up to its end. Keys are in the order in which the parts have them; those of
    empty lists stay where they are.
    """

    def __init__(
        self, form: Form, lists: Mapping[str, Sequence[str]], counts: Sequence[Mapping[str, int]] = ()
    ) -> None:
        self._form = form
        self._parts = len(counts) + 1
        self._lists: dict[str, _List] = {}
        for key, ids in lists.items():
            upto = [*(each.get(key, 0) for each in counts), len(ids)]
            first = next((part for part, count in enumerate(upto) if count), -1)
            found = self._lists[key] = _List(key, first)
            for start, end in zip((0, *upto), upto, strict=False):
                found.text += self._items(ids[start:end])
                found.ends.append(len(found.text))

    def _items(self, ids: Sequence[str]) -> bytes:
        before, after, _ = self._form
        if not ids:
            return b""
        text = json_text(ids)[1:-1]
        if text.count(b",") >= len(ids):  # an id with a comma could look like the end of an element
            return b"".join(before + json_text(each) + after for each in ids)
        return before + text.replace(b'","', b'"%b%b"' % (after, before)) + after

    def append(self, key: str, identity: bytes, part: int = 0) -> None:
        """Add an id, as JSON, after all others of its part."""
        found = self._lists.get(key)
        if found is None or part < found.first:
            found = self._place(key, part)
        item = self._form.before + identity + self._form.after
        at = found.ends[part]
        found.text[at:at] = item
        for number in range(part, self._parts):
            found.ends[number] += len(item)

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
        """Yield the text, to be joined before the next id is added."""
        after, end = self._form.after, self._form.end
        skip = 1  # the comma before the first key
        yield b"{"
        for each in self._lists.values():
            is_filled = each.text.endswith(after)
            yield memoryview(each.text)[skip : -len(after) if is_filled else None]
            yield end if is_filled else b"]"
            skip = 0
        yield b"}" if skip else b"\n  }"
