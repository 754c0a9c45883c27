"""Counting reads: where the layout counts them, in its own file; else in memoryd's own state, so that nothing volatile
lies beside memories that are kept under version control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Document
from memoryd.layouts.storing import Touch
from memoryd.store import Store
from memoryd.store.commit import Cause, change
from memoryd.store.storing import layout_of


def count_reads(store: Store, path: str, touches: Mapping[str, Touch], now: float) -> tuple[str, ...]:
    """One rewrite of one file, by exact edits; the paths that changed. Raises BusyError."""

    def decide() -> Plan:
        source = store.load(path, now, touches)
        edits = layout_of(store).touch(path, source.loaded, touches) if source is not None else ()
        if source is None or not edits:
            return Plan()
        base, why = source.loaded.digest, "reads counted"
        return Plan((Action(Kind.REWRITE, path, why, tuple(touches), edits, base=base, light=True),))

    done = change(store, Cause("touch", "command"), decide, now=now, wait_s=store.policy.lock_wait_s)
    if done.receipt is None:
        _remember(store, path, touches)
        return ()
    return (path,)


def _remember(store: Store, path: str, touches: Mapping[str, Touch]) -> None:
    store.journal.add_uses(path, {identity: (touch.times, touch.at) for identity, touch in touches.items()})
    known = store.uses.setdefault(path, {})
    for identity, touch in touches.items():
        known[identity] = known.get(identity, 0) + touch.times
    store.catalogue.set_uses(path, known)


def follow_id(store: Store, path: str, before: str, after: str) -> None:
    """What was counted of a memory stays its own where a change gave it another id."""
    known = store.uses.get(path, {})
    if before == after or before not in known:
        return
    store.journal.move_uses(path, before, after)
    known[after] = known.get(after, 0) + known.pop(before)
    store.catalogue.set_uses(path, known)


def with_uses(store: Store, document: Document) -> Document:
    """What was counted outside the file is said of its records, too."""
    known = store.uses.get(document.path)
    if not known:
        return document
    records = (replace(each, uses=each.uses + known.get(each.id, 0)) for each in document.records)
    return replace(document, records=tuple(records))
