"""What a change of a file should make somebody look up: memories that vanished, and changes of ours that an agent
undid because it keeps a cache. Where the agent overwrites whole files, each good version is kept at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memoryd.catalogue import FileRow
from memoryd.core.findings import Finding
from memoryd.core.records import Document, Role
from memoryd.core.retention import Quality
from memoryd.disk.vault import FileState
from memoryd.layouts.base import FileSummary
from memoryd.store import Store

OURS = "ours"  # meta: path -> {"out": ids we took out, "in": ids we put in, "sha": content we left}
MOST_IDS = 200  # of each, of one file: further ones are not watched


def alarms(store: Store, before: FileRow | None, after: FileRow, document: Document) -> Iterator[Finding]:
    """Findings of a file that was just read anew."""
    assert store.layout is not None
    if after.role != Role.SOURCE or after.pending:
        return
    previous = _summary(before) if before is not None and not before.pending else None
    found = () if _left_by_us(store, after) else store.layout.alarms(previous, _summary(after))
    if found and before is not None:
        store.vault.pin_version(before.path, before.digest)  # the agent's next stores must not push it out
    yield from found
    yield from _undone(store, after, document)


def _summary(row: FileRow) -> FileSummary:
    size = row.fingerprint.size
    return FileSummary(row.path, Role(row.role), size, row.units, row.broken, row.records, row.facts)


def keep_change(store: Store, row: FileRow, content: bytes, now: float) -> None:
    """Before the agent's next store: what reads worse than before is not taken."""
    assert store.layout is not None
    if store.layout.keeps_every_change and row.role == Role.SOURCE and not row.pending:
        quality = Quality(row.units, row.records)
        state = FileState(row.path, row.digest, row.fingerprint.mode or 0o600, quality, content)
        store.vault.add_version(state, now, keep=store.policy.backups)


def remember_change(
    store: Store, receipt: str | None, *, out: Mapping[str, Sequence[str]] | None = None, kept: str | None = None
) -> None:
    """After a change of ours to a file that its agent overwrites from a cache: look, once it next changes, whether it
    was undone. `out` are the ids taken out, by file; `kept` the one that must stay."""
    if receipt is None or store.layout is None or not store.layout.keeps_every_change:
        return
    known: dict[str, Any] = store.journal.get_meta(OURS, {})
    for step in store.journal.entry(receipt).steps:
        if step.after_sha is None:
            continue
        before = known.get(step.path, {})
        fresh = not before or before["sha"] != step.before_sha
        gone = [*([] if fresh else before["out"]), *(out or {}).get(step.path, ())]
        there = [*([] if fresh else before["in"]), *([kept] if kept else ())]
        known[step.path] = {
            "out": [each for each in dict.fromkeys(gone) if each != kept][-MOST_IDS:],
            "in": [each for each in dict.fromkeys(there) if each not in gone or each == kept][-MOST_IDS:],
            "sha": step.after_sha,
        }
    store.journal.set_meta(OURS, known)


def _left_by_us(store: Store, row: FileRow) -> bool:
    ours = store.journal.get_meta(OURS, {}).get(row.path)
    return ours is not None and bool(ours["sha"] == row.digest)


def _newest_change_left(store: Store, row: FileRow) -> bool:
    """An undo or a restore is a change of ours that is not remembered."""
    newest = store.journal.entries(1)
    return any(step.path == row.path and step.after_sha == row.digest for each in newest for step in each.steps)


def _undone(store: Store, row: FileRow, document: Document) -> Iterator[Finding]:
    known: dict[str, Any] = store.journal.get_meta(OURS, {})
    ours = known.get(row.path)
    if ours is None or ours["sha"] == row.digest:
        return
    there = {record.id for record in document.records} if not _newest_change_left(store, row) else None
    back = sorted(set(ours["out"]) & there) if there is not None else []
    lost = sorted(set(ours["in"]) - there) if there is not None else []
    if back:
        message = f"{len(back)} memories that were taken out stand here again: the agent wrote an older state over it"
        yield Finding("change-was-undone", row.path, message, id=back[0])
    elif lost:
        message = (
            f"{len(lost)} memories that were stored through memoryd are gone: the agent wrote an older state over it"
        )
        yield Finding("change-was-undone", row.path, message, id=lost[0])
    del known[row.path]
    store.journal.set_meta(OURS, known)
