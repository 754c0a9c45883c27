"""Count reads of memories: in the file if the layout has a field for it, else in the state directory, so that memories
under version control do not change by being read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Document
from memoryd.layouts.protocol import AccessCount
from memoryd.store import Store
from memoryd.store.commit import Origin, change


def count_reads(store: Store, path: str, counts: Mapping[str, AccessCount], now: float) -> tuple[str, ...]:
    """Count reads of the memories in one file. Returns the paths of changed files. Raises BusyError."""

    def decide() -> Plan:
        source = store.load(path, now, counts)
        writer = store.known_layout.writer
        edits = writer.count_reads(path, source.loaded, counts) if source is not None and writer is not None else ()
        if source is None or not edits:
            return Plan()
        base, why = source.loaded.digest, "reads counted"
        return Plan((Action(Kind.REWRITE, path, why, tuple(counts), edits, base=base, no_backup=True),))

    done = change(store, Origin("touch", "command"), decide, now=now)
    if done.receipt is None:
        store.journal.access.add(path, {identity: (count.times, count.at) for identity, count in counts.items()})
        totals = store.access_counts.setdefault(path, {})
        for identity, count in counts.items():
            totals[identity] = totals.get(identity, 0) + count.times
        store.catalogue.set_access(path, totals)
        return ()
    return (path,)


def move_counts(store: Store, path: str, before: str, after: str) -> None:
    """Move the count of a memory whose id changed."""
    totals = store.access_counts.get(path, {})
    if before == after or before not in totals:
        return
    store.journal.access.move(path, before, after)
    totals[after] = totals.get(after, 0) + totals.pop(before)
    store.catalogue.set_access(path, totals)


def add_counts(store: Store, document: Document) -> Document:
    """Return the document with the counts stored outside the file added to its records."""
    totals = store.access_counts.get(document.path)
    if not totals:
        return document
    records = (replace(each, uses=each.uses + totals.get(each.id, 0)) for each in document.records)
    return replace(document, records=tuple(records))
