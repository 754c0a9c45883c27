"""What an undo or a recovery needs of a change: in the journal where it is small, else in a blob of its own.

Compressed in both places, and both are private: these are verbatim bytes of memories.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from memoryd.disk.journal import Step
from memoryd.disk.snapshots import BlobError, Blobs

SMALL = 64 * 1024  # a blob costs two syncs more than a row that is written anyway
_FAST = 1
_LINE, _NARROW = 2048, 11  # bytes, and the logarithm of that


class Kept(NamedTuple):
    """The two columns of a step; exactly one is set."""

    blob: str | None
    content: bytes | None


def keep(blobs: Blobs, content: bytes) -> Kept:
    if len(content) > SMALL:
        return Kept(blobs.put(content), None)
    # A line needs no window of 32 KB, which takes ten times as long to make ready as the line to be compressed.
    packer = zlib.compressobj(_FAST, wbits=_NARROW, memLevel=1) if len(content) <= _LINE else zlib.compressobj(_FAST)
    return Kept(None, packer.compress(content) + packer.flush())


def has_kept(step: Step) -> bool:
    return step.content is not None or step.blob is not None


def kept_of(blobs: Blobs, step: Step) -> bytes:
    """Raises BlobError when it is missing or damaged."""
    if step.content is None:
        return blobs.get(step.blob or "")
    try:
        return zlib.decompress(step.content)
    except zlib.error as error:
        raise BlobError(step.after_sha or "", f"is damaged in the journal ({error})") from error
