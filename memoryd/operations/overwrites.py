"""Detect agents that overwrite a file: memories that disappeared, and changes of memoryd undone from a cache.

In layouts whose agents overwrite whole files, each good version is backed up at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from memoryd.core.findings import Finding, Severity
from memoryd.core.index import FileRow
from memoryd.core.records import Document, Role
from memoryd.core.retention import Quality
from memoryd.core.spans import sha256
from memoryd.disk.snapshots import FileState, Version
from memoryd.errors import BusyError, MemorydError
from memoryd.layouts.protocol import FileStats
from memoryd.store import Store
from memoryd.store.recent_adds import RecentChange

OURS = "ours"  # meta: path -> {"out": ids we took out, "in": ids we put in, "sha": content we left}
LOSSES = "losses"  # meta: path -> {"records": how many it held, "seq": the version that held them}
GIVEN_UP = "losses_accepted"  # meta: path -> number of its newest version when a loss was accepted
MAX_IDS = 200  # per file; further ids are not watched


def overwrite_findings(store: Store, after: FileRow, document: Document) -> Iterator[Finding]:
    """Yield findings about a file that was just read again."""
    assert store.layout is not None
    if after.role != Role.SOURCE or after.pending:
        return
    yield from _losses(store, after)
    yield from _undone(store, after, document)


def _losses(store: Store, after: FileRow) -> Iterator[Finding]:
    """Report a loss until the file has as many memories again, is restored, or the user accepts the loss.

    The agent stores again within seconds, which must not hide it.
    """
    assert store.layout is not None
    standing: dict[str, Any] = store.journal.facts.get(LOSSES, {})
    known = standing.get(after.path)
    if known is not None and (after.records >= known["records"] or _left_by_us(store, after)):
        known = standing.pop(after.path)
        store.journal.facts.set(LOSSES, standing)
        return
    if known is not None:
        yield Finding("shrunk", after.path, _lost(known["records"], after.records))
        return
    good = _last_good(store, after.path, after.digest)
    if good is None or _left_by_us(store, after) or _newest_change_left(store, after):
        return
    before = FileStats(good.file, Role.SOURCE, good.size, good.quality.units, 0, good.quality.records, {})
    found = store.layout.repair.alarms(before, _summary(after))
    if found:
        _note_loss(store, good)
    elif after.records < good.quality.records and "damaged" in after.facts:
        store.vault.pin_version(good.file, good.sha256)  # unreadable, so the agent may start with an empty file next
    yield from found


def _last_good(store: Store, path: str, digest: str | None = None) -> Version | None:
    """Return the newest other version with memories, after the last accepted loss."""
    assert store.layout is not None
    if not store.layout.files.agent_caches_file:
        return None
    given_up = store.journal.facts.get(GIVEN_UP, {}).get(path, 0)
    held = (v for v in store.vault.versions(path) if v.valid and v.quality.records and v.sha256 != digest)
    return next((v for v in held if v.seq > given_up), None)


def _note_loss(store: Store, good: Version) -> None:
    store.vault.pin_version(good.file, good.sha256)  # so that the next versions do not push it out
    standing: dict[str, Any] = store.journal.facts.get(LOSSES, {})
    store.journal.facts.set(LOSSES, {**standing, good.file: {"records": good.quality.records, "seq": good.seq}})


def _lost(before: int, after: int) -> str:
    return (
        f"{before} memories became {after}; restore them (see `memoryd backup list`), or accept the loss with "
        "`memoryd repair --code shrunk`"
    )


def note_vanished(store: Store, path: str) -> None:
    """Note that a file was deleted. Its last good version is compared with the file that replaces it."""
    good = _last_good(store, path)
    if good is not None and path not in store.journal.facts.get(LOSSES, {}):
        _note_loss(store, good)


def standing_losses(store: Store) -> tuple[Finding, ...]:
    """Return the losses of files that do not exist; those of existing files are among their findings."""
    standing: dict[str, Any] = store.journal.facts.get(LOSSES, {})
    gone = (path for path in standing if store.catalogue.file(path) is None)
    return tuple(Finding("shrunk", path, _lost(standing[path]["records"], 0)) for path in gone)


def accept_losses(store: Store) -> list[str]:
    """Accept all reported losses; return their paths."""
    standing: dict[str, Any] = store.journal.facts.get(LOSSES, {})
    given_up: dict[str, int] = store.journal.facts.get(GIVEN_UP, {})
    newest = {path: max((v.seq for v in store.vault.versions(path)), default=0) for path in standing}
    store.journal.facts.set(GIVEN_UP, {**given_up, **newest})
    store.journal.facts.set(LOSSES, {})
    return sorted(standing)


def _summary(row: FileRow) -> FileStats:
    size = row.fingerprint.size
    return FileStats(row.path, Role(row.role), size, row.units, row.broken, row.records, row.facts)


def keep_change(store: Store, row: FileRow, content: bytes, now: float) -> None:
    """Back up the new version of a file before the agent writes again, unless it is less readable than before."""
    assert store.layout is not None
    if store.layout.files.agent_caches_file and row.role == Role.SOURCE and not row.pending:
        quality = Quality(row.units, row.records)
        state = FileState(row.path, row.digest, row.fingerprint.mode or 0o600, quality, content)
        store.vault.add_version(state, now, keep=store.policy.backups)


def remember_change(
    store: Store, receipt: str | None, *, out: Mapping[str, Sequence[str]] | None = None, kept: Sequence[str] = ()
) -> None:
    """Remember a change of memoryd to a file that its agent caches, to see at its next change whether it was undone.

    `out`: removed ids by file. `kept`: ids that must stay.
    """
    if receipt is None or store.layout is None or not store.layout.files.agent_caches_file:
        return
    known: dict[str, Any] = store.journal.facts.get(OURS, {})
    for step in store.journal.entry(receipt).steps:
        if step.after_sha is None:
            continue
        before = known.get(step.path, {})
        fresh = not before or before["sha"] != step.before_sha
        gone = [*([] if fresh else before["out"]), *(out or {}).get(step.path, ())]
        there = [*([] if fresh else before["in"]), *kept]
        known[step.path] = {
            "out": [each for each in dict.fromkeys(gone) if each not in kept][-MAX_IDS:],
            "in": [each for each in dict.fromkeys(there) if each not in gone or each in kept][-MAX_IDS:],
            "sha": step.after_sha,
        }
    store.journal.facts.set(OURS, known)


def _left_by_us(store: Store, row: FileRow) -> bool:
    ours = store.journal.facts.get(OURS, {}).get(row.path)
    return ours is not None and bool(ours["sha"] == row.digest)


def _newest_change_left(store: Store, row: FileRow) -> bool:
    """True if the newest change of memoryd left the file as it is; an undo or a restore is not remembered otherwise."""
    newest = store.journal.entries(1)
    return any(step.path == row.path and step.after_sha == row.digest for each in newest for step in each.steps)


def _undone(store: Store, row: FileRow, document: Document) -> Iterator[Finding]:
    known: dict[str, Any] = store.journal.facts.get(OURS, {})
    ours = known.get(row.path)
    if ours is None or ours["sha"] == row.digest:
        return
    there = {record.id for record in document.records} if not _newest_change_left(store, row) else None
    back = sorted(set(ours["out"]) & there) if there is not None else []
    lost = sorted(set(ours["in"]) - there) if there is not None else []
    if back:
        message = f"{len(back)} memories that were removed are back: the agent overwrote the file with an older state"
        yield Finding("change-was-undone", row.path, message, id=back[0])
    elif lost:
        message = (
            f"{len(lost)} memories stored through memoryd are gone: the agent overwrote the file with an older state"
        )
        yield Finding("change-was-undone", row.path, message, id=lost[0])
    del known[row.path]
    store.journal.facts.set(OURS, known)


CODE = "change-was-undone"
WATCHED_S = 600.0
REWRITES = 2
TOLD_S = 86_400.0
NOTED = "undone"


def watch_change(store: Store, path: str, identity: str, recent: RecentChange) -> None:
    """Watch a change: after each later write of the file by another program, check that it is still there."""
    known = store.recent.setdefault(path, {})
    before = known.get(identity)
    if recent.changes is not None and before is not None and before.changes is None:
        # A new memory that was updated is stored again as a whole.
        memory = {**before.memory, **recent.changes}
        known[identity] = replace(before, memory={key: value for key, value in memory.items() if value is not None})
        return
    known[identity] = recent


def find_lost_writes(store: Store, path: str, content: bytes, document: Document, now: float) -> None:
    """Find watched changes that are missing in a file another program wrote, and queue them to be stored again."""
    known = store.recent.get(path)
    if not known:
        return
    newest = store.journal.entries(1)
    if any(step.path == path and step.after_sha == sha256(content) for each in newest for step in each.steps):
        return  # written by memoryd itself
    there = {record.id: sha256(record.span.of(content)) for record in document.records}
    for identity, recent in list(known.items()):
        if now - recent.at > WATCHED_S:
            del known[identity]
        elif _is_undone(recent, there.get(identity), there):
            del known[identity]
            store.lost_writes.append((path, identity, recent))
            if not _alone(store, recent):
                _note(store, path, identity, now, Severity.WARNING, _waits(recent))
        elif recent.rewrites + 1 >= REWRITES:
            del known[identity]
        else:
            known[identity] = replace(recent, rewrites=recent.rewrites + 1)


def _is_undone(recent: RecentChange, now_there: str | None, there: Mapping[str, str]) -> bool:
    if recent.changes is None:
        return now_there is None
    return recent.before in there.values() and now_there in (None, recent.before)


def _alone(store: Store, recent: RecentChange) -> bool:
    """True if it may be stored again automatically."""
    assert store.layout is not None
    return recent.changes is None and not store.layout.files.agent_caches_file and not store.observes


def _waits(recent: RecentChange) -> str:
    what = "a memory that was stored" if recent.changes is None else "an update made"
    return (
        f"{what} through memoryd is gone: another program overwrote the file with an older state; "
        "to restore it: `memoryd repair --code change-was-undone`"
    )


def _note(store: Store, path: str, identity: str, now: float, level: Severity, message: str) -> None:
    finding = Finding(CODE, path, message, id=identity, level=level)
    store.lost_write_findings.append((now, finding))
    _publish(store, now)


def _publish(store: Store, now: float) -> None:
    store.lost_write_findings[:] = [each for each in store.lost_write_findings if now - each[0] < TOLD_S]
    store.root_findings[NOTED] = tuple(finding for _, finding in store.lost_write_findings)


class StoredAgain(NamedTuple):
    """A memory that was stored again after another program wrote an older state over it."""

    path: str
    id: str
    receipt: str | None
    code: str = CODE


Again = Callable[[str, RecentChange], tuple[str, str | None]]
"""A function that stores a change again: (id, change) -> (new id, receipt)."""


def retry_lost_writes(store: Store, now: float, again: Again, *, on_request: bool = False) -> Iterator[StoredAgain]:
    """Store lost writes again: those that may be restored automatically, or all of them `on_request`."""
    waiting, store.lost_writes[:] = list(store.lost_writes), []
    for path, identity, recent in waiting:
        if not on_request and not _alone(store, recent):
            store.lost_writes.append((path, identity, recent))
            continue
        try:
            made, receipt = again(identity, recent)
        except BusyError:
            store.lost_writes.append((path, identity, recent))
            continue
        except MemorydError as error:
            _note(
                store,
                path,
                identity,
                now,
                Severity.WARNING,
                f"{_waits(recent)}; restoring it automatically failed: {error.message}",
            )
            continue
        store.lost_write_findings[:] = [each for each in store.lost_write_findings if each[1].id != identity]
        message = "another program overwrote a memory stored through memoryd with an older state; it was stored again"
        _note(store, path, made, now, Severity.INFO, f"{message}, receipt {receipt}")
        yield StoredAgain(path, made, receipt)
