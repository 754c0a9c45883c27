"""Exact edits on bytes: the only way memoryd changes what an agent wrote.

Files are kept as bytes, never decoded as a whole, so that broken encodings, odd newlines
and unknown fields pass through untouched. Offsets are byte offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open byte range [start, end)."""

    start: int
    end: int

    def of(self, data: bytes) -> bytes:
        return data[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `span` by `new` (empty `new` deletes, empty span inserts)."""

    span: Span
    new: bytes


def splice(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits given in offsets of `data`; raises ValueError where they overlap or leave the text."""
    out: list[bytes | memoryview] = []
    at, kept = 0, memoryview(data)  # what stays is copied once, into the outcome
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        if edit.span.start < at or edit.span.end < edit.span.start or edit.span.end > len(data):
            raise ValueError(f"edit {edit.span} overlaps another or leaves the text of {len(data)} bytes")
        out += (kept[at : edit.span.start], edit.new)
        at = edit.span.end
    out.append(kept[at:])
    return b"".join(out)


def inverse(data: bytes, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that turn `splice(data, edits)` back into `data`; the price of an undo is its size."""
    back: list[Edit] = []
    shift = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        start = edit.span.start + shift
        back.append(Edit(Span(start, start + len(edit.new)), edit.span.of(data)))
        shift += len(edit.new) - (edit.span.end - edit.span.start)
    return tuple(back)
