"""List the locks of a store and clear those whose holder is provably dead."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from memoryd.control.methods.upkeep import LockRow
from memoryd.core.findings import Finding
from memoryd.core.lock_staleness import CLEARED, Kind, State
from memoryd.core.plan import Action, Plan
from memoryd.core.plan import Kind as ActionKind
from memoryd.disk.locks.inspect import LockReport, LockRules, clear, inspect
from memoryd.disk.locks.trace import HONOUR_S
from memoryd.disk.syscalls import lstat
from memoryd.errors import GuardError, MemorydError, NotFoundError
from memoryd.layouts.protocol import LockRule
from memoryd.store import Store
from memoryd.store.commit import Committed

CODES = {State.STALE: "stale-lock", State.UNPROVABLE: "unprovable-lock"}


def lock_row(report: LockReport) -> LockRow:
    """Convert a report to a row of the protocol: `pid` only if the lock names one, `action` only after `clear`."""
    return LockRow(
        path=report.path,
        pid=UNSET if report.pid is None else report.pid,
        age_s=round(report.age_s, 3),
        state=str(report.state),
        evidence=report.evidence,
        action=UNSET if report.action == "none" else report.action,
    )


def is_lock_free(store: Store) -> bool:
    """True if no lock file exists and none is reported, so that a sweep would change nothing. For any thread."""
    if store.layout is None or store.root_findings.get("locks"):
        return False
    try:
        fd = store.tree.fd
        return all(lstat(fd, rule.name, rule.name) is None for rule in store.layout.files.locks)
    except (OSError, MemorydError):
        return False  # the directory is being closed, or its disk fails: the sweep reports it


def list_locks(store: Store, now: float, *, watch: bool = False) -> list[LockReport]:
    """List the locks with a verdict, without changing anything.

    With `watch`, a lock of an unknown holder must also have been unchanged for the grace time on a monotonic
    clock, because the wall clock alone does not prove its age.
    """
    inspected = [_inspect(store, rule, now, watch=watch) for rule in store.file_rules.locks]
    pairs = [each for each in inspected if each is not None]
    store.lock_watch.keep({key for report, _ in pairs for key in _watch_keys(report)})
    findings = [_finding(report, rule) for report, rule in pairs]
    store.root_findings["locks"] = tuple(finding for finding in findings if finding is not None)
    return [report for report, _ in pairs]


def _inspect(store: Store, rule: LockRule, now: float, *, watch: bool) -> tuple[LockReport, LockRule] | None:
    rules = _rules(store, rule.kind, now)
    report = inspect(store.tree.fd, rule.name, rules)
    if report is not None and report.identity is not None and watch:
        unchanged_s = store.lock_watch.unchanged_s(rule.name, report.identity)
        report = inspect(store.tree.fd, rule.name, replace(rules, watched_s=unchanged_s))
    if report is None:
        return None
    if report.state is State.HELD and report.identity is not None:
        held_s = min(store.lock_watch.unchanged_s(key, report.identity) for key in _watch_keys(report))
        report = replace(report, unchanged_s=held_s)
    return report, rule


def _watch_keys(report: LockReport) -> tuple[str, ...]:
    """Return the keys under which a lock is watched: one for its file and, if it is held, one for its flock."""
    return (report.path, f"{report.path} flocked") if report.flocked else (report.path,)


def _finding(report: LockReport, rule: LockRule) -> Finding | None:
    if report.state in CODES:
        return Finding(CODES[report.state], report.path, report.evidence)
    if report.unchanged_s < HONOUR_S or (report.pid is None and not report.flocked):
        return None
    who = f"process {report.pid}" if report.pid is not None else "an unknown process"
    since = f"for more than {HONOUR_S / 60:.0f} min"
    if report.flocked:
        message = f"{who} has held its flock {since}; writes of memoryd wait for it"
    elif rule.kind == "soft":
        message = f"{who} has held it {since}; upkeep that needs it waits"
    else:
        message = f"it names {who}, which is alive, but its flock has been free {since}; memoryd no longer waits for it"
    return Finding("held-lock", report.path, message)


def sweep_locks(
    store: Store, now: float, *, by: str = "schedule", path: str | None = None, watch: bool = False
) -> list[LockReport]:
    """Clear the locks whose holder is provably dead, or only the one at `path`.

    Each report says what was done and why it was safe. `watch`: see `list_locks`.
    """
    wanted = [rule for rule in _stale(store, now, watch=watch) if path is None or is_lock(store, rule.name, path)]
    cleared = [_clear(store, rule, now, by, force=False) for rule in wanted]
    return [each.report for each in cleared if each is not None]


def _stale(store: Store, now: float, *, watch: bool = False) -> list[LockRule]:
    stale = {report.path for report in list_locks(store, now, watch=watch) if report.state is State.STALE}
    return [rule for rule in store.file_rules.locks if rule.name in stale]


def clear_stale_locks(store: Store, now: float, *, by: str, dry_run: bool) -> list[Committed]:
    """Clear the locks whose holder is provably dead as changes, one for each lock. They cannot be undone."""
    if dry_run:
        stale = [report for report in list_locks(store, now) if report.state is State.STALE]
        return [Committed(Plan((_removal(report),)), None) for report in stale]
    cleared = [_clear(store, rule, now, by, force=False) for rule in _stale(store, now)]
    return [Committed(Plan((_removal(each.report),)), each.receipt) for each in cleared if each and each.receipt]


def _removal(report: LockReport) -> Action:
    """Return the action that clears a stale lock."""
    return Action(ActionKind.REMOVE, report.path, f"stale lock: {report.evidence}")


def clear_lock(store: Store, now: float, *, path: str | None = None, force: bool = False) -> list[LockReport]:
    """Clear locks by command, like `sweep_locks`. With `force`, the lock at `path` is removed without proof that its
    holder is dead. Raises NotFoundError, and GuardError if the lock is held."""
    if path is None or not force:
        return sweep_locks(store, now, by="command", path=path)
    rules = store.file_rules.locks
    rule = next((rule for rule in rules if is_lock(store, rule.name, path)), None)
    if rule is None:
        raise NotFoundError(f"root {store.name} has no lock {path}", hint="`memoryd lock list` shows them")
    cleared = _clear(store, rule, now, "command", force=True)
    if cleared is None:
        raise NotFoundError(f"{path} no longer exists")
    report = cleared.report
    if report.action == "none":
        raise GuardError(f"{path} is not cleared: {report.evidence}", hint="stop the process that holds it")
    return [report]


def is_lock(store: Store, name: str, path: str) -> bool:
    """True if `path`, relative to the root or absolute, is the lock file `name` of this store."""
    return path in (name, f"{store.path}/{name}", f"{store.tree.path}/{name}")


class _Cleared(NamedTuple):
    """A lock after an attempt to clear it, and the receipt if that was done."""

    report: LockReport
    receipt: str | None


def _clear(store: Store, rule: LockRule, now: float, by: str, *, force: bool) -> _Cleared | None:
    kind: Kind = "soft" if force else rule.kind  # without proof a lock can only be removed like a soft lock
    report = clear(store.tree.fd, rule.name, _rules(store, kind, now), force=force)
    if report is None or report.action not in CLEARED:
        return None if report is None else _Cleared(report, None)
    receipt = store.journal.record("lock-clear", by, f"{report.path}: {report.evidence}", now)
    known = store.root_findings.get("locks", ())
    store.root_findings["locks"] = tuple(finding for finding in known if finding.path != rule.name)
    return _Cleared(report, receipt)


def _rules(store: Store, kind: Kind, now: float) -> LockRules:
    policy, network_fs = store.policy, store.network_fs is not None
    return LockRules(now, kind, policy.lock_stale_after_s, policy.lock_unreadable_after_s, network_fs)
