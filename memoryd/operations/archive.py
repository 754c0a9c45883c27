"""Archive what is due, and keep soft limits: the two verbs that move memories out of the live files."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress

from memoryd.core.findings import Finding
from memoryd.core.plan import Kind, Plan
from memoryd.core.secrets import redact
from memoryd.errors import GuardError, NotFoundError
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change

MASS_MOVE = 20  # a scheduled run moves at most half of a store, or this many memories
JUMP_S = 3600.0  # a wall clock that leaves the boot clock behind by more was set, wrongly or rightly
SLACK_S = 300.0  # corrections of the clock by a few seconds are ordinary
GUARDED = "guard"  # the key of what the guard noted


def archive(
    store: Store,
    now: float,
    *,
    by: str,
    ids: Collection[str] | None = None,
    dry_run: bool = False,
) -> Done:
    """Move what the ages demand, or exactly the memories named; NotFoundError when one is not there.

    A scheduled run moves at most half of the store or 20 memories, whichever is more, the oldest first; the plan says
    how many wait for the next. It raises GuardError where the clock is in doubt.
    """
    layout = store.layout
    assert layout is not None

    def decide() -> Plan:
        at_most = max(MASS_MOVE, store.index.result.memories // 2) if by == "schedule" else None
        view = store.upkeep_view(now, unattended=by != "command", ids=ids, at_most=at_most)
        plan = layout.archive(view, ids)
        missing = sorted(set(ids or ()) - set(_moved(plan)))
        if missing:
            raise NotFoundError(
                f"root {store.name}: no live memory has the id {', '.join(map(redact, missing))}",
                hint="ids of archived memories, and of other roots, cannot be archived here",
            )
        if by == "schedule":
            trust_clock(store, plan, now)
        else:
            store.noted.pop(GUARDED, None)
        return plan

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
        return plan

    return change(store, Cause("limits", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)


def _moved(plan: Plan) -> list[str]:
    leave = [action for action in plan.actions if action.kind in (Kind.REWRITE, Kind.REMOVE) and not action.copy]
    return [identity for action in leave for identity in action.ids]


def trust_clock(store: Store, plan: Plan, now: float) -> None:
    """Raises GuardError where the clock that made these memories due is in doubt: then nothing moves unasked."""
    store.noted.pop(GUARDED, None)
    reason = _doubt(store, now)
    if reason is None or not plan:
        return
    moved = len(_moved(plan)) + plan.waiting
    message = f"the scheduled archive would move {moved} of {store.index.result.memories} memories, but {reason}"
    hint = f"if `memoryd plan {store.name}` is right, run `memoryd jobs run archive {store.name}`"
    store.noted[GUARDED] = (Finding("refused-by-guard", "", f"{message}; {hint}"),)
    raise GuardError(f"root {store.name}: {message}", hint=hint, data={"moved": moved})


def _doubt(store: Store, now: float) -> str | None:
    if abs(store.jumped_s) > JUMP_S:
        return f"the clock jumped by {abs(store.jumped_s) / 3600:.1f} h while memoryd ran"
    behind = _newest_recorded(store) - now
    if behind > SLACK_S:
        return f"the clock stands {behind / 3600:.1f} h before what memoryd itself has recorded"
    return None


def _newest_recorded(store: Store) -> float:
    """The latest time in the journal, in seconds."""
    ends = [each.last_end for each in store.journal.job_times().values() if each.last_end is not None]
    return max([*ends, *(entry.at for entry in store.journal.entries(1))], default=-math.inf)
