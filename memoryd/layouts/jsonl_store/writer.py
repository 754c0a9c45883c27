"""Writer of the JSONL store: one appended line per memory, exact edits of a line, the quarterly archive. See
`memoryd.layouts.protocol`. Which values are accepted is decided in `schema`.

A new memory is appended without reading the file, so the cost does not grow with the store. An update writes only the
values that change. Forgetting archives.

Only a hard limit rejects a memory; above a soft limit the limits job frees space later. Count and size come from the
index. Only a file that seems full is read, to exclude duplicates and lines to be archived, and to suggest memories that
could be archived: the least recently used, then the least used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from memoryd.core.dates import iso
from memoryd.core.defaults import Limit, LimitKind
from memoryd.core.json_spans import skip_space, update_members, with_member
from memoryd.core.plan import ANY_CONTENT, Action, Kind, Plan
from memoryd.core.records import NativeMemory, ParseOffset, Record, Role
from memoryd.core.spans import Edit, splice
from memoryd.errors import ConflictError, LimitExceededError, UsageError
from memoryd.layouts.jsonl_store import archive
from memoryd.layouts.jsonl_store.parser import parse_line, parse_lines
from memoryd.layouts.jsonl_store.schema import (
    FILE_TYPES,
    MAX_USES,
    too_long,
    validate_new,
    validate_update,
    with_defaults,
)
from memoryd.layouts.protocol import AccessCount, LoadedFile, Located, NewMemory, UpkeepView, WritePlan, WriteView
from memoryd.layouts.validation import (
    Violation,
    differences,
    encode,
    not_encodable,
    only_location,
    reject,
    try_encode,
)

_FILES = {kind: path for path, kind in FILE_TYPES.items()}


def add(view: WriteView, new: NewMemory) -> WritePlan:
    """Plan the append of a new line."""
    only_location(new.location, "jsonl-store")
    native = with_defaults(new.memory, view.now, view.number)
    line = try_encode(native)
    reject((*(not_encodable(new.memory) if line is None else ()), *validate_new(native, new.memory)))
    assert line is not None
    identity, path = str(native["id"]), _FILES[native["type"]]
    reject((*too_long(len(line)), *(_check_id_unused(view, identity) if new.memory.get("id") else ())))
    require_capacity(view, path, len(line) + 1)
    why = f"store a memory of type {native['type']}"
    return WritePlan(Plan((_append(view, path, line, (identity,), why),)), identity, path)


def _check_id_unused(view: WriteView, identity: str) -> Iterator[Violation]:
    """Yield a violation if the given id is in use. Files are searched as bytes, which is cheap."""
    needle = identity.encode()
    for path, file in view.files.items():
        if file.role in (Role.SOURCE, Role.ARCHIVE) and needle in (view.content(path) or b""):
            yield Violation("id", f"must be new; this one is already used in {path}")
            return


def _append(view: WriteView, path: str, lines: bytes, ids: tuple[str, ...], why: str) -> Action:
    """Return the append of lines and a final newline; without it, another program's append would join two memories.
    Only the policy `keep` needs the file to be read. The newline that the file itself lacks is added by the commit."""
    final_newline = view.policy.final_newline
    existing = view.content(path) if final_newline == "keep" else None
    end = b"\n" if archive.ends_in_newline(existing, final_newline) else b""
    return Action(Kind.APPEND, path, why, ids, data=lines + end, base=ANY_CONTENT)


def update(view: WriteView, located: Located, changes: NativeMemory) -> WritePlan:
    """Plan exact edits of the changed values."""
    _require_live(located)
    reject(not_encodable(changes))
    record, data = located.record, located.loaded.data
    changed = differences(record.native, changes)
    if not changed:
        return _no_change(located)
    reject(validate_update(located.path, record.native, changed))
    changed.setdefault("updated_at", iso(view.now))
    values = {key: None if value is None else encode(value) for key, value in changed.items()}
    edits = update_members(data, skip_space(data, record.span.start), values)
    before = record.span.end - record.span.start
    after = before + sum(len(edit.new) - (edit.span.end - edit.span.start) for edit in edits)
    reject(too_long(after, before))
    if after > before:
        require_capacity(view, located.path, after - before)
    return _rewrite(view, located, edits, f"set {', '.join(changed)}")


def _no_change(located: Located) -> WritePlan:
    return WritePlan(Plan(), located.record.id, located.path)


def _rewrite(view: WriteView, located: Located, edits: list[Edit], why: str) -> WritePlan:
    edits = archive.with_file_end(located.loaded, edits, view.policy.final_newline)
    action = Action(Kind.REWRITE, located.path, why, (located.record.id,), tuple(edits), base=located.loaded.digest)
    return WritePlan(Plan((action,)), located.record.id, located.path)


def _require_live(located: Located) -> None:
    if archive.is_archive(located.path):
        raise UsageError(
            f"{located.record.id} is archived; only live memories can be changed",
            hint=f"unarchive it first: memoryd unarchive {located.record.id}",
        )
    _require_lines(located)


def _require_lines(located: Located) -> None:
    if located.path not in FILE_TYPES and not archive.is_archive(located.path):
        raise UsageError(f"{located.path} has the form of the real server, which memoryd reads and never writes")


def forget(view: WriteView, located: Located) -> WritePlan:
    """Plan the move to the archive of the quarter; an archived memory stays there."""
    _require_lines(located)
    if archive.is_archive(located.path):
        return _no_change(located)
    document = replace(located.loaded.document, records=(located.record,))  # others may have its id
    only = located.loaded.with_document(document)
    live = UpkeepView({located.path: only}, view.content, view.policy, view.now)
    plan = archive.archive(live, {located.record.id})
    return WritePlan(plan, located.record.id, archive.archive_path(located.path, located.record))


def unarchive(view: WriteView, located: Located) -> WritePlan:
    """Plan the move of an archived line to the end of its live file, with `archived` false. In a live line that is only
    marked, the flag is set to false."""
    _require_lines(located)
    record, data = located.record, located.loaded.data
    if not archive.is_archive(located.path):
        if not record.archived:
            return _no_change(located)
        edits = update_members(data, skip_space(data, record.span.start), {"archived": b"false"})
        return _rewrite(view, located, edits, "no longer marked as archived")
    path = _FILES[archive.archived_type(located.path)]
    text = record.span.of(data)
    line = with_member(text.strip(), "archived", b"false")
    spans = [each.span for each in located.loaded.document.records if each.span.of(data) == text]
    edits = archive.remove_lines(located.loaded, spans, view.policy.final_newline)
    why = "moved back to the live memories"
    removal = Action(Kind.REWRITE, located.path, why, (record.id,), tuple(edits), base=located.loaded.digest)
    if not splice(data, edits):
        removal = Action(Kind.REMOVE, located.path, why, (record.id,), base=located.loaded.digest)
    if _is_present(path, view.load(path, [record.id]), record.id, line, may_share=located.is_shared):
        return WritePlan(Plan((removal,)), record.id, path)
    require_capacity(view, path, len(line) + 1)
    return WritePlan(Plan((_append(view, path, line, (record.id,), why), removal)), record.id, path)


def _is_present(path: str, loaded: LoadedFile | None, identity: str, line: bytes, *, may_share: bool = False) -> bool:
    """Return True if the file holds the line already, after a crash. Raises ConflictError if another memory has its
    id, unless the caller chose among those with the id."""
    present = [each for each in loaded.document.records if each.id == identity] if loaded is not None else []
    if not present or loaded is None:
        return False
    if any(each.span.of(loaded.data).strip() == line for each in present):
        return True
    if may_share:
        return False
    raise ConflictError(
        f"another memory with the id {identity} is in {path}",
        hint="archive or remove that one first",
        data={"changed": [path]},
    )


def restore(view: WriteView, path: str, removed: Sequence[bytes]) -> WritePlan:
    """Plan the append of lines; this layout itself only archives, so they were removed elsewhere."""
    lines = [each.strip() for each in removed]
    found = parse_lines(path, b"\n".join(lines), FILE_TYPES[path], now=view.now, mtime=0.0, base=ParseOffset()).records
    if [each.line for each in found] != [*range(1, len(lines) + 1)] or any(b"\n" in line for line in lines):
        raise UsageError(f"{path}: the saved bytes are not one memory on one line")
    loaded = view.load(path, [each.id for each in found])
    missing = [
        (each.id, line) for each, line in zip(found, lines, strict=True) if not _is_present(path, loaded, each.id, line)
    ]
    if not missing:
        return WritePlan(Plan(), found[0].id, path)
    ids = tuple(identity for identity, _ in missing)
    appended = _append(view, path, b"\n".join(line for _, line in missing), ids, "restore memories")
    return WritePlan(Plan((appended,)), ids[0], path)


def count_reads(path: str, loaded: LoadedFile, reads: Mapping[str, AccessCount]) -> tuple[Edit, ...]:
    """Return the edits that raise `access_count` and advance `accessed_at`; of duplicate ids, only those of the
    first."""
    if path not in FILE_TYPES:
        return ()
    edits: list[Edit] = []
    remaining = dict(reads)
    for record in loaded.document.records:
        count = remaining.pop(record.id, None)
        if count is not None:
            edits += _access_edits(record, loaded.data, count)
    return tuple(edits)


def _access_edits(record: Record, data: bytes, count: AccessCount) -> list[Edit]:
    values: dict[str, bytes | None] = {}
    if record.facts["access_count"] < MAX_USES:
        values["access_count"] = encode(record.facts["access_count"] + count.times)
    if count.at > record.facts["accessed"]:
        values["accessed_at"] = encode(iso(count.at))
    return update_members(data, skip_space(data, record.span.start), values)


def native(text: bytes) -> NativeMemory:
    """Return the first object of a line."""
    objects = parse_line(text.strip()).objects
    return objects[0].native if objects else {"text": text.decode("utf-8", "replace")}


_MAX_SUGGESTED = 5


def require_capacity(view: WriteView, path: str, growth: int) -> None:
    """Raise LimitExceededError if a new line of `growth` bytes, or a longer one, does not fit into `path`: at a hard
    limit only shrinking is allowed."""
    limit = view.limits.get(path)
    if limit is None or limit.kind is not LimitKind.HARD:
        return
    file = view.files.get(path)
    count, size = (file.records, file.size) if file is not None else (0, 0)
    if not _is_full(limit, count, size, growth):
        return
    live = _live(view, path)
    if not _is_full(limit, len(live), size, growth):
        return
    raise _full(path, limit, size, live)


def _full(path: str, limit: Limit, size: int, live: list[Record]) -> LimitExceededError:
    live.sort(key=lambda each: (each.facts["accessed"], each.facts["access_count"], each.facts["created"]))
    ids = [each.id for each in live[:_MAX_SUGGESTED]]
    bound = f"{limit.max_count} memories" if _is_above_count(limit, len(live)) else f"{limit.max_bytes} bytes"
    return LimitExceededError(
        f"{path} is at its hard limit of {bound}; nothing more can be stored until space is freed",
        hint=f"archive old or rarely used memories, for example: memoryd archive {' '.join(ids) or 'ID'}",
        data={"file": path, "count": len(live), "max_count": limit.max_count, "bytes": size}
        | {"max_bytes": limit.max_bytes, "suggested": ids},
    )


def _is_full(limit: Limit, count: int, size: int, growth: int) -> bool:
    too_large = limit.max_bytes is not None and (size >= limit.max_bytes or size + growth > limit.max_bytes)
    return too_large or _is_above_count(limit, count)


def _is_above_count(limit: Limit, count: int) -> bool:
    return limit.max_count is not None and count >= limit.max_count


def _live(view: WriteView, path: str) -> list[Record]:
    """Return the records that the index counts: the first of duplicate ids, without those marked as archived."""
    loaded = view.load(path)
    first: dict[str, Record] = {}
    for record in loaded.document.records if loaded is not None else ():
        if not record.archived:
            first.setdefault(record.id, record)
    return list(first.values())
