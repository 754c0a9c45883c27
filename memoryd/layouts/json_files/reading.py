"""Reading one memory file: sound, torn, half-written, or no memory at all.

The real server writes without lock or temporary name, so a shorter text can land over a longer one and leave its
tail behind (`}se\\n}`; three of four files of its own repository). The first JSON value is then the memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.json_text import skip_space
from memoryd.core.records import Document, Record
from memoryd.core.text import Span
from memoryd.layouts.json_files.schema import Facts, has_usual_id, meaning, read_memory

FRESH_S = 2.0  # an unparsable file younger than this is being written
_BOM = b"\xef\xbb\xbf"
_LOOKED_AT = 100  # braces of a tail at which a second memory is looked for


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def decode_text(text: str) -> Any:
    """The one JSON value of a text, lone surrogates included; raises ValueError or RecursionError."""
    return _decoder.decode(text)


class First(NamedTuple):
    """The first JSON value of a file, its bytes, and what stands after it (None where none begins)."""

    native: Any
    span: Span
    tail: str


def parse(path: str, data: bytes, *, now: float, mtime: float) -> Document:
    found = first_value(data)
    # A stamp far ahead of the clock tells of a clock set back, not of a writer at work.
    fresh = abs(now - mtime) < FRESH_S
    if not isinstance(found, First):
        return Document(path, (), () if fresh else (_unreadable(path, data, found),), 1, 1, fresh)
    native = found.native
    if not is_memory_object(native):
        return _no_memory(path, found, fresh)
    facts = read_memory(native, path, mtime)
    record = _record(data, native, found.span, facts)
    document_facts = {"meaning": meaning(native, found.span.of(data)), "idle": is_idle(facts)}
    if found.tail and fresh:
        return Document(path, (record,), (), 2, 1, True, document_facts)
    findings = (*_about_tail(path, found, facts), *_about_fields(path, facts))
    if data.startswith(_BOM):
        told = "the file begins with a byte order mark, which the server cannot read; take it out"
        findings = (*findings, Finding("byte-order-mark", path, told))
    units, broken = (2, 1) if found.tail else (1, 0)
    return Document(path, (record,), findings, units, broken, False, document_facts)


def is_memory_object(native: object) -> bool:
    """All that the index needs: an object with a text `id`."""
    return isinstance(native, dict) and isinstance(native.get("id"), str) and bool(native["id"])


def is_idle(facts: Facts) -> bool:
    """All that the archive rule asks but for age: relevance below 0.3 and fewer than five accesses."""
    return not facts.archived and facts.values["relevance"] < 0.3 and facts.values["access"] < 5


def is_torn(found: First, facts: Facts) -> bool:
    """May the tail go? The memory must fit the schema, and the tail be no second value of its own."""
    return bool(found.tail) and not facts.problems and not _holds_value(found.tail)


def first_value(data: bytes) -> First | str:
    """The first JSON value, or the reason why there is none."""
    lead = len(_BOM) if data.startswith(_BOM) else 0
    body = data[lead:]
    try:
        native = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _first_of_many(body, lead)
    inner = body.strip(b" \t\r\n")
    start = lead + body.index(inner)
    return First(native, Span(start, start + len(inner)), "")


def _first_of_many(body: bytes, lead: int) -> First | str:
    # A tail may begin in the middle of a character, so decoding must not stop there.
    text = body.decode("utf-8", "surrogateescape")
    start = skip_space(text, 0)
    try:
        native, end = _decoder.raw_decode(text, start)
        size = len(text[start:end].encode("utf-8"))
    except UnicodeEncodeError:
        return "is not UTF-8"
    except (ValueError, RecursionError) as error:
        return getattr(error, "msg", None) or type(error).__name__
    tail = text[end:].strip(" \t\r\n")
    return First(native, Span(lead + start, lead + start + size), tail)


def _holds_value(tail: str) -> bool:
    """Is the tail a JSON value, the beginning of an object, or does it hold a whole memory?"""
    if tail.startswith("{"):
        return True
    value, end = _value_at(tail, 0)
    if end and not tail[end:].strip(" \t\r\n"):
        return True
    at = -1
    for _ in range(_LOOKED_AT):
        at = tail.find("{", at + 1)
        if at < 0:
            return False
        value, end = _value_at(tail, at)
        if isinstance(value, dict) and isinstance(value.get("id"), str) and "content" in value:
            return True
    return True  # so many braces are more than the end of one memory


def _value_at(text: str, at: int) -> tuple[Any, int]:
    """The value that begins there and the offset after it; (None, 0) where none does."""
    try:
        return _decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, 0


def _record(data: bytes, native: Mapping[str, Any], span: Span, facts: Facts) -> Record:
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
        return Finding("corrupt-file", path, "nothing but NUL bytes; restore it from a backup or delete it")
    return Finding("corrupt-file", path, f"Invalid JSON: {reason}; restore it from a backup or mend it by hand")


def _no_memory(path: str, found: First, fresh: bool) -> Document:
    if found.tail:  # the beginning of something else, perhaps of a number or text still being written
        told = "the first value is no memory and more follows; restore it from a backup or mend it by hand"
        return Document(path, (), () if fresh else (Finding("corrupt-file", path, told),), 1, 1, fresh)
    reason = "id: is missing or no text" if isinstance(found.native, dict) else "is no JSON object"
    told = f"Invalid schema: {reason}; a memory file holds exactly one object with an id"
    return Document(path, (), (Finding("invalid-schema", path, told),), 1)


def _about_tail(path: str, found: First, facts: Facts) -> tuple[Finding, ...]:
    if not found.tail:
        return ()
    size = len(found.tail.encode("utf-8", "surrogateescape"))
    if is_torn(found, facts):
        told = f"{size} bytes of an older, longer text stand after the memory; repair takes them out"
        return (Finding("torn-file", path, told, None, facts.id),)
    told = f"{size} bytes stand after the memory that may be another one; divide the file by hand"
    return (Finding("second-object", path, told, None, facts.id),)


def _about_fields(path: str, facts: Facts) -> tuple[Finding, ...]:
    found = [
        Finding("field-type", path, f"{key}: has an unexpected type or form; it is read as missing", None, facts.id)
        for key in facts.problems
    ]
    if not has_usual_id(facts.id):
        told = "the id has not the form mem_<milliseconds>_<base36>; accepted"
        found.append(Finding("id-form", path, told, None, facts.id))
    return tuple(found)
