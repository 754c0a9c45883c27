"""Healing JSONL files by exact edits, and merging equal duplicates. Untouched lines stay as they are.

Fixable are: objects glued on one line (a newline between them), missing or wrong fields (the seed's defaults, a new
id where there is none), NUL bytes of a power cut (taken out). What cannot be parsed, and content that is missing or
too long, is left for a person. The original of every repaired file is kept in quarantine by the operation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from memoryd.core.dates import iso, parse_stamp
from memoryd.core.digest import sha256
from memoryd.core.json_text import with_member
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Base, Record
from memoryd.core.text import Edit, Span
from memoryd.layouts.base import Fix, Loaded, UpkeepView
from memoryd.layouts.jsonl_store.lines import Line, Part, parse_line, parse_lines, split
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, IMPORTANCE, TYPES, Reading, read_memory
from memoryd.layouts.jsonl_store.upkeep import line_span

_STATISTICS = ("accessed_at", "access_count", "updated_at")


def fixes(path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
    """One fix for each healed place, in file order."""
    if path not in FILE_TYPES:
        return ()
    found: list[Fix] = []
    for line in split(loaded.data, Base()):
        found += _line_fixes(line, FILE_TYPES[path], now, loaded.mtime)
    return tuple(found)


def _line_fixes(line: Line, file_type: str, now: float, mtime: float) -> Iterator[Fix]:
    text = line.text.lstrip(b"\0")
    lead = len(line.text) - len(text)
    body = text.rstrip(b"\0\r\t ")
    if b"\0" in line.text:
        yield from _without_nul(line, lead, len(body))
    if not body or b"\0" in body:
        return
    parsed = parse_line(body)
    if parsed.problem is not None:
        return
    start = line.start + lead
    for part, following in zip(parsed.parts, parsed.parts[1:], strict=False):
        gap = Span(start + part.end, start + following.start)
        yield Fix("joined-lines", (Edit(gap, b"\n"),), f"line {line.number}: a newline between two memories")
    for part in parsed.parts:
        yield from _part_fix(line, start, body[part.start : part.end], part, _Times(file_type, now, mtime))


def _without_nul(line: Line, lead: int, size: int) -> Iterator[Fix]:
    """NUL bytes at either end of a line, or a line of nothing else."""
    edits = [Edit(Span(line.start, line.start + lead), b"")] if lead else []
    tail = line.text[lead + size :]
    if b"\0" in tail and size:
        span = Span(line.start + lead + size, line.start + len(line.text))
        edits.append(Edit(span, tail.replace(b"\0", b"")))
    if edits:
        yield Fix("nul-bytes", tuple(edits), f"line {line.number}: NUL bytes taken out")


class _Times(NamedTuple):
    """What a reading depends on beside the object: the type of its file, the clock, the file's time."""

    file_type: str
    now: float
    mtime: float

    def read(self, native: Mapping[str, Any]) -> Reading:
        return read_memory(native, self.file_type, now=self.now, mtime=self.mtime)


def _part_fix(line: Line, start: int, old: bytes, part: Part, times: _Times) -> Iterator[Fix]:
    reading = times.read(part.native)
    codes = {problem.code for problem in reading.problems}
    if not codes & {"corrected-schema", "missing-id"} or "invalid-schema" in codes:
        return
    corrected = dict(_corrections(part.native, old, times))
    new = old.decode("utf-8")
    for key, value in corrected.items():
        new = with_member(new, key, json.dumps(value, ensure_ascii=False))
    if corrected:
        span = Span(start + part.start, start + part.end)
        code = "missing-id" if "missing-id" in codes else "corrected-schema"
        why = f"line {line.number}: {', '.join(corrected)} set"
        ids = (str(corrected.get("id") or reading.id),)
        yield Fix(code, (Edit(span, new.encode("utf-8", "surrogatepass")),), why, ids)


def _corrections(native: Mapping[str, Any], text: bytes, times: _Times) -> Iterator[tuple[str, Any]]:
    """The fields to set, with the values the reading in memory already uses."""
    whole = dict(native) | ({} if _has_id(native) else {"id": _new_id(text)})
    facts = times.read(whole).facts
    if facts is None:
        return
    if not _has_id(native):
        yield "id", whole["id"]
    if native.get("type") not in TYPES:
        yield "type", times.file_type
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


def _has_id(native: Mapping[str, Any]) -> bool:
    return isinstance(native.get("id"), str) and bool(native["id"])


def _new_id(text: bytes) -> str:
    """A UUID of version 4's form, the same for the same text, so that a repeated repair changes nothing."""
    return str(UUID(hex=sha256(text)[:32], version=4))


def recover(path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
    """Memories of the backup that are neither here nor archived, appended verbatim; nothing that is here goes."""
    if path not in FILE_TYPES:
        return None
    old = parse_lines(path, backup, FILE_TYPES[path], now=now, mtime=0.0, base=Base())
    known = {record.id for record in loaded.document.records} | archived
    missing = [record for record in old.records if record.id not in known]
    if not missing:
        return None
    lead = b"" if not loaded.data or loaded.data.endswith(b"\n") else b"\n"
    lines = b"".join(record.span.of(backup).strip() + b"\n" for record in missing)
    end = Span(len(loaded.data), len(loaded.data))
    ids = tuple(record.id for record in missing)
    return Fix("corrupt-file", (Edit(end, lead + lines),), f"{len(missing)} memories back from the backup", ids, False)


def dedupe(view: UpkeepView) -> Plan:
    """Later lines with an id that stands already go when they differ in access statistics only; others are noted."""
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
                notes.append(_differing(path, record, *first[record.id]))
        if spans:
            ids = tuple(identity for identity, _ in spans)
            edits = tuple(Edit(span, b"") for _, span in spans)
            why = "equal to the first memory with this id"
            actions.append(Action(Kind.REWRITE, path, why, ids, edits, base=sha256(loaded.data)))
    return Plan(tuple(actions), tuple(notes))


def _equal(first: Record, other: Record) -> bool:
    def plain(record: Record) -> dict[str, Any]:
        return {key: value for key, value in record.native.items() if key not in _STATISTICS}

    return plain(first) == plain(other)


def _differing(path: str, record: Record, first_path: str, first: Record) -> Action:
    why = f"the id stands in {first_path} line {first.line} and {path} line {record.line} with different contents"
    return Action(Kind.NOTE, path, f"{why}: merge them by hand", (record.id,))
