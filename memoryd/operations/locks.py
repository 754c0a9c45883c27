"""Look at the store's lock and clear it when its holder is provably dead."""

from __future__ import annotations

from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.staleness import State
from memoryd.disk.lockcheck import LockReport, clear, inspect
from memoryd.errors import GuardError, NotFoundError
from memoryd.store import Store


def list_locks(store: Store, now: float) -> list[LockReport]:
    """Judged without touching anything."""
    name = store.layout.lock if store.layout else None
    if name is None:
        return []
    report = inspect(store.tree.fd, name, now, **_rules(store))
    _note(store, report)
    return [report] if report else []


def sweep_locks(store: Store, now: float) -> list[LockReport]:
    """Clear what is provably dead; each report tells what was done and why it was safe."""
    stale = [report for report in list_locks(store, now) if report.state is State.STALE]
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
    report = clear(store.tree.fd, store.layout.lock, now, force=force, **_rules(store))
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
