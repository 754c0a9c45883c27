"""Exact edits on bytes: the only way memoryd changes what an agent wrote.

Files are handled as bytes and never decoded as a whole, so that broken encodings, unusual newlines and unknown
fields survive unchanged. Offsets are byte offsets. A fingerprint tells whether a file still is what was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from memoryd.core.digest import digest_of

BOM = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
# Two writes within one clock tick look the same: a file modified this recently is hashed again. The tick is some
# milliseconds where time stamps have fractions of seconds, and up to two seconds elsewhere (FAT).
RECENT_S, COARSE_RECENT_S = 0.1, 2.0


Content = bytes | Iterable[bytes | memoryview]
"""The content of a file: as a whole, or in pieces, which are made anew by each pass."""


def joined(content: Content) -> bytes:
    """Return the content as a whole."""
    return content if isinstance(content, bytes) else b"".join(content)


class Span(Struct, frozen=True, order=True):
    """The half-open byte range [start, end)."""

    start: int
    end: int

    def of(self, data: bytes) -> bytes:
        """Return the bytes of `data` in this span."""
        return data[self.start : self.end]


class Edit(Struct, frozen=True):
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


def is_encodable(text: str) -> bool:
    """Return False for a text with a lone surrogate, as Python has for bytes of the command line or of a file name that
    it could not decode."""
    return replace_surrogates(text) == text


def sha256(content: bytes) -> str:
    """Return the SHA-256 digest in hex."""
    return digest_of(content).hexdigest()


class Fingerprint(NamedTuple):
    """Identity and state of a file from `stat`. Equal fingerprints mean that the file has not changed since it was
    read, unless it was written twice within one clock tick; so recently modified files are hashed again."""

    dev: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int = 0
    uid: int = 0
    nlink: int = 1

    def same_file(self, other: Fingerprint) -> bool:
        """True for the same inode, whatever its content."""
        return (self.dev, self.inode) == (other.dev, other.inode)

    def same_content(self, other: Fingerprint | None) -> bool:
        """True if all but mode, owner and change time are equal: a chmod does not change the content."""
        return other is not None and (self.dev, self.inode, self.size, self.mtime_ns) == (
            other.dev,
            other.inode,
            other.size,
            other.mtime_ns,
        )

    def is_recent(self, now: float) -> bool:
        """True if a further write may leave the same stamp. `now` is when a refresh began; the file may be younger."""
        window = COARSE_RECENT_S if self.mtime_ns % 1_000_000_000 == 0 else RECENT_S
        return -COARSE_RECENT_S < now - self.mtime_ns / 1e9 < window


def cut_name(name: str, most: int) -> str:
    """Return the longest beginning of a file name that has at most this many bytes."""
    while len(name.encode("utf-8", "surrogateescape")) > most:
        name = name[:-1]
    return name
