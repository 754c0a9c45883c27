"""Archive what is due, and keep soft limits: the two verbs that move memories out of the live files."""

from __future__ import annotations

from collections.abc import Collection

from memoryd.core.findings import Finding
from memoryd.core.plan import Kind, Plan
from memoryd.core.policy import LimitKind
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
        plan = layout.archive(store.upkeep_view(now), ids)
        missing = sorted(set(ids or ()) - set(_moved(plan)))
        if missing:
            raise NotFoundError(
                f"root {store.name}: no live memory has the id {', '.join(missing)}",
                hint="ids of archived memories, and of other roots, cannot be archived here",
            )
        return _guarded(store, plan, "archive", by)

    return change(
        store, Cause("archive", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run
    )


def enforce_limits(store: Store, now: float, *, by: str, dry_run: bool = False) -> Done:
    """Bring files above a soft limit back to it; what cannot be helped is noted as a finding."""
    layout = store.layout
    assert layout is not None

    def decide() -> Plan:
        plan = layout.enforce(store.upkeep_view(now), store.limits)
        store.noted["soft-limits"] = tuple(
            Finding("soft-limit", note.path, note.why) for note in plan.notes if note.kind is Kind.NOTE
        )
        return _guarded(store, plan, "limits", by)

    return change(
        store, Cause("limits", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run
    )


def _moved(plan: Plan) -> list[str]:
    return [i for action in plan.actions if action.kind is Kind.REWRITE for i in action.ids]


def _guarded(store: Store, plan: Plan, job: str, by: str) -> Plan:
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


def limit_levels(store: Store) -> list[dict[str, object]]:
    """How full each limited file is: what `status` shows. `level` is ok, near (from 85 %) or over."""
    rows = store.catalogue.files()
    shown: list[dict[str, object]] = []
    for path, limit in sorted(store.limits.items()):
        row = rows.get(path)
        count, size = (row.records, row.fingerprint.size) if row else (0, 0)
        shares = [
            used / bound
            for used, bound in ((count, limit.max_count), (size, limit.max_bytes))
            if bound is not None and bound > 0
        ]
        full = max(shares, default=0.0)
        # A hard limit blocks writes when it is reached, a soft one acts when it is exceeded.
        over = full >= 1 if limit.kind is LimitKind.HARD else full > 1
        shown.append(
            {
                "file": path,
                "count": count,
                "max_count": limit.max_count,
                "bytes": size,
                "max_bytes": limit.max_bytes,
                "kind": str(limit.kind),
                "level": "over" if over else "near" if full >= 0.85 else "ok",
            }
        )
    return shown


def note_limits(store: Store, now: float) -> list[str]:
    """Findings for files near or over a limit; returns the files that newly crossed a hard limit (a crossing
    is told once, also over restarts)."""
    levels = {str(each["file"]): each for each in limit_levels(store)}
    over = {path for path, each in levels.items() if each["level"] == "over" and each["kind"] == "hard"}
    findings = [_hard(store, path, now) for path in sorted(over)]
    findings += [
        Finding("near-limit", path, "is at 85 % or more of its limit")
        for path, each in levels.items()
        if each["level"] == "near"
    ]
    store.noted["limits"] = tuple(findings)
    warned = set(store.journal.get_meta("warned_limits", []))
    if warned != over:
        store.journal.set_meta("warned_limits", sorted(over))
    return sorted(over - warned)


def _hard(store: Store, path: str, now: float) -> Finding:
    assert store.layout is not None
    ids = store.layout.suggest(store.upkeep_view(now), path, 5)
    message = "is at its hard limit; free space, for example: memoryd archive " + " ".join(ids)
    return Finding("hard-limit", path, message)
