"""Archive what is due, and keep soft limits: the two verbs that move memories out of the live files."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from memoryd.core.findings import Finding
from memoryd.core.plan import Kind, Plan
from memoryd.core.secrets import redact
from memoryd.errors import GuardError, NotFoundError
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change

MASS_MOVE = 20  # a scheduled run may not move more memories than this and more than half of a store


def archive(
    store: Store,
    now: float,
    *,
    by: str,
    ids: Collection[str] | None = None,
    dry_run: bool = False,
) -> Done:
    """Move what the ages demand, or exactly the memories named; NotFoundError when one is not there."""
    layout = store.layout
    assert layout is not None

    def decide() -> Plan:
        plan = layout.archive(store.upkeep_view(now, unattended=by != "command", ids=ids), ids)
        missing = sorted(set(ids or ()) - set(_moved(plan)))
        if missing:
            raise NotFoundError(
                f"root {store.name}: no live memory has the id {', '.join(map(redact, missing))}",
                hint="ids of archived memories, and of other roots, cannot be archived here",
            )
        return guarded(store, plan, "archive", by)

    cause, wait_s = Cause("archive", by), store.policy.lock_wait_s
    done = change(store, cause, decide, now=now, wait_s=wait_s, dry_run=dry_run, soft=True)
    if done.receipt is not None:
        tidy(store, done.plan)
    return done


def tidy(store: Store, plan: Plan) -> None:
    """Folders whose last file went are taken away, as the archiver of that layout does; an undo makes them anew."""
    removed = (action.path for action in plan.actions if action.kind is Kind.REMOVE)
    for folder in sorted({path.rpartition("/")[0] for path in removed} - {""}):
        with suppress(OSError):  # something is in it, or somebody else was as tidy
            store.tree.rmdir(folder)


def enforce_limits(store: Store, now: float, *, by: str, dry_run: bool = False) -> Done:
    """Bring files above a soft limit back to it; what cannot be helped is noted as a finding."""
    layout = store.layout
    assert layout is not None

    def decide() -> Plan:
        plan = layout.enforce(store.upkeep_view(now, unattended=by != "command"), store.limits)
        store.noted["soft-limits"] = tuple(
            Finding("soft-limit", note.path, note.why) for note in plan.notes if note.kind is Kind.NOTE
        )
        return guarded(store, plan, "limits", by)

    return change(store, Cause("limits", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)


def _moved(plan: Plan) -> list[str]:
    leave = [action for action in plan.actions if action.kind in (Kind.REWRITE, Kind.REMOVE) and not action.copy]
    return [identity for action in leave for identity in action.ids]


def guarded(store: Store, plan: Plan, job: str, by: str) -> Plan:
    """A sudden mass move of a store that was maintained before is a clock jump or a bug: stop and ask."""
    moved = len(_moved(plan))
    times = store.journal.job_times().get(job)
    maintained = times is not None and times.last_success is not None
    total = store.index.result.memories
    if by == "schedule" and maintained and moved > MASS_MOVE and moved * 2 > total:
        raise GuardError(
            f"root {store.name}: the scheduled {job} would move {moved} of {total} memories",
            hint=f"if `memoryd plan {store.name}` is right, run `memoryd jobs run {job} {store.name}`",
            data={"moved": moved, "memories": total},
        )
    return plan
