"""Save content for an undo or a recovery: in the journal if it is small, otherwise in a blob.

It is compressed in both places, and only the owner can read it: it contains memories verbatim.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from memoryd.core.spans import Edit, Span, sha256
from memoryd.disk.blobs import BlobError, Blobs
from memoryd.disk.journal import Step
from memoryd.disk.journal.trash import TrashedMemory

MAX_INLINE = 64 * 1024  # bytes; a blob costs two more syncs than a row that is written anyway


class UndoContent(NamedTuple):
    """Two columns of a step, or of a memory in the trash, exactly one of which is set: the name of a blob, or the
    compressed bytes."""

    blob: str | None
    content: bytes | None


def save_undo_content(blobs: Blobs, content: bytes) -> UndoContent:
    """Save bytes that an undo needs; the caller writes the result to the step in the journal."""
    if len(content) > MAX_INLINE:
        return UndoContent(blobs.put(content), None)
    # To set up the default window of 32 KB takes several times as long as to compress a line, which needs none.
    return UndoContent(None, zlib.compress(content, 1, wbits=11 if len(content) <= 2048 else 15))


def has_undo_content(step: Step) -> bool:
    """True if content was saved for this step."""
    return step.content is not None or step.blob is not None


def load_undo_content(blobs: Blobs, saved: Step | TrashedMemory) -> bytes:
    """Return the bytes saved for a step, or a memory in the trash. Raises BlobError if they are missing or damaged."""
    if saved.content is None:
        return blobs.get(saved.blob or "")
    try:
        return zlib.decompress(saved.content)
    except zlib.error as error:
        raise BlobError(sha256(saved.content), f"is damaged in the journal ({error})") from error


_decoder = msgspec.json.Decoder(list[tuple[int, int, bytes]])


def encode_edits(edits: Sequence[Edit]) -> bytes:
    """Encode edits as undo content: JSON, with the new bytes in base64."""
    return msgspec.json.encode([(edit.span.start, edit.span.end, edit.new) for edit in edits])


def decode_edits(blob: bytes) -> tuple[Edit, ...]:
    """Decode the output of `encode_edits`."""
    return tuple(Edit(Span(start, end), new) for start, end, new in _decoder.decode(blob))
