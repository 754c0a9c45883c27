"""Plan the files of a new store in memory, memory by memory, with the writer of its layout.

The writer sees a store that only it has written to. Where its rules would move or merge a memory that is there already
(a topic file that is full, a session with a similar memory), the new one goes to the next location: `deploy-2`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.plan import Action, Kind
from memoryd.core.records import Document, FileStats, ParseOffset, Role
from memoryd.core.spans import Edit, Span, splice
from memoryd.errors import UsageError
from memoryd.layouts.exchange import Draft
from memoryd.layouts.protocol import LoadedFile, NewMemory, UpkeepView, WriteView, empty_plan
from memoryd.operations.secret_check import reject_secrets, reject_secrets_in_entry
from memoryd.store import Store
from memoryd.store.layout_views import writer_of


class Added(Struct, frozen=True):
    """An added memory: what may be secrets in it, and whether it was `moved`, since its own location is not valid."""

    warnings: tuple[str, ...]
    moved: bool = False


class NewStore:
    """The files of a new store. `store` has the layout and the settings; it need not be attached."""

    def __init__(self, store: Store, *, allow_words: bool) -> None:
        self._store = store
        self._layout = store.known_layout
        self._allow_words = allow_words
        self._parts: dict[str, list[bytes]] = {}  # the content of each file
        self._later: dict[str, list[tuple[Edit, ...]]] = {}  # edits of the first content that are still to be made
        self._loaded: dict[str, LoadedFile] = {}
        self._stats: dict[tuple[str, ...], dict[str, FileStats]] = {}  # by location, so that users stay apart
        self._full: dict[tuple[str, ...], int] = {}  # how many locations of a name are full
        self._keys: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        self._is_limited = False  # until what is archived is out of the live files

    def files(self) -> dict[str, bytes]:
        """Return the content of each file."""
        return {path: self._final(path) for path in self._parts}

    @property
    def has_archive(self) -> bool:
        """True if the layout has an archive."""
        return self._layout.upkeep.archive is not empty_plan

    def add(self, draft: Draft, number: int) -> Added:
        """Plan one memory. `number` is random. Raises as the writer and the check of secrets do; then nothing has
        changed."""
        try:
            return self._add(draft, draft.location, number)
        except UsageError:
            if draft.location == draft.fallback:
                raise
        return replace(self._add(draft, draft.fallback, number), moved=True)

    def _add(self, draft: Draft, base: Mapping[str, str], number: int) -> Added:
        full = tuple(base.values())
        place = self._full.get(full, 0)
        while True:
            location = _numbered(base, place)
            at = tuple(location.values())
            if draft.key and (at, draft.key) in self._keys:
                place += 1
                continue
            warnings = reject_secrets(self._store, draft.memory, location=location, allow_words=self._allow_words)
            view = self._view(draft.now, at, number)
            planned = writer_of(self._store).add(view, NewMemory(draft.memory, location))
            if len(planned.plan.actions) == 1:
                break
            self._full[full] = place = place + 1
        reject_secrets_in_entry(self._store, view, planned, allow_words=self._allow_words)
        [action] = planned.plan.actions
        self._apply(action)
        self._count(action, at)
        self._keys.add((at, draft.key))
        return Added(warnings)

    def archive(self, now: float) -> int:
        """Plan the move of all memories so far to the archive. Return how many cannot be moved: they stay live.
        Memories added afterwards get the limits of the layout."""
        live = {path: loaded for path in self._parts if (loaded := self._load(path)) is not None}
        ids = {each.id for loaded in live.values() for each in loaded.document.records}
        view = UpkeepView(live, self._content, self._store.policy, now)
        for action in self._layout.upkeep.archive(view, ids).actions:
            self._apply(action)
        self._stats.clear()
        self._full.clear()
        self._keys.clear()
        self._is_limited = True
        sources = [path for path in self._parts if self._layout.reader.role(path) is Role.SOURCE]
        documents = [loaded.document for path in sources if (loaded := self._load(path)) is not None]
        return sum(not each.archived for document in documents for each in document.records)

    # --- what the writer sees

    def _view(self, now: float, at: tuple[str, ...], number: int) -> WriteView:
        store, files = self._store, self._stats.get(at, {})
        limits = store.limits if self._is_limited else {}
        position = 1 if files else 0  # all memories of a file are stored by one call
        return WriteView(
            self._load, self._content, files, store.policy, limits, now, number, store.embed, position=position
        )

    def _content(self, path: str) -> bytes | None:
        parts = self._parts.get(path)
        if parts is None:
            return None
        if len(parts) > 1:
            parts[:] = [b"".join(parts)]
        return parts[0]

    def _load(self, path: str, ids: Collection[str] | None = None) -> LoadedFile | None:
        del ids
        content = self._content(path)
        if content is None:
            return None
        if path not in self._loaded:
            self._loaded[path] = LoadedFile(content, lambda: self._parse(path, content, 0.0))
        return self._loaded[path]

    def _parse(self, path: str, content: bytes, now: float) -> Document:
        return self._layout.reader.parse(path, content, now=now, mtime=0.0, base=ParseOffset())

    # --- applying what it plans

    def _apply(self, action: Action) -> None:
        path, parts = action.path, self._parts.get(action.path)
        if action.kind is Kind.REMOVE:
            self._set(path, None)
        elif action.kind is Kind.REWRITE and self._layout.exchange.independent:
            self._later.setdefault(path, []).append(action.edits)
        elif action.kind is Kind.REWRITE:
            after = splice(self._content(path) or b"", action.edits)
            self._set(path, [after] if after else None)
        elif parts is None:
            self._set(path, [action.data])
        else:
            parts.append(action.data)
            self._loaded.pop(path, None)

    def _count(self, action: Action, at: tuple[str, ...]) -> None:
        files = self._stats.setdefault(at, {})
        before = files.get(action.path) or FileStats(action.path, Role.SOURCE, 0, 0, 0, 0, {})
        size = before.size + len(action.data) if action.data else len(self._content(action.path) or b"")
        files[action.path] = before._replace(size=size, units=before.units + 1, records=before.records + 1)

    def _set(self, path: str, parts: list[bytes] | None) -> None:
        self._loaded.pop(path, None)
        if parts is None:
            self._parts.pop(path, None)
        else:
            self._parts[path] = parts

    def _final(self, path: str) -> bytes:
        """Return the content of a file with all of its memories: insertions at one place follow each other, of other
        edits of one place the last one counts."""
        content = self._content(path) or b""
        merged: dict[Span, bytes] = {}
        for edit in (edit for edits in self._later.get(path, ()) for edit in edits):
            is_insertion = edit.span.start == edit.span.end
            merged[edit.span] = merged.get(edit.span, b"") + edit.new if is_insertion else edit.new
        return splice(content, [Edit(span, new) for span, new in sorted(merged.items())]) if merged else content


def _numbered(location: Mapping[str, str], place: int) -> Mapping[str, str]:
    """Return the location, or the one after it: `general-2`."""
    if place == 0:
        return location
    *_, (name, value) = location.items()
    return {**location, name: f"{value}-{place + 1}"}
