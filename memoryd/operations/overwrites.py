"""Detect agents that overwrite a file with an older state, so that changes of memoryd are undone.

In layouts where that is usual, the changes of memoryd are recorded; in the others recent additions are stored again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.core.defaults import DAY
from memoryd.core.findings import Finding, Severity
from memoryd.core.index import FileRow
from memoryd.core.plan import Action, Kind
from memoryd.core.records import Document, Role
from memoryd.core.spans import sha256
from memoryd.errors import BusyError, MemorydError
from memoryd.index.texts import identity_of
from memoryd.store import Store
from memoryd.store.recent_changes import LostWrite, RecentChange

MEMORYD_CHANGES = "ours"  # journal key: path -> _RecordedChange
MAX_IDS = 200  # per file; further ids are not watched
LOST_WRITE_CODE = "change-was-undone"
LOST_WRITES_TOPIC = "undone"
WATCHED_S = 600.0  # how long a change is watched
REWRITES = 2  # writes of other programs after which a change that is still there is not watched any more
REPORT_S = DAY  # how long a lost write is among the findings


class _RecordedChange(Struct):
    """A change by memoryd to a file since an agent last wrote it: the ids that must be gone, those that must be there,
    and the SHA-256 of the file after it."""

    removed: list[str] = field(name="out")
    added: list[str] = field(name="in")
    digest: str = field(name="sha")


def _recorded(store: Store) -> dict[str, _RecordedChange]:
    return msgspec.convert(store.journal.facts.get(MEMORYD_CHANGES, {}), dict[str, _RecordedChange])


def _save(store: Store, changes: dict[str, _RecordedChange]) -> None:
    store.journal.facts.set(MEMORYD_CHANGES, msgspec.to_builtins(changes))


def record_change(
    store: Store, receipt: str | None, *, removed: Mapping[str, Sequence[str]] | None = None, added: Sequence[str] = ()
) -> None:
    """Record a change of memoryd to a file that its agent caches, to detect at its next change whether it was undone.

    `removed`: removed ids by file. `added`: ids that must stay.
    """
    if receipt is None or not store.file_rules.agent_caches_file:
        return
    changes = _recorded(store)
    for step in store.journal.entry(receipt).steps:
        if step.after_sha is None:
            continue
        before = changes.get(step.path)
        if before is None or before.digest != step.before_sha:
            before = _RecordedChange([], [], "")
        absent = [*before.removed, *(removed or {}).get(step.path, ())]
        present = [*before.added, *added]
        changes[step.path] = _RecordedChange(
            [each for each in dict.fromkeys(absent) if each not in added][-MAX_IDS:],
            [each for each in dict.fromkeys(present) if each not in absent or each in added][-MAX_IDS:],
            step.after_sha,
        )
    _save(store, changes)


def is_memoryd_version(store: Store, row: FileRow) -> bool:
    """True if the last recorded change of memoryd left the file as it is."""
    change = _recorded(store).get(row.path)
    return change is not None and change.digest == row.digest


def is_watched(store: Store, path: str) -> bool:
    """True if a change of memoryd to this file is watched, to tell when it was undone."""
    return path in store.recent_changes.by_path or path in store.journal.facts.get(MEMORYD_CHANGES, {})


def is_newest_change(store: Store, row: FileRow) -> bool:
    """True if the newest change of memoryd left the file as it is. Undos and restores are only found this way."""
    newest = store.journal.entries(1)
    return any(step.path == row.path and step.after_sha == row.digest for each in newest for step in each.steps)


def undo_findings(store: Store, row: FileRow, document: Document, reported: Collection[str] = ()) -> Iterator[Finding]:
    """Yield a finding if the recorded change of memoryd to a file that was just indexed is undone, other than for the
    ids in `reported`."""
    if row.role != Role.SOURCE or row.pending or not store.file_rules.agent_caches_file:
        return
    known = _recorded(store)
    change = known.get(row.path)
    if change is None or change.digest == row.digest:
        return
    back, lost = set[str](), set[str]()
    if not is_newest_change(store, row):
        present = {record.id for record in document.records}
        missing = set(change.added) - present
        back = set(change.removed) & present - set(reported)
        lost = missing - _changed_ids(store, document, missing).keys() - set(reported)
    if back:
        what = "1 memory that was removed is" if len(back) == 1 else f"{len(back)} memories that were removed are"
        message = f"{what} back: the agent overwrote the file with an older state"
        yield Finding(LOST_WRITE_CODE, row.path, message, id=min(back))
    elif lost:
        what = "1 memory stored" if len(lost) == 1 else f"{len(lost)} memories stored"
        verb = "is" if len(lost) == 1 else "are"
        message = f"{what} through memoryd {verb} gone: the agent overwrote the file with an older state"
        yield Finding(LOST_WRITE_CODE, row.path, message, id=min(lost))
    del known[row.path]
    _save(store, known)


def _changed_ids(store: Store, document: Document, missing: Collection[str]) -> dict[str, str]:
    """Return the new ids of those of the missing memories that are still in a file that is about to be indexed.

    An id may depend on the bytes of its memory, which another program changes by saving the file in another format, or
    on whether another memory has the same title. Such a memory has the text that the index knows of it, under an id
    that the index does not know. Of several with the same text, those that memoryd did not store come first: if fewer
    are left, one that it stored is lost.
    """
    if not missing:
        return {}
    before = dict(store.catalogue.identities(document.path))
    present = {record.id for record in document.records}
    new_ids: defaultdict[str, list[str]] = defaultdict(list)
    for record in document.records:
        if record.id not in before:
            new_ids[identity_of(record).text].append(record.id)
    changed: dict[str, str] = {}
    for old_id, text in sorted(before.items(), key=lambda each: each[0] in missing):
        if old_id not in present and text and new_ids[text]:
            changed[old_id] = new_ids[text].pop(0)
    return {each: changed[each] for each in missing if each in changed}


def watch_change(store: Store, path: str, identity: str, recent: RecentChange) -> None:
    """Watch a change: after each later write of the file by another program, check that it is still there."""
    known = store.recent_changes.by_path.setdefault(path, {})
    before = known.get(identity)
    if recent.changes is not None and before is not None and before.changes is None:
        # A new memory that was updated is stored again as a whole.
        memory = {**before.memory, **recent.changes}
        known[identity] = replace(before, memory={key: value for key, value in memory.items() if value is not None})
        return
    known[identity] = recent


def find_lost_writes(store: Store, row: FileRow, content: bytes, document: Document, now: float) -> set[str]:
    """Find watched changes that are missing in a file another program wrote, and queue them to be stored again.

    Returns the ids of the memories that the findings about them cover: those that are gone, or back.
    """
    known = store.recent_changes.by_path.get(row.path)
    if not known:
        return set()
    changed = _changed_ids(store, document, known.keys() - {record.id for record in document.records})
    if is_newest_change(store, row):  # made after another program had saved the file in another format
        known |= {new_id: known.pop(identity) for identity, new_id in changed.items()}
        return set()
    return find_lost_changes(store, row, digests_of(document, content), changed, now)


def may_have_lost_writes(store: Store, row: FileRow) -> bool:
    """True if changes to a file are watched, and another program wrote it after the newest change of memoryd."""
    return bool(store.recent_changes.by_path.get(row.path)) and not is_newest_change(store, row)


def digests_of(document: Document, content: bytes) -> dict[str, str]:
    """Return the SHA-256 of each memory of a document, or of a part of it, by id; `content`: of the whole file."""
    return {record.id: sha256(record.span.of(content)) for record in document.records}


def find_lost_changes(
    store: Store, row: FileRow, present: Mapping[str, str], changed: Mapping[str, str], now: float
) -> set[str]:
    """Find watched changes that are missing among these memories of a file (id -> SHA-256), and queue them. `changed`:
    the new ids of memories that another program saved in another format. Returns what `find_lost_writes` does."""
    reported = set[str]()
    known = store.recent_changes.by_path[row.path]
    for identity, recent in list(known.items()):
        del known[identity]
        new_id = changed.get(identity, identity)
        if now - recent.at > WATCHED_S:
            continue
        if _is_undone(recent, present.get(new_id), present):
            # An id that depends on the content is again what it was before an update.
            lost = next((each for each, sha in present.items() if sha == recent.before), identity)
            store.recent_changes.lost.append(LostWrite(row.path, lost, recent))
            if not _is_automatic(store, recent):
                _note(store, row.path, lost, now, Severity.WARNING, _lost_message(recent), fixable=True)
                reported |= {identity, lost}
        elif recent.rewrites + 1 < REWRITES:
            known[new_id] = replace(recent, rewrites=recent.rewrites + 1)
    return reported


def _is_undone(recent: RecentChange, current_sha: str | None, present: Mapping[str, str]) -> bool:
    if recent.changes is None:
        return current_sha is None
    return recent.before in present.values() and current_sha in (None, recent.before)


def _is_automatic(store: Store, recent: RecentChange) -> bool:
    """True if it may be stored again automatically."""
    return recent.changes is None and not store.file_rules.agent_caches_file and not store.observes


def _lost_message(recent: RecentChange) -> str:
    what = "a memory that was stored" if recent.changes is None else "an update made"
    return (
        f"{what} through memoryd is gone: another program overwrote the file with an older state; "
        "to restore it: `memoryd repair --code change-was-undone`"
    )


def _note(
    store: Store, path: str, identity: str, now: float, level: Severity, message: str, *, fixable: bool = False
) -> None:
    finding = Finding(LOST_WRITE_CODE, path, message, id=identity, level=level, fixable=fixable)
    findings = store.recent_changes.findings
    findings.append((now, finding))
    findings[:] = [each for each in findings if now - each[0] < REPORT_S]
    store.root_findings[LOST_WRITES_TOPIC] = tuple(each for _, each in findings)


class RetriedWrite(NamedTuple):
    """A memory that was stored again after another program wrote an older state over it, by these actions. Without a
    receipt it was only planned, or an action says why it could not be."""

    path: str
    id: str
    receipt: str | None
    actions: tuple[Action, ...] = ()
    code: str = LOST_WRITE_CODE


Retry = Callable[[LostWrite], RetriedWrite]
"""A function that stores a change again, under an id that may be a new one."""


def retry_lost_writes(store: Store, now: float, retry: Retry, *, on_request: bool = False) -> Iterator[RetriedWrite]:
    """Store lost writes again: those that may be restored automatically, or all of them `on_request`, and then also
    yield those for which it failed."""
    waiting, store.recent_changes.lost[:] = list(store.recent_changes.lost), []
    for lost in waiting:
        if not on_request and not _is_automatic(store, lost.change):
            store.recent_changes.lost.append(lost)
            continue
        try:
            done = retry(lost)
        except MemorydError as error:
            if isinstance(error, BusyError):
                store.recent_changes.lost.append(lost)
            else:
                message = f"{_lost_message(lost.change)}; restoring it automatically failed: {error.message}"
                _note(store, lost.path, lost.id, now, Severity.WARNING, message)
            if on_request:
                yield failed_retry(lost, error)
            continue
        store.recent_changes.findings[:] = [each for each in store.recent_changes.findings if each[1].id != lost.id]
        message = "another program overwrote a memory stored through memoryd with an older state; it was stored again"
        _note(store, lost.path, done.id, now, Severity.INFO, f"{message}, receipt {done.receipt}")
        yield done


def failed_retry(lost: LostWrite, error: MemorydError) -> RetriedWrite:
    """Return why a lost write cannot be stored again."""
    why = f"cannot be stored again: {error.message}"
    return RetriedWrite(lost.path, lost.id, None, (Action(Kind.NOTE, lost.path, why, (lost.id,)),))
