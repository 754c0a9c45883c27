"""Look at the locks of a store and clear those whose holder is provably dead."""

from __future__ import annotations

from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.staleness import Kind, State
from memoryd.disk.lockcheck import LockReport, clear, inspect
from memoryd.errors import GuardError, NotFoundError
from memoryd.layouts.base import LockRule
from memoryd.store import Store

CODES = {State.STALE: "stale-lock", State.UNPROVABLE: "unprovable-lock"}


def list_locks(store: Store, now: float, watched: dict[str, float] | None = None) -> list[LockReport]:
    """Judged without touching anything. `watched`: for how long (seconds) each lock file has been seen unchanged."""
    reports: list[LockReport] = []
    for rule in store.layout.locks if store.layout else ():
        seen = None if watched is None else watched.get(rule.name, 0.0)
        report = inspect(store.tree.fd, rule.name, now, kind=rule.kind, watched_s=seen, **_rules(store))
        reports += [report] if report is not None else []
    store.noted["locks"] = tuple(
        Finding(CODES[report.state], report.path, report.evidence) for report in reports if report.state in CODES
    )
    return reports


def sweep_locks(
    store: Store, now: float, monotonic: float | None = None, *, by: str = "schedule", path: str | None = None
) -> list[LockReport]:
    """Clear what is provably dead, or only the lock at `path`; each report tells what was done and why it was safe.

    With `monotonic`, a lock whose holder nobody can name must also have been seen unchanged for the grace
    time on that clock: a wall clock alone proves no age."""
    watched = None if monotonic is None else _watched(store, now, monotonic)
    stale = {report.path for report in list_locks(store, now, watched) if report.state is State.STALE}
    rules = [rule for rule in (store.layout.locks if store.layout else ()) if rule.name in stale]
    wanted = [rule for rule in rules if path is None or named(store, rule.name, path)]
    cleared = [_clear(store, rule, now, by, force=False) for rule in wanted]
    return [report for report in cleared if report is not None]


def _watched(store: Store, now: float, monotonic: float) -> dict[str, float]:
    """For how long each very same lock file has been seen."""
    present = {report.path: report.identity for report in list_locks(store, now) if report.identity is not None}
    known = store.lock_watch
    store.lock_watch = {
        path: known[path] if path in known and known[path][0] == identity else (identity, monotonic)
        for path, identity in present.items()
    }
    return {path: monotonic - since for path, (_, since) in store.lock_watch.items()}


def clear_lock(store: Store, now: float, *, path: str | None = None, force: bool = False) -> list[LockReport]:
    """As the sweep, by command. `path` names one lock file; with `force` it goes although nobody can prove its
    holder dead."""
    if path is None or not force:
        return sweep_locks(store, now, by="command", path=path)
    rules = store.layout.locks if store.layout else ()
    rule = next((rule for rule in rules if named(store, rule.name, path)), None)
    if rule is None:
        raise NotFoundError(f"root {store.name} has no lock {path}", hint="`memoryd lock list` shows them")
    report = _clear(store, rule, now, "command", force=True)
    if report is None:
        raise NotFoundError(f"{path} is not there (any more)")
    if report.action == "none":
        raise GuardError(f"{path} is not cleared: {report.evidence}", hint="end the process that holds it")
    return [report]


def named(store: Store, name: str, path: str) -> bool:
    """Whether `path`, relative to the root or whole, is the lock file `name` of this store."""
    return path in (name, f"{store.path}/{name}", f"{store.tree.path}/{name}")


def _clear(store: Store, rule: LockRule, now: float, by: str, *, force: bool) -> LockReport | None:
    kind: Kind = "soft" if force else rule.kind  # what cannot be proved may only go as a soft lock
    report = clear(store.tree.fd, rule.name, now, force=force, kind=kind, **_rules(store))
    if report is not None and report.action in ("removed", "emptied"):
        receipt = store.journal.begin("lock-clear", by, f"{report.path}: {report.evidence}", (), now)
        store.journal.finish(receipt, "done")
        store.noted["locks"] = tuple(finding for finding in store.noted["locks"] if finding.path != rule.name)
    return report


def _rules(store: Store) -> dict[str, Any]:
    return {
        "stale_after": store.policy.lock_stale_after_s,
        "unreadable_after": store.policy.lock_unreadable_after_s,
        "network_fs": store.network_fs is not None,
    }
