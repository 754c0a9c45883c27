"""Repair what is fixable, by exact edits.

The original is quarantined first, the change is journalled and can be undone, and the same repair is made on the same
bytes at most three times. A corrupt file is repaired only on request (`--code corrupt-file`): its valid lines stay, and
memories in the newest good backup that are missing and not archived are appended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.findings import Finding
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.spans import sha256
from memoryd.disk.blobs import quarantine
from memoryd.disk.journal.trash import Pin
from memoryd.errors import UsageError
from memoryd.layouts.codes import CODES, REBUILD, require_codes
from memoryd.layouts.protocol import Fix, LoadedFile
from memoryd.operations.index_files import accept_index_findings, acceptable_index_findings
from memoryd.operations.locks import clear_stale_locks
from memoryd.operations.losses import accept_losses, describe_losses
from memoryd.operations.memories import plan_lost_writes, restore_lost_writes
from memoryd.operations.permissions import tighten
from memoryd.operations.refresh import refresh
from memoryd.operations.restore import newest_good
from memoryd.store import Store
from memoryd.store.commit import Committed, Origin, change
from memoryd.store.layout_views import write_view

MAX_TRIES = 3
RECOVERABLE = ("corrupt-file", "emptied-file", "broken-session")


class Repaired(Struct, frozen=True):
    """The plan of a repair and the receipts of its changes in the order in which they were made: of each memory stored
    again, the edits of files, the modes and each lock. `receipt` is that of the edits if any was made."""

    plan: Plan
    receipt: str | None
    receipts: tuple[str, ...] = ()


def repair(store: Store, now: float, *, codes: Collection[str] | None = None, dry_run: bool = False) -> Repaired:
    """Repair findings: without `codes` every safe fix, with them exactly those, including fixes made only on request.

    Raises UsageError for unknown codes.
    """
    require_codes(codes or ())
    if codes is None or REBUILD not in codes:
        return _repair(store, now, codes, dry_run=dry_run)
    if len(codes) > 1:
        raise UsageError(f"{REBUILD} is the last resort and cannot be combined", hint="repair the other findings first")
    return _combine([rebuild(store, now, dry_run=dry_run)])


def _repair(store: Store, now: float, codes: Collection[str] | None, *, dry_run: bool) -> Repaired:
    """Make the selected repairs one after the other: each is a change of its own, with its own receipt."""
    done: list[Committed] = []
    if _is_selected("shrunk", codes, safe=False):
        done.append(_accept_losses(store, now, dry_run=dry_run))
    if codes is not None:
        done.append(_accept_index_findings(store, codes, now, dry_run=dry_run))
    if _is_selected("change-was-undone", codes, safe=False):
        retried = plan_lost_writes(store, now) if dry_run else restore_lost_writes(store, now, on_request=True)
        done += [Committed(Plan(each.actions), each.receipt) for each in retried]
    edited = _edit(store, now, codes, dry_run=dry_run)
    done.append(edited)
    if _is_selected("wide-permissions", codes, safe=True):
        done.append(tighten(store, now, by="command", dry_run=dry_run))
    if _is_selected("stale-lock", codes, safe=True):
        done += clear_stale_locks(store, now, by="command", dry_run=dry_run)
    return _combine(done, edited.receipt)


def _combine(done: Sequence[Committed], main: str | None = None) -> Repaired:
    """Return one result for several changes, in their order. `main`: the receipt of the most important one; without it
    that of the last one is."""
    actions = tuple(action for each in done for action in each.plan.actions)
    notes = tuple(note for each in done for note in each.plan.notes)
    receipts = tuple(each.receipt for each in done if each.receipt is not None)
    return Repaired(Plan(actions, notes), main or (receipts[-1] if receipts else None), receipts)


def _accept_losses(store: Store, now: float, *, dry_run: bool) -> Committed:
    """Accept that files have lost memories. No file is changed, so there is nothing to undo."""
    plan = Plan(tuple(Action(Kind.ACCEPT, path, change) for path, change in describe_losses(store)))
    if dry_run or not plan:
        return Committed(plan, None)
    for path in accept_losses(store):
        if store.file_rules.agent_caches_file:
            store.catalogue.forget(path)  # its loss is among the findings of the file
        refresh(store, [path], now)
    return _record_acceptance(store, plan, now)


def _accept_index_findings(store: Store, codes: Collection[str], now: float, *, dry_run: bool) -> Committed:
    """Accept what the index findings with these codes report. No file is changed."""
    accepted = acceptable_index_findings(store, codes)
    plan = Plan(tuple(Action(Kind.ACCEPT, each.path, each.message.partition(";")[0]) for each in accepted))
    if dry_run or not plan:
        return Committed(plan, None)
    accept_index_findings(store, codes)
    return _record_acceptance(store, plan, now)


def _record_acceptance(store: Store, plan: Plan, now: float) -> Committed:
    """Journal what was accepted; there is nothing to undo."""
    summary = "; ".join(f"{each.path}: {each.why}" for each in plan.actions)
    return Committed(plan, store.journal.record("accept-loss", "command", summary, now))


def _edit(store: Store, now: float, codes: Collection[str] | None, *, dry_run: bool) -> Committed:
    """Edit the files that have findings."""

    def decide() -> Plan:
        actions = tuple(_actions(store, now, codes))
        return Plan(actions, () if actions else tuple(_last_resort(store, codes)))

    def quarantine_originals(plan: Plan) -> None:
        for action in plan.actions:
            _quarantine_original(store, action, now)

    origin = Origin("repair", "command")
    return change(store, origin, decide, now=now, dry_run=dry_run, before_commit=quarantine_originals)


def _last_resort(store: Store, codes: Collection[str] | None) -> Iterator[Action]:
    """Suggest what is left to try for files that cannot be recovered."""
    if codes is None or not {"corrupt-file", "emptied-file"} & set(codes) or store.layout is None:
        return
    for path in store.layout.repair.lost_files(store.files(), _damaged(store)):
        why = f"there is no good backup; `memoryd repair --code {REBUILD}` rebuilds it from the archive"
        yield Action(Kind.NOTE, path, why)


def _is_selected(code: str, codes: Collection[str] | None, *, safe: bool) -> bool:
    return safe if codes is None else code in codes


def _actions(store: Store, now: float, codes: Collection[str] | None) -> Iterator[Action]:
    tries: dict[str, int] = store.journal.facts.get("repairs", {})
    gave_up: list[Finding] = []
    for path in _paths(store, codes):
        source = store.load(path, now)
        if source is None:
            continue
        fixes = [f for f in _fixes(store, path, source.loaded, now, codes) if _is_selected(f.code, codes, safe=f.safe)]
        if not fixes:
            continue
        digest = sha256(source.loaded.data)
        if tries.get(digest, 0) >= MAX_TRIES:
            why = f"the same repair was made {MAX_TRIES} times and undone each time; it is not repeated"
            gave_up.append(Finding("repair-given-up", path, why))
            continue
        yield _action(path, digest, fixes)
    store.root_findings["repair"] = tuple(gave_up)


def _paths(store: Store, codes: Collection[str] | None) -> list[str]:
    """Return the files with a finding to repair; only these are read."""
    wanted = {code for code in CODES if CODES[code].fixable} if codes is None else set(codes)
    return sorted({finding.path for finding in store.catalogue.findings() if finding.code in wanted})


def _fixes(store: Store, path: str, loaded: LoadedFile, now: float, codes: Collection[str] | None) -> Iterator[Fix]:
    requested = [code for code in RECOVERABLE if codes is not None and code in codes]
    backup = newest_good(store, path, now) if requested else None
    rules = store.known_layout.repair
    recovered = rules.recover(path, loaded, backup, _archived(store), now) if backup is not None else None
    if recovered is not None:
        yield recovered._replace(code=requested[0])
        return
    yield from rules.fixes(path, loaded, now)


def _archived(store: Store) -> frozenset[str]:
    rows = [path for path, each in store.files().items() if each.role == "archive"]
    return frozenset(entry.id for entry in store.catalogue.entries(rows))


def _action(path: str, digest: str, fixes: list[Fix]) -> Action:
    edits = tuple(edit for fix in fixes for edit in fix.edits)
    ids = tuple(identity for fix in fixes for identity in fix.ids)
    why = "; ".join(fix.why for fix in fixes[:3]) + (f"; and {len(fixes) - 3} more" if len(fixes) > 3 else "")
    if any(fix.remove for fix in fixes):
        return Action(Kind.REMOVE, path, why, ids, base=digest)
    return Action(Kind.REWRITE, path, why, ids, edits, base=digest)


def _quarantine_original(store: Store, action: Action, now: float) -> None:
    content = store.tree.read(action.path)[0]
    quarantine(store.journal, store.blobs, action.path, content, f"before repair: {action.why}", now=now)
    tries: dict[str, int] = store.journal.facts.get("repairs", {})
    digest = action.base or ""
    newest_tries = dict(list({**tries, digest: tries.get(digest, 0) + 1}.items())[-200:])
    store.journal.facts.set("repairs", newest_tries)


UNREADABLE_CODES = ("corrupt-file", "emptied-file")


def rebuild(store: Store, now: float, *, dry_run: bool) -> Committed:
    """Move archived memories back into lost files. Raises UsageError if the layout does not support it."""
    layout_rebuild = store.layout.repair.rebuild if store.layout is not None else None
    if layout_rebuild is None:
        name = store.layout.name if store.layout is not None else "unknown"
        why = f"root {store.name}: the layout ({name}) has no archive from which lost files can be rebuilt"
        raise UsageError(why, hint="`memoryd backup list` shows what can be restored")

    def decide() -> Plan:
        actions = layout_rebuild(write_view(store, now), _damaged(store)).actions
        if not dry_run:
            store.journal.pins.pin(_archive_pins(actions))
        return Plan((*(replace(each, copy=True) for each in actions[:-1]), *actions[-1:]))

    return change(store, Origin("repair", "command"), decide, now=now, dry_run=dry_run)


def _damaged(store: Store) -> frozenset[str]:
    """Return the files that are mostly unreadable."""
    return frozenset(path for path, code in store.catalogue.finding_counts() if code in UNREADABLE_CODES)


def _archive_pins(actions: Sequence[Action]) -> Iterator[Pin]:
    for action in actions:
        if action.kind is Kind.APPEND:
            lines = [line for line in action.data.split(b"\n") if line]
            yield from (Pin(action.path, i, sha256(line)) for i, line in zip(action.ids, lines, strict=True))
