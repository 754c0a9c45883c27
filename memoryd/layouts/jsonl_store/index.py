"""`index.json`, in exactly the shape of the seed.

total_memories is the sum of by_type: valid, not archived, the first of equal ids, in the three live files.
archived_count adds the readable archive lines and live lines that are marked but not yet moved. total_storage_bytes
counts live and archive `.jsonl` files only. Buckets hold only values that occur, ids in file order. last_updated
changes only when something else does, or every render would cause a file event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from memoryd.core.dates import iso
from memoryd.core.findings import Finding
from memoryd.core.records import Entry, FileChange, JsonObject, Role
from memoryd.layouts.directory import is_other_json
from memoryd.layouts.index_text import IN_ONE_LINE, IdLists, json_text
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, IMPORTANCE, INDEX, TYPES, is_agent_file
from memoryd.layouts.protocol import IndexResult, IndexView

VERSION = "1.0.0"
_LISTS = ("tags_index", "category_index", "importance_index")
_KEYS = ("version", "last_updated", "statistics", *_LISTS)
_PARTS = {path: number for number, path in enumerate(FILE_TYPES)}  # the order of the files in each list


def render(view: IndexView) -> IndexResult:
    """Render `index.json`; nothing is written where it is up to date or a newer program owns it."""
    content = view.previous.get(INDEX)
    previous = _decoded(content)
    newer = newer_version(previous)
    body, findings = _body(view)
    if newer is not None and view.newer_index == "read-only":
        message = f"version {newer[:20]} is newer than this memoryd supports; nothing in the directory is written"
        findings = (*findings, Finding("index-newer", INDEX, message))
        return replace(body.result({}), findings=findings, newer=newer)
    unneeded = content is None and not any(path.endswith(".jsonl") for path in view.files)
    if unneeded or (previous is not None and previous.get("version") == VERSION and _same(previous, body)):
        return replace(body.result({}), findings=findings)
    unknown = _unknown(content, previous)
    text = _Text(body)
    files = {INDEX: text.render(view.now, unknown)}
    return replace(body.result(files), findings=findings, update=None if unknown or findings else text.update)


def is_ours(content: bytes) -> bool:
    """Return True unless the keys show another program's index; a version number alone proves nothing."""
    previous = _decoded(content)
    if newer_version(previous) is not None or (previous is not None and previous.keys() <= set(_KEYS)):
        return True
    return not is_other_json(content, _KEYS[2:])


@dataclass(slots=True)
class _Body:
    """The content of an index. `lists` has the ids by value, for each of `_LISTS`; `counts` has, for each file but the
    last, how many ids each of these lists has up to the end of the file. `sizes` are those of all JSONL files.
    Memories in `<agent-id>.json` files (`unlisted`) count too, but are in no list."""

    by_type: dict[str, int]
    archived: int
    unlisted: int
    sizes: dict[str, int]
    seen: dict[str, str] = field(default_factory=dict)
    lists: tuple[dict[str, list[str]], ...] = ()
    counts: list[tuple[dict[str, int], ...]] = field(default_factory=list)

    def statistics(self) -> JsonObject:
        """Return the statistics as in the index."""
        return {
            "total_memories": sum(self.by_type.values()),
            "by_type": self.by_type,
            "archived_count": self.archived,
            "total_storage_bytes": sum(self.sizes.values()),
        }

    def count(self, entry: Entry) -> tuple[tuple[str, ...], ...]:
        """Count a memory; return the keys under which it is listed, for each of `_LISTS`."""
        if entry.archived:
            self.archived += 1
            return ()
        self.by_type[entry.type] += 1
        facts = entry.facts
        labels, category = facts["tags"], facts["category"]
        tags = tuple(labels) if len(labels) < 2 else tuple(dict.fromkeys(labels))
        return tags, (category,) if category else (), (facts["importance"],)

    def end_file(self) -> None:
        """Note how long the lists are at the end of a file."""
        self.counts.append(tuple({key: len(ids) for key, ids in each.items()} for each in self.lists))

    def result(self, files: Mapping[str, bytes]) -> IndexResult:
        """Return a result with these files."""
        return IndexResult(files, sum(self.by_type.values()) + self.unlisted, self.archived, dict(self.by_type))


def _body(view: IndexView) -> tuple[_Body, tuple[Finding, ...]]:
    files = view.files.values()
    body = _Body(
        by_type=dict.fromkeys(TYPES, 0),
        archived=sum(each.units - each.broken for each in files if each.role is Role.ARCHIVE),
        unlisted=sum(each.records for each in files if is_agent_file(each.path)),
        sizes={each.path: each.size for each in files if each.path.endswith(".jsonl")},
        lists=({}, {}, {level: [] for level in IMPORTANCE}),
    )
    findings: list[Finding] = []
    for entry in view.entries:
        if "shipped" in entry.facts:
            continue
        if entry.id in body.seen:
            findings.append(_duplicate(entry, body.seen[entry.id]))
            continue
        body.seen[entry.id] = entry.path
        for _ in range(len(body.counts), _PARTS[entry.path]):
            body.end_file()
        for keys, ids in zip(body.count(entry), body.lists, strict=False):
            for key in keys:
                ids.setdefault(key, []).append(entry.id)
    for _ in range(len(body.counts), len(_PARTS) - 1):
        body.end_file()
    return body, tuple(findings)


class _Text:
    """The text of an index, which grows with the files."""

    def __init__(self, body: _Body) -> None:
        self._body = body
        counts = zip(*body.counts, strict=True)
        self._lists = [IdLists(IN_ONE_LINE, *each) for each in zip(body.lists, counts, strict=True)]
        self._seen = {hash(each) for each in body.seen}  # less memory; ids of equal hashes cost a whole render
        body.lists, body.counts, body.seen = (), [], {}

    def render(self, now: float, unknown: Mapping[str, msgspec.Raw]) -> bytes:
        """Return the index with two-space indentation and each list of ids on one line, like the seed; no final
        newline. `unknown` are further members."""
        head = {"version": VERSION, "last_updated": iso(now), "statistics": self._body.statistics()}
        pieces: list[bytes | memoryview] = [b"".join(_pieces(head, 0))[:-2]]
        for name, lists in zip(_LISTS, self._lists, strict=True):
            pieces += (b',\n  "%b": ' % name.encode(), *lists.pieces())
        for key, value in unknown.items():
            pieces += (b",\n  %b: " % json_text(key), bytes(value))
        return b"".join((*pieces, b"\n}"))

    def update(self, changed: Mapping[str, FileChange], now: float) -> IndexResult | None:
        """Render the index after memories were appended to files; None for any other change."""
        body, before = self._body, sum(self._body.sizes.values())
        for path, change in changed.items():
            part = _PARTS.get(path)
            if part is None or change.file is None or not change.appended:
                return None
            body.sizes[path] = change.file.size
            for entry in change.entries:
                if hash(entry.id) in self._seen:
                    return None
                self._seen.add(hash(entry.id))
                identity = json_text(entry.id)
                for keys, lists in zip(body.count(entry), self._lists, strict=False):
                    for key in keys:
                        lists.append(key, identity, part)
        files = {INDEX: self.render(now, {})} if sum(body.sizes.values()) != before else {}
        return replace(body.result(files), update=self.update)


def _duplicate(entry: Entry, first: str) -> Finding:
    message = f"duplicate id, first used in {first}; only the first counts: remove or merge this one by hand"
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


def _same(previous: JsonObject, body: _Body) -> bool:
    wanted = {"statistics": body.statistics(), **dict(zip(_LISTS, body.lists, strict=True))}
    return isinstance(previous.get("last_updated"), str) and all(previous.get(key) == wanted[key] for key in wanted)


def _unknown(content: bytes | None, previous: JsonObject | None) -> dict[str, msgspec.Raw]:
    """Return the members of an index that are not ours, as raw JSON."""
    if not content or previous is None:
        return {}
    members = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    return {key: value for key, value in members.items() if key not in _KEYS}


def _pieces(value: JsonObject, depth: int) -> Iterator[bytes]:
    pad = b"  " * (depth + 1)
    lead = b"{\n"
    for key, member in value.items():
        yield b"%b%b%b: " % (lead, pad, json_text(key))
        yield from _pieces(member, depth + 1) if isinstance(member, dict) else (json_text(member),)
        lead = b",\n"
    yield b"\n" + b"  " * depth + b"}"
