"""Content for an undo or a recovery: in the journal if it is small, otherwise in its own blob.

They are compressed in both places, and both places are private: these are verbatim bytes of memories.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from memoryd.core.spans import Edit, Span
from memoryd.disk.blobs import BlobError, Blobs
from memoryd.disk.journal import Step

SMALL = 64 * 1024  # a blob costs two syncs more than a row that is written anyway
_FAST = 1
_LINE, _NARROW = 2048, 11  # bytes, and the logarithm of that


class UndoContent(NamedTuple):
    """Two columns of a step, of which exactly one is set: the name of a blob, or the compressed bytes themselves."""

    blob: str | None
    content: bytes | None


def save_undo_content(blobs: Blobs, content: bytes) -> UndoContent:
    """Keep bytes that an undo needs; the caller writes what it returns into the journal's step."""
    if len(content) > SMALL:
        return UndoContent(blobs.put(content), None)
    # A line needs no window of 32 KB, which takes ten times as long to make ready as the line to be compressed.
    packer = zlib.compressobj(_FAST, wbits=_NARROW, memLevel=1) if len(content) <= _LINE else zlib.compressobj(_FAST)
    return UndoContent(None, packer.compress(content) + packer.flush())


def has_undo_content(step: Step) -> bool:
    """True if content was saved for this step."""
    return step.content is not None or step.blob is not None


def load_undo_content(blobs: Blobs, step: Step) -> bytes:
    """Return the bytes that were kept for this step; BlobError when they are missing or damaged."""
    if step.content is None:
        return blobs.get(step.blob or "")
    try:
        return zlib.decompress(step.content)
    except zlib.error as error:
        raise BlobError(step.after_sha or "", f"is damaged in the journal ({error})") from error


_decoder = msgspec.json.Decoder(list[tuple[int, int, bytes]])


def encode_edits(edits: Sequence[Edit]) -> bytes:
    """Return edits as undo content: JSON, the new bytes in base64."""
    return msgspec.json.encode([(edit.span.start, edit.span.end, edit.new) for edit in edits])


def decode_edits(blob: bytes) -> tuple[Edit, ...]:
    """Return the edits that `encode_edits` was given."""
    return tuple(Edit(Span(start, end), new) for start, end, new in _decoder.decode(blob))
