"""Heal what is fixable, by exact edits: the original goes into quarantine first, the change is journalled and undoable,
and the same repair is tried on the same bytes three times at most.

A corrupt file (`--code corrupt-file`, never unasked) gets back what its newest good backup has and it lost: valid
lines of today stay, memories that are missing and not archived are appended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from memoryd.core.digest import sha256
from memoryd.core.findings import CODES, Finding
from memoryd.core.plan import Action, Kind, Plan
from memoryd.disk.snapshots import quarantine
from memoryd.errors import UsageError
from memoryd.layouts.base import Fix, Loaded
from memoryd.operations.alarms import accept_losses
from memoryd.operations.backup import newest_good
from memoryd.operations.locks import sweep_locks
from memoryd.operations.memories import bring_back
from memoryd.operations.permissions import tighten
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change

TRIES = 3
RECOVERABLE = ("corrupt-file", "emptied-file", "broken-session")


def repair(store: Store, now: float, *, codes: Collection[str] | None = None, dry_run: bool = False) -> Done:
    """Without `codes` every safe fix; with them exactly those, also ones that are made on request only."""
    unknown = sorted(set(codes or ()) - set(CODES))
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: no such finding code", hint="`memoryd check` shows the codes")

    if codes is not None and "shrunk" in codes and not dry_run:
        for path in accept_losses(store):
            store.catalogue.forget(path)
            refresh(store, [path], now)

    def decide() -> Plan:
        return Plan(tuple(_actions(store, now, codes)))

    def keep(plan: Plan) -> None:
        for action in plan.actions:
            _keep_original(store, action, now)

    back: list[dict[str, Any]] = []
    if codes is not None and "change-was-undone" in codes and not dry_run:
        back = bring_back(store, now, asked=True)
    cause, wait_s = Cause("repair", "command"), store.policy.lock_wait_s
    done = change(store, cause, decide, now=now, wait_s=wait_s, dry_run=dry_run, first=keep)
    if dry_run:
        return done
    if _wanted("wide-permissions", codes, safe=True):
        tighten(store, now, by="command")
    if _wanted("stale-lock", codes, safe=True):
        sweep_locks(store, now)
    return done if done.receipt is not None or not back else replace(done, receipt=back[-1]["receipt"])


def _wanted(code: str, codes: Collection[str] | None, *, safe: bool) -> bool:
    return safe if codes is None else code in codes


def _actions(store: Store, now: float, codes: Collection[str] | None) -> Iterator[Action]:
    assert store.layout is not None
    tries: dict[str, int] = store.journal.get_meta("repairs", {})
    gave_up: list[Finding] = []
    for path in _paths(store, codes):
        source = store.load(path, now)
        if source is None:
            continue
        fixes = [f for f in _fixes(store, path, source.loaded, now, codes) if _wanted(f.code, codes, safe=f.safe)]
        if not fixes:
            continue
        digest = sha256(source.loaded.data)
        if tries.get(digest, 0) >= TRIES:
            why = f"the same repair was made {TRIES} times and undone by somebody; it is left alone now"
            gave_up.append(Finding("repair-given-up", path, why))
            continue
        yield _action(path, digest, fixes)
    store.noted["repair"] = tuple(gave_up)


def _paths(store: Store, codes: Collection[str] | None) -> list[str]:
    """Only files with a finding that is to be healed are read."""
    wanted = {code for code in CODES if CODES[code].fixable} if codes is None else set(codes)
    return sorted({finding.path for finding in store.catalogue.findings() if finding.code in wanted})


def _fixes(store: Store, path: str, loaded: Loaded, now: float, codes: Collection[str] | None) -> Iterator[Fix]:
    assert store.layout is not None
    asked = [code for code in RECOVERABLE if codes is not None and code in codes]
    backup = newest_good(store, path, now) if asked else None
    recovered = store.layout.recover(path, loaded, backup, _archived(store), now) if backup is not None else None
    if recovered is not None:
        yield recovered._replace(code=asked[0])
        return
    yield from store.layout.fixes(path, loaded, now)


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


def _keep_original(store: Store, action: Action, now: float) -> None:
    content = store.tree.read(action.path)[0]
    quarantine(store.journal, store.blobs, action.path, content, f"before repair: {action.why}", now=now)
    tries: dict[str, int] = store.journal.get_meta("repairs", {})
    digest = action.base or ""
    kept = dict(list({**tries, digest: tries.get(digest, 0) + 1}.items())[-200:])
    store.journal.set_meta("repairs", kept)
