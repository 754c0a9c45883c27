"""Reading JSONL line by line: what is sound becomes records, what is broken becomes findings.

Lines end in "\\n" alone (a "\\r" before it is kept and reported); U+2028 and friends do not end a line.
Nothing is ever dropped: whatever is no record is a gap that every rewrite carries through.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.json_text import decode_at, skip_space
from memoryd.core.records import Base, Document, Record
from memoryd.core.secrets import headline
from memoryd.core.text import Span
from memoryd.layouts.jsonl_store.schema import MAX_LINE, MOST_USES, WEIGHTS, Problem, read_memory, sound

FRESH_S = 2.0  # an unparsable tail younger than this is a writer at work, not damage
_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class Line(NamedTuple):
    """`text` without its newline; offsets and numbers count from the beginning of the file."""

    number: int
    start: int
    text: bytes
    ended: bool


class Part(NamedTuple):
    """One object found on a line, at bytes [start, end) of the line."""

    start: int
    end: int
    native: Any


class Parsed(NamedTuple):
    parts: list[Part]
    problem: Problem | None
    rest_open: bool = False


def split(data: bytes, base: Base) -> Iterator[Line]:
    number, at = base.line, 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            yield Line(number, base.offset + at, data[at:], False)
            return
        yield Line(number, base.offset + at, data[at:end], True)
        number, at = number + 1, end + 1


def parse_lines(
    path: str, data: bytes, file_type: str, *, now: float, mtime: float, base: Base, counted: bool = True
) -> Document:
    """`counted=False` (archive files) reads without the schema's findings: they are history."""
    records: list[Record] = []
    findings: list[Finding] = []
    units = broken = 0
    pending = False
    crlf_seen = False
    for line in split(data, base):
        text, skipped = _strip(line, findings, path)
        if not text.strip():
            if b"\0" in line.text:
                findings.append(Finding("nul-bytes", path, "a block of NUL bytes", line.number))
            continue
        if line.text.endswith(b"\r") and not crlf_seen:
            crlf_seen = True
            findings.append(Finding("crlf-newlines", path, "lines end in CRLF", line.number))
        units += 1
        parsed = parse_line(text)
        if parsed.problem:
            broken += 1
            # A stamp far ahead of the clock tells of a clock set back, not of a writer at work.
            waits = not line.ended and abs(now - mtime) < FRESH_S
            pending = pending or waits
            findings += [] if waits else [_broken(path, line, parsed)]
        elif len(parsed.parts) > 1:
            message = f"{len(parsed.parts)} memories stand on one line"
            findings.append(Finding("joined-lines", path, message, line.number))
        if counted and len(line.text) > MAX_LINE:
            message = f"{len(line.text)} bytes, at most 10,240 are meant"
            findings.append(Finding("line-too-long", path, message, line.number))
        units += max(0, len(parsed.parts) - (0 if parsed.problem else 1))
        for part in parsed.parts:
            start = line.start + skipped
            span = Span(start + part.start, start + part.end)
            record, problems = _record(part.native, span, line, file_type, now=now, mtime=mtime)
            if counted:
                found = record.id if record else _identity(part.native)
                findings += [Finding(p.code, path, _worded(p, line), line.number, found) for p in problems]
            if record:
                records.append(record)
    return Document(path, tuple(records), tuple(findings), units, broken, pending)


def _strip(line: Line, findings: list[Finding], path: str) -> tuple[bytes, int]:
    """The line's text without a byte order mark, leading NULs (residue of a power cut) and "\\r"."""
    text = line.text
    if text.startswith(_BOM):  # also further down, where somebody joined two files
        findings.append(Finding("byte-order-mark", path, "a byte order mark stands before the line", line.number))
        text = text[len(_BOM) :]
    if text.startswith(b"\0") and text.strip(b"\0 \t\r"):
        findings.append(Finding("nul-bytes", path, "NUL bytes before a memory", line.number))
        text = text.lstrip(b"\0")
    skipped = len(line.text) - len(text)
    return text.rstrip(b"\0\r\t "), skipped


def parse_line(text: bytes) -> Parsed:
    """The objects on one line. All of it must be objects, or at least begin with some and then break off
    where a further object begins; else nothing is taken from it."""
    try:
        native = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return _parse_hard(text)
    if isinstance(native, dict):
        return Parsed([Part(0, len(text), native)], None)
    return Parsed([], Problem("invalid-json", "is no object"))


def _parse_hard(raw: bytes) -> Parsed:
    """The slow way: joined objects, and what only Python's own parser accepts (the seed's readers use it)."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Parsed([], Problem("invalid-encoding", f"is not UTF-8 at byte {error.start + 1}"))
    if "\0" in text:
        return Parsed([], Problem("nul-bytes", "NUL bytes inside a line"))
    parts: list[Part] = []
    at = skip_space(text, 0)
    while at < len(text):
        try:
            native, end = decode_at(text, at)
        except (ValueError, RecursionError) as error:
            reason = (getattr(error, "msg", None) or type(error).__name__).removesuffix(" at")
            problem = Problem("invalid-json", f"{reason} at character {getattr(error, 'pos', at) + 1}")
            return Parsed(parts if text[at] == "{" else [], problem, rest_open=text[at] == "{")
        if not isinstance(native, dict):
            return Parsed([], Problem("invalid-json", "is no object"))
        parts.append(Part(len(text[:at].encode()), len(text[:end].encode()), native))
        at = skip_space(text, end)
    return Parsed(parts, None)


def _record(
    native: Mapping[str, Any], span: Span, line: Line, file_type: str, *, now: float, mtime: float
) -> tuple[Record | None, list[Problem]]:
    reading = read_memory(native, file_type, now=now, mtime=mtime)
    problems = reading.problems
    if _may_repeat_keys(line.text, native) and _repeats_keys(line.text[: span.end - line.start], span, line):
        problems.append(Problem("duplicate-key", "names one key twice; the last value counts"))
    if reading.facts is None or reading.id is None:
        return None, problems
    facts = reading.facts
    used = max(facts["accessed"], facts["updated"], facts["created"])
    record = Record(
        span,
        line.number,
        reading.id,
        reading.type,
        sound(headline(native["content"])),
        facts["created"],
        used,
        tuple(facts["tags"]),
        facts["archived"],
        native,
        facts,
        sound(native["content"]),
        (facts["category"],) if facts["category"] else (),
        WEIGHTS[facts["importance"]],
        min(facts["access_count"], MOST_USES),
    )
    return record, problems


def _may_repeat_keys(text: bytes, native: Mapping[str, Any]) -> bool:
    # One count tells for nearly every line that all is well; only the rest is parsed again.
    return text.count(b'":') + text.count(b'" :') > len(native)


def _repeats_keys(text: bytes, span: Span, line: Line) -> bool:
    repeated = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        repeated = repeated or len({key for key, _ in found}) < len(found)
        return dict(found)

    try:
        json.loads(text[span.start - line.start :], object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return False
    return repeated


def _broken(path: str, line: Line, parsed: Parsed) -> Finding:
    assert parsed.problem is not None
    code, reason = parsed.problem
    if not line.ended and code == "invalid-json":
        return Finding("torn-tail", path, f"Invalid JSON at line {line.number}: the line is cut off", line.number)
    return Finding(code, path, f"Invalid JSON at line {line.number}: {reason}", line.number)


def _worded(problem: Problem, line: Line) -> str:
    if problem.code in ("invalid-schema", "corrected-schema", "missing-id"):
        return f"Invalid schema at line {line.number}: {problem.message}"
    return problem.message


def _identity(native: Mapping[str, Any]) -> str | None:
    found = native.get("id")
    return sound(found) if isinstance(found, str) else None
