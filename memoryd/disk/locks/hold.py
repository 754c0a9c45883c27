"""Take the lock file of a memory directory, safely alongside less careful programs.

The published way to release (unlock, close, then remove) lets two writers in at once: the next one in the queue
gets a lock on a file that has just been unlinked. memoryd cannot change that, but never commits at such a moment:
after the flock it compares the open file with the one at the path, waits 10 ms and compares again, and once more
right before each rename (`Held.check`). Each time it also asks the kernel which process holds a deleted lock file:
critical sections longer than the 10 ms show nowhere else (measured with sections of 20 ms: 16 of 22 commits
overlapped one without that check, none with it). The 10 ms are skipped if the lock file is new and no directory
entry has changed for longer than that: a process that could still remove a lock file late would have to hold it then.
The kernel is not asked if no other process has changed the lock file since the last answer (`watch.Trace`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from types import TracebackType

from msgspec import Struct, field

from memoryd.core.lock_owner import LockOwner, encode_owner, parse_owner
from memoryd.core.lock_staleness import is_reused, lock_time
from memoryd.disk import processes
from memoryd.disk.locks import file as lockfile
from memoryd.disk.locks.queue import QueuedFlock
from memoryd.disk.locks.trace import HONOUR_S, LockWatch, Trace, identity_of
from memoryd.disk.temps import still_holds
from memoryd.errors import BusyError
from memoryd.log import get_logger

log = get_logger(__name__)

_MIN_PAUSE_S, _MAX_PAUSE_S = 0.002, 0.050  # between two attempts on a lock that is taken
SETTLE_S = 0.010  # measured: with it and both comparisons no commit fell into another's short section
TRIES = 3  # attempts to remove the lock file on release
QUEUE_S = 0.04  # with less time left than this, poll instead of queueing: that needs no thread
UNLINK_S = 0.001  # a writer of the published kind unlinks the path right after it releases the flock
QUIET_S = 0.050  # a directory's mtime has the resolution of the kernel's tick, 10 ms at most


class LockLostError(BusyError):
    """The lock file was unlinked while we held it: the next process would not wait for us. Retry."""


class HeldLock(Struct):
    """A lock that is held, as a context manager that releases it. `created`: we created the file, it contains `record`,
    and release removes it."""

    dir_fd: int
    name: str
    fd: int
    created: bool
    trace: Trace
    record: bytes = b""

    def __enter__(self) -> HeldLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def check(self) -> None:
        """Check right before each rename that the lock still excludes others. Raises LockLostError."""
        # The name comes last: reading the kernel's lock table takes milliseconds, in which the file can be removed.
        holder = _deleted_lock_holder(self.dir_fd, self.name, self.trace)
        if holder is not None:
            raise self._lost_error(f"is beside process {holder}, which is inside with a removed one")
        if not still_holds(self.dir_fd, self.name, self.fd):
            raise self._lost_error("was removed or replaced")

    def _lost_error(self, what: str) -> LockLostError:
        return LockLostError(
            f"`{self.name}` {what} while memoryd held it; nothing was written",
            hint="another program releases this lock in an unsafe order; the change is tried again",
            data={"path": self.name},
        )

    def release(self) -> None:
        """Remove the file if we created it and its content is still ours, then release the flock. The work under the
        lock is complete, so a failed removal is not an error: the sweep removes the file later, because its record
        names this process, which no longer holds the lock."""
        try:
            for left in reversed(range(TRIES)):
                if self._try_remove(last=not left):
                    return
        finally:
            os.close(self.fd)

    def _try_remove(self, *, last: bool) -> bool:
        try:
            content = lockfile.read(self.fd) if self.created else b""
            ours = content == self.record or parse_owner(content).pid in (os.getpid(), None)
            if self.created and ours:
                _remove(self.dir_fd, self.name, self.fd, self.trace)
                self.trace.mtime_ns = os.fstat(self.dir_fd).st_mtime_ns
        except OSError as error:
            if last:
                log.warning("could not release the lock", name=self.name, reason=error.strerror)
            return False
        return True


def _remove(dir_fd: int, name: str, fd: int, trace: Trace) -> None:
    if still_holds(dir_fd, name, fd) and lockfile.retire(dir_fd, name, fd) == "removed":
        trace.note_removed(fd)


def _deleted_lock_holder(dir_fd: int, name: str, trace: Trace) -> int | None:
    """Return a process holding a deleted lock file; None if there is none or it cannot be found out."""
    directory = None if trace.is_clear() else lockfile.directory_path(dir_fd)
    if directory is None:
        return None
    pid = processes.deleted_lock_holder(os.path.join(directory, name))
    if pid is None:
        trace.note_clear()
    return pid


class _Wait(Struct):
    """One wait for the lock: the deadline and the processes that were observed to hold it."""

    lock: DirectoryLock
    deadline_s: float
    began: float
    inodes: set[int] = field(default_factory=set)
    pids: set[int] = field(default_factory=set)
    losses: int = 0  # times the file was unlinked while we settled on it
    age_s: float = 0.0
    attempts: int = 0
    retry_at_once: bool = False  # the path was unlinked when our turn came: create or queue for the next file now

    def note_holder(self, fd: int, owner: LockOwner, pid: int | None) -> None:
        """Remember the holder: `pid`, or else the one that the kernel or the record names."""
        status = os.fstat(fd)
        self.inodes.add(status.st_ino)
        self.age_s = max(0.0, self.lock.wall() - lock_time(owner, status.st_mtime))
        pid = pid or processes.flock_holder(status.st_ino) or owner.pid
        if pid is not None:
            self.pids.add(pid)

    def pause(self) -> None:
        """Sleep with backoff. Raises BusyError at the deadline."""
        left = self.left()
        if left <= 0:
            raise self._busy()
        if self.retry_at_once:
            return
        delay = min(_MAX_PAUSE_S, _MIN_PAUSE_S * 2 ** min(self.attempts, 8)) * (0.5 + self.lock.jitter())
        self.attempts += 1
        self.lock.sleep(min(delay, left))

    def left(self) -> float:
        return self.began + self.deadline_s - self.lock.monotonic()

    @property
    def starved(self) -> bool:
        return self.losses > 0 or len(self.inodes) > 1 or len(self.pids) > 1

    def _busy(self) -> BusyError:
        pid = next(iter(self.pids)) if len(self.pids) == 1 else None
        path = self.lock.name
        who = f"process {pid}" if pid is not None else "a process the system does not name"
        if self.starved:
            who = f"{len(self.pids)} writers" if len(self.pids) > 1 else "other writers"
            message = f"`{path}` changes hands without a gap for memoryd ({who} in {self.deadline_s:g} s)"
            hint = "nothing was forced; it is tried again when the writers pause"
        else:
            message = f"`{path}` is held by {who}, claimed {self.age_s:.0f} s ago"
            hint = "wait for it to finish; `memoryd lock list` shows the evidence"
        return BusyError(
            message,
            hint=hint,
            data={"path": path, "pid": pid, "age_s": round(self.age_s, 3), "starved": self.starved},
        )


class DirectoryLock(Struct):
    """The lock file `name` in the directory open as `dir_fd`, in the protocol of its agents.

    With `honour_soft` a file whose flock is free still counts as taken while it names a live process that started
    before the lock: some programs use the file's existence as the lock. This ends after `HONOUR_S` without a change.
    """

    dir_fd: int
    name: str = ".lock"
    honour_soft: bool = True
    host: str = field(default_factory=lambda: os.uname().nodename)
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random  # from 0 to 1; keeps waiters from retrying in lockstep
    trace: Trace = field(default_factory=Trace)
    watch: LockWatch = field(default_factory=LockWatch)

    def hold(self, deadline_s: float) -> HeldLock:
        """Take the lock, waiting at most `deadline_s` seconds; 0 tries once.

        Raises BusyError (`data`: path, pid, age_s, starved), IrregularLockError if the path is not a regular file,
        DeniedError, RootMissingError, OSError for a full or failing disk.
        """
        wait = _Wait(self, deadline_s, self.monotonic())
        while True:
            wait.retry_at_once, quiet = False, self._quiet()
            opened = lockfile.open_or_create(self.dir_fd, self.name)
            if opened is not None:
                fd, created = opened
                if created:
                    self.trace.note_created()
                held = self._settle_on(fd, created, wait, settled=quiet and created)
                if held is not None:
                    return held
            wait.pause()

    def _quiet(self) -> bool:
        """True if no directory entry has changed for a while, except for our last lock file."""
        changed = os.fstat(self.dir_fd).st_mtime_ns
        return changed == self.trace.mtime_ns or self.wall() - changed / 1e9 >= QUIET_S

    def _settle_on(self, fd: int, created: bool, wait: _Wait, *, settled: bool) -> HeldLock | None:
        """Take the lock on this file; return None if the path now refers to another one."""
        held = None
        try:
            while still_holds(self.dir_fd, self.name, fd):
                if self._try(fd, wait, settled=settled and wait.attempts == 0):
                    record = encode_owner(os.getpid(), self.wall(), self.host) if created else b""
                    if created:
                        lockfile.write_record(fd, record)
                    held = HeldLock(self.dir_fd, self.name, fd, created, self.trace, record)
                    return held
                wait.pause()
            wait.inodes.add(os.fstat(fd).st_ino)
            return None
        finally:
            if held is None:  # also when writing our record failed: a leaked flock would block every process
                self._abandon(fd, created)

    def _abandon(self, fd: int, created: bool) -> None:
        """Close a file we do not hold. One that we created and no process uses must not be left behind."""
        try:
            if created and lockfile.try_flock(fd) and lockfile.read_owner(fd).pid is None:
                _remove(self.dir_fd, self.name, fd, self.trace)
        finally:
            os.close(fd)

    def _try(self, fd: int, wait: _Wait, *, settled: bool) -> bool:
        """Make one attempt: flock, no other process's claim, and both still true after settling."""
        if not lockfile.try_flock(fd):
            if not self._queue(fd, wait):
                if not wait.retry_at_once:
                    wait.note_holder(fd, lockfile.read_owner(fd), None)
                return False
            wait.retry_at_once = self._is_unlinked_soon(fd)
            if wait.retry_at_once:
                lockfile.unlock(fd)
                return False
        claimant = self._active_process(fd)
        if claimant is None:
            if not settled:
                self.sleep(SETTLE_S)
                claimant = self._active_process(fd)
            if claimant is None and still_holds(self.dir_fd, self.name, fd):
                return True
            wait.losses += claimant is None
        lockfile.unlock(fd)
        wait.note_holder(fd, lockfile.read_owner(fd), claimant)
        return False

    def _queue(self, fd: int, wait: _Wait) -> bool:
        """Wait in the kernel's queue; False at the deadline, if the file was unlinked, or if queueing failed."""
        if wait.left() < QUEUE_S:
            return False
        self.sleep(0)  # raises during a shutdown
        turn = QueuedFlock.begin(fd, self.dir_fd, self.name)
        if turn is None:
            return False
        try:
            while not turn.wait(min(_MAX_PAUSE_S, max(0.0, wait.left()))):
                self.sleep(0)
                wait.retry_at_once = not still_holds(self.dir_fd, self.name, fd)
                if wait.retry_at_once or turn.failed or wait.left() <= 0:
                    return False
            return True
        finally:
            turn.end()

    def _is_unlinked_soon(self, fd: int) -> bool:
        """True if the path is unlinked within UNLINK_S after our turn came. Only a process that polls without a
        pause gets to create the next file."""
        until = time.perf_counter() + UNLINK_S
        while still_holds(self.dir_fd, self.name, fd):
            if time.perf_counter() >= until:
                return False
        return True

    def _active_process(self, fd: int) -> int | None:
        """Return a process that may be in its critical section although the flock is ours."""
        return self._claimant(fd) or _deleted_lock_holder(self.dir_fd, self.name, self.trace)

    def _claimant(self, fd: int) -> int | None:
        """Return the live process that the record names, if it can be the one that wrote it."""
        if not self.honour_soft:
            return None
        owner = lockfile.read_owner(fd)
        elsewhere = owner.host is not None and owner.host.casefold() != self.host.casefold()
        if owner.pid is None or owner.pid == os.getpid() or elsewhere:
            return None
        status = os.fstat(fd)
        alive, started = processes.liveness(owner.pid)
        if alive != "alive" or is_reused(alive, started, lock_time(owner, status.st_mtime)):
            return None
        return owner.pid if self.watch.unchanged_s(self.name, identity_of(status)) < HONOUR_S else None
