"""`index.json`, in exactly the shape of the seed.

total_memories is the sum of by_type: valid, not archived, the first of equal ids, in the three live files.
archived_count adds the readable archive lines and live lines that are marked but not yet moved. total_storage_bytes
counts live and archive `.jsonl` files only. Buckets hold only values that occur, ids in file order. last_updated
changes only when something else does, or every render would cause a file event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from memoryd.core.dates import iso
from memoryd.core.findings import Finding
from memoryd.core.records import Entry, FileChange, FileStats, JsonObject, Role
from memoryd.core.spans import Content, joined
from memoryd.layouts.directory import is_other_json
from memoryd.layouts.index_text import IN_ONE_LINE, IdLists, json_text
from memoryd.layouts.jsonl_store.agent_json import is_agent_file
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, IMPORTANCE, INDEX, TYPES
from memoryd.layouts.protocol import IndexResult, IndexView

VERSION = "1.0.0"
_LISTS = ("tags_index", "category_index", "importance_index")
_KEYS = ("version", "last_updated", "statistics", *_LISTS)
_PARTS = {path: number for number, path in enumerate(FILE_TYPES)}  # the order of the files in each list


def render(view: IndexView) -> IndexResult:
    """Render `index.json`; nothing is written where it is up to date or a newer program owns it."""
    content = view.previous.get(INDEX)
    previous = _members(content)
    newer = newer_version(previous)
    text, findings = _text(view)
    if newer is not None and view.newer_index == "read-only":
        message = f"version {newer[:20]} is newer than this memoryd supports; nothing in the directory is written"
        findings = (*findings, Finding("index-newer", INDEX, message))
        return replace(text.result({}), findings=findings, newer=newer)
    unneeded = content is None and not any(path.endswith(".jsonl") for path in view.files)
    if unneeded or (previous is not None and _version(previous) == VERSION and _same(previous, text)):
        return replace(text.result({}), findings=findings)
    text.unknown = {key: value for key, value in (previous or {}).items() if key not in _KEYS}
    update = None if text.unknown or findings else text.update
    is_other = content is not None and _version(previous) != VERSION
    replaced_version = (version_of(content) or "")[:20] if is_other else None
    made = text.result({INDEX: text.at(view.now)})
    return replace(made, findings=findings, update=update, replaced_version=replaced_version)


def is_ours(content: bytes) -> bool:
    """Return True unless the keys show another program's index; a version number alone proves nothing."""
    previous = _members(content)
    if newer_version(previous) is not None or (previous is not None and previous.keys() <= set(_KEYS)):
        return True
    return not is_other_json(content, _KEYS[2:], common=_KEYS[:2])


class _Text:
    """The text of an index, which grows with the files. Memories in `<agent-id>.json` files count too, but are in no
    list. `unknown` are further members."""

    def __init__(self, files: Collection[FileStats]) -> None:
        self._by_type = dict.fromkeys(TYPES, 0)
        self._archived = sum(each.units - each.broken for each in files if each.role is Role.ARCHIVE)
        self._unlisted = sum(each.records for each in files if is_agent_file(each.path))
        self._sizes = {each.path: each.size for each in files if each.path.endswith(".jsonl")}
        self._lists = [
            IdLists(IN_ONE_LINE, IMPORTANCE if name == "importance_index" else (), len(_PARTS)) for name in _LISTS
        ]
        self._seen: set[int] = set()
        self._now = 0.0
        self.unknown: Mapping[str, msgspec.Raw] = {}

    def at(self, now: float) -> _Text:
        """Return the text as updated at this time (epoch seconds)."""
        self._now = now
        return self

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the index with two-space indentation and each list of ids on one line, like the seed; no final
        newline."""
        head = {"version": VERSION, "last_updated": iso(self._now), "statistics": self.statistics()}
        yield b"".join(_pieces(head, 0))[:-2]
        for name in _LISTS:
            yield b',\n  "%b": ' % name.encode()
            yield from self.member(name)
        for key, value in self.unknown.items():
            yield b",\n  %b: " % json_text(key)
            yield bytes(value)
        yield b"\n}"

    def member(self, name: str) -> Iterator[bytes | memoryview]:
        """Yield the text of the lists of this name."""
        return self._lists[_LISTS.index(name)].pieces()

    def statistics(self) -> JsonObject:
        """Return the statistics as in the index."""
        return {
            "total_memories": sum(self._by_type.values()),
            "by_type": self._by_type,
            "archived_count": self._archived,
            "total_storage_bytes": sum(self._sizes.values()),
        }

    def result(self, files: Mapping[str, Content]) -> IndexResult:
        """Return a result with these files."""
        memories = sum(self._by_type.values()) + self._unlisted
        return IndexResult(files, memories, self._archived, dict(self._by_type))

    def add(self, entry: Entry) -> None:
        """Add a memory to the end of its file."""
        self._seen.add(hash(entry.id))
        if entry.archived:
            self._archived += 1
            return
        self._by_type[entry.type] += 1
        identity, part, facts = json_text(entry.id), _PARTS[entry.path], entry.facts
        labels, category = facts["tags"], facts["category"]
        tags = labels if len(labels) < 2 else dict.fromkeys(labels)
        for keys, lists in zip(
            (tags, (category,) if category else (), (facts["importance"],)), self._lists, strict=True
        ):
            for key in keys:
                lists.append(key, identity, part)

    def update(self, changed: Mapping[str, FileChange], now: float) -> IndexResult | None:
        """Render the index after memories were appended to files; None for any other change."""
        before = sum(self._sizes.values())
        for path, change in changed.items():
            if path not in _PARTS or change.file is None or not change.appended:
                return None
            self._sizes[path] = change.file.size
            for entry in change.entries:
                if hash(entry.id) in self._seen:  # ids of equal hashes cost a whole render
                    return None
                self.add(entry)
        files = {INDEX: self.at(now)} if sum(self._sizes.values()) != before else {}
        return replace(self.result(files), update=self.update)


def _text(view: IndexView) -> tuple[_Text, tuple[Finding, ...]]:
    """Return the text of the index of all memories, and a finding for each that does not count."""
    text, findings = _Text(view.files.values()), list[Finding]()
    seen: dict[str, str] = {}
    for entry in view.entries:
        if "shipped" in entry.facts:
            continue
        if entry.id in seen:
            findings.append(_duplicate(entry, seen[entry.id]))
            continue
        seen[entry.id] = entry.path
        text.add(entry)
    return text, tuple(findings)


def _duplicate(entry: Entry, first: str) -> Finding:
    message = f"duplicate id, first used in {first}; only the first counts: remove or merge this one by hand"
    return Finding("duplicate-id", entry.path, message, entry.line, entry.id)


def _members(content: bytes | None) -> Mapping[str, msgspec.Raw] | None:
    """Return the members of an index, not decoded yet; None where there is none, or one that is kept is invalid."""
    try:
        members = msgspec.json.decode(content, type=dict[str, msgspec.Raw]) if content else None
        if members and not members.keys() <= set(_KEYS):
            msgspec.json.decode(content)  # type: ignore[arg-type]  # it is not None
    except (ValueError, RecursionError):
        return None
    return members


def _decoded(text: bytes | msgspec.Raw) -> object:
    """Return a JSON value, None where it is invalid."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def _version(members: Mapping[str, msgspec.Raw] | None) -> object:
    return _decoded(members["version"]) if members and "version" in members else None


def version_of(content: bytes | None) -> str | None:
    """Return the version in an index, None where it is missing or unreadable (then the index is rebuilt)."""
    version = _version(_members(content))
    return version if isinstance(version, str) else None


def newer_version(members: Mapping[str, msgspec.Raw] | None) -> str | None:
    """Return the version of an index with a greater major number than ours, which must not be downgraded."""
    version = _version(members)
    if not isinstance(version, str):
        return None
    major = version.partition(".")[0]
    if not major.isdecimal() or len(major) > 20:  # not a version: the index is rebuilt
        return None
    return version if int(major) > int(VERSION.partition(".")[0]) else None


def _same(members: Mapping[str, msgspec.Raw], text: _Text) -> bool:
    if not members.keys() >= {*_KEYS} or not isinstance(_decoded(members["last_updated"]), str):
        return False
    return _decoded(members["statistics"]) == text.statistics() and all(
        _same_lists(members[name], joined(text.member(name))) for name in _LISTS
    )


def _same_lists(found: msgspec.Raw, wanted: bytes) -> bool:
    return bytes(found) == wanted or _decoded(found) == _decoded(wanted)


def _pieces(value: JsonObject, depth: int) -> Iterator[bytes]:
    pad = b"  " * (depth + 1)
    lead = b"{\n"
    for key, member in value.items():
        yield b"%b%b%b: " % (lead, pad, json_text(key))
        yield from _pieces(member, depth + 1) if isinstance(member, dict) else (json_text(member),)
        lead = b",\n"
    yield b"\n" + b"  " * depth + b"}"
