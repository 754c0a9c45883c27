"""Bring the layout's own index files up to date with the catalogue.

An index is written only when its meaning differs, under the store's lock, and never against another program
that also writes it: after a foreign write two seconds of quiet are waited for, and while it keeps being
changed back it is written at most once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryd.core.findings import Finding, Severity
from memoryd.core.plan import Action, Fingerprint, Kind, Plan
from memoryd.core.records import Entry, Role
from memoryd.core.retention import Quality
from memoryd.core.spans import Edit, Span, sha256
from memoryd.disk import atomic
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.journal import Entry as JournalEntry
from memoryd.disk.journal import Step
from memoryd.disk.nofollow import ChangingError, TooLargeError
from memoryd.disk.snapshots import FileState
from memoryd.errors import BusyError
from memoryd.layouts.protocol import IndexResult, IndexView, Layout
from memoryd.store import Store
from memoryd.store.undo_content import load_undo_content, save_undo_content

QUIET_S = 2.0
FIGHT_S = 60.0
RETRY_S = 0.2
PIECE = 1000  # entries between two looks whether the end has come
REMEMBERED = "index_told"


@dataclass(frozen=True, slots=True)
class Indexed:
    """`waits` says why an index that ought to be written is not; `retry_at` (seconds) when to try again;
    `unwritten` why memoryd never will as things are (observe mode, newer version)."""

    result: IndexResult
    written: tuple[str, ...] = ()
    waits: str | None = None
    retry_at: float | None = None
    unwritten: str | None = None


def update_index(
    store: Store,
    now: float,
    *,
    force: bool = False,
    wait_s: float = 1.0,
    before_write: Callable[[], None] = lambda: None,
) -> Indexed:
    """Render what changed and write what differs. `force` (an explicit sync) does not wait for quiet.
    `before_write` may raise; then it is known what the index ought to say, and nothing is written."""
    assert store.layout is not None
    state = store.index
    fingerprints = {path: _stat(store, path) for path in store.layout.index.paths}
    if not state.dirty and fingerprints == state.fingerprints:
        left = left_alone(store)
        return Indexed(state.result, unwritten=_forbidden(store, state.result) or (left[0].message if left else None))
    if any(found is None and state.fingerprints.get(path) is not None for path, found in fingerprints.items()):
        state.note_deletion(now)  # of the index itself, which may be the first file of many
        state.dirty, state.fingerprints = True, fingerprints
    previous = {path: _content(store, path) for path in store.layout.index.paths}
    unread = [path for path, found in fingerprints.items() if found is not None and previous[path] is None]
    if unread:
        state.dirty = True
        return Indexed(state.result, unwritten=f"{unread[0]} cannot be read", retry_at=now + FIGHT_S)
    view = _view(store, previous, now)
    result = _without_new(store.layout.index.render(view), view)
    state.result = result = _unless_foreign(result, store.layout, previous)
    if result.next_state != view.state:
        # Before the index is written that no longer tells it.
        store.journal.facts.set(REMEMBERED, dict(result.next_state))
    left = left_alone(store)
    store.root_findings["index"] = (*result.findings, *left)
    forbidden = _forbidden(store, result) or (left[0].message if left else None)
    if forbidden or not result.files:
        state.dirty, state.fingerprints = False, fingerprints
        return Indexed(result, unwritten=forbidden)
    blocked = store.blocked()
    if blocked is not None:
        return Indexed(result, unwritten=blocked, retry_at=now + QUIET_S)
    retry_at = None if force else _contended(store, result, previous, fingerprints, now)
    if retry_at is not None and retry_at > now:
        return Indexed(result, waits="another program also writes the index", retry_at=retry_at)
    until = None if force else state.hold_until(now)
    if until is not None:
        return Indexed(result, waits="files are being deleted", retry_at=until)
    before_write()
    _keep_foreign(store, result, previous, fingerprints, now)
    return _write(store, result, previous, fingerprints, now, wait_s)


def _without_new(result: IndexResult, view: IndexView) -> IndexResult:
    """Update, but do not create, an index where no source file is left: the directory may be going."""
    if any(each.role is Role.SOURCE for each in view.files.values()):
        return result
    there = {path: content for path, content in result.files.items() if view.previous.get(path) is not None}
    return replace(result, files=there)


def _unless_foreign(result: IndexResult, layout: Layout, previous: Mapping[str, bytes | None]) -> IndexResult:
    """Withhold the index if one of its files belongs to another program."""
    for path, content in previous.items():
        if content and not layout.index.is_ours(path, content):
            why = f"{path} belongs to another program and is not changed; move it away to get an index here"
            findings = (*result.findings, Finding("index-unmanaged", path, why))
            return replace(result, files={}, findings=findings, unmanaged=why)
    return result


def _forbidden(store: Store, result: IndexResult) -> str | None:
    if result.newer is not None and store.policy.newer_index == "read-only":
        return f"the index is of version {result.newer}, newer than this memoryd knows"
    if result.unmanaged is not None:
        return result.unmanaged
    if store.foreign is not None:
        return store.foreign
    if store.guessed_by is not None:
        return "its layout is not confirmed"
    return "the root is in observe mode" if store.observes else None


def _view(store: Store, previous: dict[str, bytes | None], now: float) -> IndexView:
    assert store.layout is not None
    files = store.files()
    live = store.layout.reader.source_paths([path for path, each in files.items() if each.role is Role.SOURCE])
    remembered = store.journal.facts.get(REMEMBERED, {})
    return IndexView(_entries(store, live), files, previous, now, store.policy.newer_index, remembered)


def _entries(store: Store, paths: Sequence[str]) -> Iterator[Entry]:
    """List the entries of the index. In a large store this takes seconds, so it ends with the daemon."""
    for number, entry in enumerate(store.catalogue.entries(paths)):
        if number % PIECE == 0:
            store.check_stopping()
        yield entry


def _stat(store: Store, path: str) -> Fingerprint | None:
    return store.tree.stat(path)


def _content(store: Store, path: str) -> bytes | None:
    try:
        return store.tree.read(path)[0]
    except (FileNotFoundError, ChangingError, TooLargeError):
        return None


def _contended(
    store: Store,
    result: IndexResult,
    previous: dict[str, bytes | None],
    fingerprints: dict[str, Fingerprint | None],
    now: float,
) -> float | None:
    """Return when the index may be written although another program has written it since our last write."""
    state = store.index
    earliest: float | None = None
    for path in result.files:
        ours, there = state.written_sha.get(path), previous[path]
        if ours is None or there is None or sha256(there) == ours:
            continue
        quiet = _foreign_since(store, path, fingerprints[path], now) + QUIET_S
        again = state.overwrites.get(path, 0) > 0
        state.written_at[path] = min(state.written_at[path], now)  # the clock may have been set back
        allowed = max(quiet, state.written_at[path] + FIGHT_S) if again else quiet
        earliest = max(earliest or 0.0, allowed)
    return earliest


def _foreign_since(store: Store, path: str, found: Fingerprint | None, now: float) -> float:
    """Return when another program wrote the index: by its time stamp, but no later than it was first seen, since after
    the clock was set back stamps lie in the future."""
    if found is None:
        return now
    known, first = store.index.foreign_versions.get(path, (None, now))
    first = min(first, now) if found.same_content(known) else now
    store.index.foreign_versions[path] = (found, first)
    return min(found.mtime_ns / 1e9, first)


def _keep_foreign(
    store: Store,
    result: IndexResult,
    previous: dict[str, bytes | None],
    fingerprints: dict[str, Fingerprint | None],
    now: float,
) -> None:
    """An index that somebody else wrote may hold what no source file tells: hand-written words around a list, ids
    of lost memories. It is kept as a version before it is replaced."""
    for path in result.files:
        content, found = previous[path], fingerprints[path]
        if content is None or found is None or sha256(content) == store.index.written_sha.get(path):
            continue
        state = FileState(path, sha256(content), found.mode, Quality(1, 1), content)
        store.vault.add_version(state, now, keep=store.policy.backups)


def _write(
    store: Store,
    result: IndexResult,
    previous: Mapping[str, bytes | None],
    fingerprints: dict[str, Fingerprint | None],
    now: float,
    wait_s: float,
) -> Indexed:
    state = store.index
    try:
        with store.locked(wait_s, honour_soft=False) as held:
            for path, content in result.files.items():
                guard = held.check if held is not None else None
                mode = store.mode_for(path) if fingerprints[path] is None else None
                done = atomic.replace(store.tree, path, content, expected=fingerprints[path], guard=guard, mode=mode)
                _remember(store, path, content, fingerprints[path], now)
                journal_first_write(store, path, previous[path], content, now)
                fingerprints = state.fingerprints = {**fingerprints, path: done.fingerprint}
    except BusyError as error:  # also a lock lost half-way
        return Indexed(result, waits=error.message, retry_at=now + RETRY_S)
    except (StoreChangedError, ChangingError):
        return Indexed(result, waits="the index changed while it was written", retry_at=now + RETRY_S)
    state.dirty = False
    return Indexed(result, written=tuple(result.files))


def _remember(store: Store, path: str, content: bytes, before: Fingerprint | None, now: float) -> None:
    """Count how often in a row another program changed what we had written."""
    state = store.index
    last = state.fingerprints.get(path)
    foreign = path in state.written_sha and before is not None and not before.same_content(last)
    recent = now - state.written_at.get(path, 0.0) < 2 * FIGHT_S
    state.overwrites[path] = state.overwrites.get(path, 0) + 1 if foreign and recent else 0
    state.written_sha[path] = sha256(content)
    state.written_at[path] = now


OPERATION = "index"
_TAKEN = "index_taken"  # meta: paths that memoryd has written
_LEFT = "index_left"  # meta: paths that somebody took back


def journal_first_write(store: Store, path: str, before: bytes | None, after: bytes, now: float) -> None:
    """An index was written; the first time over somebody else's it can be taken back."""
    taken: list[str] = store.journal.facts.get(_TAKEN, [])
    if path in taken:
        return
    if before:
        kept = save_undo_content(store.blobs, before)
        step = Step(
            "rewrite",
            path,
            before_sha=sha256(before),
            before_size=len(before),
            after_sha=sha256(after),
            after_size=len(after),
            base_size=len(before),
            blob=kept.blob,
            content=kept.content,
        )
        told = f"first write over {path}, which another program wrote; `undo` puts it back and leaves it alone"
        store.journal.finish(store.journal.begin(OPERATION, "watch", told, [step], now), "done")
    store.journal.facts.set(_TAKEN, [*taken, path])


def put_back(store: Store, entry: JournalEntry) -> Plan:
    """The index as it was, whatever was written over it since."""
    return Plan(tuple(_actions(store, entry)))


def _actions(store: Store, entry: JournalEntry) -> Iterator[Action]:
    for step in entry.steps:
        before, why = load_undo_content(store.blobs, step), f"undo of {entry.operation} {entry.receipt}"
        if store.tree.stat(step.path) is None:
            yield Action(Kind.CREATE, step.path, why, data=before)
            continue
        there = store.tree.read(step.path)[0]
        yield Action(Kind.REWRITE, step.path, why, edits=(Edit(Span(0, len(there)), before),), base=sha256(there))


def leave(store: Store, entry: JournalEntry) -> None:
    """Leave the index to its other writer from now on."""
    left: list[str] = store.journal.facts.get(_LEFT, [])
    store.journal.facts.set(_LEFT, [*left, *(step.path for step in entry.steps if step.path not in left)])
    store.index.dirty = True


def reclaim(store: Store) -> None:
    """Write the index again, because `reindex` was called."""
    if store.journal.facts.get(_LEFT, []):
        store.journal.facts.set(_LEFT, [])
        store.journal.facts.set(_TAKEN, [])
        store.index.dirty = True


def left_alone(store: Store) -> tuple[Finding, ...]:
    """A finding for each index that was taken back."""
    told = f"was put back by an undo and is left alone; `memoryd reindex {store.name}` keeps it current again"
    return tuple(
        Finding("index-unmanaged", path, told, level=Severity.INFO) for path in store.journal.facts.get(_LEFT, [])
    )
