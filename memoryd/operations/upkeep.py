"""Archive, prune, merge duplicates and enforce limits. The layout plans; this module adds safeguards."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from functools import partial

from msgspec import UNSET
from msgspec.structs import replace

from memoryd.control.methods.shared import ActionRow, PlanRow, Reason
from memoryd.core.findings import Finding
from memoryd.core.places import Place
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.secrets import redact
from memoryd.errors import GuardError, NotFoundError
from memoryd.layouts.protocol import LoadedFile
from memoryd.operations.lookup import find_record, live_places
from memoryd.operations.overwrites import record_change
from memoryd.store import Store
from memoryd.store.commit import Committed, Origin, change
from memoryd.store.layout_views import upkeep_view

MASS_MOVE = 20  # a scheduled run moves at most half of a store, or this many memories
JUMP_S = 3600.0  # a larger difference between wall clock and boot clock means that the clock was set
SLACK_S = 300.0  # small corrections of the clock are normal
GUARDED = "guard"  # key of the findings of the guard


def plan_row(plan: Plan) -> PlanRow:
    """Convert a plan to the form of the control protocol and `--dry-run`."""
    return PlanRow([action_row(action) for action in (*plan.actions, *plan.notes)])


def action_row(action: Action) -> ActionRow:
    """Convert an action; `memories` holds the reason for each id."""
    reasons = [Reason(identity, why) for identity, why in zip(action.ids, action.reasons, strict=bool(action.reasons))]
    return ActionRow(
        kind=str(action.kind), path=action.path, ids=list(action.ids), why=action.why, memories=reasons or UNSET
    )


def archive(
    store: Store,
    now: float,
    *,
    by: str,
    ids: Collection[str] | None = None,
    dry_run: bool = False,
) -> Committed:
    """Archive memories that are old enough, or exactly the ones named. Raises NotFoundError for an unknown id.

    A scheduled run moves at most half of the store or 20 memories, whichever is more, the oldest first; the plan counts
    those left to the next run. It raises GuardError if the clock is in doubt.
    """
    layout = store.known_layout

    def decide() -> Plan:
        max_moves = max(MASS_MOVE, store.index.result.memories // 2) if by == "schedule" else None
        named, shared = _named(store, ids) if ids is not None else (None, ())
        select = partial(_without_others, shared)
        view = upkeep_view(store, now, unattended=by != "command", ids=named, select=select, max_moves=max_moves)
        plan = layout.upkeep.archive(view, named)
        missing = sorted(set(named or ()) - set(_moved(plan)))
        if missing:
            raise NotFoundError(
                f"root {store.name}: no live memory with id {', '.join(map(redact, missing))}",
                hint="ids of archived memories, and of other roots, cannot be archived here",
            )
        if by == "schedule":
            trust_clock(store, plan, now)
        else:
            store.root_findings.pop(GUARDED, None)
        return plan

    done = change(store, Origin("archive", by), decide, now=now, dry_run=dry_run, soft_locks=True)
    if done.receipt is not None:
        remove_empty_directories(store, done.plan)
    return done


def _named(store: Store, ids: Collection[str]) -> tuple[set[str], list[Place]]:
    """Return the ids that the files have for these, and the places of the memories named whose id others have too.
    Raises ConflictError for an ambiguous id."""
    named, shared = set[str](), list[Place]()
    for identity in ids:
        places = [each for each in live_places(store, identity) if each.id != identity or each.is_shared]
        exact = {each.id for each in places if each.has_unique_id(identity)}
        named |= exact or {identity}
        shared += [each for each in places if each.is_shared]
    return named, shared


def _without_others(places: Collection[Place], path: str, loaded: LoadedFile) -> LoadedFile:
    """Return a file without the memories that have the id of one of these places, but are at none of them."""
    if not places:
        return loaded
    records, ids = loaded.document.records, {each.id for each in places}
    chosen = [find_record(records, each) for each in places if each.path == path]
    left = tuple(each for each in records if each.id not in ids or any(each is one for one in chosen))
    return loaded.with_document(replace(loaded.document, records=left))


def remove_empty_directories(store: Store, plan: Plan) -> None:
    """Remove directories that became empty, as the archiver of the layout does; an undo creates them again."""
    removed = (action.path for action in plan.actions if action.kind is Kind.REMOVE)
    for directory in sorted({path.rpartition("/")[0] for path in removed} - {""}):
        with suppress(OSError):  # not empty, or already removed
            store.tree.rmdir(directory)


def enforce_limits(store: Store, now: float, *, by: str, dry_run: bool = False) -> Committed:
    """Archive memories of files above a soft limit; report files where nothing more can be archived."""
    layout = store.known_layout

    def decide() -> Plan:
        plan = layout.upkeep.enforce(upkeep_view(store, now, unattended=by != "command"), store.limits)
        store.root_findings["soft-limits"] = tuple(
            Finding("soft-limit", note.path, note.why) for note in plan.notes if note.kind is Kind.NOTE
        )
        return plan

    return change(store, Origin("limits", by), decide, now=now, dry_run=dry_run)


def _moved(plan: Plan) -> list[str]:
    leave = [action for action in plan.actions if action.kind in (Kind.REWRITE, Kind.REMOVE) and not action.copy]
    return [identity for action in leave for identity in action.ids]


def trust_clock(store: Store, plan: Plan, now: float) -> None:
    """Raise GuardError if a schedule would move memories while the clock is in doubt."""
    store.root_findings.pop(GUARDED, None)
    reason = _doubt(store, now)
    if reason is None or not plan:
        return
    moved = len(_moved(plan)) + plan.waiting
    message = f"the scheduled archive would move {moved} of {store.index.result.memories} memories, but {reason}"
    hint = f"if `memoryd plan {store.name}` is right, run `memoryd jobs run archive {store.name}`"
    store.root_findings[GUARDED] = (Finding("refused-by-guard", "", f"{message}; {hint}"),)
    raise GuardError(f"root {store.name}: {message}", hint=hint, data={"moved": moved})


def _doubt(store: Store, now: float) -> str | None:
    if abs(store.clock_jump_s) > JUMP_S:
        return f"the clock jumped by {abs(store.clock_jump_s) / 3600:.1f} h while memoryd ran"
    ends = [each.last_end for each in store.journal.jobs.times().values() if each.last_end is not None]
    behind = max([*ends, *(entry.at for entry in store.journal.entries(1))], default=-math.inf) - now
    if behind > SLACK_S:
        return f"the clock is {behind / 3600:.1f} h behind the newest time that memoryd has recorded"
    return None


def prune(store: Store, now: float, *, by: str, dry_run: bool = False) -> Committed:
    """Prune files that are too long; report files of few but large entries, which cannot be pruned."""
    layout = store.known_layout

    def decide() -> Plan:
        plan = layout.upkeep.prune(upkeep_view(store, now, unattended=by != "command"))
        store.root_findings["prune"] = tuple(Finding("oversize", note.path, note.why) for note in plan.notes)
        return plan

    return change(store, Origin("prune", by), decide, now=now, dry_run=dry_run)


def dedupe(
    store: Store, now: float, *, by: str, threshold: float | None = None, dry_run: bool = False, as_job: bool = False
) -> Committed:
    """Merge duplicates.

    `threshold`: a similarity from 0 to 1, in layouts that measure it. In layouts whose agents cache the file, the
    scheduled job only suggests, even if run by hand (`as_job`).
    """
    layout = store.known_layout
    # On request every memory is compared, not only those of the schedule.
    on_request = by == "command" and not (as_job and layout.files.agent_caches_file)

    def decide() -> Plan:
        plan = layout.upkeep.dedupe(upkeep_view(store, now, unattended=not on_request, all_files=on_request), threshold)
        store.root_findings["dedupe"] = tuple(
            Finding("possible-duplicate", note.path, note.why, id=note.ids[0] if note.ids else None)
            for note in plan.notes
        )
        return plan

    done = change(store, Origin("dedupe", by), decide, now=now, dry_run=dry_run)
    taken = {action.path: action.ids for action in done.plan.actions}
    record_change(store, done.receipt, removed=taken)
    return done
