"""Repair of JSONL files by exact edits, and merging of equal duplicates. Other lines keep their bytes.

Repair inserts a newline between several objects on one line, sets missing or wrong fields (the seed's defaults, and a
new id if there is none), and removes NUL bytes left by a power cut. Lines that cannot be parsed, and content that is
missing or too long, are left to a person. The operation saves the original of every repaired file in quarantine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from memoryd.core.dates import iso, parse_stamp
from memoryd.core.json_spans import with_member
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import FileStats, JsonObject, NativeMemory, ParseOffset, Record, Role
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.layouts.jsonl_store.archive import appended_lines, archived_type, line_span, remove_lines
from memoryd.layouts.jsonl_store.parser import Line, LineObject, parse_line, parse_lines, split_lines
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, IMPORTANCE, TYPES, ParsedMemory, read_memory
from memoryd.layouts.protocol import Fix, LoadedFile, UpkeepView, WriteView

_ACCESS_FIELDS = ("accessed_at", "access_count", "updated_at")


def fixes(path: str, loaded: LoadedFile, now: float) -> tuple[Fix, ...]:
    """Return the fixes of a file, in file order."""
    if path not in FILE_TYPES:
        return ()
    all_fixes: list[Fix] = []
    for line in split_lines(loaded.data, ParseOffset()):
        all_fixes += _line_fixes(line, FILE_TYPES[path], now, loaded.mtime)
    return tuple(all_fixes)


def _line_fixes(line: Line, file_type: str, now: float, mtime: float) -> Iterator[Fix]:
    text = line.text.lstrip(b"\0")
    lead = len(line.text) - len(text)
    body = text.rstrip(b"\0\r\t ")
    if b"\0" in line.text:
        yield from _nul_fixes(line, lead, len(body))
    if not body or b"\0" in body:
        return
    parsed = parse_line(body)
    if parsed.problem is not None:
        return
    start = line.start + lead
    for item, next_item in zip(parsed.objects, parsed.objects[1:], strict=False):
        gap = Span(start + item.end, start + next_item.start)
        yield Fix("joined-lines", (Edit(gap, b"\n"),), f"line {line.number}: insert a newline between two memories")
    for item in parsed.objects:
        yield from _object_fix(line, start, body[item.start : item.end], item, _ParseContext(file_type, now, mtime))


def _nul_fixes(line: Line, lead: int, size: int) -> Iterator[Fix]:
    """Yield the fix that removes NUL bytes at either end of a line, or from a line that holds nothing else."""
    edits = [Edit(Span(line.start, line.start + lead), b"")] if lead else []
    tail = line.text[lead + size :]
    if b"\0" in tail and size:
        span = Span(line.start + lead + size, line.start + len(line.text))
        edits.append(Edit(span, tail.replace(b"\0", b"")))
    if edits:
        yield Fix("nul-bytes", tuple(edits), f"line {line.number}: remove NUL bytes")


class _ParseContext(NamedTuple):
    """The inputs of parsing besides the object: the type of its file, the clock, and the time of the file in
    seconds."""

    file_type: str
    now: float
    mtime: float

    def read(self, native: NativeMemory) -> ParsedMemory:
        """Read an object with these inputs."""
        return read_memory(native, self.file_type, now=self.now, mtime=self.mtime)


def _object_fix(line: Line, start: int, old: bytes, item: LineObject, context: _ParseContext) -> Iterator[Fix]:
    memory = context.read(item.native)
    codes = {problem.code for problem in memory.problems}
    if not codes & {"corrected-schema", "missing-id"} or "invalid-schema" in codes:
        return
    corrections = dict(_corrections(item.native, old, context))
    new = old
    for key, value in corrections.items():
        new = with_member(new, key, json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if corrections:
        span = Span(start + item.start, start + item.end)
        code = "missing-id" if "missing-id" in codes else "corrected-schema"
        why = f"line {line.number}: set {', '.join(corrections)}"
        ids = (str(corrections.get("id") or memory.id),)
        yield Fix(code, (Edit(span, new),), why, ids)


def _corrections(native: NativeMemory, text: bytes, context: _ParseContext) -> Iterator[tuple[str, object]]:
    """Yield the fields to set, with the corrected values that the parser uses."""
    complete = dict(native) | ({} if _has_id(native) else {"id": _new_id(text)})
    facts = context.read(complete).facts
    if facts is None:
        return
    if not _has_id(native):
        yield "id", complete["id"]
    if native.get("type") not in TYPES:
        yield "type", context.file_type
    if native.get("category") is not None and facts["category"] is None:
        yield "category", None
    if native.get("importance") not in IMPORTANCE:
        yield "importance", facts["importance"]
    for key in ("access_count", "archived", "tags"):
        if type(native.get(key)) is not type(facts[key]) or native[key] != facts[key]:
            yield key, facts[key]
    for key, fact in (("created_at", "created"), ("updated_at", "updated"), ("accessed_at", "accessed")):
        stamp = parse_stamp(native.get(key))
        if stamp is None or not stamp.zoned:
            yield key, iso(facts[fact])


def _has_id(native: NativeMemory) -> bool:
    return isinstance(native.get("id"), str) and bool(native["id"])


def _new_id(text: bytes) -> str:
    """Return a UUID of version 4 derived from the text, so that a repeated repair changes nothing."""
    return str(UUID(hex=sha256(text)[:32], version=4))


def recover(path: str, loaded: LoadedFile, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
    """Return the fix that appends the memories of the backup that are neither in the file nor archived."""
    if path not in FILE_TYPES:
        return None
    old = parse_lines(path, backup, FILE_TYPES[path], now=now, mtime=0.0, base=ParseOffset())
    present = {record.id for record in loaded.document.records} | archived
    missing = [record for record in old.records if record.id not in present]
    if not missing:
        return None
    lead = b"" if not loaded.data or loaded.data.endswith(b"\n") else b"\n"
    lines = b"".join(record.span.of(backup).strip() + b"\n" for record in missing)
    end = Span(len(loaded.data), len(loaded.data))
    ids = tuple(record.id for record in missing)
    return Fix(
        "corrupt-file", (Edit(end, lead + lines),), f"restore {len(missing)} memories from the backup", ids, False
    )


def lost_files(files: Mapping[str, FileStats], damaged: Collection[str]) -> tuple[str, ...]:
    """Return the live files that are missing, empty or damaged while archives hold memories of their type."""
    archived = {archived_type(path) for path, each in files.items() if each.role is Role.ARCHIVE and each.records}
    return tuple(
        path
        for path, kind in FILE_TYPES.items()
        if kind in archived and (path not in files or not files[path].records or path in damaged)
    )


def rebuild(view: WriteView, damaged: Collection[str]) -> Plan:
    """Plan the move of archived memories back into the missing files; their removal from the archives comes last."""
    return Plan(tuple(action for path in lost_files(view.files, damaged) for action in _rebuild_file(view, path)))


def _rebuild_file(view: WriteView, path: str) -> Iterator[Action]:
    """Yield the append to the live file, then the removals from the archives."""
    live = view.load(path)
    present = {record.id for record in live.document.records} if live is not None else set()
    lines: dict[str, bytes] = {}
    removals: list[Action] = []
    for archive in sorted(each.path for each in view.files.values() if each.role is Role.ARCHIVE):
        loaded = view.load(archive) if archived_type(archive) == FILE_TYPES[path] else None
        if loaded is None:
            continue
        missing = [record for record in loaded.document.records if record.id not in present]
        for record in missing:
            lines.setdefault(record.id, with_member(record.span.of(loaded.data).strip(), "archived", b"false"))
        if missing:
            edits = tuple(remove_lines(loaded, [each.span for each in missing], view.policy.final_newline))
            ids, why = tuple(each.id for each in missing), f"moved back to {path}"
            kind = Kind.REWRITE if splice(loaded.data, edits) else Kind.REMOVE
            edits = edits if kind is Kind.REWRITE else ()
            removals.append(Action(kind, archive, why, ids, edits, base=loaded.digest))
    if lines:
        why = f"restore {len(lines)} memories from the archive"
        before = live.data if live is not None else None
        content = appended_lines(before, list(lines.values()), view.policy.final_newline)
        base = sha256(before) if before is not None else None
        yield Action(Kind.APPEND, path, why, tuple(lines), data=content, base=base)
    yield from removals


def dedupe(view: UpkeepView) -> Plan:
    """Plan the removal of duplicates that differ from the first memory with their id only in access statistics; other
    duplicates become notes."""
    first: dict[str, tuple[str, Record]] = {}
    notes: list[Action] = []
    actions: list[Action] = []
    for path, loaded in view.live.items():
        spans: list[tuple[str, Span]] = []
        for record in loaded.document.records:
            if record.id not in first:
                first[record.id] = (path, record)
            elif _equal(first[record.id][1], record):
                spans.append((record.id, line_span(loaded.data, record.span)))
            else:
                notes.append(_conflict_note(path, record, *first[record.id]))
        if spans:
            ids = tuple(identity for identity, _ in spans)
            edits = tuple(Edit(span, b"") for _, span in spans)
            why = "equal to the first memory with this id"
            actions.append(Action(Kind.REWRITE, path, why, ids, edits, base=sha256(loaded.data)))
    return Plan(tuple(actions), tuple(notes))


def _equal(first: Record, other: Record) -> bool:
    def plain(record: Record) -> JsonObject:
        return {key: value for key, value in record.native.items() if key not in _ACCESS_FIELDS}

    return plain(first) == plain(other)


def _conflict_note(path: str, record: Record, first_path: str, first: Record) -> Action:
    why = f"same id in {first_path} line {first.line} and {path} line {record.line}, with different contents"
    return Action(Kind.NOTE, path, f"{why}: merge them by hand", (record.id,))
