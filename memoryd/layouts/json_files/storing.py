"""Storing in json-files: a file of its own for each memory, under a free name; exact edits; the flag `archived`.

The real server overwrites a file whose name is taken; here a name is looked for that is not, and the file is created
exclusively. To forget is to set the flag: the layout moves and deletes nothing. See `memoryd.layouts.storing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from memoryd.core.dates import parse_stamp
from memoryd.core.digest import sha256
from memoryd.core.json_elements import lead, revision
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.text import Edit
from memoryd.errors import ConflictError, InvalidMemoryError
from memoryd.layouts.asked import Breach, beside, differing, place, refuse, unwritable
from memoryd.layouts.base import Loaded
from memoryd.layouts.json_files import names
from memoryd.layouts.json_files.asking import changed_breaches, described, new_breaches
from memoryd.layouts.json_files.derived import decoded
from memoryd.layouts.json_files.reading import First, first_value, is_memory_object
from memoryd.layouts.json_files.schema import clean, iso_ms, new_id, render_new
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch

_MOST = 2**53 - 1  # where every JSON reader still counts exactly


def add(view: StoringView, asked: Asked) -> Stored:
    place(asked.where, "json-files")
    native = described(asked.memory)
    refuse((*unwritable(asked.memory), *new_breaches(native), *_taken(view, native.get("id"))))
    identity, path = str(native.get("id") or new_id(view.now, view.number)), _free_path(view)
    text = render_new(native, identity=identity, created=view.now)
    action = Action(Kind.CREATE, path, f"store a memory of type {native['type']}", (identity,), data=text)
    return Stored(Plan((action,)), identity, path)


def _free_path(view: StoringView) -> str:
    """By the local second, as the server does. The catalogue may be behind, so the file itself is asked for, too."""
    local = datetime.fromtimestamp(view.now, view.zone)
    return names.free_name(local, lambda path: path in view.files or view.content(path) is not None)


def _taken(view: StoringView, identity: object) -> Iterator[Breach]:
    """An id somebody chose must be new, by the index, which costs one file whatever the number of memories."""
    if not isinstance(identity, str):
        return
    known = (decoded(view.content(names.INDEX)) or {}).get("fileIndex")
    if isinstance(known, dict) and identity in known:
        yield Breach("id", "is new; this one is in the index already")


def update(view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
    """`lastUpdated` moves and `version` grows by one, as the server's own update does."""
    refuse(unwritable(changes))
    record = found.record
    wanted = differing(record.native, changes)
    if not wanted:
        return Stored(Plan(), record.id, found.path)
    refuse(changed_breaches(wanted))
    why = f"set {', '.join(wanted)}"
    wanted |= {"version": min(record.facts["version"] + 1, _MOST), "lastUpdated": iso_ms(view.now)}
    return _rewritten(found, wanted, why)


def _rewritten(found: Found, values: Mapping[str, Any], why: str) -> Stored:
    data, record = found.loaded.data, found.record
    edits = _edits(data, record, values)
    action = Action(Kind.REWRITE, found.path, why, (record.id,), edits, base=sha256(data))
    return Stored(Plan((action,)), record.id, found.path)


def _edits(data: bytes, record: Record, values: Mapping[str, Any]) -> tuple[Edit, ...]:
    gap = lead(data, record.span.start)
    written = {key: None if value is None else beside(value, gap) for key, value in values.items()}
    return tuple(revision(data, record.span.start, written))


def forget(found: Found) -> Stored:
    return _flagged(found, True, "forgotten: marked as archived")


def unarchive(found: Found) -> Stored:
    return _flagged(found, False, "brought back: no longer marked as archived")


def _flagged(found: Found, value: bool, why: str) -> Stored:
    """Only the flag changes: version and stamps are those of what the memory says."""
    if found.record.archived is value:
        return Stored(Plan(), found.record.id, found.path)
    return _rewritten(found, {"archived": value}, why)


def put_back(view: StoringView, path: str, kept: bytes) -> Stored:
    """No memory leaves its file here; a file kept elsewhere comes back under its name."""
    first = first_value(kept)
    if not names.is_memory(path) or not isinstance(first, First) or not is_memory_object(first.native):
        raise InvalidMemoryError(f"{path}: what was kept is not one memory", data={"findings": []})
    identity, there = clean(first.native["id"]), view.content(path)
    if there == kept:
        return Stored(Plan(), identity, path)
    if there is not None:
        raise ConflictError(f"{path}: another memory has this name now", data={"changed": [path]})
    return Stored(Plan((Action(Kind.CREATE, path, "put back", (identity,), data=kept),)), identity, path)


def touch(loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
    """As the server's own reading does: `accessCount` grows, `lastAccessed` moves on."""
    edits: list[Edit] = []
    for record in loaded.document.records:
        touched = touches.get(record.id)
        if touched is not None:
            edits += _edits(loaded.data, record, _touched(record, touched))
    return tuple(edits)


def _touched(record: Record, touched: Touch) -> dict[str, Any]:
    values: dict[str, Any] = {"accessCount": min(record.facts["access"] + touched.times, _MOST)}
    accessed = parse_stamp(record.native.get("lastAccessed"))
    if accessed is None or touched.at > accessed.seconds:
        values["lastAccessed"] = iso_ms(touched.at)
    return values


def native(text: bytes) -> Mapping[str, Any]:
    first = first_value(text)
    if isinstance(first, First) and isinstance(first.native, dict):
        return first.native
    return {"text": text.decode("utf-8", "replace")}
