"""The changes of memoryd to files of lines, until they are indexed.

Which lines memoryd changed is recorded, and the digest of the whole file, so that the file need not be read again. An
append under the lock neither reads nor checks the old content: it continues the digest, and only the new lines are
indexed; a rewrite of one line indexes one line. Consecutive appends wait as one change until they are indexed. This
keeps the cost of storing one memory independent of the size of the store. If another program wrote, or replaced the
inode, the file is read as usual.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memoryd.core.spans import Edit, Fingerprint

if TYPE_CHECKING:
    from memoryd.core.digest import Hash

MAX_FILES = 64  # whose changes are recorded
MAX_BYTES = 1024 * 1024  # of changed lines; after a larger change the file is read again


class OwnChange(NamedTuple):
    """A change of memoryd to whole lines. At byte `start`, in line `line` (from 1), `old` became `new`; `before` and
    `after` are the fingerprints of the file, `digest` covers its whole content after the change. An append has no `old`
    and no `line`: the catalogue has the number of lines. `ended`: the file then ends with a newline."""

    before: Fingerprint
    start: int
    line: int | None
    old: bytes
    new: bytes
    after: Fingerprint
    digest: Hash
    ended: bool

    @property
    def appended(self) -> bool:
        """True if the change only added lines at the end."""
        return not self.old and self.start == self.before.size


class _Pending(NamedTuple):
    """The changes of memoryd to a file that are not indexed yet. `covered`: the one that is kept of the file is all of
    them. `appended`: all lines, if lines were only appended; None if more was changed, or they are too many."""

    covered: bool
    appended: list[bytes] | None


class PendingChanges:
    """The most recent change of memoryd to each file, until it is indexed. Used by the thread that owns the root."""

    def __init__(self) -> None:
        self._changes: dict[str, OwnChange] = {}
        self._pending: dict[str, _Pending] = {}
        self._created: set[str] = set()  # new files that the catalogue does not know

    def digest(self, path: str, found: Fingerprint) -> Hash | None:
        """Return a copy of the digest of the whole file, to be updated further; None if the file changed since our last
        change or does not end with a newline."""
        change = self._changes.get(path)
        known = change is not None and change.ended and change.after.same_content(found)
        return change.digest.copy() if change is not None and known else None

    def note(self, path: str, change: OwnChange) -> None:
        """Record a change to the lines of a file; consecutive appends become one change."""
        if len(self._changes) >= MAX_FILES:
            self._changes.clear()
        appended, covered = change.new if change.appended else None, change.appended
        pending, before = self._pending.get(path), self._changes.get(path)
        if pending is not None:
            covered = pending.covered and before is not None and _follows(before, change)
            if before is not None and covered:
                change = change._replace(before=before.before, start=before.start, new=before.new + change.new)
        if len(change.old) + len(change.new) > MAX_BYTES:
            self._changes.pop(path, None)
        else:
            self._changes[path] = change
        self._pend(path, appended, covered=covered)

    def invalidate(self, path: str, appended: bytes | None = None) -> None:
        """Drop the change: another program changed the file at the same time, or `appended` is not all that changed."""
        self._changes.pop(path, None)
        self._pend(path, appended, covered=False)

    def _pend(self, path: str, appended: bytes | None, *, covered: bool) -> None:
        pending = self._pending.get(path)
        lines = [] if pending is None else pending.appended
        if appended is None or lines is None or sum(map(len, lines)) + len(appended) > MAX_BYTES:
            self._pending[path] = _Pending(covered, None)
            return
        lines.append(appended)
        self._pending[path] = _Pending(covered, lines)

    def created(self, path: str) -> None:
        """Record a new file that is not in the catalogue."""
        self._created.add(path)

    def is_pending(self, path: str) -> bool:
        """True if a change of memoryd to a file is not indexed yet."""
        return path in self._pending or path in self._created

    def are_all_in(self, path: str, added: bytes) -> bool:
        """True if the changes to a file that are not indexed yet are appended lines, and all of them are in `added`."""
        pending = self._pending.get(path)
        return pending is None or (pending.appended is not None and all(each in added for each in pending.appended))

    def pending_append(self, path: str) -> OwnChange | None:
        """Return the appended lines that are not indexed yet; None if they are not all recorded."""
        pending = self._pending.get(path)
        return self._changes.get(path) if pending is not None and pending.covered else None

    @property
    def created_paths(self) -> Collection[str]:
        """New files of memoryd that are not in the catalogue."""
        return self._created

    def indexed(self, path: str) -> None:
        """Mark a file as indexed."""
        self._pending.pop(path, None)
        self._created.discard(path)

    def indexed_all(self) -> None:
        """Mark every file as indexed."""
        self._pending.clear()
        self._created.clear()

    def between(self, path: str, before: Fingerprint, after: Fingerprint) -> OwnChange | None:
        """Return the change between two states of the file; None if it was not a single change of memoryd."""
        own = self._changes.get(path)
        fits = own is not None and own.before.same_content(before) and own.after.same_content(after)
        return own if fits else None


def _follows(before: OwnChange, change: OwnChange) -> bool:
    """True if these are two appends, one right after the other."""
    return before.appended and change.appended and before.after.same_content(change.before)


def lines_of(before: bytes, after: bytes, edits: Sequence[Edit]) -> tuple[int, int, bytes, bytes]:
    """Return (start, line, old, new): the whole lines from the first edit to the last."""
    first, last = min(e.span.start for e in edits), max(e.span.end for e in edits)
    start = before.rfind(b"\n", 0, first) + 1
    newline = before.find(b"\n", max(last - 1, start))
    end = len(before) if newline < 0 else newline + 1
    until = end + len(after) - len(before)
    return start, before.count(b"\n", 0, start) + 1, before[start:end], after[start:until]
