"""What a change of a file should make somebody look up: memories that vanished, and changes of ours that an agent
undid because it keeps a cache. Where the agent overwrites whole files, each good version is kept at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memoryd.catalogue import FileRow
from memoryd.core.findings import Finding
from memoryd.core.records import Document, Role
from memoryd.core.retention import Quality
from memoryd.disk.vault import FileState, Version
from memoryd.layouts.base import FileSummary
from memoryd.store import Store

OURS = "ours"  # meta: path -> {"out": ids we took out, "in": ids we put in, "sha": content we left}
LOSSES = "losses"  # meta: path -> {"records": how many it held, "seq": the version that held them}
GIVEN_UP = "losses_accepted"  # meta: path -> number of its newest version when a loss was accepted
MOST_IDS = 200  # of each, of one file: further ones are not watched


def alarms(store: Store, after: FileRow, document: Document) -> Iterator[Finding]:
    """Findings of a file that was just read anew."""
    assert store.layout is not None
    if after.role != Role.SOURCE or after.pending:
        return
    yield from _losses(store, after)
    yield from _undone(store, after, document)


def _losses(store: Store, after: FileRow) -> Iterator[Finding]:
    """A loss stands until the file holds as much again, is restored, or somebody says that it was meant: the agent
    stores on within seconds, and what it stores must not hide it."""
    assert store.layout is not None
    standing: dict[str, Any] = store.journal.get_meta(LOSSES, {})
    known = standing.get(after.path)
    if known is not None and (after.records >= known["records"] or _left_by_us(store, after)):
        known = standing.pop(after.path)
        store.journal.set_meta(LOSSES, standing)
        return
    if known is not None:
        yield Finding("shrunk", after.path, _lost(known["records"], after.records))
        return
    good = _last_good(store, after.path, after.digest)
    if good is None or _left_by_us(store, after) or _newest_change_left(store, after):
        return
    before = FileSummary(good.file, Role.SOURCE, good.size, good.quality.units, 0, good.quality.records, {})
    found = store.layout.alarms(before, _summary(after))
    if found:
        _note_loss(store, good)
    elif after.records < good.quality.records and "damaged" in after.facts:
        store.vault.pin_version(good.file, good.sha256)  # it cannot be read, so the next store may begin anew
    yield from found


def _last_good(store: Store, path: str, digest: str | None = None) -> Version | None:
    """The newest other version that held memories, of those nobody has given up."""
    assert store.layout is not None
    if not store.layout.keeps_every_change:
        return None
    given_up = store.journal.get_meta(GIVEN_UP, {}).get(path, 0)
    held = (v for v in store.vault.versions(path) if v.valid and v.quality.records and v.sha256 != digest)
    return next((v for v in held if v.seq > given_up), None)


def _note_loss(store: Store, good: Version) -> None:
    store.vault.pin_version(good.file, good.sha256)  # the agent's next stores must not push it out
    standing: dict[str, Any] = store.journal.get_meta(LOSSES, {})
    store.journal.set_meta(LOSSES, {**standing, good.file: {"records": good.quality.records, "seq": good.seq}})


def _lost(before: int, after: int) -> str:
    return (
        f"{before} memories became {after}; compare `memoryd backup list` and restore, or say that it was meant with "
        "`memoryd repair --code shrunk`"
    )


def note_vanished(store: Store, path: str) -> None:
    """The file is gone; its last good version stays the measure of whatever comes in its place."""
    good = _last_good(store, path)
    if good is not None and path not in store.journal.get_meta(LOSSES, {}):
        _note_loss(store, good)


def standing_losses(store: Store) -> tuple[Finding, ...]:
    """Of files that are not there: those that are tell theirs themselves."""
    standing: dict[str, Any] = store.journal.get_meta(LOSSES, {})
    gone = (path for path in standing if store.catalogue.file(path) is None)
    return tuple(Finding("shrunk", path, _lost(standing[path]["records"], 0)) for path in gone)


def accept_losses(store: Store) -> list[str]:
    """Somebody says that they were meant: the paths whose alarm ends."""
    standing: dict[str, Any] = store.journal.get_meta(LOSSES, {})
    given_up: dict[str, int] = store.journal.get_meta(GIVEN_UP, {})
    newest = {path: max((v.seq for v in store.vault.versions(path)), default=0) for path in standing}
    store.journal.set_meta(GIVEN_UP, {**given_up, **newest})
    store.journal.set_meta(LOSSES, {})
    return sorted(standing)


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
