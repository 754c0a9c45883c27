"""Is a lock file left over? Judging the evidence. Pure.

A lock file is never cleared by age alone nor by its process number alone. It is stale when it is older
than the grace time (30 s, strictly), the process it names is provably gone on this very machine, its
flock can be had, and it lies on a local file system. A `.lock` that names nobody who could be proved dead
(empty, unreadable, or of another host) may go after 300 s, because a flock holder would still show;
a soft lock (its existence is the lock) of that sort is never cleared unasked.

Times are seconds since the epoch, UTC, as floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from memoryd.core.lock_owner import LockOwner, encode_owner, parse_owner

__all__ = [
    "Alive",
    "Answer",
    "Evidence",
    "Kind",
    "LockOwner",
    "State",
    "Verdict",
    "encode_owner",
    "is_reused",
    "judge",
    "lock_time",
    "parse_owner",
]

Kind = Literal[".lock", "soft"]  # a flock on a file, or a file whose existence is the lock
Alive = Literal["alive", "dead", "unknown"]
Answer = Literal["yes", "no", "unknown"]

REUSE_SLACK_S = 2.0  # a process started this much later than the lock is another process


def lock_time(owner: LockOwner, mtime: float) -> float:
    """When the lock was last claimed: the later of the stamp inside and the file's own time."""
    return mtime if owner.stamp is None else max(owner.stamp, mtime)


class State(StrEnum):
    HELD = "held"
    STALE = "stale"
    UNPROVABLE = "unprovable"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found out about a lock file.

    `age_s` counts from `lock_time`. `pid_alive` is "dead" for a zombie and "alive" when the system only
    refuses to tell. `same_host` is None when no host is named. `skipped` counts the processes that could
    not be looked at for `open_elsewhere`. `namesake` is a process of a container that has the named
    number there. `watched_s` is how long the caller has seen this very file unchanged on a monotonic
    clock; None when it did not watch. `left_by_us`: it is memoryd's own and memoryd is known not to be inside.
    `contained`: we run in a container, where processes of other containers and of the host cannot be seen.
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """`evidence` is one sentence for people and logs; it holds nothing of the lock file but pid and host."""

    state: State
    evidence: str


def is_reused(alive: Alive, started: float | None, locked_at: float) -> bool:
    """The named number is alive, but as a process that began after the lock was taken."""
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
    """The lock table. Ages in seconds; a lock must be strictly older than a bound to count as beyond it."""
    facts = [_age_fact(owner, evidence)]

    def verdict(state: State, why: str) -> Verdict:
        return Verdict(state, "; ".join([*facts, why]))

    if not evidence.flock_free:
        return verdict(State.HELD, "its flock is held, so the holder lives")
    if evidence.left_by_us:
        return verdict(State.STALE, "memoryd made it and is not inside")
    facts.append("nobody holds its flock")
    if evidence.age_s <= stale_after:
        return verdict(State.HELD, f"counts as held until it is older than {stale_after:g} s")
    unseen = evidence.contained and evidence.pid_alive == "dead"
    if owner.pid is None or evidence.same_host is False or unseen:
        return verdict(*_unproved(owner, evidence, kind, stale_after, unreadable_after))
    if evidence.pid_alive == "unknown":
        return verdict(State.UNPROVABLE, f"whether process {owner.pid} lives cannot be told here")
    reused = is_reused(evidence.pid_alive, evidence.process_started, lock_time)
    if evidence.pid_alive == "alive" and not reused:
        return verdict(State.HELD, f"process {owner.pid} lives")
    return verdict(*_dead(owner, evidence, kind))


def _age_fact(owner: LockOwner, evidence: Evidence) -> str:
    claim = f"names process {owner.pid}" if owner.pid is not None else "names no process"
    if owner.pid is None:
        claim += f" ({owner.form})"
    return f"{evidence.age_s:.0f} s old, {claim}"


def _dead(owner: LockOwner, evidence: Evidence, kind: Kind) -> tuple[State, str]:
    """The named process is gone. What else must hold before the file may go?"""
    why = f"process {owner.pid} is gone"
    if evidence.pid_alive == "alive":
        why = f"process {owner.pid} began after the lock was taken, so the number was reused"
    if evidence.network_fs:
        return State.UNPROVABLE, f"{why}, but on a network file system the holder may be another machine's"
    if kind == ".lock":
        return State.STALE, why
    if evidence.namesake is not None:
        return State.UNPROVABLE, f"{why}, but process {evidence.namesake} has that number in its container"
    if evidence.open_elsewhere == "yes":
        return State.HELD, f"{why}, but another process has the file open"
    if evidence.open_elsewhere == "unknown":
        return State.UNPROVABLE, f"{why}, but whether another process has the file open cannot be told here"
    return State.STALE, f"{why}, no process has the file open{_skipped(evidence)}"


def _skipped(evidence: Evidence) -> str:
    return f" ({evidence.skipped} processes could not be looked at)" if evidence.skipped else ""


def _unproved(
    owner: LockOwner, evidence: Evidence, kind: Kind, stale_after: float, unreadable_after: float
) -> tuple[State, str]:
    """Nobody can be proved dead: no readable process number, or one of another machine."""
    why = "there is nobody to prove dead"
    if owner.pid is not None:
        why = f"process {owner.pid} belongs to another host, {owner.host!r}"
    if owner.pid is not None and evidence.same_host is not False:
        why = f"process {owner.pid} cannot be seen here, which in a container does not prove that it is gone"
    if kind == "soft":
        return State.UNPROVABLE, f"{why}, and the file's existence is the lock"
    if evidence.network_fs:
        return State.UNPROVABLE, f"{why}, and on a network file system the flock proves nothing"
    if evidence.age_s <= unreadable_after:
        return State.UNPROVABLE, f"{why}; left alone until it is older than {unreadable_after:g} s"
    if evidence.watched_s is not None and evidence.watched_s < stale_after:
        return State.UNPROVABLE, f"{why}; seen unchanged for {evidence.watched_s:.0f} of {stale_after:g} s"
    return State.STALE, f"{why}, and it is older than {unreadable_after:g} s"
