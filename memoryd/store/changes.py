"""Our own changes to files of lines: what became of which lines, and the digest of the whole, without reading it again.

An append under the lock needs neither the old content nor a second look at it: the digest goes on from where it was,
and the catalogue takes in the new lines alone; a rewrite of one line is taken in as one line. Appends that follow each
other wait as one change until the catalogue takes them in. That is what keeps the cost of storing one memory from
growing with the store. Whatever does not fit (somebody else wrote, another inode stands there) is read in the usual
way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memoryd.core.plan import Fingerprint
from memoryd.core.text import Edit

if TYPE_CHECKING:
    from hashlib import _Hash

FEW = 64  # files; a root with more changes to them one after the other
LARGEST = 1024 * 1024  # bytes of lines that are remembered: larger changes are read again


class OwnChange(NamedTuple):
    """From byte `start`, in line `line` (from 1), the whole lines `old` became `new`; `before` and `after` are the file
    before and after, `digest` is of all of it after. An append has no `old`, and no `line`: the catalogue knows it."""

    before: Fingerprint
    start: int
    line: int | None
    old: bytes
    new: bytes
    after: Fingerprint
    digest: _Hash

    @property
    def appended(self) -> bool:
        return not self.old and self.start == self.before.size


class OwnChanges:
    """The last one of each file. Used by whoever has the root's turn."""

    def __init__(self) -> None:
        self._known: dict[str, OwnChange] = {}
        self._waiting: dict[str, bool] = {}  # not taken in by the catalogue; is what is known all of it?
        self._made: set[str] = set()  # files that are new, and that the catalogue does not know

    def digest(self, path: str, found: Fingerprint) -> _Hash | None:
        """A copy to go on with, where the file is exactly as we left it, ending in a newline."""
        known = self._known.get(path)
        if known is None or not known.after.same_content(found) or not known.new.endswith(b"\n"):
            return None
        ended = known.appended or known.start + len(known.new) < known.after.size
        return known.digest.copy() if ended else None

    def note(self, path: str, change: OwnChange) -> None:
        if len(self._known) >= FEW:
            self._known.clear()
        whole = change.appended
        if path in self._waiting:
            before = self._known.get(path)
            whole = before is not None and self._waiting[path] and _follows(before, change)
            change = _joined(before, change) if before is not None and whole else change
        if len(change.old) + len(change.new) > LARGEST:
            self._known.pop(path, None)
        else:
            self._known[path] = change
        self._waiting[path] = whole

    def lost(self, path: str) -> None:
        """We changed it, and somebody else did at the same time."""
        self._known.pop(path, None)
        self._waiting[path] = False

    def made(self, path: str) -> None:
        self._made.add(path)

    def waiting(self, path: str) -> OwnChange | None:
        """The lines at the end that the catalogue does not know yet, where these and no others are known here."""
        return self._known.get(path) if self._waiting.get(path) else None

    @property
    def new(self) -> Collection[str]:
        """Files of ours that the catalogue has never seen."""
        return self._made

    def took(self, path: str) -> None:
        """The catalogue has looked at the file."""
        self._waiting.pop(path, None)
        self._made.discard(path)

    def took_all(self) -> None:
        self._waiting.clear()
        self._made.clear()

    def between(self, path: str, before: Fingerprint, after: Fingerprint) -> OwnChange | None:
        """The change that leads from one state of the file to the other, if it was ours and nothing else."""
        known = self._known.get(path)
        fits = known is not None and known.before.same_content(before) and known.after.same_content(after)
        return known if fits else None


def _follows(before: OwnChange, change: OwnChange) -> bool:
    """Two appends, one right after the other?"""
    return before.appended and change.appended and before.after.same_content(change.before)


def _joined(before: OwnChange, change: OwnChange) -> OwnChange:
    return change._replace(before=before.before, start=before.start, new=before.new + change.new)


def digest_of(content: bytes) -> _Hash:
    return hashlib.sha256(content)


def lines_of(before: bytes, after: bytes, edits: Sequence[Edit]) -> tuple[int, int, bytes, bytes]:
    """(start, line, old, new): the whole lines that a rewrite by these edits changed, the first to the last."""
    first, last = min(e.span.start for e in edits), max(e.span.end for e in edits)
    start = before.rfind(b"\n", 0, first) + 1
    newline = before.find(b"\n", max(last - 1, start))
    end = len(before) if newline < 0 else newline + 1
    until = end + len(after) - len(before)
    return start, before.count(b"\n", 0, start) + 1, before[start:end], after[start:until]
