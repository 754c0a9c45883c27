"""Update the index files of the layout from the catalogue.

An index file is written only if its meaning differs, and under the store's lock. If another program also writes it,
memoryd waits for two quiet seconds after each write of that program, and for a minute after its own while the other
program keeps changing it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.findings import Finding
from memoryd.core.index import IndexReader
from memoryd.core.records import Entry, FileChange, FileStats, Role
from memoryd.core.retention import Quality
from memoryd.core.spans import Content, Fingerprint, sha256
from memoryd.disk import atomic
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.processes import is_exported
from memoryd.disk.snapshots import FileState
from memoryd.disk.spare_file import SpareFile
from memoryd.disk.syscalls import MB, NO_READABLE_FILE, ChangingError, NotRegularError
from memoryd.errors import BusyError
from memoryd.layouts.protocol import IndexResult, IndexView, Layout
from memoryd.operations.index_ownership import journal_first_write, released_findings
from memoryd.store import Store
from memoryd.store.index_state import IndexState
from memoryd.store.store import MAX_INDEX_BYTES

QUIET_S = 2.0
CONTENTION_S = 60.0
RETRY_S = 0.2
LARGE = 20_000  # memories; more are rendered from a snapshot, so that files can be indexed meanwhile
PART = 100  # entries between two pauses: less than a millisecond
INDEX_STATE = "index_told"
UNREAD_INDEX_TOPIC = "unread-index"


class IndexUpdate(Struct, frozen=True):
    """The result of an update. `delay_reason`: why the index is not written yet; `retry_at` (epoch seconds): when to
    try again; `blocked_reason`: why memoryd does not write it at all (observe mode, newer version)."""

    result: IndexResult
    written: tuple[str, ...] = ()
    delay_reason: str | None = None
    retry_at: float | None = None
    blocked_reason: str | None = None


class _Render(NamedTuple):
    """A render of the index, and the index files before it is written: their content if it was read (`previous`), that
    of those that another program wrote (`foreign`), and their fingerprints."""

    result: IndexResult
    previous: Mapping[str, bytes | None]
    foreign: Mapping[str, bytes]
    fingerprints: dict[str, Fingerprint | None]
    now: float


def update_index(
    store: Store,
    now: float,
    *,
    force: bool = False,
    wait_s: float = 1.0,
    before_write: Callable[[], None] = lambda: None,
) -> IndexUpdate:
    """Render the index if anything changed and write the files that differ.

    `force` (an explicit sync) does not wait for other programs. `before_write` may raise; then nothing is written, but
    the expected content is known.
    """
    state = store.index
    fingerprints, in_the_way = _fingerprints(store)
    if in_the_way:
        return _unread(store, in_the_way, in_the_way[0].message, now)
    if not state.dirty and fingerprints == state.fingerprints:
        return IndexUpdate(state.result, blocked_reason=_write_refusal(store, state.result, released_findings(store)))
    if any(found is None and state.fingerprints.get(path) is not None for path, found in fingerprints.items()):
        state.note_deletion(now)  # of the index, perhaps as the first of many files
        state.dirty, state.fingerprints = True, fingerprints
    store.pause()
    rendered = state.changes
    previous: dict[str, bytes | None] = dict.fromkeys(fingerprints)
    foreign: dict[str, bytes] = {}
    result = _render_change(store, fingerprints, now)
    if result is None:
        previous = {path: _content(store, path) for path in fingerprints}
        unread = [path for path, found in fingerprints.items() if found is not None and previous[path] is None]
        if unread:
            return _unread(store, tuple(_too_large(unread, fingerprints)), f"{unread[0]} cannot be read", now)
        store.root_findings[UNREAD_INDEX_TOPIC] = ()
        foreign = _foreign(state, previous, fingerprints)
        result = _with_not_durable(_render(store, previous, now), state, previous)
        result = _withhold_foreign(result, store.known_layout, foreign)
    state.result = replace(result, files={}, update=None)  # which may be large
    released = released_findings(store)
    store.root_findings["index"] = (*result.findings, *released)
    refusal = _write_refusal(store, result, released)
    state.current = False
    update = None if refusal else result.update
    if refusal or not result.files:
        state.note_render(rendered, current=refusal is None)
        state.fingerprints, state.update = fingerprints, update
        return IndexUpdate(result, blocked_reason=refusal)
    blocked = store.blocked()
    if blocked is not None:
        return IndexUpdate(result, blocked_reason=blocked, retry_at=now + QUIET_S)
    render = _Render(result, previous, foreign, fingerprints, now)
    delay = None if force else _delay(store, render)
    if delay is not None:
        return delay
    before_write()
    store.pause()
    _back_up_foreign(store, render)
    done = _write(store, render, wait_s)
    if done.written:
        state.note_render(rendered, current=True)
        state.update = update
    return done


def plan_index(store: Store, now: float) -> tuple[str, ...]:
    """Return the index files that memoryd would write in a root that it only observes, if it were allowed to."""
    assert store.observes
    store.index.dirty = True  # only a new render tells which files differ
    result = update_index(store, now).result
    return () if _owner_refusal(store, result) or released_findings(store) else tuple(result.files)


def _delay(store: Store, render: _Render) -> IndexUpdate | None:
    """Return what a write waits for; None if it need not wait."""
    result, now = render.result, render.now
    retry_at = _earliest_write(store, render)
    if retry_at is not None and retry_at > now:
        return IndexUpdate(result, delay_reason="another program also writes the index", retry_at=retry_at)
    until = store.index.hold_until(now)
    return IndexUpdate(result, delay_reason="files are being deleted", retry_at=until) if until is not None else None


def _render_change(store: Store, fingerprints: Mapping[str, Fingerprint | None], now: float) -> IndexResult | None:
    """Render what changed since the last render; None if an index file that is to be written is not what memoryd wrote
    then, or if the layout needs a full render."""
    state, changed = store.index, store.catalogue.take_changes()
    update, state.update = state.update, None
    unchanged = fingerprints == state.fingerprints and None not in fingerprints.values()
    if update is None or changed is None or not unchanged:
        return None
    result = update({path: _change(store, path, start) for path, start in changed.items()}, now)
    return result if result and all(_is_ours(state, path, fingerprints[path]) for path in result.files) else None


def _change(store: Store, path: str, start: int) -> FileChange:
    """Return what changed in a file; `start` as in `take_changes`."""
    row = store.catalogue.file(path)
    return FileChange(row and row.stats, store.catalogue.entries_from(path, start), appended=start > 0)


def _render(store: Store, previous: Mapping[str, bytes | None], now: float) -> IndexResult:
    """Render the index of all memories."""
    large = store.catalogue.size > LARGE
    with store.catalogue.reader() if large else nullcontext(store.catalogue) as catalogue:
        view = _view(store, catalogue, previous, now)
        with store.progress.measure("indexing", "memories", sum(each.records for each in view.files.values())):
            result = _only_existing(store.known_layout.index.render(view), view)
    if result.next_state != view.state:
        # Saved before the index is written, which no longer contains it.
        store.journal.facts.set(INDEX_STATE, dict(result.next_state))
    return result


def _only_existing(result: IndexResult, view: IndexView) -> IndexResult:
    """Update but do not create index files if no source file is left: the directory may be about to be removed."""
    if any(each.role is Role.SOURCE for each in view.files.values()):
        return result
    existing = {path: content for path, content in result.files.items() if view.previous.get(path) is not None}
    return replace(result, files=existing)


def _with_not_durable(result: IndexResult, state: IndexState, previous: Mapping[str, bytes | None]) -> IndexResult:
    """Add the index files to be written once more although they are current: perhaps they are not on the disk."""
    again = {path: content for path, content in previous.items() if path in state.not_durable and content}
    return replace(result, files={**again, **result.files}) if again else result


def _foreign(
    state: IndexState, previous: Mapping[str, bytes | None], fingerprints: Mapping[str, Fingerprint | None]
) -> dict[str, bytes]:
    """Return the index files that are not what memoryd wrote last, since it was started."""
    return {
        path: content
        for path, content in previous.items()
        if content is not None and not _is_ours(state, path, fingerprints[path])
    }


def _is_ours(state: IndexState, path: str, found: Fingerprint | None) -> bool:
    """True if an index file is what memoryd wrote last."""
    return path in state.written and state.written[path].same_content(found)


def _withhold_foreign(result: IndexResult, layout: Layout, foreign: Mapping[str, bytes]) -> IndexResult:
    """Drop all index files from the result if one of them belongs to another program."""
    for path, content in foreign.items():
        if content and not layout.index.is_managed(path, content):
            why = f"{path} belongs to another program and is not changed; move it away to get an index here"
            findings = (*result.findings, Finding("index-unmanaged", path, why))
            return replace(result, files={}, findings=findings, unmanaged=why)
    return result


def _write_refusal(store: Store, result: IndexResult, released: Sequence[Finding]) -> str | None:
    owned = _owner_refusal(store, result)
    return owned or store.observe_reason or (released[0].message if released else None)


def _owner_refusal(store: Store, result: IndexResult) -> str | None:
    """Return why the index is left to the program that wrote it; None if it is memoryd's to write."""
    if result.newer is not None and store.policy.newer_index == "read-only":
        return f"the index is of version {result.newer}, newer than this memoryd knows"
    return result.unmanaged


def _view(store: Store, catalogue: IndexReader, previous: Mapping[str, bytes | None], now: float) -> IndexView:
    files = {each.path: each for each in _in_parts(store, catalogue, catalogue.summaries())}
    remembered = store.journal.facts.get(INDEX_STATE, {})
    pause = _pause(store, catalogue)
    pause()
    entries = _Entries(store, catalogue, files)
    return IndexView(entries, files, previous, now, store.policy.newer_index, remembered, pause)


def _pause(store: Store, catalogue: IndexReader) -> Callable[[], None]:
    """Return what to call between the parts of a render: urgent work goes first where the catalogue is a snapshot."""
    return store.check_stopping if catalogue is store.catalogue else store.pause


class _Entries:
    """The entries of the live files, read from the catalogue by each pass."""

    def __init__(self, store: Store, catalogue: IndexReader, files: Mapping[str, FileStats]) -> None:
        self._store, self._catalogue = store, catalogue
        sources = [path for path, each in files.items() if each.role is Role.SOURCE]
        self._paths = store.known_layout.reader.source_paths(sources)

    def __iter__(self) -> Iterator[Entry]:
        return _in_parts(self._store, self._catalogue, self._catalogue.entries(self._paths))


T = TypeVar("T")


def _in_parts(store: Store, catalogue: IndexReader, rows: Iterable[T]) -> Iterator[T]:
    """Yield the rows of the catalogue, or of a snapshot, between whose parts urgent work goes first: a large store
    takes seconds. Raises ShuttingDownError during a shutdown."""
    pause = _pause(store, catalogue)
    for number, row in enumerate(rows):
        if number % PART == 0:
            pause()
            store.progress.reach(number)
        yield row


def _content(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)[0]
    except (*NO_READABLE_FILE, ChangingError):
        return None


def _fingerprints(store: Store) -> tuple[dict[str, Fingerprint | None], tuple[Finding, ...]]:
    """Return the fingerprint of each index file, and a finding for each path with something else in its place."""
    fingerprints: dict[str, Fingerprint | None] = {}
    in_the_way: list[Finding] = []
    for path in store.known_layout.index.paths:
        try:
            fingerprints[path] = store.tree.stat(path)
        except NotRegularError:
            why = "a link, directory or special file in place of an index file"
            in_the_way.append(Finding("not-a-regular-file", path, f"{path}: {why}; none is written until it is gone"))
    return fingerprints, tuple(in_the_way)


def _unread(store: Store, findings: tuple[Finding, ...], reason: str, now: float) -> IndexUpdate:
    """Note why an index file cannot be read: none is written over it, and the next try comes later."""
    store.root_findings[UNREAD_INDEX_TOPIC] = findings
    store.index.dirty = True
    return IndexUpdate(store.index.result, blocked_reason=reason, retry_at=now + CONTENTION_S)


def _too_large(unread: Iterable[str], fingerprints: Mapping[str, Fingerprint | None]) -> Iterator[Finding]:
    """Yield a finding for each unread index file that is too large; any other is being replaced and soon read."""
    for path in unread:
        found = fingerprints[path]
        if found is not None and found.size > MAX_INDEX_BYTES:
            why = f"{path} has {found.size} bytes, and more than {MAX_INDEX_BYTES // MB} MB are not read"
            yield Finding("too-large", path, f"{why}; no index file is written until it is moved away")


def _earliest_write(store: Store, render: _Render) -> float | None:
    """Return when the index may be written although another program has written it since our last write."""
    state, now = store.index, render.now
    earliest: float | None = None
    for path in render.result.files:
        if path not in render.foreign or path not in state.written:
            continue
        quiet = _foreign_since(store, path, render.fingerprints[path], now) + QUIET_S
        contended = state.overwrites.get(path, 0) > 0
        state.written_at[path] = min(state.written_at[path], now)  # the clock may have been set back
        allowed = max(quiet, state.written_at[path] + CONTENTION_S) if contended else quiet
        earliest = max(earliest or 0.0, allowed)
    return earliest


def _foreign_since(store: Store, path: str, fingerprint: Fingerprint | None, now: float) -> float:
    """Return when another program wrote the index: its mtime, but no later than the time it was first observed, since
    an mtime is in the future after the clock was set back."""
    if fingerprint is None:
        return now
    previous, first_observed = store.index.foreign_versions.get(path, (None, now))
    first_observed = min(first_observed, now) if fingerprint.same_content(previous) else now
    store.index.foreign_versions[path] = (fingerprint, first_observed)
    return min(fingerprint.mtime_ns / 1e9, first_observed)


def _back_up_foreign(store: Store, render: _Render) -> None:
    """Back up index files that another program wrote, before they are replaced: they may contain text that is in no
    source file, like notes around the list, or ids of lost memories."""
    for path in render.result.files:
        content, found = render.foreign.get(path), render.fingerprints[path]
        if content is None or found is None:
            continue
        state = FileState(path, sha256(content), found.mode, Quality(1, 1), content)
        store.vault.add_version(state, render.now, keep=store.policy.backups)


def _write(store: Store, render: _Render, wait_s: float) -> IndexUpdate:
    result, fingerprints, now, state = render.result, render.fingerprints, render.now, store.index
    try:
        with store.locked(wait_s, honour_soft=False) as held, atomic.exchanging(store.tree) as exchanged:
            guard = held.check if held is not None else None
            shared = store.network_fs is not None or is_exported(store.tree.path)  # nobody knows who reads a file
            spares = None if shared else exchanged
            for path, content in result.files.items():
                written = _replace(store, path, content, fingerprints[path], guard, spares)
                _note_write(store, path, written, fingerprints[path], now)
                journal_first_write(store, path, render.previous[path], content, now)
                fingerprints = state.fingerprints = {**fingerprints, path: written}
    except BusyError as error:  # also a lock lost half-way
        return IndexUpdate(result, delay_reason=error.message, retry_at=now + RETRY_S)
    except (StoreChangedError, ChangingError):
        return IndexUpdate(result, delay_reason="the index changed while it was written", retry_at=now + RETRY_S)
    except OSError:
        state.not_durable, state.dirty = frozenset(result.files), True
        raise
    state.not_durable = frozenset()
    return IndexUpdate(result, written=tuple(result.files))


def _replace(
    store: Store,
    path: str,
    content: Content,
    expected: Fingerprint | None,
    guard: atomic.Guard | None,
    exchanged: dict[str, SpareFile] | None,
) -> Fingerprint:
    """Write an index file and return its fingerprint. `exchanged` as in `atomic.replace_derived`; None where there can
    be no spare file."""
    tree, pause = store.tree, store.pause
    if expected is None or exchanged is None:
        mode = store.mode_for(path) if expected is None else None
        return atomic.replace(tree, path, content, expected=expected, guard=guard, mode=mode, pause=pause).fingerprint
    spare = store.spare_file(path)
    return atomic.replace_derived(
        tree, path, content, expected=expected, spare=spare, exchanged=exchanged, guard=guard, pause=pause
    )


def _note_write(store: Store, path: str, written: Fingerprint, before: Fingerprint | None, now: float) -> None:
    """Record a write, and count how often in a row another program overwrote the index."""
    state = store.index
    last = state.fingerprints.get(path)
    foreign = path in state.written and before is not None and not before.same_content(last)
    recent = now - state.written_at.get(path, 0.0) < 2 * CONTENTION_S
    state.overwrites[path] = state.overwrites.get(path, 0) + 1 if foreign and recent else 0
    state.written[path] = written
    state.written_at[path] = now
