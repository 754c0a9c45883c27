"""Look at the store's lock and clear it when its holder is provably dead."""

from __future__ import annotations

from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.staleness import Kind, State
from memoryd.disk.lockcheck import LockReport, clear, inspect
from memoryd.errors import GuardError, NotFoundError
from memoryd.store import Store


def _watched(store: Store, now: float, monotonic: float) -> float:
    """For how long the very same lock file has been seen."""
    reports = list_locks(store, now)
    identity = reports[0].identity if reports else None
    if identity is None:
        store.lock_watch = None
        return 0.0
    if store.lock_watch is None or store.lock_watch[0] != identity:
        store.lock_watch = (identity, monotonic)
    return monotonic - store.lock_watch[1]


def list_locks(store: Store, now: float, watched_s: float | None = None) -> list[LockReport]:
    """Judged without touching anything."""
    name = store.layout.lock if store.layout else None
    if name is None:
        return []
    report = inspect(store.tree.fd, name, now, watched_s=watched_s, **_rules(store))
    _note(store, report)
    return [report] if report else []


def sweep_locks(store: Store, now: float, monotonic: float | None = None) -> list[LockReport]:
    """Clear what is provably dead; each report tells what was done and why it was safe.

    With `monotonic`, a lock whose holder nobody can name must also have been seen unchanged for the grace
    time on that clock: a wall clock alone proves no age."""
    watched = None if monotonic is None else _watched(store, now, monotonic)
    stale = [report for report in list_locks(store, now, watched) if report.state is State.STALE]
    return [cleared for _ in stale if (cleared := _clear(store, now, "schedule", force=False)) is not None]


def clear_lock(store: Store, now: float, *, force: str | None = None) -> list[LockReport]:
    """As the sweep, by command; `force` names one lock file whose holder cannot be proved dead."""
    if force is None:
        return sweep_locks(store, now)
    name = store.layout.lock if store.layout else None
    if name is None or force not in (name, f"{store.path}/{name}", f"{store.tree.path}/{name}"):
        raise NotFoundError(f"root {store.name} has no lock {force}", hint="`memoryd lock list` shows them")
    report = _clear(store, now, "command", force=True)
    if report is None:
        raise NotFoundError(f"{force} is not there (any more)")
    if report.action == "none":
        raise GuardError(f"{force} is not cleared: {report.evidence}", hint="end the process that holds it")
    return [report]


def _clear(store: Store, now: float, by: str, *, force: bool) -> LockReport | None:
    assert store.layout is not None
    assert store.layout.lock is not None
    kind: Kind = "soft" if force else ".lock"  # what cannot be proved may only go as a soft lock
    report = clear(store.tree.fd, store.layout.lock, now, force=force, kind=kind, **_rules(store))
    if report is not None and report.action in ("removed", "emptied"):
        receipt = store.journal.begin("lock-clear", by, f"{report.path}: {report.evidence}", (), now)
        store.journal.finish(receipt, "done")
        store.noted["locks"] = ()
    return report


def _rules(store: Store) -> dict[str, Any]:
    return {
        "stale_after": store.policy.lock_stale_after_s,
        "unreadable_after": store.policy.lock_unreadable_after_s,
        "network_fs": store.network_fs is not None,
    }


def _note(store: Store, report: LockReport | None) -> None:
    codes = {State.STALE: "stale-lock", State.UNPROVABLE: "unprovable-lock"}
    store.noted["locks"] = ()
    if report is not None and report.state in codes:
        store.noted["locks"] = (Finding(codes[report.state], report.path, report.evidence),)
