"""The form that the server of seed 004 really shipped: one `<agent-id>.json` an agent, holding
`core_memories`, `learnings`, `tasks` and `metadata`. memoryd reads and checks it and never writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.json_elements import elements, last, lines, members, skip_space
from memoryd.core.records import Document, Record
from memoryd.core.secrets import headline
from memoryd.core.text import Span
from memoryd.layouts.jsonl_store.lines import FRESH_S
from memoryd.layouts.jsonl_store.schema import MAX_CONTENT, MOST_USES, WEIGHTS, read_memory, sound

_NAME = re.compile(r"(?!index\.json$)[^./][^/]*\.json")
_LISTS = {"core_memories": "core", "learnings": "learning", "tasks": "task"}


def is_candidate(path: str) -> bool:
    """True for `x.json` at the top of the store; whether it has the shipped shape only its content tells."""
    return _NAME.fullmatch(path) is not None


def parse(path: str, data: bytes, *, now: float, mtime: float) -> Document:
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if abs(now - mtime) < FRESH_S:
            return Document(path, (), (), pending=True)
        if b"core_memories" not in data:
            return Document(path, (), (Finding("foreign-file", path, "is no part of the layout"),))
        message = f"Invalid JSON: {error}; restore it from the .backup file beside it"
        return Document(path, (), (Finding("corrupt-file", path, message),), 1, 1)
    if not isinstance(content, dict) or "core_memories" not in content:
        return Document(path, (), (Finding("foreign-file", path, "is no part of the layout"),))
    findings = [Finding("shipped-form", path, "an <agent-id>.json file of the shipped server; read only")]
    records: list[Record] = []
    lists = members(data, skip_space(data, 0))
    for key, kind in _LISTS.items():
        natives = content.get(key, [])
        if not isinstance(natives, list):
            findings.append(Finding("invalid-schema", path, f"{key}: is no list"))
            continue
        member = last(lists, key)
        spans = elements(data, member.value) if member is not None else []
        for position, (native, span, line) in enumerate(zip(natives, spans, lines(data, spans), strict=True)):
            place = f"{key}[{position}]"
            told = _unusable(native)
            if told:
                findings.append(Finding("invalid-schema", path, f"{place}: {told}"))
            else:
                records.append(_record(f"{path}#{place}", native, kind, span, line, now=now, mtime=mtime))
    return Document(path, tuple(records), tuple(findings), len(records))


def _content(native: Mapping[str, Any]) -> Any:
    return native.get("content") or native.get("description") or native.get("title")


def _unusable(native: object) -> str:
    """The shipped server's memories have fewer fields; only what makes one unusable is reported."""
    if not isinstance(native, dict):
        return "is no object"
    content = _content(native)
    sound_length = isinstance(content, str) and 0 < len(content) <= MAX_CONTENT
    return "" if sound_length else "content is missing or too long"


def _record(
    fallback: str, native: Mapping[str, Any], kind: str, span: Span, line: int, *, now: float, mtime: float
) -> Record:
    content = _content(native)
    reading = read_memory({**native, "content": content}, kind, now=now, mtime=mtime)
    facts = {**(reading.facts or {}), "shipped": True}
    category = facts.get("category")
    return Record(
        span,
        line,
        reading.id or fallback,
        kind,
        sound(headline(content)),
        facts.get("created"),
        facts.get("accessed"),
        tuple(facts.get("tags", ())),
        False,
        native,
        facts,
        sound(content),
        (category,) if category else (),
        WEIGHTS[facts["importance"]] if "importance" in native and "importance" in facts else None,
        min(facts.get("access_count", 0), MOST_USES),
    )
