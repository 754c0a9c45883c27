"""`index.json`, in exactly the shape of the seed.

total_memories is the sum of by_type: valid, not archived, the first of equal ids, in the three live files.
archived_count adds the readable archive lines and live lines that are marked but not yet moved. total_storage_bytes
counts live and archive `.jsonl` files only. Buckets hold only values that occur, ids in file order. last_updated
changes only when something else does, or every render would cause a file event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from memoryd.core.dates import iso
from memoryd.core.findings import Finding
from memoryd.core.records import Entry, JsonObject, Role
from memoryd.layouts.directory import is_other_json
from memoryd.layouts.jsonl_store.schema import IMPORTANCE, INDEX, TYPES, is_agent_file
from memoryd.layouts.protocol import IndexResult, IndexView

VERSION = "1.0.0"
_KEYS = ("version", "last_updated", "statistics", "tags_index", "category_index", "importance_index")


def render(view: IndexView) -> IndexResult:
    """Render `index.json`; nothing is written where it is up to date or a newer program owns it."""
    content = view.previous.get(INDEX)
    previous = _decoded(content)
    newer = newer_version(previous)
    body, counts, findings = _body(view)
    by_type = body["statistics"]["by_type"]
    listed, archived = counts
    # Memories in `<agent-id>.json` files count too, but no index lists them.
    memories = listed + sum(f.records for f in view.files.values() if is_agent_file(f.path))
    if newer is not None and view.newer_index == "read-only":
        message = f"version {newer[:20]} is newer than this memoryd supports; nothing in the directory is written"
        findings = (*findings, Finding("index-newer", INDEX, message))
        return IndexResult({}, memories, archived, by_type, findings, newer)
    unneeded = content is None and not any(path.endswith(".jsonl") for path in view.files)
    if unneeded or (previous is not None and previous.get("version") == VERSION and _same(previous, body)):
        return IndexResult({}, memories, archived, by_type, findings)
    wanted = {"version": VERSION, "last_updated": iso(view.now), **body, **_unknown(content, previous)}
    return IndexResult({INDEX: format_index(wanted)}, memories, archived, by_type, findings)


def is_ours(content: bytes) -> bool:
    """Return True unless the keys show another program's index; a version number alone proves nothing."""
    previous = _decoded(content)
    if newer_version(previous) is not None or (previous is not None and previous.keys() <= set(_KEYS)):
        return True
    return not is_other_json(content, _KEYS[2:])


def _body(view: IndexView) -> tuple[JsonObject, tuple[int, int], tuple[Finding, ...]]:
    by_type = dict.fromkeys(TYPES, 0)
    tags: dict[str, list[str]] = {}
    categories: dict[str, list[str]] = {}
    importance: dict[str, list[str]] = {level: [] for level in IMPORTANCE}
    archived = sum(f.units - f.broken for f in view.files.values() if f.role is Role.ARCHIVE)
    seen: dict[str, Entry] = {}
    findings: list[Finding] = []
    for entry in view.entries:
        if "shipped" in entry.facts:
            continue
        if entry.id in seen:
            findings.append(_duplicate(entry, seen[entry.id]))
            continue
        seen[entry.id] = entry
        if entry.archived:
            archived += 1
            continue
        by_type[entry.type] += 1
        facts = entry.facts
        labels = facts["tags"]
        for tag in labels if len(labels) < 2 else dict.fromkeys(labels):
            tags.setdefault(tag, []).append(entry.id)
        if facts["category"]:
            categories.setdefault(facts["category"], []).append(entry.id)
        importance[facts["importance"]].append(entry.id)
    total = sum(by_type.values())
    body = {
        "statistics": {
            "total_memories": total,
            "by_type": by_type,
            "archived_count": archived,
            "total_storage_bytes": sum(f.size for f in view.files.values() if f.path.endswith(".jsonl")),
        },
        "tags_index": tags,
        "category_index": categories,
        "importance_index": importance,
    }
    return body, (total, archived), tuple(findings)


def _duplicate(entry: Entry, first: Entry) -> Finding:
    message = f"duplicate id, first used in {first.path}; only the first counts: remove or merge this one by hand"
    return Finding("duplicate-id", entry.path, message, entry.line, entry.id)


def _decoded(content: bytes | None) -> JsonObject | None:
    if not content:
        return None
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def version_of(content: bytes | None) -> str | None:
    """Return the version in an index, None where it is missing or unreadable (then the index is rebuilt)."""
    previous = _decoded(content)
    version = previous.get("version") if previous else None
    return version if isinstance(version, str) else None


def newer_version(previous: JsonObject | None) -> str | None:
    """Return the version of an index with a greater major number than ours, which must not be downgraded."""
    version = previous.get("version") if previous else None
    if not isinstance(version, str):
        return None
    major = version.partition(".")[0]
    if not major.isdecimal() or len(major) > 20:  # not a version: the index is rebuilt
        return None
    return version if int(major) > int(VERSION.partition(".")[0]) else None


def _same(previous: JsonObject, body: JsonObject) -> bool:
    return isinstance(previous.get("last_updated"), str) and all(previous.get(key) == body[key] for key in body)


def _unknown(content: bytes | None, previous: JsonObject | None) -> dict[str, msgspec.Raw]:
    """Return the members of an index that are not ours, as raw JSON."""
    if not content or previous is None:
        return {}
    members = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    return {key: value for key, value in members.items() if key not in _KEYS}


def format_index(value: JsonObject) -> bytes:
    """Return the index with two-space indentation and each list of ids on one line, like the seed; no final newline."""
    return "".join(_pieces(value, 0)).encode("utf-8", "replace")


def _pieces(value: object, depth: int) -> Iterable[str]:
    if not isinstance(value, dict) or not value:
        yield _plain(value)
        return
    pad = "  " * (depth + 1)
    lead = "{\n"
    for key, member in value.items():
        yield f"{lead}{pad}{_plain(key)}: "
        yield from _pieces(member, depth + 1)
        lead = ",\n"
    yield "\n" + "  " * depth + "}"


def _plain(value: object) -> str:
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    text = _quoted(value)
    if not isinstance(value, list):
        return text
    if text.count(",") >= len(value):  # an id with a comma could look like the end of an element
        return "[" + ", ".join(map(_quoted, value)) + "]"
    return text.replace('","', '", "')


def _quoted(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, which only Python's parser accepts
        return json.dumps(value, separators=(",", ":"))
