"""What a change of a file should make somebody look up: memories that vanished, and changes of ours that an agent
undid because it keeps a cache. Where the agent overwrites whole files, each good version is kept at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memoryd.catalogue import FileRow
from memoryd.core.findings import Finding
from memoryd.core.records import Document, Role
from memoryd.core.retention import Quality
from memoryd.disk.vault import FileState
from memoryd.layouts.base import FileSummary
from memoryd.store import Store

MERGED = "merged"  # meta: path -> {"ids": [...], "sha": content we left}


def alarms(store: Store, before: FileRow | None, after: FileRow, document: Document) -> Iterator[Finding]:
    """Findings of a file that was just read anew."""
    assert store.layout is not None
    if after.role != Role.SOURCE or after.pending:
        return
    previous = _summary(before) if before is not None and not before.pending else None
    found = store.layout.alarms(previous, _summary(after))
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


def remember_merge(store: Store, path: str, ids: Sequence[str], sha: str) -> None:
    """After a dedupe: look, once the file next changes, whether what was merged stands there again."""
    merged: dict[str, Any] = store.journal.get_meta(MERGED, {})
    store.journal.set_meta(MERGED, {**merged, path: {"ids": list(ids), "sha": sha}})


def _undone(store: Store, row: FileRow, document: Document) -> Iterator[Finding]:
    merged: dict[str, Any] = store.journal.get_meta(MERGED, {})
    ours = merged.get(row.path)
    if ours is None or ours["sha"] == row.digest:
        return
    back = sorted(set(ours["ids"]) & {record.id for record in document.records})
    if back:
        message = f"{len(back)} memories that were merged stand here again: the agent wrote an older state over it"
        yield Finding("change-was-undone", row.path, message, id=back[0])
    del merged[row.path]
    store.journal.set_meta(MERGED, merged)
