"""The files of the real server of seed 004: one `<agent-id>.json` for each agent, with `core_memories`, `learnings`,
`tasks` and `metadata`. memoryd reads and checks these files but never writes them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.json_spans import elements, last_member, line_numbers, members, skip_space
from memoryd.core.records import FRESH_S, Document, NativeMemory, Record
from memoryd.core.secrets import headline
from memoryd.core.spans import Span, replace_surrogates
from memoryd.layouts.jsonl_store.schema import MAX_CONTENT, MAX_USES, WEIGHTS, read_memory

_AGENT_FILE = re.compile(r"(?!index\.json$)[^./][^/]*\.json")
_LISTS = {"core_memories": "core", "learnings": "learning", "tasks": "task"}


def is_agent_file(path: str) -> bool:
    """Return True for `x.json` at the top of the store, which may be an `<agent-id>.json` file of the real server; only
    its content shows whether it is."""
    return _AGENT_FILE.fullmatch(path) is not None


def is_agent_json(content: object) -> bool:
    """Return True for the content of such a file."""
    if not isinstance(content, dict) or not isinstance(content.get("core_memories"), list):
        return False
    return isinstance(content.get("learnings"), list) or isinstance(content.get("tasks"), list)


def parse(path: str, data: bytes, *, now: float, mtime: float) -> Document:
    """Parse an `<agent-id>.json` file; any other JSON file gets the finding `foreign-file`."""
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if abs(now - mtime) < FRESH_S:
            return Document(path, (), (), pending=True)
        if b"core_memories" not in data:
            return Document(path, (), (Finding("foreign-file", path, "not part of the layout"),))
        message = f"Invalid JSON: {error}; restore it from the .backup file next to it"
        return Document(path, (), (Finding("corrupt-file", path, message),), 1, 1)
    if not isinstance(content, dict) or "core_memories" not in content:
        return Document(path, (), (Finding("foreign-file", path, "not part of the layout"),))
    findings = [Finding("shipped-form", path, "an <agent-id>.json file of the real server; read-only")]
    records: list[Record] = []
    lists = members(data, skip_space(data, 0))
    for key, kind in _LISTS.items():
        natives = content.get(key, [])
        if not isinstance(natives, list):
            findings.append(Finding("invalid-schema", path, f"{key}: not a list"))
            continue
        member = last_member(lists, key)
        spans = elements(data, member.value) if member is not None else []
        for position, (native, span, line) in enumerate(zip(natives, spans, line_numbers(data, spans), strict=True)):
            place = f"{key}[{position}]"
            problem = _problem(native)
            if problem:
                findings.append(Finding("invalid-schema", path, f"{place}: {problem}"))
            else:
                records.append(_record(f"{path}#{place}", native, kind, span, line, now=now, mtime=mtime))
    return Document(path, tuple(records), tuple(findings), len(records))


def _content(native: NativeMemory) -> Any:
    return native.get("content") or native.get("description") or native.get("title")


def _problem(native: object) -> str:
    """Return why this is not a memory, else "". The real server writes fewer fields than the seed requires."""
    if not isinstance(native, dict):
        return "not an object"
    content = _content(native)
    valid = isinstance(content, str) and 0 < len(content) <= MAX_CONTENT
    return "" if valid else "content is missing or too long"


def _record(
    fallback: str, native: NativeMemory, kind: str, span: Span, line: int, *, now: float, mtime: float
) -> Record:
    content = _content(native)
    memory = read_memory({**native, "content": content}, kind, now=now, mtime=mtime)
    facts = {**(memory.facts or {}), "shipped": True}
    category = facts.get("category")
    return Record(
        span,
        line,
        memory.id or fallback,
        kind,
        replace_surrogates(headline(content)),
        facts.get("created"),
        facts.get("accessed"),
        tuple(facts.get("tags", ())),
        False,
        native,
        facts,
        replace_surrogates(content),
        (category,) if category else (),
        WEIGHTS[facts["importance"]] if "importance" in native and "importance" in facts else None,
        min(facts.get("access_count", 0), MAX_USES),
    )
