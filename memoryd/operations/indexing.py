"""Bring the layout's own index files up to date with the catalogue.

An index is written only when its meaning differs, under the store's lock, and never against another program
that also writes it: after a foreign write two seconds of quiet are waited for, and while it keeps being
changed back it is written at most once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from memoryd.core.digest import sha256
from memoryd.core.findings import Finding
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.disk import atomic
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.tree import ChangingError, TooLargeError
from memoryd.disk.vault import FileState
from memoryd.errors import BusyError
from memoryd.layouts.base import IndexResult, IndexView, Layout
from memoryd.store import Store

QUIET_S = 2.0
FIGHT_S = 60.0
RETRY_S = 0.2
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
    seen = {path: _stat(store, path) for path in store.layout.index_paths}
    if not state.dirty and seen == state.seen:
        return Indexed(state.result, unwritten=_forbidden(store, state.result))
    previous = {path: _content(store, path) for path in store.layout.index_paths}
    unread = [path for path, found in seen.items() if found is not None and previous[path] is None]
    if unread:
        state.dirty = True
        return Indexed(state.result, unwritten=f"{unread[0]} cannot be read", retry_at=now + FIGHT_S)
    view = _view(store, previous, now)
    state.result = result = _unless_foreign(store.layout.index(view), store.layout, previous)
    if result.remember != view.remembered:
        # Before the index is written that no longer tells it.
        store.journal.set_meta(REMEMBERED, dict(result.remember))
    store.noted["index"] = result.findings
    forbidden = _forbidden(store, result)
    if forbidden or not result.files:
        state.dirty, state.seen = False, seen
        return Indexed(result, unwritten=forbidden)
    blocked = store.blocked()
    if blocked is not None:
        return Indexed(result, unwritten=blocked, retry_at=now + QUIET_S)
    retry_at = None if force else _contended(store, result, previous, seen, now)
    if retry_at is not None and retry_at > now:
        return Indexed(result, waits="another program also writes the index", retry_at=retry_at)
    before_write()
    _keep_foreign(store, result, previous, seen, now)
    return _write(store, result, seen, now, wait_s)


def _unless_foreign(result: IndexResult, layout: Layout, previous: Mapping[str, bytes | None]) -> IndexResult:
    """Nothing derived is written beside an index file that is another program's."""
    for path, content in previous.items():
        if content and not layout.keeps_index(path, content):
            why = (
                f"{path} is another program's and is left as it is, so no index is kept here; move it away to have one"
            )
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
    live = store.layout.live_paths([path for path, each in files.items() if each.role is Role.SOURCE])
    remembered = store.journal.get_meta(REMEMBERED, {})
    return IndexView(store.catalogue.entries(live), files, previous, now, store.policy.newer_index, remembered)


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
    seen: dict[str, Fingerprint | None],
    now: float,
) -> float | None:
    """When the index may be written although another program has written it since our last write."""
    state = store.index
    earliest: float | None = None
    for path in result.files:
        ours, there = state.written.get(path), previous[path]
        if ours is None or there is None or sha256(there) == ours:
            continue
        quiet = _foreign_since(store, path, seen[path], now) + QUIET_S
        again = state.overturned.get(path, 0) > 0
        state.written_at[path] = min(state.written_at[path], now)  # the clock may have been set back
        allowed = max(quiet, state.written_at[path] + FIGHT_S) if again else quiet
        earliest = max(earliest or 0.0, allowed)
    return earliest


def _foreign_since(store: Store, path: str, found: Fingerprint | None, now: float) -> float:
    """When another program wrote the index: by its stamp, but no later than it was first seen, since after
    the clock was set back stamps lie in the future."""
    if found is None:
        return now
    known, first = store.index.noticed.get(path, (None, now))
    first = min(first, now) if found.same_content(known) else now
    store.index.noticed[path] = (found, first)
    return min(found.mtime_ns / 1e9, first)


def _keep_foreign(
    store: Store,
    result: IndexResult,
    previous: dict[str, bytes | None],
    seen: dict[str, Fingerprint | None],
    now: float,
) -> None:
    """An index that somebody else wrote may hold what no source file tells: hand-written words around a list, ids
    of lost memories. It is kept as a version before it is replaced."""
    for path in result.files:
        content, found = previous[path], seen[path]
        if content is None or found is None or sha256(content) == store.index.written.get(path):
            continue
        state = FileState(path, sha256(content), found.mode, Quality(1, 1), content)
        store.vault.add_version(state, now, keep=store.policy.backups)


def _write(
    store: Store, result: IndexResult, seen: dict[str, Fingerprint | None], now: float, wait_s: float
) -> Indexed:
    state = store.index
    try:
        with store.locked(wait_s, honour_soft=False) as held:
            for path, content in result.files.items():
                guard = held.check if held is not None else None
                done = atomic.replace(store.tree, path, content, expected=seen[path], guard=guard)
                _remember(store, path, content, seen[path], now)
                seen = state.seen = {**seen, path: done.fingerprint}
    except BusyError as error:  # also a lock lost half-way
        return Indexed(result, waits=error.message, retry_at=now + RETRY_S)
    except (StoreChangedError, ChangingError):
        return Indexed(result, waits="the index changed while it was written", retry_at=now + RETRY_S)
    state.dirty = False
    return Indexed(result, written=tuple(result.files))


def _remember(store: Store, path: str, content: bytes, before: Fingerprint | None, now: float) -> None:
    """Count how often in a row another program changed what we had written."""
    state = store.index
    last = state.seen.get(path)
    foreign = path in state.written and before is not None and not before.same_content(last)
    recent = now - state.written_at.get(path, 0.0) < 2 * FIGHT_S
    state.overturned[path] = state.overturned.get(path, 0) + 1 if foreign and recent else 0
    state.written[path] = sha256(content)
    state.written_at[path] = now
