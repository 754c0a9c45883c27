"""Files that grow at their end by our own appends: what was added, and the digest of the whole without reading it.

An append under the lock needs neither the old content nor a second look at it: the digest goes on from where it was,
and the catalogue takes in the tail alone. That is what keeps the cost of storing one memory from growing with the
store. Whatever does not fit (somebody else wrote, another inode stands there) is read in the usual way.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from memoryd.core.plan import Fingerprint

if TYPE_CHECKING:
    from hashlib import _Hash

FEW = 64  # files; a root with more appends to them one after the other


class Grown(NamedTuple):
    """`after` is the file as our last append left it, `digest` of all of it; `tail` came to `before`."""

    before: Fingerprint
    tail: bytes
    after: Fingerprint
    digest: _Hash


class Growing:
    """Used by the root's worker alone."""

    def __init__(self) -> None:
        self._known: dict[str, Grown] = {}

    def digest(self, path: str, found: Fingerprint) -> _Hash | None:
        """A copy to go on with, where the file is exactly as we left it (ending in a newline)."""
        known = self._known.get(path)
        return known.digest.copy() if known is not None and known.after.same_content(found) else None

    def note(self, path: str, grown: Grown) -> None:
        if len(self._known) >= FEW:
            self._known.clear()
        self._known[path] = grown

    def since(self, path: str, before: Fingerprint, after: Fingerprint) -> Grown | None:
        """The append that leads from one state of the file to the other, if it was ours and nothing else."""
        known = self._known.get(path)
        fits = known is not None and known.before.same_content(before) and known.after.same_content(after)
        return known if fits else None


def digest_of(content: bytes) -> _Hash:
    return hashlib.sha256(content)
