"""Writer of memory files: a new file under a free name, exact edits, the flag `archived`. See
`memoryd.layouts.protocol`. Which values are accepted is decided in `schema`.

The real server overwrites a file whose name is taken; memoryd looks for a free name and creates the file exclusively.
Forgetting sets the flag: the layout moves and deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from memoryd.core.dates import iso_ms, parse_stamp
from memoryd.core.json_spans import leading_space, update_members
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import JsonObject, NativeMemory, Record
from memoryd.core.spans import Edit, replace_surrogates, sha256
from memoryd.errors import ConflictError, InvalidMemoryError
from memoryd.layouts.json_files import names
from memoryd.layouts.json_files.index import decode_object
from memoryd.layouts.json_files.parser import FirstValue, first_value, is_memory_object
from memoryd.layouts.json_files.schema import new_id, render_new, validate_new, validate_update, with_defaults
from memoryd.layouts.protocol import AccessCount, LoadedFile, Located, NewMemory, WritePlan, WriteView
from memoryd.layouts.validation import Violation, differences, indented_like, not_encodable, only_location, reject

_MAX_INTEGER = 2**53 - 1  # the largest integer that every JSON reader represents exactly


def add(view: WriteView, new: NewMemory) -> WritePlan:
    """Plan a new memory file."""
    only_location(new.location, "json-files")
    native = with_defaults(new.memory)
    reject((*not_encodable(new.memory), *validate_new(native), *_check_id_unused(view, native.get("id"))))
    identity, path = str(native.get("id") or new_id(view.now, view.number)), _free_path(view)
    text = render_new(native, identity=identity, created=view.now)
    action = Action(Kind.CREATE, path, f"store a memory of type {native['type']}", (identity,), data=text)
    return WritePlan(Plan((action,)), identity, path)


def _free_path(view: WriteView) -> str:
    """Return a free name by the local second, as the server does. The index may be behind, so files are checked too."""
    local = datetime.fromtimestamp(view.now, view.zone)
    return names.free_name(local, lambda path: path in view.files or view.content(path) is not None)


def _check_id_unused(view: WriteView, identity: object) -> Iterator[Violation]:
    """Yield a violation if the given id is in use. Only `_index.json` is read, whatever the number of memories."""
    if not isinstance(identity, str):
        return
    file_index = (decode_object(view.content(names.INDEX)) or {}).get("fileIndex")
    if isinstance(file_index, dict) and identity in file_index:
        yield Violation("id", "must be new; this one is already in the index")


def update(view: WriteView, located: Located, changes: NativeMemory) -> WritePlan:
    """Plan exact edits; `lastUpdated` changes and `version` grows by one, like an update by the server."""
    reject(not_encodable(changes))
    record = located.record
    changed = differences(record.native, changes)
    if not changed:
        return WritePlan(Plan(), record.id, located.path)
    reject(validate_update(changed))
    why = f"set {', '.join(changed)}"
    changed |= {"version": min(record.facts["version"] + 1, _MAX_INTEGER), "lastUpdated": iso_ms(view.now)}
    return _rewrite(located, changed, why)


def _rewrite(located: Located, values: NativeMemory, why: str) -> WritePlan:
    data, record = located.loaded.data, located.record
    edits = _edits(data, record, values)
    action = Action(Kind.REWRITE, located.path, why, (record.id,), edits, base=sha256(data))
    return WritePlan(Plan((action,)), record.id, located.path)


def _edits(data: bytes, record: Record, values: NativeMemory) -> tuple[Edit, ...]:
    indentation = leading_space(data, record.span.start)
    encoded = {key: None if value is None else indented_like(value, indentation) for key, value in values.items()}
    return tuple(update_members(data, record.span.start, encoded))


def forget(located: Located) -> WritePlan:
    """Plan to set the archive flag."""
    return _set_flag(located, True, "mark as archived")


def unarchive(located: Located) -> WritePlan:
    """Plan to clear the archive flag."""
    return _set_flag(located, False, "remove the archive flag")


def _set_flag(located: Located, value: bool, why: str) -> WritePlan:
    """Change only the flag: version and time stamps describe the content."""
    if located.record.archived is value:
        return WritePlan(Plan(), located.record.id, located.path)
    return _rewrite(located, {"archived": value}, why)


def restore(view: WriteView, path: str, removed: Sequence[bytes]) -> WritePlan:
    """Plan the file under its old name, or under a free one if another memory has that now. This layout itself removes
    nothing, so the bytes were removed elsewhere."""
    [content] = removed
    first = first_value(content)
    if not names.is_memory(path) or not isinstance(first, FirstValue) or not is_memory_object(first.native):
        raise InvalidMemoryError(f"{path}: the saved bytes are not one memory", data={"findings": []})
    identity, present = replace_surrogates(first.native["id"]), view.content(path)
    if present == content:
        return WritePlan(Plan(), identity, path)
    if present is not None:
        other = first_value(present)
        if not isinstance(other, FirstValue) or not is_memory_object(other.native):
            raise ConflictError(f"{path} is not a readable memory", data={"changed": [path]})
        path = _free_path(view)
    return WritePlan(Plan((Action(Kind.CREATE, path, "restore a memory", (identity,), data=content),)), identity, path)


def count_reads(loaded: LoadedFile, reads: Mapping[str, AccessCount]) -> tuple[Edit, ...]:
    """Return the edits that raise `accessCount` and advance `lastAccessed`, like a read by the server."""
    edits: list[Edit] = []
    for record in loaded.document.records:
        count = reads.get(record.id)
        if count is not None:
            edits += _edits(loaded.data, record, _access_values(record, count))
    return tuple(edits)


def _access_values(record: Record, count: AccessCount) -> JsonObject:
    values: JsonObject = {"accessCount": min(record.facts["access"] + count.times, _MAX_INTEGER)}
    accessed = parse_stamp(record.native.get("lastAccessed"))
    if accessed is None or count.at > accessed.seconds:
        values["lastAccessed"] = iso_ms(count.at)
    return values


def native(text: bytes) -> NativeMemory:
    """Return the JSON object of a memory file."""
    first = first_value(text)
    if isinstance(first, FirstValue) and isinstance(first.native, dict):
        return first.native
    return {"text": text.decode("utf-8", "replace")}
