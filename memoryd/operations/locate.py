"""Finding a memory by its id: the catalogue says where it stood, the file as it is now whether it still does.

Every id that a search prints is accepted; a bare id is, while only one memory bears it with the `~` that tells equal
ids apart. Of live and archived ones the live ones come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memoryd.catalogue.rows import Place
from memoryd.core.digest import sha256
from memoryd.core.records import Base, Record
from memoryd.core.secrets import redact
from memoryd.errors import ConflictError, NotFoundError, UsageError
from memoryd.layouts.base import Layout, Loaded
from memoryd.layouts.storing import Found
from memoryd.store import Store


def in_order(layout: Layout, places: Iterable[Place]) -> list[Place]:
    """Live ones first, in the layout's own order of files; then the archived, the last that came into the newest file
    first: what was just forgotten is what is brought back."""
    found = list(places)
    live = layout.live_paths([each.path for each in found if each.live])
    order = {path: number for number, path in enumerate(live)}
    archived = sorted((each for each in found if not each.live), key=lambda each: (each.path, each.start), reverse=True)
    kept = sorted((each for each in found if each.live), key=lambda p: (order.get(p.path, len(order)), p.start))
    return [*kept, *archived]


def the_one(store_name: str, asked: str, places: Sequence[Place]) -> list[Place]:
    """All places of one id. ConflictError, naming the candidates, where a bare id means more than one memory."""
    ids = list(dict.fromkeys(each.id for each in places))
    if len(ids) > 1:
        raise ConflictError(
            f"root {store_name}: {len(ids)} memories bear the id {redact(asked)}: {', '.join(ids[:5])}",
            hint="name one of them by its whole id",
            data={"candidates": [{"root": store_name, "id": each} for each in ids]},
        )
    return list(places)


def find_live(store: Store, asked: str, now: float) -> Found:
    """The live memory with that id, in its file as it is now. Raises NotFoundError, ConflictError, UsageError."""
    assert store.layout is not None
    places = in_order(store.layout, store.catalogue.places(asked))
    live = [each for each in places if each.live]
    found = _first(store, the_one(store.name, asked, live), now)
    if found is None:
        raise _no_live(store, asked, archived=any(not each.live for each in places))
    if found.path not in store.layout.live_paths([found.path]):
        raise UsageError(f"root {store.name}: {found.path} is only read, so {found.record.id} stays as it is")
    return found


def find_archived(store: Store, asked: str, now: float) -> Found | None:
    """The archived memory with that id, None where there is none."""
    assert store.layout is not None
    places = [each for each in in_order(store.layout, store.catalogue.places(asked)) if not each.live]
    return _first(store, the_one(store.name, asked, places), now)


def _first(store: Store, places: Sequence[Place], now: float) -> Found | None:
    for place in places:
        loaded = _load(store, place, now)
        record = in_file(loaded.document.records, place) if loaded is not None else None
        if loaded is not None and record is not None:
            return Found(place.path, loaded, record)
    return None


def _load(store: Store, place: Place, now: float) -> Loaded | None:
    """The file as it is now, parsed at that line alone where it is one of lines and still as the catalogue knows it."""
    part = _at_its_line(store, place, now)
    if part is not None and in_file(part.document.records, place) is not None:
        return part
    source = store.load(place.path, now)
    return source.loaded if source is not None else None


def _at_its_line(store: Store, place: Place, now: float) -> Loaded | None:
    assert store.layout is not None
    if not store.layout.appendable or not place.fingerprint.same_content(store.tree.stat(place.path)):
        return None
    data, found = store.tree.read(place.path)
    if not place.fingerprint.same_content(found) or (place.young and sha256(data) != place.digest):
        return None
    start = data.rfind(b"\n", 0, place.start) + 1
    end = data.find(b"\n", place.start)
    line = data[start : len(data) if end < 0 else end + 1]
    mtime = found.mtime_ns / 1e9
    document = store.layout.parse(place.path, line, now=now, mtime=mtime, base=Base(start, place.line))
    return Loaded(data, document, mtime)


def in_file(records: Iterable[Record], place: Place) -> Record | None:
    """The record of that id; of several, that which stands where it stood, else the first."""
    same = [record for record in records if record.id == place.id]
    return next((record for record in same if record.span.start == place.start), same[0] if same else None)


def _no_live(store: Store, asked: str, *, archived: bool) -> NotFoundError:
    if archived:
        hint = f"it is archived; `memoryd unarchive {redact(asked)}` brings it back"
        return NotFoundError(f"root {store.name}: no live memory has the id {redact(asked)}", hint=hint)
    return no_such(asked, store.name)


def no_such(asked: str, *roots: str) -> NotFoundError:
    where = f"root {roots[0]}: no" if len(roots) == 1 else "no"
    return NotFoundError(
        f"{where} memory has the id {redact(asked)}", hint="`memoryd search` and `memoryd list` print ids"
    )
