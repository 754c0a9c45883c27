"""Merge duplicates by the layout's own rule; what is only similar is suggested."""

from __future__ import annotations

from memoryd.core.findings import Finding
from memoryd.core.plan import Plan
from memoryd.operations.alarms import remember_change
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change


def dedupe(
    store: Store, now: float, *, by: str, threshold: float | None = None, dry_run: bool = False, as_job: bool = False
) -> Done:
    """`threshold` is a similarity from 0 to 1 where the layout measures one. The job of a layout whose agents keep a
    cache only suggests, also where a person runs it (`as_job`)."""
    layout = store.layout
    assert layout is not None
    # Asked for, every memory is compared, not only where the schedule would look.
    asked = by == "command" and not (as_job and layout.keeps_every_change)

    def decide() -> Plan:
        plan = layout.dedupe(store.upkeep_view(now, unattended=not asked, whole=asked), threshold)
        store.noted["dedupe"] = tuple(
            Finding("possible-duplicate", note.path, note.why, id=note.ids[0] if note.ids else None)
            for note in plan.notes
        )
        return plan

    done = change(store, Cause("dedupe", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)
    taken = {action.path: action.ids for action in done.plan.actions}
    remember_change(store, done.receipt, out=taken)
    return done
