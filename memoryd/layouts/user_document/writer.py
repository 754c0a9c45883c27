"""Writer of user documents: adding, changing, forgetting and restoring memories by exact edits.

`updated_at` changes with every save; nothing else of the file changes a byte, and no file of another user is read. New
text is compact JSON. There is no archive: the caller saves the bytes of a forgotten memory, and restoring appends them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memoryd.core.json_spans import (
    append_elements,
    decode,
    last_member,
    members,
    remove_elements,
    set_member,
    skip_space,
    update_members,
)
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import NativeMemory
from memoryd.core.spans import BOM, Edit, Span, sha256, splice
from memoryd.errors import BusyError, ConflictError, NotFoundError
from memoryd.layouts.json_document import require_one_memory
from memoryd.layouts.protocol import LoadedFile, Located, NewMemory, WritePlan, WriteView
from memoryd.layouts.user_document.embeddings import common_size, embedding_for, embedding_size
from memoryd.layouts.user_document.parser import content_digest, memory_id, numbered_id, user_of
from memoryd.layouts.user_document.schema import (
    DATA,
    EMBEDDING,
    split_parts,
    validate_embedding,
    validate_new,
    validate_update,
    with_defaults,
)
from memoryd.layouts.user_document.split import Element, ParsedDocument, parse_sound_document
from memoryd.layouts.user_document.timestamps import format_like, update_stamps
from memoryd.layouts.user_document.users import path_for
from memoryd.layouts.validation import differences, only_location, reject

USER = "user"


class _OpenDocument(NamedTuple):
    """A document that can be edited, and the time of the edit."""

    path: str
    loaded: LoadedFile
    parsed: ParsedDocument
    now: float


def add(view: WriteView, new: NewMemory) -> WritePlan:
    """Plan a new memory at the end of the user's document, or in a new document."""
    only_location({key: value for key, value in new.location.items() if key != USER}, "user-document")
    parts = split_parts(new.memory)
    native = with_defaults(parts.native, view.now)
    path = path_for(view.files, new.location.get(USER, ""))
    document = _open(view, path)
    loaded, size = (document.loaded, _dimension(document)) if document is not None else (None, 0)
    given = validate_embedding(parts.embedding, size) if parts.embedding is not None else ()
    reject((*validate_new(native), *given))
    vector = embedding_for(view, loaded, size, native["content"], parts.embedding)
    text = _json(native, escaped=loaded is not None and _has_escapes(loaded.data))
    element = b'{"data":' + text + b',"embedding":' + _json(vector) + b"}"
    if document is None:
        return _new_document(view, path, [element], "store a memory in a new document")
    return _append(document, [element], "store a memory")


def _open(view: WriteView, path: str) -> _OpenDocument | None:
    """Return the user's document, or None if there is none yet."""
    loaded = view.load(path)
    return _open_loaded(view, path, loaded) if loaded is not None else None


def _open_loaded(view: WriteView, path: str, loaded: LoadedFile) -> _OpenDocument:
    """Return the parts of a document. Raises BusyError or ConflictError for one that is not readable as a whole."""
    parsed = parse_sound_document(loaded.data)
    if parsed is not None:
        return _OpenDocument(path, loaded, parsed, view.now)
    if loaded.document.pending:
        raise BusyError(f"{path} is being written by another program", hint="try again in a moment")
    raise ConflictError(
        f"{path} is not readable as a whole, so nothing is stored in it",
        hint="`memoryd check` shows why; `memoryd backup list` shows what can be restored",
    )


def _dimension(document: _OpenDocument) -> int:
    """Return the common size of the document's embeddings, 0 where it has none."""
    spans = (item.embedding for item in document.parsed.items if item is not None)
    return common_size(embedding_size(document.loaded.data, span) for span in spans if span is not None)


def _new_document(view: WriteView, path: str, elements: Sequence[bytes], why: str) -> WritePlan:
    """Plan a new document in the form of the seed."""
    ids = _ids(path, [], map(_data_of, elements))
    stamp = json.dumps(format_like(None, view.now)).encode()
    data = b'{"memories":[' + b",".join(elements) + b'],"updated_at":' + stamp + b',"last_deduplicated_at":null}'
    return WritePlan(Plan((Action(Kind.CREATE, path, why, ids, data=data),)), ids[0], path)


def _append(document: _OpenDocument, elements: Sequence[bytes], why: str) -> WritePlan:
    """Plan the insertion at the end of the list."""
    data, parsed = document.loaded.data, document.parsed
    ids = _ids(document.path, _data_before(document, len(data)), map(_data_of, elements))
    edit = append_elements(data, parsed.array, parsed.elements, elements, None)
    return _rewrite(document, [edit], ids, why)


def _data_before(document: _OpenDocument, position: int) -> Iterator[bytes]:
    """Yield the data of the elements that begin before this byte."""
    items = (item for item in document.parsed.items if item is not None and item.span.start < position)
    return (item.data.value.of(document.loaded.data) for item in items)


def _ids(path: str, before: Iterable[bytes], new: Iterable[bytes]) -> tuple[str, ...]:
    """Return the ids of memories with this data that follow others."""
    numbers, ids = Counter(map(content_digest, before)), list[str]()
    for each in new:
        numbers[content_digest(each)] += 1
        ids.append(numbered_id(memory_id(user_of(path), each), numbers[content_digest(each)]))
    return tuple(ids)


def _rewrite(
    document: _OpenDocument, edits: Sequence[Edit], ids: tuple[str, ...], why: str, removed: Span | None = None
) -> WritePlan:
    """Plan the edits with a new `updated_at`."""
    data = document.loaded.data
    all_edits = [*edits, *update_stamps(data, document.parsed, document.now, ("updated_at",))]
    changed = tuple(edit for edit in all_edits if edit.span.of(data) != edit.new)
    quarantine = (removed,) if removed is not None else ()
    action = Action(Kind.REWRITE, document.path, why, ids, changed, base=sha256(data), quarantine=quarantine)
    return WritePlan(Plan((action,)), ids[0], document.path, removed.of(data) if removed is not None else None)


def update(view: WriteView, located: Located, changes: NativeMemory) -> WritePlan:
    """Plan the change of a memory. New content needs a new vector, given or computed."""
    document = _open_loaded(view, located.path, located.loaded)
    item = document.parsed.items[document.parsed.elements.index(located.record.span)]
    assert item is not None, "a record is an element with data"
    parts = split_parts(changes)
    fields = differences(item.native, parts.native)
    reject(validate_update({**changes, **parts.native}, fields))
    vector = None
    if "content" in fields or (parts.embedding is not None and parts.embedding != list(located.record.embedding or ())):
        content = fields["content"] if "content" in fields else item.native["content"]
        vector = embedding_for(view, located.loaded, _dimension(document), content, parts.embedding)
    if not fields and vector is None:
        return WritePlan(Plan(), located.record.id, located.path)
    edits, text = _data_edits(located.loaded.data, item, fields)
    if vector is not None:
        edits.append(_vector_edit(located.loaded.data, item, vector))
    ids = _ids(document.path, _data_before(document, item.span.start), [text])
    names = ", ".join([*fields, *([EMBEDDING] if vector is not None else [])])
    return _rewrite(document, edits, ids, f"set {names}")


def _data_edits(data: bytes, item: Element, changed: NativeMemory) -> tuple[list[Edit], bytes]:
    """Return the edits of the file, and the text of the memory's data after them."""
    brace, escaped = item.data.value.start, _has_escapes(data)
    values = {key: None if value is None else _json(value, escaped=escaped) for key, value in changed.items()}
    edits = update_members(data, brace, values)
    inner_edits = [Edit(Span(edit.span.start - brace, edit.span.end - brace), edit.new) for edit in edits]
    return edits, splice(item.data.value.of(data), inner_edits)


def _vector_edit(data: bytes, item: Element, vector: Sequence[float]) -> Edit:
    return set_member(data, members(data, item.span.start), item.span.start, EMBEDDING, _json(vector))


def forget(view: WriteView, located: Located) -> WritePlan:
    """Plan the removal of a memory; its bytes are saved."""
    document, span = _open_loaded(view, located.path, located.loaded), located.record.span
    edits = remove_elements(document.parsed.array, document.parsed.elements, [document.parsed.elements.index(span)])
    return _rewrite(document, edits, (located.record.id,), "forget a memory", removed=span)


def restore(view: WriteView, path: str, removed: Sequence[bytes]) -> WritePlan:
    """Plan the insertion of removed memories at the end, byte for byte."""
    texts = [require_one_memory(path, each) for each in removed]
    document = _open(view, path)
    if document is None:
        return _new_document(view, path, texts, "restore memories in a new document")
    return _append(document, texts, "restore memories")


def unarchive(located: Located) -> WritePlan:
    """Raise NotFoundError: this layout has no archive."""
    raise NotFoundError(
        f"{located.record.id} is not archived",
        hint="this layout has no archive; a forgotten memory is restored by its id",
    )


def native(text: bytes) -> NativeMemory:
    """Return the `data` of a memory, without its vector."""
    inner = decode(_data_of(text))
    return inner if isinstance(inner, dict) else {"text": text.decode("utf-8", "replace")}


def _data_of(element: bytes) -> bytes:
    member = last_member(members(element, skip_space(element, 0)), DATA)
    assert member is not None, "a memory has data"
    return member.value.of(element)


def _has_escapes(data: bytes) -> bool:
    """Return True where the document escapes non-ASCII text as `\\u....`."""
    return data.removeprefix(BOM).isascii() and b"\\" in data and b"\\u" in data  # a search for one byte is much faster


def _json(value: object, *, escaped: bool = False) -> bytes:
    return json.dumps(value, ensure_ascii=escaped, allow_nan=False, separators=(",", ":")).encode()
