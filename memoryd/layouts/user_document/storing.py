"""Storing in a user's document: one element put in, changed or taken out by exact edits, `updated_at` with it.

Nothing else of the file changes a byte, and no file of another user is read. What is new is written compactly. There
is no archive: what is forgotten goes out with its bytes kept, and comes back at the end. See `memoryd.layouts.storing`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memoryd.core.digest import sha256
from memoryd.core.json_elements import addition, last, members, removals, revision, setting, skip_space
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.text import Edit, Span, splice
from memoryd.errors import BusyError, ConflictError, NotFoundError
from memoryd.layouts.asked import differing, place, refuse
from memoryd.layouts.base import Loaded
from memoryd.layouts.one_document import BOM, decode
from memoryd.layouts.storing import Asked, Found, Stored, StoringView
from memoryd.layouts.user_document.asking import (
    DATA,
    EMBEDDING,
    changed_breaches,
    completed,
    embedding_breaches,
    new_breaches,
    parts_of,
)
from memoryd.layouts.user_document.cutting import Item, Taken, taken_whole
from memoryd.layouts.user_document.embeddings import common_size, size_in
from memoryd.layouts.user_document.fitting import vector_for
from memoryd.layouts.user_document.placing import path_for
from memoryd.layouts.user_document.reading import digest_of, identity_of, told_apart, user_of
from memoryd.layouts.user_document.stamping import stamped
from memoryd.layouts.user_document.stamps import like

USER = "user"


class _Open(NamedTuple):
    """A document that can be written into, and when."""

    path: str
    loaded: Loaded
    taken: Taken
    now: float


def add(view: StoringView, asked: Asked) -> Stored:
    place({key: value for key, value in asked.where.items() if key != USER}, "user-document")
    parts = parts_of(asked.memory)
    native = completed(parts.native, view.now)
    path = path_for(view, asked.where.get(USER, ""))
    opened = _open(view, path)
    loaded, size = (opened.loaded, _size_of(opened)) if opened is not None else (None, 0)
    given = embedding_breaches(parts.embedding, size) if parts.embedding is not None else ()
    refuse((*new_breaches(native), *given))
    vector = vector_for(view, loaded, size, native["content"], parts.embedding)
    text = _json(native, escaped=loaded is not None and _escapes(loaded.data))
    element = b'{"data":' + text + b',"embedding":' + _json(vector) + b"}"
    if opened is None:
        return _new_document(view, path, element, "store a memory in a new document")
    return _put_in(opened, element, "store a memory")


def _open(view: StoringView, path: str) -> _Open | None:
    """None where there is no document yet."""
    loaded = view.load(path)
    return _opened(view, path, loaded) if loaded is not None else None


def _opened(view: StoringView, path: str, loaded: Loaded) -> _Open:
    """The document taken apart, its memories not read. What cannot be read whole is not written into."""
    taken = taken_whole(loaded.data)
    if taken is not None:
        return _Open(path, loaded, taken, view.now)
    if loaded.document.pending:
        raise BusyError(f"{path}: somebody is writing it", hint="try again in a moment")
    raise ConflictError(
        f"{path}: the document cannot be read whole, so nothing is stored in it",
        hint="`memoryd check` says why; `memoryd backup list` shows what can be restored",
    )


def _size_of(opened: _Open) -> int:
    """What most embeddings of the document have, 0 where there is none."""
    spans = (item.embedding for item in opened.taken.items if item is not None)
    return common_size(size_in(opened.loaded.data, span) for span in spans if span is not None)


def _new_document(view: StoringView, path: str, element: bytes, why: str) -> Stored:
    """As the seed shows it."""
    identity = identity_of(user_of(path), _data_of(element))
    stamp = json.dumps(like(None, view.now)).encode()
    data = b'{"memories":[' + element + b'],"updated_at":' + stamp + b',"last_deduplicated_at":null}'
    return Stored(Plan((Action(Kind.CREATE, path, why, (identity,), data=data),)), identity, path)


def _put_in(opened: _Open, element: bytes, why: str) -> Stored:
    """At the end of the list."""
    taken = opened.taken
    identity = _identity(opened, _data_of(element), len(opened.loaded.data))
    edit = addition(opened.loaded.data, taken.array, taken.elements, [element], None)
    return _rewritten(opened, [edit], identity, why)


def _identity(opened: _Open, text: bytes, before: int) -> str:
    """Of a memory with that text as its data, where it stands behind those that begin before that byte."""
    data, digest = opened.loaded.data, digest_of(text)
    others = (item.data.value.of(data) for item in opened.taken.items if item is not None and item.span.start < before)
    same = sum(digest_of(each) == digest for each in others)
    return told_apart(identity_of(user_of(opened.path), text), same + 1)


def _rewritten(opened: _Open, edits: Sequence[Edit], identity: str, why: str, kept: Span | None = None) -> Stored:
    """With `updated_at`, which changes with every save."""
    data = opened.loaded.data
    whole = [*edits, *stamped(data, opened.taken, opened.now, ("updated_at",))]
    changed = tuple(edit for edit in whole if edit.span.of(data) != edit.new)
    aside = (kept,) if kept is not None else ()
    action = Action(Kind.REWRITE, opened.path, why, (identity,), changed, base=sha256(data), aside=aside)
    return Stored(Plan((action,)), identity, opened.path, kept.of(data) if kept is not None else None)


def update(view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
    """New content needs a new vector: the one given, or one that can be made."""
    opened = _opened(view, found.path, found.loaded)
    item = opened.taken.items[opened.taken.elements.index(found.record.span)]
    assert item is not None, "a record is an element with data"
    parts = parts_of(changes)
    wanted = differing(item.native, parts.native)
    refuse(changed_breaches({**changes, **parts.native}, wanted))
    vector = None
    if "content" in wanted or (parts.embedding is not None and parts.embedding != list(found.record.embedding or ())):
        content = wanted.get("content", item.native["content"])
        vector = vector_for(view, found.loaded, _size_of(opened), content, parts.embedding)
    if not wanted and vector is None:
        return Stored(Plan(), found.record.id, found.path)
    edits, text = _data_edits(found.loaded.data, item, wanted)
    if vector is not None:
        edits.append(_vector_edit(found.loaded.data, item, vector))
    identity = _identity(opened, text, item.span.start)
    named = ", ".join([*wanted, *([EMBEDDING] if vector is not None else [])])
    return _rewritten(opened, edits, identity, f"set {named}")


def _data_edits(data: bytes, item: Item, wanted: Mapping[str, Any]) -> tuple[list[Edit], bytes]:
    """The edits of the file, and the text of the memory's data after them."""
    brace, escaped = item.data.value.start, _escapes(data)
    values = {key: None if value is None else _json(value, escaped=escaped) for key, value in wanted.items()}
    edits = revision(data, brace, values)
    inside = [Edit(Span(edit.span.start - brace, edit.span.end - brace), edit.new) for edit in edits]
    return edits, splice(item.data.value.of(data), inside)


def _vector_edit(data: bytes, item: Item, vector: Sequence[float]) -> Edit:
    return setting(data, members(data, item.span.start), item.span.start, EMBEDDING, _json(vector))


def forget(view: StoringView, found: Found) -> Stored:
    opened, span = _opened(view, found.path, found.loaded), found.record.span
    edits = removals(opened.taken.array, opened.taken.elements, [opened.taken.elements.index(span)])
    return _rewritten(opened, edits, found.record.id, "forget a memory", kept=span)


def put_back(view: StoringView, path: str, kept: bytes) -> Stored:
    """Byte for byte, at the end."""
    opened = _open(view, path)
    if opened is None:
        return _new_document(view, path, kept, "put a memory back in a new document")
    return _put_in(opened, kept, "put a memory back")


def unarchive(found: Found) -> Stored:
    raise NotFoundError(
        f"{found.record.id} is not archived",
        hint="this layout has no archive; what was forgotten is put back by its id",
    )


def native(text: bytes) -> Mapping[str, Any]:
    """The fields of `data`; the vector beside them says nothing to a reader."""
    inner = decode(_data_of(text))
    return inner if isinstance(inner, dict) else {"text": text.decode("utf-8", "replace")}


def _data_of(element: bytes) -> bytes:
    member = last(members(element, skip_space(element, 0)), DATA)
    assert member is not None, "a memory has data"
    return member.value.of(element)


def _escapes(data: bytes) -> bool:
    """Does this document write other alphabets as `\\u....`?"""
    return data.removeprefix(BOM).isascii() and b"\\" in data and b"\\u" in data  # one byte is sought much faster


def _json(value: Any, *, escaped: bool = False) -> bytes:
    return json.dumps(value, ensure_ascii=escaped, allow_nan=False, separators=(",", ":")).encode()
