"""Notice that state was deleted or replaced while the daemon has it open.

SQLite and flock go on working on a deleted file, so a daemon would answer "done" with receipts that nobody can undo
after its next start, and a second daemon could lock the same state directory.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from memoryd.core.findings import Finding
from memoryd.disk.daemon_lock import Ownership
from memoryd.engine.interfaces import Tell
from memoryd.log import get_logger

log = get_logger(__name__)

STATE_TOPIC = "state"  # of findings about the state of a root
INDEX = "catalogue.sqlite"  # a cache: nothing is lost with it
_NAMES = (INDEX, "journal.sqlite", "snapshots.sqlite", "blobs")

_Identity = tuple[int, int]  # device and inode


def identity_of(path: str) -> _Identity | None:
    """Return what is at `path`; None if nothing is, or only an empty file, which no open database is. Raises OSError:
    what a closed directory hides is not lost."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    emptied = stat.S_ISREG(found.st_mode) and not found.st_size
    return None if emptied else (found.st_dev, found.st_ino)


class StateFiles:
    """The state files of each root as they were opened. Used by the thread that has the right to change the roots."""

    def __init__(self) -> None:
        self._opened: dict[str, dict[str, _Identity | None]] = {}
        self._logs: dict[str, _Identity | None] = {}
        self._lost: dict[str, str] = {}

    def note(self, root: str, place: str) -> tuple[Finding, ...]:
        """Note which files of a root have just been opened. Returns what was lost since the daemon started."""
        paths = (os.path.join(place, name) for name in _NAMES)
        self._opened[root] = {path: _opened_as(path) for path in paths}
        self._logs |= {each: _inode(each) for path in self._opened[root] for each in _logs_of(path)}
        return (Finding("state-lost", "", self._lost[root]),) if root in self._lost else ()

    def forget(self, root: str) -> None:
        """Forget a root that was removed or could not be started."""
        self._opened.pop(root, None)

    def changed(self) -> dict[str, list[str]]:
        """Return the files that are gone or are others now, by root. For any thread."""
        opened = list(self._opened.items())  # at once: another thread may add a root
        found = {root: [path for path, known in files.items() if _is_lost(path, known)] for root, files in opened}
        return {root: paths for root, paths in found.items() if paths}

    def take_lost(self, tell: Tell) -> tuple[str, ...]:
        """Report what is lost, and return the roots that have to be started again."""
        changed = self.changed()
        for root, paths in changed.items():
            self._remove_logs(root, paths)
            lost = [path for path in paths if os.path.basename(path) != INDEX]
            reason = f"{(lost or paths)[0]} was deleted, replaced or emptied while memoryd ran"
            log.warning("state lost", root=root, paths=paths)
            tell("health", {"root": root, "reason": f"{reason}; the root is started again"})
            if lost:
                self._lost[root] = (
                    f"{reason}; history, undo, trash and saved versions from before that may be gone; memories and"
                    " backups are not touched"
                )
        return tuple(changed)

    def _remove_logs(self, root: str, paths: list[str]) -> None:
        """Remove the logs of databases that are gone. A database in their place would take them for its own: a copy
        that was restored would get their pages, and a new one share their memory with a worker that has not ended."""
        gone = [path for path in paths if _inode(path) != self._opened[root][path]]  # an emptied one still has them
        for log_file in (each for path in gone for each in _logs_of(path)):
            if self._logs.get(log_file) is not None and _inode(log_file) == self._logs[log_file]:
                with suppress(OSError):
                    os.unlink(log_file)


def _logs_of(database: str) -> tuple[str, str]:
    return f"{database}-wal", f"{database}-shm"


def _inode(path: str) -> _Identity | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _opened_as(path: str) -> _Identity | None:
    with suppress(OSError):
        return identity_of(path)
    return None


def _is_lost(path: str, known: _Identity | None) -> bool:
    try:
        return known is not None and identity_of(path) != known
    except OSError:
        return False


class HeldLock:
    """The lock on the state directory, and whether it still keeps other daemons out."""

    def __init__(self, owned: Ownership) -> None:
        self.owned = owned
        self._identity = _inode(owned.path)

    def is_lost(self) -> bool:
        """True if another daemon could take the lock, since its file was deleted or replaced."""
        try:
            found = os.stat(self.owned.path)
        except OSError as error:
            return isinstance(error, FileNotFoundError | NotADirectoryError)
        return (found.st_dev, found.st_ino) != self._identity

    def release(self, *, keep_sidecar: bool = False) -> None:
        """Free the lock. The sidecar next to a lock that is lost is of its new holder, and stays."""
        if self.is_lost():
            self.owned.forget()
        else:
            self.owned.release(keep_sidecar=keep_sidecar)
