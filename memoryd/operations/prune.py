"""Take the oldest entries out of files that grew too long, into the layout's archive."""

from __future__ import annotations

from memoryd.core.findings import Finding
from memoryd.core.plan import Plan
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change


def prune(store: Store, now: float, *, by: str, dry_run: bool = False) -> Done:
    """What cannot be helped (few entries, but large ones) is noted as a finding."""
    layout = store.layout
    assert layout is not None

    def decide() -> Plan:
        plan = layout.prune(store.upkeep_view(now, unattended=by != "command"))
        store.noted["prune"] = tuple(Finding("oversize", note.path, note.why) for note in plan.notes)
        return plan

    return change(store, Cause("prune", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)
