"""Content-addressed store for undo, and the bounded quarantine that uses it.

A blob is named by the SHA-256 of its content, compressed, written completely or not at all, and read back before
`put` returns. Each journal has its own store; a blob that no journal row references is removed.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Collection, Iterable
from contextlib import suppress

from memoryd.core.defaults import MB
from memoryd.core.spans import sha256
from memoryd.disk import atomic
from memoryd.disk.journal import Journal
from memoryd.disk.syscalls import NotRegularError
from memoryd.disk.temps import is_our_temp
from memoryd.disk.tree import Tree
from memoryd.errors import MemorydError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".z"
_MAX_BLOB = 512 * MB  # a memory file of 256 MB, and whatever a layout removes from it in one piece


class BlobError(MemorydError):
    """Stored content is missing or damaged; `data["sha256"]` names it."""

    name = "snapshot-damaged"
    rpc_code = -32007
    exit_code = 1

    def __init__(self, digest: str, what: str) -> None:
        super().__init__(
            f"the stored content {digest[:12]}… {what}",
            hint="this change cannot be undone; see `memoryd backup list` for a copy",
            data={"sha256": digest},
        )


class Blobs:
    """Blobs in one directory (created with mode 0700; files 0600). Thread-safe; that no blob is dropped just before
    the journal references it is ensured by the root's single worker."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._tree = Tree(os.path.realpath(directory))
        self._lock = threading.Lock()  # two threads with the same content must not replace each other's blob

    def close(self) -> None:
        """Close the directory."""
        self._tree.close()

    def put(self, content: bytes) -> str:
        """Store content durably, verify it by reading it back, and return its SHA-256. Equal content is stored once."""
        digest = sha256(content)
        with self._lock:
            if not self.is_sound(digest):
                with suppress(FileNotFoundError):  # it exists only if it is damaged
                    self._tree.unlink(_name(digest))
                atomic.create(self._tree, _name(digest), zlib.compress(content), 0o600)
                self.get(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the content. Raises BlobError if it is missing or does not have this hash."""
        try:
            stored, _ = self._tree.read(_name(digest), limit=_MAX_BLOB)
            content = zlib.decompress(stored)
        except FileNotFoundError as error:
            raise BlobError(digest, "is missing") from error
        except (NotRegularError, zlib.error) as error:
            raise BlobError(digest, f"is damaged ({error})") from error
        if sha256(content) != digest:
            raise BlobError(digest, "is damaged (hash mismatch)")
        return content

    def has(self, digest: str) -> bool:
        """True if the blob's file exists. Only `get` checks that it is valid."""
        try:
            return self._tree.stat(_name(digest)) is not None
        except NotRegularError:
            return False

    def is_sound(self, digest: str) -> bool:
        """True if the blob can be read and has its hash."""
        try:
            self.get(digest)
        except BlobError:
            return False
        return True

    def drop(self, digests: Iterable[str]) -> None:
        """Remove blobs; missing ones are ignored."""
        for digest in digests:
            with suppress(FileNotFoundError):
                self._tree.unlink(_name(digest))

    def sweep(self, in_use: Collection[str], *, max_files: int | None = None) -> list[str]:
        """Remove temporary files that a crash left and blobs that are not in use, at most `max_files` in all. Return
        their names. Only for the owner of the state directory, while nothing is stored."""
        gone = [name for name in self._tree.listdir("") if _is_orphan(name, in_use)][:max_files]
        for name in gone:
            self._tree.unlink(name)
        return sorted(gone)


def quarantine(
    journal: Journal,
    blobs: Blobs,
    file: str,
    content: bytes,
    reason: str,
    *,
    now: float,
    max_entries: int = 50,
    max_bytes: int = 64 * MB,
) -> str:
    """Store content that is damaged or was removed from a file, each hash once. Return its SHA-256.

    The oldest entries are dropped when there are more than `max_entries` or `max_bytes` (uncompressed); the newest is
    kept whatever its size.
    """
    digest = blobs.put(content)
    if journal.quarantine.add(file, digest, len(content), reason, now=now):
        blobs.drop(journal.quarantine.remove(_surplus(journal, max_entries, max_bytes)))
    return digest


def _surplus(journal: Journal, max_entries: int, max_bytes: int) -> list[int]:
    """Return the numbers of the quarantine entries that exceed a bound, counted from the newest."""
    newest_first = journal.quarantine.entries()[::-1]
    total = 0
    for kept, entry in enumerate(newest_first):
        total += entry.bytes
        if kept and (kept >= max_entries or total > max_bytes):
            return [each.seq for each in newest_first[kept:]]
    return []


def _name(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise BlobError(digest, "is not a valid hash")
    return digest + _SUFFIX


def _is_orphan(name: str, in_use: Collection[str]) -> bool:
    if is_our_temp(name):
        return True
    digest = name.removesuffix(_SUFFIX)
    return name.endswith(_SUFFIX) and _DIGEST.fullmatch(digest) is not None and digest not in in_use
