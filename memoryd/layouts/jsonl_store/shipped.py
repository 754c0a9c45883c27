"""The form that the server of seed 004 really shipped: one `<agent-id>.json` an agent, holding
`core_memories`, `learnings`, `tasks` and `metadata`. memoryd reads and checks it and never writes it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from memoryd.core.findings import Finding
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
    for key, kind in _LISTS.items():
        elements = content.get(key, [])
        if not isinstance(elements, list):
            findings.append(Finding("invalid-schema", path, f"{key}: is no list"))
            continue
        for position, element in enumerate(elements):
            place = f"{key}[{position}]"
            record = _record(path, place, element, kind, findings, now=now, mtime=mtime)
            if record:
                records.append(record)
    return Document(path, tuple(records), tuple(findings), len(records))


def _record(
    path: str, place: str, element: Any, kind: str, findings: list[Finding], *, now: float, mtime: float
) -> Record | None:
    """The shipped server's memories have fewer fields; only what makes one unusable is reported."""
    if not isinstance(element, dict):
        findings.append(Finding("invalid-schema", path, f"{place}: is no object"))
        return None
    content = element.get("content") or element.get("description") or element.get("title")
    if not isinstance(content, str) or not 0 < len(content) <= MAX_CONTENT:
        findings.append(Finding("invalid-schema", path, f"{place}: content is missing or too long"))
        return None
    reading = read_memory({**element, "content": content}, kind, now=now, mtime=mtime)
    facts = {**(reading.facts or {}), "shipped": True}
    identity = reading.id or f"{path}#{place}"
    tags = tuple(facts.get("tags", ()))
    used = facts.get("accessed")
    title = sound(headline(content))
    span = Span(0, 0)  # the file is one value; nothing in it is ever edited by span
    category = facts.get("category")
    return Record(
        span,
        1,
        identity,
        kind,
        title,
        facts.get("created"),
        used,
        tags,
        False,
        element,
        facts,
        sound(content),
        (category,) if category else (),
        WEIGHTS[facts["importance"]] if "importance" in element and "importance" in facts else None,
        min(facts.get("access_count", 0), MOST_USES),
    )
