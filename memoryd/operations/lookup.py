"""Find a memory by its id and read it as its agent wrote it. Thread-safe; does not go through the worker.

If the file has not changed since it was indexed, only the bytes of the memory are read; otherwise the file is parsed
again. In a file of lines, the line itself shows whether it is still that memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from memoryd.control.methods.memories import GetResult
from memoryd.core.index import IndexReader
from memoryd.core.places import Place
from memoryd.core.records import ParseOffset, Record, Role
from memoryd.core.secrets import redact
from memoryd.core.spans import Span, sha256
from memoryd.disk.syscalls import NO_FILE, NO_READABLE_FILE, ChangingError
from memoryd.disk.tree import Tree
from memoryd.errors import BusyError, ConflictError, NotFoundError, RootMissingError, UsageError
from memoryd.index.texts import content_digest, text_of
from memoryd.layouts.protocol import Layout, Located
from memoryd.store import Store

MAX_CANDIDATES = 100  # named in an error, which must fit into a line of the protocol
PART = 100_000  # characters; with the longest escapes half a line of the protocol


class LoadedMemory(NamedTuple):
    """A memory read from its file. `native` is the object as written, or `{"text": ...}` for a memory that is plain
    text; `raw` are its bytes; `entries` are the ids of the entries if it is a whole topic file. `record_id` is the id
    in the file, "" if a read of it cannot be counted, because other memories have that id."""

    id: str
    path: str
    line: int
    archived: bool
    layout: str
    native: Mapping[str, Any]
    raw: bytes
    entries: tuple[str, ...] = ()
    record_id: str = ""

    def whole(self, root: str) -> GetResult:
        """Return the whole memory as the result of `memory.get`."""
        result = self._location(root)
        result.memory = dict(self.native)
        if self.native.keys() == {"text"}:
            result.text = self.native["text"]
        return result

    def part(self, root: str, offset: int) -> GetResult:
        """Return part of the text from character `offset` on, as the result of `memory.get`.

        `next_offset` is set if more follows. Parts with the same `sha256` belong together.
        """
        text = self.raw.decode("utf-8", "replace")
        end = offset + PART
        result = self._location(root)
        result.part, result.sha256, result.offset = text[offset:end], sha256(self.raw), offset
        if end < len(text):
            result.next_offset = end
        return result

    def _location(self, root: str) -> GetResult:
        return GetResult(
            root=root, id=self.id, path=self.path, line=self.line, layout=self.layout, archived=self.archived
        )


class _ReadResult(NamedTuple):
    text: bytes
    line: int


def read_memory(store: Store, identity: str, now: float) -> LoadedMemory | None:
    """Read the memory with this id; None if there is none.

    Raises ConflictError for an ambiguous short id, RootMissingError, and BusyError while its file is being written.
    """
    layout = store.layout
    if layout is None:
        return None
    with store.catalogue.reader() as catalogue:
        places = _sorted_places(store, identity, catalogue)
    if not places:
        return _topic_file(store, layout, identity)
    live = [each for each in places if each.live]
    try:
        with store.tree.duplicate() as tree:
            for place in require_unambiguous(store.name, identity, live or places):
                found = _read(layout, tree, place, now)
                if found is None:
                    continue
                record_id = "" if place.is_shared else place.id
                native, where = layout.reader.native(place.path, found.text), (place.unique_id, place.path, found.line)
                return LoadedMemory(*where, not place.live, layout.name, native, found.text, record_id=record_id)
    except ChangingError as error:
        raise _busy(store, error) from error
    except FileNotFoundError as error:
        raise RootMissingError(
            f"root {store.name}: {store.path} does not exist", hint="see `memoryd status`"
        ) from error
    return None


def _topic_file(store: Store, layout: Layout, identity: str) -> LoadedMemory | None:
    """Read the topic file `topic/subtopic` as one memory, as agents load it; None if there is none."""
    path = layout.reader.whole_file(identity)
    if path is None:
        return None
    with store.catalogue.reader() as catalogue:
        if catalogue.file(path) is None:
            return None
        entries = tuple(entry.id for entry in catalogue.entries([path]))
    try:
        with store.tree.duplicate() as tree:
            content, _ = tree.read(path, growing=True)
    except NO_READABLE_FILE:
        return None
    except ChangingError as error:
        raise _busy(store, error) from error
    if not content.strip():
        return None  # its last entry was forgotten
    native = {"text": content.decode("utf-8", "replace")}
    archived = layout.reader.role(path) is Role.ARCHIVE
    return LoadedMemory(redact(path.removesuffix(".md")), path, 1, archived, layout.name, native, content, entries)


def _busy(store: Store, error: ChangingError) -> BusyError:
    return BusyError(f"root {store.name}: {error.filename} is being written", hint="try again in a moment")


def _read(layout: Layout, tree: Tree, place: Place, now: float) -> _ReadResult | None:
    line = _read_line(layout, tree, place, now) if layout.files.append_only else None
    if line is not None:
        return line
    if not place.recently_modified and place.digest:
        try:
            text, found = tree.read_span(place.path, place.start, place.end - place.start)
        except NO_FILE:
            return None  # removed or replaced: the worker will notice
        except ChangingError:
            return _read_from_file(layout, tree, place, now)
        if found.same_content(place.fingerprint) and found.ctime_ns == place.fingerprint.ctime_ns:
            return _ReadResult(text, place.line)
    return _read_from_file(layout, tree, place, now)


def _read_line(layout: Layout, tree: Tree, place: Place, now: float) -> _ReadResult | None:
    """Read the line at its known offset; None if it is no longer a complete line with the memory of this id."""
    begin = max(place.start - 1, 0)
    try:
        found = tree.read_range(place.path, begin, place.end + 1 - begin)
    except NO_FILE:
        return None
    before, text, after = found[: place.start - begin], found[place.start - begin : place.end - begin], found[-1:]
    whole = before in (b"", b"\n") and (len(found) == place.end - begin or after in (b"\n", b"\r"))
    if not whole or b"\n" in text:
        return None
    read = layout.reader.parse(place.path, text, now=now, mtime=0.0, base=ParseOffset(place.start, place.line))
    same = [each for each in read.records if each.span == Span(place.start, place.end)]
    return _ReadResult(text, place.line) if find_record(same, place) else None


def _read_from_file(layout: Layout, tree: Tree, place: Place, now: float) -> _ReadResult | None:
    """Read the whole file and find the memory in it: at its known offset if the content before has not changed."""
    try:
        content, found = tree.read(place.path, growing=True)
    except NO_READABLE_FILE:
        return None
    size = place.fingerprint.size
    known = content if len(content) == size else content[:size] if layout.files.append_only else b""
    if place.digest and len(known) == size and sha256(known) == place.digest:
        return _ReadResult(content[place.start : place.end], place.line)
    document = layout.reader.parse(place.path, content, now=now, mtime=found.mtime_ns / 1e9, base=ParseOffset())
    record = find_record(document.records, place)
    if record is None and document.pending:
        raise ChangingError(place.path)
    return _ReadResult(record.span.of(content), record.line) if record is not None else None


def sort_places(layout: Layout, places: Iterable[Place]) -> list[Place]:
    """Sort places: live ones first, in the order in which the layout lists its files, then archived ones.

    Of these the last in the newest file comes first, because the memory just forgotten is the one to restore.
    """
    everything = list(places)
    paths = layout.reader.source_paths([each.path for each in everything if each.live])
    order = {path: number for number, path in enumerate(paths)}
    archived = sorted((p for p in everything if not p.live), key=lambda p: (p.path, p.start), reverse=True)
    live = sorted((p for p in everything if p.live), key=lambda p: (order.get(p.path, len(order)), p.start))
    return [*live, *archived]


def require_unambiguous(store_name: str, identity: str, places: Sequence[Place]) -> list[Place]:
    """Return the places if they belong to one memory. Raises ConflictError, naming the candidates, if the id is
    ambiguous."""
    ids = list(dict.fromkeys(each.unique_id for each in places))
    if len(ids) > 1:
        raise ConflictError(
            f"root {store_name}: {len(ids)} memories match the id {redact(identity)}: {', '.join(ids[:5])}",
            hint="use the full id of one of them",
            data={"candidates": [{"root": store_name, "id": each} for each in ids[:MAX_CANDIDATES]]},
        )
    return list(places)


def find_live(store: Store, identity: str, now: float) -> Located:
    """Find the live memory with this id in the current content of its file.

    Raises NotFoundError, ConflictError for an ambiguous id, UsageError for a read-only file, and ChangingError while
    the file is being written.
    """
    places = _sorted_places(store, identity)
    live = [each for each in places if each.live]
    found = _first(store, require_unambiguous(store.name, identity, live), now)
    if found is None:
        raise _not_live(store, identity, archived=any(not each.live for each in places))
    if found.path not in store.known_layout.reader.source_paths([found.path]):
        raise UsageError(f"root {store.name}: {found.path} is read-only, so {found.record.id} cannot be changed")
    return found


def find_archived(store: Store, identity: str, now: float) -> Located | None:
    """Find the archived memory with this id; None if there is none."""
    places = [each for each in _sorted_places(store, identity) if not each.live]
    return _first(store, require_unambiguous(store.name, identity, places), now)


def _sorted_places(store: Store, identity: str, catalogue: IndexReader | None = None) -> list[Place]:
    """Return the places of an id as `sort_places` does. Raises ConflictError if several memories have exactly this id,
    live or archived. `catalogue`: for a thread that does not own the root."""
    places = sort_places(store.known_layout, (catalogue or store.catalogue).places(identity))
    require_unambiguous(store.name, identity, [each for each in places if each.is_shared])
    return places


def live_places(store: Store, identity: str) -> list[Place]:
    """Return the live places of an id. Raises ConflictError if several memories have exactly this id."""
    return [place for place in _sorted_places(store, identity) if place.live]


def _first(store: Store, places: Sequence[Place], now: float) -> Located | None:
    """Find the memory at the first place that has it. Raises ChangingError if none has and a file is being written."""
    changing: str | None = None
    for place in places:
        source = store.load(place.path, now, [place.id])
        if source is None:
            continue
        record = find_record(source.loaded.document.records, place)
        if record is not None:
            return Located(place.path, source.loaded, record, place.unique_id)
        if source.loaded.document.pending:
            changing = place.path
    if changing is not None:
        raise ChangingError(changing)
    return None


def find_record(records: Iterable[Record], place: Place) -> Record | None:
    """Return the record with the id of `place`. Where others have it too, the content must be the same; of those with
    the same content the one at its offset, else the first."""
    same = [record for record in records if record.id == place.id]
    if len(same) > 1 or place.is_shared:
        same = [record for record in same if content_digest(text_of(record)) == place.content]
    return next((record for record in same if record.span.start == place.start), same[0] if same else None)


def _not_live(store: Store, identity: str, *, archived: bool) -> NotFoundError:
    if archived:
        hint = f"it is archived; to restore it: `memoryd unarchive {redact(identity)}`"
        return NotFoundError(f"root {store.name}: no live memory with id {redact(identity)}", hint=hint)
    error = not_found(identity, store.name)
    error.hint = whole_file_hint(store, identity) or error.hint
    return error


def whole_file_hint(store: Store, identity: str) -> str | None:
    """Return the hint for an id that names a whole file where one of its entries is needed; None for any other id."""
    path = None if store.layout is None else store.layout.reader.whole_file(identity)
    if path is None:
        return None
    with store.catalogue.reader() as catalogue:
        entries = ", ".join(redact(each.id) for each in islice(catalogue.entries([path]), 3))
    return f"it is a whole topic file; name one of its entries, as {entries}" if entries else None


def not_found(identity: str, *roots: str) -> NotFoundError:
    """Return the error for an id that matches no memory in these roots."""
    where = f"root {roots[0]}: no" if len(roots) == 1 else "no"
    return NotFoundError(
        f"{where} memory with id {redact(identity)}", hint="`memoryd search` and `memoryd list` print ids"
    )
