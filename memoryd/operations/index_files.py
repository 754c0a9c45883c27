"""Update the index files of the layout from the catalogue.

An index file is written only if its meaning differs, and under the store's lock. If another program also writes it,
memoryd waits for two quiet seconds after each write of that program, and for a minute after its own while the other
program keeps changing it back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.defaults import MB
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
from memoryd.disk.syscalls import NO_READABLE_FILE, ChangingError, NotRegularError
from memoryd.errors import BusyError
from memoryd.layouts.protocol import IndexResult, IndexView, Layout
from memoryd.log import get_logger
from memoryd.operations.index_ownership import journal_first_write, released_findings
from memoryd.store import Store
from memoryd.store.index_state import CONTENTION_S, QUIET_S, IndexState
from memoryd.store.store import MAX_INDEX_BYTES

log = get_logger(__name__)

RETRY_S = 0.2  # until an index that could not be locked, or changed meanwhile, is written again
LARGE = 20_000  # memories; more are rendered from a snapshot, so that files can be indexed meanwhile
PART = 100  # entries between two pauses: less than a millisecond
INDEX_STATE = "index_told"  # journal key: `IndexResult.next_state`
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
    of those that another program wrote (`foreign`), and their fingerprints. `changes`: those of the `IndexState` when
    the render began."""

    result: IndexResult
    previous: Mapping[str, bytes | None]
    foreign: Mapping[str, bytes]
    fingerprints: dict[str, Fingerprint | None]
    changes: int
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
    render = _render_change(store, fingerprints, now)
    if render is None:
        previous = {path: _content(store, path) for path in fingerprints}
        unread = [path for path, found in fingerprints.items() if found is not None and previous[path] is None]
        if unread:
            return _unread(store, tuple(_too_large(unread, fingerprints)), f"{unread[0]} cannot be read", now)
        render = _render_all(store, fingerprints, previous, now)
    refusal = _note_result(store, render.result)
    if refusal or not render.result.files:
        state.note_render(render.changes, current=refusal is None)
        state.fingerprints, state.update = fingerprints, None if refusal else render.result.update
        return IndexUpdate(render.result, blocked_reason=refusal)
    delay = _delay(store, render, force=force)
    if delay is not None:
        return delay
    before_write()
    store.pause()
    return _write(store, render, wait_s)


def plan_index(store: Store, now: float) -> tuple[str, ...]:
    """Return the index files that memoryd would write in a root that it only observes, if it were allowed to."""
    assert store.observes
    store.index.dirty = True  # only a new render tells which files differ
    result = update_index(store, now).result
    return () if _owner_refusal(store, result) or released_findings(store) else tuple(result.files)


def acceptable_index_findings(store: Store, codes: Collection[str]) -> list[Finding]:
    """Return the findings of the index with these codes that a person can accept."""
    acceptances = store.layout.index.acceptances if store.layout is not None else {}
    return [each for each in store.index.result.findings if each.code in codes and each.code in acceptances]


def accept_index_findings(store: Store, codes: Collection[str]) -> None:
    """Accept what the index findings with these codes report; the next update of the index drops them."""
    acceptances = store.layout.index.acceptances if store.layout is not None else {}
    before: dict[str, Any] = store.journal.facts.get(INDEX_STATE, {})
    state = before
    for code in acceptances.keys() & set(codes):
        state = acceptances[code](state)
    if state != before:
        store.journal.facts.set(INDEX_STATE, dict(state))
        store.index.dirty = True


def _note_result(store: Store, result: IndexResult) -> str | None:
    """Publish the result of a render. Returns why its files are not written at all, or None."""
    released = released_findings(store)
    store.index.result = replace(result, files={}, update=None)  # which may be large
    store.index.current = False
    store.root_findings["index"] = (*result.findings, *released)
    return _write_refusal(store, result, released)


def _delay(store: Store, render: _Render, *, force: bool) -> IndexUpdate | None:
    """Return what a write waits for; None if it need not wait."""
    result, now = render.result, render.now
    blocked = store.blocked()
    if blocked is not None:
        return IndexUpdate(result, blocked_reason=blocked, retry_at=now + QUIET_S)
    if force:
        return None
    foreign = {path: render.fingerprints[path] for path in result.files if path in render.foreign}
    retry_at = store.index.earliest_write(foreign, now)
    if retry_at is not None and retry_at > now:
        return IndexUpdate(result, delay_reason="another program also writes the index", retry_at=retry_at)
    until = store.index.hold_until(now)
    return IndexUpdate(result, delay_reason="files are being deleted", retry_at=until) if until is not None else None


def _render_change(store: Store, fingerprints: dict[str, Fingerprint | None], now: float) -> _Render | None:
    """Render what changed since the last render; None if an index file that is to be written is not what memoryd wrote
    then, or if the layout needs a full render."""
    state = store.index
    changes, changed = state.changes, store.catalogue.take_changes()
    update, state.update = state.update, None
    unchanged = fingerprints == state.fingerprints and None not in fingerprints.values()
    if update is None or changed is None or not unchanged:
        return None
    result = update({path: _change(store, path, start) for path, start in changed.items()}, now)
    if result is None or not all(state.is_ours(path, fingerprints[path]) for path in result.files):
        return None
    return _Render(result, dict.fromkeys(fingerprints), {}, fingerprints, changes, now)


def _change(store: Store, path: str, start: int) -> FileChange:
    """Return what changed in a file; `start` as in `take_changes`."""
    row = store.catalogue.file(path)
    return FileChange(row and row.stats, store.catalogue.entries_from(path, start), appended=start > 0)


def _render_all(
    store: Store, fingerprints: dict[str, Fingerprint | None], previous: Mapping[str, bytes | None], now: float
) -> _Render:
    """Render the index of all memories, and leave out what memoryd may not write."""
    state, changes = store.index, store.index.changes
    store.root_findings[UNREAD_INDEX_TOPIC] = ()
    foreign = {
        path: content
        for path, content in previous.items()
        if content is not None and not state.is_ours(path, fingerprints[path])
    }
    result = _with_not_durable(_render(store, previous, now), state, previous)
    result = _withhold_foreign(result, store.known_layout, foreign)
    return _Render(result, previous, foreign, fingerprints, changes, now)


def _render(store: Store, previous: Mapping[str, bytes | None], now: float) -> IndexResult:
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
    _back_up_foreign(store, render)
    try:
        with store.locked(wait_s, honour_soft=False) as held, atomic.exchanging(store.tree) as exchanged:
            guard = held.check if held is not None else None
            shared = store.network_fs is not None or is_exported(store.tree.path)  # nobody knows who reads a file
            spares = None if shared else exchanged
            for path, content in result.files.items():
                written = _replace(store, path, content, fingerprints[path], guard, spares)
                state.note_write(path, written, fingerprints[path], now)
                journal_first_write(store, path, render.previous[path], content, now)
                fingerprints = state.fingerprints = {**fingerprints, path: written}
    except BusyError as error:  # also a lock lost half-way
        return IndexUpdate(result, delay_reason=error.message, retry_at=now + RETRY_S)
    except (StoreChangedError, ChangingError):
        return IndexUpdate(result, delay_reason="the index changed while it was written", retry_at=now + RETRY_S)
    except OSError:
        state.not_durable, state.dirty = frozenset(result.files), True
        raise
    state.not_durable, state.update = frozenset(), result.update
    state.note_render(render.changes, current=True)
    if result.replaced_version is not None:
        why = f"its version was {result.replaced_version or 'unreadable'}; `memoryd backup list` shows the replaced one"
        log.info("index rebuilt", root=store.name, why=why)
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
