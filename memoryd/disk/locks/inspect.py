"""Inspect a lock file without changing it, and clear one that is provably stale."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.core.lock_owner import LockOwner
from memoryd.core.lock_staleness import Evidence, Kind, State, Verdict, judge, lock_time
from memoryd.disk import processes
from memoryd.disk.locks import file as lockfile
from memoryd.disk.locks.file import IrregularLockError
from memoryd.disk.locks.soft import is_held_here
from memoryd.disk.locks.trace import Identity, identity_of
from memoryd.disk.temps import still_holds

Action = Literal["none", "removed", "emptied", "left"]

_ATTEMPTS, _RETRY_S = 25, 0.002  # another sweeper has the file open for less than that


class LockReport(Struct, frozen=True):
    """The state of one lock file. `action` is what `clear` did: "emptied" and "left" mean that another process has it
    open and gets it. `identity` is equal until the file changes; `flocked`: a process holds its flock."""

    path: str
    pid: int | None
    age_s: float
    state: State
    evidence: str
    action: Action = "none"
    identity: Identity | None = None
    flocked: bool = False
    unchanged_s: float = 0.0  # how long it has been unchanged, if watched


class LockRules(Struct, frozen=True):
    """The rules for judging a lock file; ages in seconds. `watched_s`: how long the caller has seen the `identity` of
    the lock unchanged, on a monotonic clock (None: not watched). `own_locks_stale`: no memoryd process can hold a lock,
    as at the start of the one that owns the root, so a lock of memoryd's is stale."""

    now: float
    kind: Kind = ".lock"
    stale_after: float = 30.0
    unreadable_after: float = 300.0
    network_fs: bool = False
    watched_s: float | None = None
    own_locks_stale: bool = False
    host: str = field(default_factory=lambda: os.uname().nodename)


def inspect(dir_fd: int, name: str, rules: LockRules) -> LockReport | None:
    """Judge a lock file without changing it; None if it does not exist.

    Its flock is tried and released at once. A file that cannot be opened is "unprovable", with the reason.
    """
    fd = _open(dir_fd, name, rules.now, os.O_RDONLY)
    if fd is None or isinstance(fd, LockReport):
        return fd
    try:
        free = lockfile.try_flock(fd)
        if free:
            lockfile.unlock(fd)
        return _report(name, fd, free, rules)
    finally:
        os.close(fd)


def clear(
    dir_fd: int,
    name: str,
    rules: LockRules,
    *,
    force: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> LockReport | None:
    """Judge a lock file again while holding its flock, and remove it if it is stale; None if it does not exist or
    another process cleared it meanwhile.

    A `.lock` that another process has open is truncated and left to it. `force` removes a soft lock regardless of the
    verdict, except for a held flock; it does nothing for a `.lock`.
    """
    fd = _open(dir_fd, name, rules.now, os.O_RDWR)
    if fd is None or isinstance(fd, LockReport):
        return fd
    try:
        free = lockfile.try_flock(fd)
        report = _report(name, fd, free, rules)
        forced = force and rules.kind == "soft"
        if not free or (report.state is not State.STALE and not forced):
            return report
        if not still_holds(dir_fd, name, fd):
            return None  # another process cleared it since we opened it
        if forced:
            os.unlink(name, dir_fd=dir_fd)
            return replace(report, action="removed", evidence=f"{report.evidence}; removed by force")
        return replace(report, action=_retire(dir_fd, name, fd, rules.kind, sleep))
    finally:
        os.close(fd)  # frees the flock


def _retire(dir_fd: int, name: str, fd: int, kind: Kind, sleep: Callable[[float], None]) -> Action:
    """Remove the file with a few retries: a short-lived opener, like another sweep, is not a waiter."""
    for _ in range(_ATTEMPTS):
        if lockfile.retire(dir_fd, name, fd, may_empty=False, contested=True) == "removed":
            return "removed"
        sleep(_RETRY_S)
    # An empty soft lock would still block.
    return lockfile.retire(dir_fd, name, fd, may_empty=kind == ".lock", contested=True)


def _open(dir_fd: int, name: str, now: float, flags: int) -> int | LockReport | None:
    """Return a descriptor, None for no file, or the report of one that cannot be opened."""
    try:
        return lockfile.open_existing(dir_fd, name, flags)
    except IrregularLockError as error:
        return _unopened_report(dir_fd, name, now, error.message, State.UNPROVABLE)
    except BlockingIOError:
        return _unopened_report(dir_fd, name, now, "another process is just putting it away", State.HELD)
    except PermissionError as error:
        return _unopened_report(dir_fd, name, now, f"it cannot be opened: {error.strerror}", State.UNPROVABLE)


def _unopened_report(dir_fd: int, name: str, now: float, why: str, state: State) -> LockReport | None:
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return LockReport(name, None, max(0.0, now - found.st_mtime), state, why)


def _report(name: str, fd: int, flock_free: bool, rules: LockRules) -> LockReport:
    owner = lockfile.read_owner(fd)
    found = os.fstat(fd)
    locked_at = lock_time(owner, found.st_mtime)
    left_by_us = _left_by_us(owner, found, rules)
    evidence = replace(_evidence(owner, rules.now - locked_at, flock_free, rules), left_by_us=left_by_us)
    verdict = _judge(owner, evidence, locked_at, rules)
    if rules.kind == "soft" and verdict.state is State.STALE and not left_by_us:  # the expensive check comes last
        answer, skipped = lockfile.open_elsewhere(name, fd)
        evidence = replace(
            evidence, open_elsewhere=answer, skipped=skipped, namesake=processes.namesake(owner.pid or 0)
        )
        verdict = _judge(owner, evidence, locked_at, rules)
    pid = owner.pid if flock_free else processes.flock_holder(found.st_ino) or owner.pid
    return LockReport(
        path=name,
        pid=pid,
        age_s=max(0.0, evidence.age_s),
        state=verdict.state,
        evidence=verdict.evidence,
        identity=identity_of(found),
        flocked=not flock_free,
    )


def _left_by_us(owner: LockOwner, found: os.stat_result, rules: LockRules) -> bool:
    """True if memoryd left the lock: it knows which locks it holds, without any proof by PID."""
    if not owner.by_memoryd or owner.host is None or owner.host.casefold() != rules.host.casefold():
        return False
    if is_held_here(found.st_dev, found.st_ino):
        return False
    return rules.own_locks_stale or owner.pid == os.getpid()


def _evidence(owner: LockOwner, age_s: float, flock_free: bool, rules: LockRules) -> Evidence:
    """Collect all evidence except which process has the file open, which is assumed to be "no" at first."""
    alive, started = ("unknown", None) if owner.pid is None else processes.liveness(owner.pid)
    return Evidence(
        age_s=age_s,
        pid_alive=alive,
        process_started=started,
        same_host=None if owner.host is None else owner.host.casefold() == rules.host.casefold(),
        flock_free=flock_free,
        open_elsewhere="no",
        network_fs=rules.network_fs,
        watched_s=rules.watched_s,
        contained=processes.is_contained(),
    )


def _judge(owner: LockOwner, evidence: Evidence, locked_at: float, rules: LockRules) -> Verdict:
    return judge(
        owner,
        evidence,
        kind=rules.kind,
        stale_after=rules.stale_after,
        unreadable_after=rules.unreadable_after,
        lock_time=locked_at,
    )
