"""Exact edits on bytes: the only way memoryd changes what an agent wrote.

Files are handled as bytes and never decoded as a whole, so that broken encodings, unusual newlines and unknown
fields survive unchanged. Offsets are byte offsets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"  # the byte order mark of UTF-8


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open byte range [start, end)."""

    start: int
    end: int

    def of(self, data: bytes) -> bytes:
        """Return the bytes of `data` in this span."""
        return data[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of `span` by `new`: an empty `new` deletes, an empty span inserts."""

    span: Span
    new: bytes


def splice(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits whose offsets refer to `data`. Raises ValueError if they overlap or exceed the text."""
    out: list[bytes | memoryview] = []
    at, unchanged = 0, memoryview(data)  # copied only once, into the result
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        if edit.span.start < at or edit.span.end < edit.span.start or edit.span.end > len(data):
            raise ValueError(f"edit {edit.span} overlaps another or exceeds the text of {len(data)} bytes")
        out += (unchanged[at : edit.span.start], edit.new)
        at = edit.span.end
    out.append(unchanged[at:])
    return b"".join(out)


def inverse(data: bytes, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits that turn `splice(data, edits)` back into `data`."""
    back: list[Edit] = []
    shift = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        start = edit.span.start + shift
        back.append(Edit(Span(start, start + len(edit.new)), edit.span.of(data)))
        shift += len(edit.new) - (edit.span.end - edit.span.start)
    return tuple(back)


def replace_surrogates(text: str) -> str:
    """Return the text with "?" for each lone surrogate: Python's JSON parser accepts them, UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def sha256(content: bytes) -> str:
    """Return the SHA-256 digest in hex."""
    return hashlib.sha256(content).hexdigest()
