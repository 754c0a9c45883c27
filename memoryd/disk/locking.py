"""Taking, looking at and clearing the lock file of a memory folder, beside programs that do it worse.

The published way to release (unlock, close, then remove) lets two writers in at once: the next of the queue
gets a lock on a file that has lost its name. memoryd cannot change that, but never commits in such a moment:
after the flock it compares the file it has open with the one the path names, waits 10 ms and compares again,
and once more right before each rename (`Held.check`). Each time it also asks the kernel who is inside with a
removed lock file: sections longer than the 10 ms show nowhere else (measured, sections of 20 ms: 16 of 22
commits overlapped one without that question, none with it). The 10 ms are over already where the lock file is new
and no name came or went in the folder for longer: whoever would still remove a lock file late had to be in it then.
The question is spared where no stranger had a hand in the lock file since it was last answered (`locktrace`).

`DirectoryLock` takes the lock; `owner_of`, `inspect` and `clear` (of `disk/lockcheck`) look and sweep.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from memoryd.core.staleness import LockOwner, encode_owner, is_reused, lock_time, parse_owner
from memoryd.disk import lockfile, processes
from memoryd.disk.lockcheck import LockReport, clear, inspect, owner_of
from memoryd.disk.lockfile import IrregularLockError
from memoryd.disk.locktrace import Trace
from memoryd.errors import BusyError

__all__ = [
    "DirectoryLock",
    "Held",
    "IrregularLockError",
    "LockLostError",
    "LockReport",
    "clear",
    "inspect",
    "owner_of",
]

_SHORTEST_S, _LONGEST_S = 0.002, 0.050  # between two looks at a lock that is taken
SETTLE_S = 0.010  # measured: with it and both comparisons no commit fell into another's short section
QUIET_S = 0.050  # a folder's time stamp is only as fine as the kernel's tick, 10 ms at most


class LockLostError(BusyError):
    """The lock file lost its name while we held it: whoever comes next would not wait for us. Do it again."""


@dataclass(slots=True)
class Held:
    """The lock, taken; a context manager that lets it go. `created`: the file is ours, says `record` and goes away with
    us. `found` is what a left-over file said, `waited_s` how long it took."""

    dir_fd: int
    name: str
    fd: int
    created: bool
    found: LockOwner
    waited_s: float
    trace: Trace
    record: bytes = b""

    def __enter__(self) -> Held:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def check(self) -> None:
        """The guard right before each rename. Raises LockLostError."""
        if not lockfile.names(self.dir_fd, self.name, self.fd):
            raise self._lost("was removed or replaced")
        inside = _inside_removed(self.dir_fd, self.name, self.trace)
        if inside is not None:
            raise self._lost(f"is beside process {inside}, which is inside with a removed one")

    def _lost(self, what: str) -> LockLostError:
        return LockLostError(
            f"`{self.name}` {what} while memoryd held it; nothing was written",
            hint="another program releases this lock in an unsafe order; the change is tried again",
            data={"path": self.name},
        )

    def release(self) -> None:
        """Touches only a file we created, and only while its content is ours. Then frees the flock."""
        try:
            if self.created and self._is_ours():
                _put_away(self.dir_fd, self.name, self.fd, self.trace)
                self.trace.mtime_ns = os.fstat(self.dir_fd).st_mtime_ns
        finally:
            os.close(self.fd)

    def _is_ours(self) -> bool:
        content = lockfile.read(self.fd)
        return content == self.record or parse_owner(content).pid in (os.getpid(), None)


def _put_away(dir_fd: int, name: str, fd: int, trace: Trace) -> None:
    if lockfile.names(dir_fd, name, fd) and lockfile.retire(dir_fd, name, fd) == "removed":
        trace.removed(fd)


def _inside_removed(dir_fd: int, name: str, trace: Trace) -> int | None:
    """A process that is inside with a removed lock file, as far as that is possible at all."""
    folder = None if trace.nobody() else lockfile.folder_path(dir_fd)
    if folder is None:
        return None
    pid = processes.inside_removed(os.path.join(folder, name))
    if pid is None:
        trace.asked()
    return pid


@dataclass(slots=True)
class _Wait:
    """One wait for the lock: how much longer, and whom we saw in the way."""

    lock: DirectoryLock
    deadline_s: float
    began: float
    inodes: set[int] = field(default_factory=set)
    pids: set[int] = field(default_factory=set)
    lost: int = 0  # times the file lost its name while we settled on it
    age_s: float = 0.0
    looks: int = 0

    def see(self, fd: int, owner: LockOwner, pid: int | None) -> None:
        """Remember who is in the way: `pid`, or whom the kernel or the record names."""
        found = os.fstat(fd)
        self.inodes.add(found.st_ino)
        self.age_s = max(0.0, self.lock.wall() - lock_time(owner, found.st_mtime))
        pid = pid or processes.flock_holder(found.st_ino) or owner.pid
        if pid is not None:
            self.pids.add(pid)

    def pause(self) -> None:
        """Sleeps a little longer each time. Raises BusyError when the time is up."""
        left = self.began + self.deadline_s - self.lock.monotonic()
        if left <= 0:
            raise self._busy()
        delay = min(_LONGEST_S, _SHORTEST_S * 2 ** min(self.looks, 8)) * (0.5 + self.lock.jitter())
        self.looks += 1
        self.lock.sleep(min(delay, left))

    @property
    def starved(self) -> bool:
        return self.lost > 0 or len(self.inodes) > 1 or len(self.pids) > 1

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


@dataclass(slots=True)
class DirectoryLock:
    """The lock file `name` of the folder open as `dir_fd`, as its agents use it.

    With `honour_soft` a file whose flock is free still counts as taken while it names a living process that
    began before the lock: some programs take the file's existence for the lock.
    """

    dir_fd: int
    name: str = ".lock"
    honour_soft: bool = True
    host: str = field(default_factory=lambda: os.uname().nodename)
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random  # from 0 to 1; keeps equal waiters from marching in step
    trace: Trace = field(default_factory=Trace)

    def hold(self, deadline_s: float) -> Held:
        """Waits at most `deadline_s`; 0 tries once.

        Raises BusyError (`data`: path, pid, age_s, starved), IrregularLockError when no regular file has the
        name, DeniedError, RootMissingError, OSError of a full or failing disk.
        """
        wait = _Wait(self, deadline_s, self.monotonic())
        while True:
            quiet = self._quiet()
            opened = lockfile.open_or_create(self.dir_fd, self.name)
            if opened is not None:
                fd, created = opened
                if created:
                    self.trace.made()
                held = self._settle_on(fd, created, wait, settled=quiet and created)
                if held is not None:
                    return held
            wait.pause()

    def _quiet(self) -> bool:
        """No name came or went in the folder for a while, or none but our own last lock file."""
        changed = os.fstat(self.dir_fd).st_mtime_ns
        return changed == self.trace.mtime_ns or self.wall() - changed / 1e9 >= QUIET_S

    def _settle_on(self, fd: int, created: bool, wait: _Wait, *, settled: bool) -> Held | None:
        """The lock on this very file; None when the path has come to name another one."""
        held = None
        try:
            while lockfile.names(self.dir_fd, self.name, fd):
                if self._try(fd, wait, settled=settled and wait.looks == 0):
                    held = self._held(fd, created, wait)
                    return held
                wait.pause()
            wait.inodes.add(os.fstat(fd).st_ino)
            return None
        finally:
            if held is None:  # also when the disk refused our record: a flock left behind would bar everybody
                self._leave(fd, created)

    def _leave(self, fd: int, created: bool) -> None:
        """Gives up a file we do not hold. One that we made and nobody uses must not stay behind."""
        try:
            if created and lockfile.try_flock(fd) and lockfile.read_owner(fd).pid is None:
                _put_away(self.dir_fd, self.name, fd, self.trace)
        finally:
            os.close(fd)

    def _try(self, fd: int, wait: _Wait, *, settled: bool) -> bool:
        """One attempt: flock, nobody else's claim, and all that still so after settling."""
        if not lockfile.try_flock(fd):
            wait.see(fd, lockfile.read_owner(fd), None)
            return False
        claimant = self._inside(fd)
        if claimant is None:
            if not settled:
                self.sleep(SETTLE_S)
                claimant = self._inside(fd)
            if claimant is None and lockfile.names(self.dir_fd, self.name, fd):
                return True
            wait.lost += claimant is None
        lockfile.unlock(fd)
        wait.see(fd, lockfile.read_owner(fd), claimant)
        return False

    def _inside(self, fd: int) -> int | None:
        """A process that may be at work although the flock is ours."""
        return self._claimant(fd) or _inside_removed(self.dir_fd, self.name, self.trace)

    def _claimant(self, fd: int) -> int | None:
        """The living process that the record names, if it can be the one that wrote it."""
        if not self.honour_soft:
            return None
        owner = lockfile.read_owner(fd)
        elsewhere = owner.host is not None and owner.host.casefold() != self.host.casefold()
        if owner.pid is None or owner.pid == os.getpid() or elsewhere:
            return None
        alive, started = processes.liveness(owner.pid)
        if alive != "alive" or is_reused(alive, started, lock_time(owner, os.fstat(fd).st_mtime)):
            return None
        return owner.pid

    def _held(self, fd: int, created: bool, wait: _Wait) -> Held:
        found, record = lockfile.read_owner(fd), b""
        if created:
            record = encode_owner(os.getpid(), self.wall(), self.host)
            lockfile.write_record(fd, record)
        return Held(self.dir_fd, self.name, fd, created, found, self.monotonic() - wait.began, self.trace, record)
