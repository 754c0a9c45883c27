"""Parsing of the files of the layout into records and findings, and recognition of the layout.

JSONL files are parsed line by line. Only "\n" ends a line (a "\r" before it is preserved and reported); U+2028 and the
like do not. Nothing is dropped: bytes that are not a record are a gap that every rewrite preserves.

Recognition distinguishes the layout from datasets, logs and task lists, whose files have the same names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.records import FRESH_S, Document, JsonObject, NativeMemory, ParseOffset, Record
from memoryd.core.secrets import headline
from memoryd.core.spans import BOM, Span, replace_surrogates
from memoryd.layouts.directory import HEAD_SIZE, Directory, first_value
from memoryd.layouts.jsonl_store.agent_json import is_agent_file, is_agent_json
from memoryd.layouts.jsonl_store.schema import (
    FILE_TYPES,
    INDEX,
    MAX_LINE,
    MAX_USES,
    TYPES,
    WEIGHTS,
    read_memory,
)
from memoryd.layouts.validation import Problem

_decode = msgspec.json.Decoder().decode
_decoder = json.JSONDecoder()
_NO_OBJECT = Problem("invalid-schema", "not a JSON object")


class Line(NamedTuple):
    """A line without its newline; offsets and numbers count from the beginning of the file. `terminated`: it has a
    newline."""

    number: int
    start: int
    text: bytes
    terminated: bool


class LineObject(NamedTuple):
    """One JSON object on a line, at bytes [start, end) of the line."""

    start: int
    end: int
    native: Any


class ParsedLine(NamedTuple):
    """The objects on a line, and its problem."""

    objects: list[LineObject]
    problem: Problem | None


def split_lines(data: bytes, base: ParseOffset) -> Iterator[Line]:
    """Yield the lines of `data`, which begins at `base` in its file."""
    number, at = base.line, 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            yield Line(number, base.offset + at, data[at:], False)
            return
        yield Line(number, base.offset + at, data[at:end], True)
        number, at = number + 1, end + 1


def parse_lines(
    path: str, data: bytes, file_type: str, *, now: float, mtime: float, base: ParseOffset, counted: bool = True
) -> Document:
    """Parse lines into a document. Archives are history: with `counted=False` no schema findings are reported."""
    records: list[Record] = []
    findings: list[Finding] = []
    units = broken = 0
    pending = False
    has_crlf = False
    for line in split_lines(data, base):
        text, skipped = _strip(line, findings, path)
        if not text.strip():
            if b"\0" in line.text:
                findings.append(Finding("nul-bytes", path, "a block of NUL bytes", line.number))
            continue
        if line.text.endswith(b"\r") and not has_crlf:
            has_crlf = True
            findings.append(Finding("crlf-newlines", path, "lines end in CRLF", line.number))
        units += 1
        parsed = parse_line(text)
        if parsed.problem:
            broken += 1
            # A time stamp far in the future means that the clock was set back, not that a program is writing.
            incomplete = not line.terminated and abs(now - mtime) < FRESH_S
            pending = pending or incomplete
            findings += [] if incomplete else [_broken_line(path, line, parsed)]
        elif len(parsed.objects) > 1:
            message = f"{len(parsed.objects)} memories on one line"
            findings.append(Finding("joined-lines", path, message, line.number))
        if counted and len(line.text) > MAX_LINE:
            message = f"{len(line.text)} bytes, more than the limit of 10,240"
            findings.append(Finding("line-too-long", path, message, line.number))
        units += max(0, len(parsed.objects) - (0 if parsed.problem else 1))
        for item in parsed.objects:
            start = line.start + skipped
            span = Span(start + item.start, start + item.end)
            record, problems = _record(item.native, span, line, file_type, now=now, mtime=mtime)
            if counted:
                identity = record.id if record else _text_id(item.native)
                findings += [Finding(p.code, path, _message(p, line), line.number, identity) for p in problems]
            if record:
                records.append(record)
    return Document(path, tuple(records), tuple(findings), units, broken, pending)


def _strip(line: Line, findings: list[Finding], path: str) -> tuple[bytes, int]:
    """Return the line without byte order mark, "\\r" and NULs at its ends (left by a power cut), and the number of
    bytes skipped at its beginning."""
    text = line.text
    if text.startswith(BOM):  # not only in the first line: files may have been concatenated
        findings.append(Finding("byte-order-mark", path, "a byte order mark before the line", line.number))
        text = text[len(BOM) :]
    if text.startswith(b"\0") and text.strip(b"\0 \t\r"):
        findings.append(Finding("nul-bytes", path, "NUL bytes before a memory", line.number))
        text = text.lstrip(b"\0")
    skipped = len(line.text) - len(text)
    return text.rstrip(b"\0\r\t "), skipped


def parse_line(text: bytes) -> ParsedLine:
    """Return the objects on one line. The line must consist of objects, the last of which may be cut off; otherwise
    none are returned."""
    try:
        native = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return _parse_with_json(text)
    if isinstance(native, dict):
        return ParsedLine([LineObject(0, len(text), native)], None)
    return ParsedLine([], _NO_OBJECT)


def _parse_with_json(raw: bytes) -> ParsedLine:
    """Parse joined objects, and syntax that only Python's parser accepts; the seed's readers use that parser."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return ParsedLine([], Problem("invalid-encoding", f"not UTF-8 at byte {error.start + 1}"))
    if "\0" in text:
        return ParsedLine([], Problem("nul-bytes", "NUL bytes inside a line"))
    objects: list[LineObject] = []
    at = _skip_space(text, 0)
    while at < len(text):
        try:
            native, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            reason = (getattr(error, "msg", None) or type(error).__name__).removesuffix(" at")
            problem = Problem("invalid-json", f"{reason} at character {getattr(error, 'pos', at) + 1}")
            return ParsedLine(objects if text[at] == "{" else [], problem)
        if not isinstance(native, dict):
            joined = bool(objects) or _skip_space(text, end) < len(text)
            return ParsedLine([], Problem("invalid-json", _NO_OBJECT.message) if joined else _NO_OBJECT)
        objects.append(LineObject(len(text[:at].encode()), len(text[:end].encode()), native))
        at = _skip_space(text, end)
    return ParsedLine(objects, None)


def _skip_space(text: str, at: int) -> int:
    return len(text) - len(text[at:].lstrip(" \t\r\n"))


def _record(
    native: NativeMemory, span: Span, line: Line, file_type: str, *, now: float, mtime: float
) -> tuple[Record | None, list[Problem]]:
    memory = read_memory(native, file_type, now=now, mtime=mtime)
    problems = memory.problems
    if _may_repeat_keys(line.text, native) and _repeats_keys(line.text[: span.end - line.start], span, line):
        problems.append(Problem("duplicate-key", "duplicate key; the last value counts"))
    if memory.facts is None or memory.id is None:
        return None, problems
    facts = memory.facts
    last_use = max(facts["accessed"], facts["updated"], facts["created"])
    record = Record(
        span,
        line.number,
        memory.id,
        memory.type,
        replace_surrogates(headline(native["content"])),
        facts["created"],
        last_use,
        tuple(facts["tags"]),
        facts["archived"],
        native,
        facts,
        replace_surrogates(native["content"]),
        (facts["category"],) if facts["category"] else (),
        WEIGHTS[facts["importance"]],
        min(facts["access_count"], MAX_USES),
    )
    return record, problems


def _may_repeat_keys(text: bytes, native: NativeMemory) -> bool:
    # This quick count rules out repeated keys on nearly every line; only the other lines are parsed again.
    count = text.count(b'":') + text.count(b'" :')
    return count > len(native) and count > _key_count(native)


def _key_count(value: object) -> int:
    """Count the keys of all objects in a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_key_count, value.values()))
    return sum(map(_key_count, value)) if isinstance(value, list) else 0


def _repeats_keys(text: bytes, span: Span, line: Line) -> bool:
    repeated = False

    def pairs(members: list[tuple[str, object]]) -> JsonObject:
        nonlocal repeated
        repeated = repeated or len({key for key, _ in members}) < len(members)
        return dict(members)

    try:
        json.loads(text[span.start - line.start :], object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return False
    return repeated


def _broken_line(path: str, line: Line, parsed: ParsedLine) -> Finding:
    assert parsed.problem is not None
    code, reason = parsed.problem
    if not line.terminated and code == "invalid-json":
        return Finding("torn-tail", path, f"Invalid JSON at line {line.number}: the line is cut off", line.number)
    what = "schema" if code == "invalid-schema" else "JSON"
    return Finding(code, path, f"Invalid {what} at line {line.number}: {reason}", line.number)


def _message(problem: Problem, line: Line) -> str:
    if problem.code in ("invalid-schema", "corrected-schema", "missing-id"):
        return f"Invalid schema at line {line.number}: {problem.message}"
    return problem.message


def _text_id(native: NativeMemory) -> str | None:
    identity = native.get("id")
    return replace_surrogates(identity) if isinstance(identity, str) else None


# --- recognition

_LINES = 20  # lines checked in each file


def recognise(directory: Directory) -> str | None:
    """Return the evidence of a JSONL store (memories, an index with counts by type, or an `<agent-id>.json` file)."""
    present = [path for path in FILE_TYPES if path in directory.files]
    lines = {f"{path}:{number}": line for path in present for number, line in _lines(directory.head(path))}
    values = {position: first_value(line) for position, line in lines.items()}
    readable = [each for each, value in values.items() if value is not None]  # damaged lines prove nothing
    memories = [position for position in readable if _is_memory(values[position])]
    if 2 * len(memories) > len(readable):
        return f"{memories[0]} holds a memory"
    if present and not lines and is_index(directory.json(INDEX) if INDEX in directory.files else None):
        return f"{INDEX} counts memories by type"
    agents = (path for path in directory.first(is_agent_file) if is_agent_json(directory.json(path)))
    return next((f"{path} holds the memories of an agent" for path in agents), None)


def is_index(content: object) -> bool:
    """Return True for the content of an `index.json` of this layout."""
    statistics = content.get("statistics") if isinstance(content, dict) else None
    return isinstance(statistics, dict) and isinstance(statistics.get("by_type"), dict)


def _lines(head: bytes) -> list[tuple[int, bytes]]:
    """Return the first non-empty lines with their numbers, without one that is cut off."""
    complete = head if len(head) < HEAD_SIZE else head.rpartition(b"\n")[0]
    return [(number, line) for number, line in enumerate(complete.split(b"\n"), 1) if line.strip()][:_LINES]


def _is_memory(native: object) -> bool:
    if not isinstance(native, dict) or not all(isinstance(native.get(key), str) for key in ("id", "content")):
        return False
    return native.get("type") in TYPES
