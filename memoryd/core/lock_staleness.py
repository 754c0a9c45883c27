"""Decide from evidence whether a lock file is stale. Pure.

A lock file is never cleared by age alone or by PID alone. It is stale if it is older than the grace time (strictly
more, `lock_stale_after_s` in `core.defaults`), the process it names is provably dead on this machine, its flock is
free, and it is on a local file system. A `.lock` that names no process that could be proved dead (empty, unreadable, or
from another host) may be cleared after five minutes, because a holder of its flock would still show. A soft lock (its
existence is the lock) of that kind is never cleared automatically.

Times are seconds since the epoch, UTC, as floats.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from memoryd.core.lock_owner import LockOwner

Kind = Literal[".lock", "soft"]  # a flock on a file, or a file whose existence is the lock
Alive = Literal["alive", "dead", "unknown"]
Answer = Literal["yes", "no", "unknown"]

CLEARED = ("removed", "emptied")  # what may become of a lock file; one that another process has open is left to it
REUSE_SLACK_S = 2.0  # a process that started this much later than the lock is another process


def lock_time(owner: LockOwner, mtime: float) -> float:
    """Return when the lock was last claimed: the later of the timestamp in it and the modification time of the file."""
    return mtime if owner.stamp is None else max(owner.stamp, mtime)


class State(StrEnum):
    """The verdict on a lock file. UNPROVABLE: possibly stale, but the holder cannot be proved dead."""

    HELD = "held"
    STALE = "stale"
    UNPROVABLE = "unprovable"


class Evidence(Struct, frozen=True):
    """The facts established about a lock file.

    `age_s`: counted from `lock_time`.
    `pid_alive`: "dead" for a zombie; "alive" if the system denies the answer.
    `same_host`: None if the lock names no host.
    `skipped`: the number of processes that could not be examined for `open_elsewhere`.
    `namesake`: a process in a container that has the named PID there.
    `watched_s`: how long the caller has seen the file unchanged, on a monotonic clock; None if it did not watch.
    `left_by_us`: memoryd created the lock and is known not to be using it.
    `contained`: memoryd runs in a container, where processes of the host and of other containers cannot be seen.
    """

    age_s: float
    pid_alive: Alive = "unknown"
    process_started: float | None = None
    same_host: bool | None = None
    flock_free: bool = False
    open_elsewhere: Answer = "unknown"
    skipped: int = 0
    network_fs: bool = False
    namesake: int | None = None
    watched_s: float | None = None
    left_by_us: bool = False
    contained: bool = False


class Verdict(Struct, frozen=True):
    """A state and its reason: `evidence` is one sentence for people, with nothing of the lock but PID and host."""

    state: State
    evidence: str


def is_reused(alive: Alive, started: float | None, locked_at: float) -> bool:
    """True if the PID is alive but belongs to a process that started after the lock was taken."""
    return alive == "alive" and started is not None and started > locked_at + REUSE_SLACK_S


def judge(
    owner: LockOwner,
    evidence: Evidence,
    *,
    kind: Kind,
    stale_after: float,
    unreadable_after: float,
    lock_time: float,
) -> Verdict:
    """Return the verdict on a lock. Bounds are in seconds; a lock exceeds a bound only if it is strictly older."""
    facts = [_age_fact(owner, evidence)]

    def verdict(state: State, why: str) -> Verdict:
        return Verdict(state, "; ".join([*facts, why]))

    if not evidence.flock_free:
        return verdict(State.HELD, "its flock is held, so the holder is alive")
    if evidence.left_by_us:
        return verdict(State.STALE, "memoryd created it and is not using it")
    facts.append("no process holds its flock")
    if evidence.age_s <= stale_after:
        return verdict(State.HELD, f"counts as held until it is older than {stale_after:g} s")
    unseen = evidence.contained and evidence.pid_alive == "dead"
    if owner.pid is None or evidence.same_host is False or unseen:
        return verdict(*_unproved(owner, evidence, kind, stale_after, unreadable_after))
    if evidence.pid_alive == "unknown":
        return verdict(State.UNPROVABLE, f"it is unknown whether process {owner.pid} is alive")
    reused = is_reused(evidence.pid_alive, evidence.process_started, lock_time)
    if evidence.pid_alive == "alive" and not reused:
        return verdict(State.HELD, f"process {owner.pid} is alive")
    return verdict(*_dead(owner, evidence, kind))


def _age_fact(owner: LockOwner, evidence: Evidence) -> str:
    claim = f"names process {owner.pid}" if owner.pid is not None else "names no process"
    if owner.pid is None:
        claim += f" ({owner.form})"
    return f"{evidence.age_s:.0f} s old, {claim}"


def _dead(owner: LockOwner, evidence: Evidence, kind: Kind) -> tuple[State, str]:
    """Check what else must hold before the lock of a dead process is stale."""
    why = f"process {owner.pid} is gone"
    if evidence.pid_alive == "alive":
        why = f"process {owner.pid} started after the lock was taken, so its PID was reused"
    if evidence.network_fs:
        return State.UNPROVABLE, f"{why}, but on a network file system the holder may be on another machine"
    if kind == ".lock":
        return State.STALE, why
    if evidence.namesake is not None:
        return State.UNPROVABLE, f"{why}, but process {evidence.namesake} has that PID in its container"
    if evidence.open_elsewhere == "yes":
        return State.HELD, f"{why}, but another process has the file open"
    if evidence.open_elsewhere == "unknown":
        return State.UNPROVABLE, f"{why}, but it is unknown whether another process has the file open"
    return State.STALE, f"{why}, no process has the file open{_skipped(evidence)}"


def _skipped(evidence: Evidence) -> str:
    processes = "process" if evidence.skipped == 1 else "processes"
    return f" ({evidence.skipped} {processes} could not be examined)" if evidence.skipped else ""


def _unproved(
    owner: LockOwner, evidence: Evidence, kind: Kind, stale_after: float, unreadable_after: float
) -> tuple[State, str]:
    """Judge a lock whose holder cannot be proved dead: it names no readable PID, or one of another machine."""
    why = "it names no process that could be proved dead"
    if owner.pid is not None:
        why = f"process {owner.pid} belongs to another host, {owner.host!r}"
    if owner.pid is not None and evidence.same_host is not False:
        why = f"process {owner.pid} cannot be seen here, which in a container does not prove that it is gone"
    if kind == "soft":
        return State.UNPROVABLE, f"{why}, and the file's existence is the lock"
    if evidence.network_fs:
        return State.UNPROVABLE, f"{why}, and on a network file system the flock proves nothing"
    if evidence.age_s <= unreadable_after:
        return State.UNPROVABLE, f"{why}; left in place until it is older than {unreadable_after:g} s"
    if evidence.watched_s is not None and evidence.watched_s < stale_after:
        return State.UNPROVABLE, f"{why}; seen unchanged for {evidence.watched_s:.0f} of {stale_after:g} s"
    return State.STALE, f"{why}, and it is older than {unreadable_after:g} s"
