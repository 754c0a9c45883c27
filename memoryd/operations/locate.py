"""Finding a memory by its id: the catalogue says where it stood, the file as it is now whether it still does.

Every id that a search prints is accepted; a bare id is, while only one memory bears it with the `~` that tells equal
ids apart. Of live and archived ones the live ones come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memoryd.catalogue import Place
from memoryd.core.records import Record
from memoryd.core.secrets import redact
from memoryd.errors import ConflictError, NotFoundError, UsageError
from memoryd.layouts.base import Layout
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
        source = store.load(place.path, now, [place.id])
        record = in_file(source.loaded.document.records, place) if source is not None else None
        if source is not None and record is not None:
            return Found(place.path, source.loaded, record)
    return None


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
