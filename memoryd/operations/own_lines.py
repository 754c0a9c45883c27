"""Taking in what memoryd itself changed in a file of lines: only those lines are parsed, the file is not read."""

from __future__ import annotations

from dataclasses import replace

from memoryd.catalogue import FileRow, Hole
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Base, Document
from memoryd.core.text import Span
from memoryd.store import Store

YOUNG_S = 2.0  # two writes within one clock tick look the same: a file this young is hashed again


def take_lines(store: Store, row: FileRow, found: Fingerprint, now: float) -> bool:
    """Our own change of whole lines in a file without findings: the rest is known, so nothing is read."""
    ours = store.own_changes.between(row.path, row.fingerprint, found)
    if store.layout is None or ours is None or row.pending or not (row.digest and row.whole):
        return False
    mtime = ours.after.mtime_ns / 1e9
    base = Base(ours.start, row.lines + 1 if ours.line is None else ours.line)
    was = store.layout.parse(row.path, ours.old, now=now, mtime=mtime, base=base)
    now_is = store.layout.parse(row.path, ours.new, now=now, mtime=mtime, base=base)
    if now_is.findings or now_is.pending or store.catalogue.codes_of(row.path):
        return False
    hole = Hole(
        Span(ours.start, ours.start + len(ours.old)), ours.old.count(b"\n"), len(ours.new), ours.new.count(b"\n")
    )
    changed = replace(
        row,
        fingerprint=ours.after,
        digest=ours.digest.hexdigest(),
        lines=row.lines - hole.lines + hole.new_lines,
        whole=ours.new.endswith(b"\n") or ours.start + len(ours.new) < ours.after.size or not ours.new,
        young=abs(now - mtime) < YOUNG_S,
        units=row.units - was.units,
        broken=row.broken - was.broken,
        records=row.records - len(was.records),
    )
    store.catalogue.splice(counted(changed, now_is, changed), hole, now_is)
    return True


def counted(row: FileRow, part: Document, before: FileRow | None) -> FileRow:
    units, broken, records = (before.units, before.broken, before.records) if before else (0, 0, 0)
    return replace(
        row,
        units=units + part.units,
        broken=broken + part.broken,
        records=records + len(part.records),
        pending=part.pending,
        facts=part.facts,
    )
