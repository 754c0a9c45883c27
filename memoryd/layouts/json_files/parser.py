"""Parsing of one memory file (valid, torn, half-written, or not a memory), and recognition of the layout.

The real server writes without lock or temporary name, so a shorter text can overwrite a longer one and leave its end
(`}se\\n}`; three of four files of its own repository). The first JSON value is then the memory.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.records import FRESH_S, FUTURE_S, Document, NativeMemory, Record
from memoryd.core.spans import BOM, Span
from memoryd.layouts.directory import Directory
from memoryd.layouts.json_files import names
from memoryd.layouts.json_files.schema import TYPES, MemoryFacts, content_digest, is_memory_id, read_memory

_MAX_BRACES = 100  # braces of a tail that are tried as the beginning of a second memory


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(parse_constant=_reject_constant)


def decode_text(text: str) -> object:
    """Return the one JSON value of a text, which may hold lone surrogates. Raises ValueError or RecursionError."""
    return _decoder.decode(text)


class FirstValue(NamedTuple):
    """The first JSON value of a file, its span, and the text after it."""

    native: Any
    span: Span
    tail: str


def parse(path: str, data: bytes, *, now: float, mtime: float) -> Document:
    """Parse one memory file. Never raises."""
    first = first_value(data)
    # A time stamp far in the future means that the clock was set back, not that a program is writing.
    fresh = abs(now - mtime) < FRESH_S
    if not isinstance(first, FirstValue):
        return Document(path, (), () if fresh else (_unreadable(path, data, first),), 1, 1, fresh)
    native = first.native
    if not is_memory_object(native):
        return _not_a_memory(path, first, fresh)
    facts = read_memory(native, path, mtime)
    record = _record(data, native, first.span, facts)
    document_facts = {"meaning": content_digest(native, first.span.of(data)), "idle": is_idle(facts)}
    if first.tail and fresh:
        return Document(path, (record,), (), 2, 1, True, document_facts)
    findings = (*_tail_findings(path, first, facts), *_field_findings(path, facts), *_stamp_findings(path, facts, now))
    if data.startswith(BOM):
        message = "the file begins with a byte order mark, which the server cannot read; remove it"
        findings = (*findings, Finding("byte-order-mark", path, message))
    units, broken = (2, 1) if first.tail else (1, 0)
    return Document(path, (record,), findings, units, broken, False, document_facts)


def is_memory_object(native: object) -> bool:
    """Return True for an object with a text `id`, which is all that the index needs."""
    return isinstance(native, dict) and isinstance(native.get("id"), str) and bool(native["id"])


def is_idle(facts: MemoryFacts) -> bool:
    """Return True if relevance is below 0.3 and accesses are fewer than five: the archive rule without the age."""
    return not facts.archived and facts.values["relevance"] < 0.3 and facts.values["access"] < 5


def is_torn(first: FirstValue, facts: MemoryFacts) -> bool:
    """Return True if the tail may be removed: the memory fits the schema, and the tail is not another value."""
    return bool(first.tail) and not facts.problems and not _holds_value(first.tail)


def first_value(data: bytes) -> FirstValue | str:
    """Return the first JSON value of a file, or the reason why there is none."""
    offset = len(BOM) if data.startswith(BOM) else 0
    body = data[offset:]
    try:
        native = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _parse_prefix(body, offset)
    content = body.strip(b" \t\r\n")
    start = offset + body.index(content)
    return FirstValue(native, Span(start, start + len(content)), "")


def _parse_prefix(body: bytes, offset: int) -> FirstValue | str:
    # The tail may begin inside a character, which must not stop decoding.
    text = body.decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        native, end = _decoder.raw_decode(text, start)
        size = len(text[start:end].encode("utf-8"))
    except UnicodeEncodeError:
        return "not UTF-8"
    except (ValueError, RecursionError) as error:
        return getattr(error, "msg", None) or type(error).__name__
    tail = text[end:].strip(" \t\r\n")
    return FirstValue(native, Span(offset + start, offset + start + size), tail)


def _holds_value(tail: str) -> bool:
    """Return True if the tail is a JSON value, the beginning of an object, or contains a memory."""
    if tail.startswith("{"):
        return True
    value, end = _value_at(tail, 0)
    if end and not tail[end:].strip(" \t\r\n"):
        return True
    at = -1
    for _ in range(_MAX_BRACES):
        at = tail.find("{", at + 1)
        if at < 0:
            return False
        value, end = _value_at(tail, at)
        if isinstance(value, dict) and isinstance(value.get("id"), str) and "content" in value:
            return True
    return True  # more braces than the end of one memory has


def _value_at(text: str, at: int) -> tuple[object, int]:
    """Return the value at this offset and the offset after it; (None, 0) if there is none."""
    try:
        return _decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, 0


def _record(data: bytes, native: NativeMemory, span: Span, facts: MemoryFacts) -> Record:
    return Record(
        span,
        1 + data.count(b"\n", 0, span.start),
        facts.id,
        facts.type,
        facts.title,
        facts.created,
        facts.used,
        facts.tags,
        facts.archived,
        native,
        facts.values,
        facts.text,
        facts.labels,
        facts.weight,
        facts.values["access"],
    )


def _unreadable(path: str, data: bytes, reason: str) -> Finding:
    if not data.strip():
        return Finding("corrupt-file", path, "the file is empty; restore it from a backup or delete it")
    if not data.strip(b"\0 \t\r\n"):
        return Finding("corrupt-file", path, "only NUL bytes; restore the file from a backup or delete it")
    return Finding("corrupt-file", path, f"Invalid JSON: {reason}; restore it from a backup or correct it by hand")


def _not_a_memory(path: str, first: FirstValue, fresh: bool) -> Document:
    if first.tail:  # perhaps a number or text that is still being written
        message = "the first value is not a memory and more text follows; restore a backup or correct the file by hand"
        return Document(path, (), () if fresh else (Finding("corrupt-file", path, message),), 1, 1, fresh)
    reason = "id: missing or not text" if isinstance(first.native, dict) else "not a JSON object"
    message = f"Invalid schema: {reason}; a memory file must hold exactly one object with an id"
    return Document(path, (), (Finding("invalid-schema", path, message),), 1)


def _tail_findings(path: str, first: FirstValue, facts: MemoryFacts) -> tuple[Finding, ...]:
    if not first.tail:
        return ()
    size = len(first.tail.encode("utf-8", "surrogateescape"))
    if is_torn(first, facts):
        message = f"{size} bytes of an older, longer text follow the memory; `memoryd repair` removes them"
        return (Finding("torn-file", path, message, None, facts.id),)
    message = f"{size} bytes follow the memory and may be another one; split the file by hand"
    return (Finding("second-object", path, message, None, facts.id),)


def _field_findings(path: str, facts: MemoryFacts) -> tuple[Finding, ...]:
    findings = [
        Finding("field-type", path, f"{key}: unexpected type or form; read as missing", None, facts.id)
        for key in facts.problems
    ]
    if not is_memory_id(facts.id):
        message = "the id is accepted, but does not have the form mem_<milliseconds>_<base36>"
        findings.append(Finding("id-form", path, message, None, facts.id))
    return tuple(findings)


def _stamp_findings(path: str, facts: MemoryFacts, now: float) -> tuple[Finding, ...]:
    if facts.created <= now + FUTURE_S:
        return ()
    message = f"created: {facts.values['timestamp']} is in the future; the memory is first in the index until then"
    return (Finding("future-stamp", path, message, None, facts.id),)


def recognise(directory: Directory) -> str | None:
    """Return what shows the layout: an index with `fileIndex` and `temporalIndex`, or a memory file. None where nothing
    does."""
    index = directory.json(names.INDEX) if names.INDEX in directory.files else None
    if is_index(index):
        return f"{names.INDEX} has a fileIndex and a temporalIndex"
    return next(
        (f"{path} holds a memory" for path in directory.first(names.is_memory) if _is_memory(directory, path)), None
    )


def is_index(content: object) -> bool:
    """Return True for the content of an `_index.json` of this layout."""
    if not isinstance(content, dict):
        return False
    return isinstance(content.get("fileIndex"), dict) and isinstance(content.get("temporalIndex"), list)


def _is_memory(directory: Directory, path: str) -> bool:
    native = directory.json(path)
    if not isinstance(native, dict) or not all(isinstance(native.get(key), str) for key in ("id", "content")):
        return False
    return "summary" in native or "confidence" in native or native.get("type") in TYPES
