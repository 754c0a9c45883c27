"""`_index.json` and `_stats.json`, in exactly the shapes that the real server reads.

The index holds six maps, pretty-printed, without final newline. The server writes it too, so it is left alone while its
meaning is right: empty buckets and the order inside a bucket do not count, unknown keys are preserved. Ids whose file
is gone are dropped. If another memory has taken the file, the id counts as lost, and is passed on to the next render,
since the new index no longer shows it.

The statistics have the server's key order and true numbers: the server itself always writes an average of 0 and omits
unknown types from the total, and its reader only displays the file. `lastUpdated` changes only when something else
does, or every render would cause a file event.

Both files are read leniently and written like the server's `JSON.stringify(value, null, 2)`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import starmap
from operator import itemgetter
from typing import NamedTuple

import msgspec

from memoryd.core.dates import parse_stamp
from memoryd.core.findings import Finding
from memoryd.core.records import Entry, Facts, FileChange, FileStats, JsonObject
from memoryd.layouts.index_text import A_LINE_EACH, IdLists, json_text
from memoryd.layouts.json_files.names import INDEX, LEGACY_DIR, STATS, is_memory, sort_key
from memoryd.layouts.json_files.parser import decode_text
from memoryd.layouts.json_files.schema import TYPES, iso_ms
from memoryd.layouts.protocol import IndexResult, IndexView
from memoryd.layouts.validation import is_texts

_BUCKETS = ("projectIndex", "typeIndex", "tagIndex", "entityIndex")
KEYS = (*_BUCKETS, "temporalIndex", "fileIndex")
MAX_CACHED_ENTRIES = 200_000  # at about a kilobyte each; a larger index is rendered as a whole each time

_PAIR = re.compile(rb'"([^"\\]+)"\s*:\s*"([A-Za-z0-9_.-]+\.json)"')

Buckets = dict[str, list[str]]


class Selection(NamedTuple):
    """One entry per id, in file order; `duplicates` pairs entries that do not count with the path of the one that
    does."""

    entries: dict[str, Entry]
    duplicates: list[tuple[Entry, str]]
    paths: set[str]


def render(view: IndexView) -> IndexResult:
    """Render both index files; those whose meaning is right are left alone."""
    content = view.previous.get(INDEX)
    previous = decode_object(content)
    file_names = _file_names(previous) if previous is not None else _file_names_in_torn(content or b"")
    selection = select(view.entries, file_names)
    body = _body()
    _append(body, selection.entries.values())
    counted = statistics(selection.entries.values(), body)
    files: dict[str, bytes] = {}
    if not selection.entries and not any(view.previous.values()):
        return IndexResult(findings=(*_legacy(view.files.values()),))  # nothing to index yet, so no index
    unknown = unknown_members(content, previous, KEYS)
    text = None if unknown else _Text(body, selection.entries.values(), counted)
    if previous is None or not _same(previous, body):
        files[INDEX] = text.index() if text else encode_pretty({**body, **unknown})
    wanted = render_stats(counted, view.previous.get(STATS), view.now)
    if wanted is not None:
        files[STATS] = wanted
    lost = _lost(file_names, previous, selection, view.state)
    findings = (*_duplicate_findings(selection), *_lost_finding(lost), *_legacy(view.files.values()))
    archived = sum(entry.archived for entry in selection.entries.values())
    total = len(selection.entries) - archived
    next_state = {"lost": lost} if lost else {}
    stats = view.previous.get(STATS)
    special = findings or lost or view.state or unknown_members(stats, decode_object(stats), STATS_KEYS)
    small = 0 < len(selection.entries) <= MAX_CACHED_ENTRIES
    update = text.update if text and small and not special else None
    return IndexResult(files, total, archived, counted["byType"], findings, next_state=next_state, update=update)


class _Listed(NamedTuple):
    """A memory as far as the index files depend on it; `values` is the hash of what `_index.json` has of it."""

    values: int
    relevance: float
    archived: bool


class _Text:
    """The text of both files, which grows with the memories. `counted` are the statistics."""

    def __init__(self, body: JsonObject, entries: Iterable[Entry], counted: JsonObject) -> None:
        self._lists = [IdLists(A_LINE_EACH, body[key]) for key in _BUCKETS]
        self._stamps = [each["timestamp"] for each in reversed(body["temporalIndex"])]
        self._times = [_time(each) for each in reversed(body["temporalIndex"])]
        self._files = bytearray().join(starmap(_file, body["fileIndex"].items()))
        self._ids = set(body["fileIndex"])
        self._known = {entry.path: _listed(entry) for entry in entries}
        self._archived = sum(each.archived for each in self._known.values())
        self._counted = counted

    def index(self) -> bytes:
        """Return `_index.json`."""
        pieces: list[bytes | memoryview] = []
        for key, lists in zip(_BUCKETS, self._lists, strict=True):
            pieces += (b',\n  "%b": ' % key.encode(), *lists.pieces())
        times = b",".join(reversed(self._times)) + b"\n  " if self._times else b""
        files = (memoryview(self._files)[1:], b"\n  ") if self._files else ()
        head, *rest = pieces
        text = (b"{", head[1:], *rest, b',\n  "temporalIndex": [', times, b'],\n  "fileIndex": {', *files, b"}\n}")
        return b"".join(text)

    def update(self, changed: Mapping[str, FileChange], now: float) -> IndexResult | None:
        """Render memories added after all others, and changed memories with the same values in the index; None for any
        other change."""
        last, added = next(reversed(self._known)), list[Entry]()
        for path in sorted(changed, key=sort_key):
            entries = [*changed[path].entries]
            if len(entries) != 1 or not is_memory(path):
                return None
            [entry] = entries
            before, listed = self._known.get(path), _listed(entry)
            if before is None:
                if entry.id in self._ids or sort_key(path) < sort_key(last):
                    return None
                self._add(entry)
                added.append(entry)
            elif before.values != listed.values:
                return None
            self._known[path] = listed
            self._archived += listed.archived - (before is not None and before.archived)
        files = {INDEX: self.index()} if added else {}
        counted, self._counted = self._counted, self._recounted(added)
        if self._counted != counted:
            files[STATS] = encode_pretty({**self._counted, "lastUpdated": iso_ms(now)})
        update = self.update if len(self._known) <= MAX_CACHED_ENTRIES else None
        memories, by_type = len(self._known) - self._archived, self._counted["byType"]
        return IndexResult(files, memories, self._archived, by_type, update=update)

    def _add(self, entry: Entry) -> None:
        """Add a memory to the texts."""
        identity, stamp = json_text(entry.id), entry.facts["timestamp"]
        for keys, lists in zip(_bucket_keys(entry), self._lists, strict=True):
            for key in keys:
                lists.append(key, identity)
        at = bisect_left(self._stamps, stamp)  # the oldest first, and of equal ones the last added
        self._stamps.insert(at, stamp)
        self._times.insert(at, _time({"id": entry.id, "timestamp": stamp}))
        self._files += _file(entry.id, entry.path)
        self._ids.add(entry.id)

    def _recounted(self, added: Iterable[Entry]) -> JsonObject:
        """Return the statistics with the memories that were added."""
        kinds, projects = dict(self._counted["byType"]), dict(self._counted["byProject"])
        for entry in added:
            for keys, counts in zip(_bucket_keys(entry), (projects, kinds), strict=False):
                for key in keys:
                    counts[key] = counts.get(key, 0) + 1
        return _statistics(kinds, projects, [each.relevance for each in self._known.values()])


def _listed(entry: Entry) -> _Listed:
    facts = entry.facts
    keys = tuple(map(tuple, _bucket_keys(entry)))
    return _Listed(hash((entry.id, facts["timestamp"], keys)), facts["relevance"], entry.archived)


def _bucket_keys(entry: Entry) -> tuple[Sequence[str], ...]:
    """Return the keys under which a memory is listed in each of the buckets."""
    facts = entry.facts
    project, kind = facts["project"], entry.type
    return (project,) if project else (), (kind,) if kind else (), facts["tags"], facts["entities"]


def _time(each: Mapping[str, str]) -> bytes:
    identity, stamp = json_text(each["id"]), json_text(each["timestamp"])
    return b'\n    {\n      "id": %b,\n      "timestamp": %b\n    }' % (identity, stamp)


def _file(identity: str, path: str) -> bytes:
    return b",\n    %b: %b" % (json_text(identity), json_text(path))


def select(entries: Iterable[Entry], file_names: JsonObject) -> Selection:
    """Select one entry per id: the file named in the index, else the higher version, else the later change."""
    kept: dict[str, Entry] = {}
    duplicates: list[tuple[Entry, str]] = []
    paths: set[str] = set()
    for entry in entries:
        paths.add(entry.path)
        first = kept.get(entry.id)
        if first is None:
            kept[entry.id] = entry
            continue
        name = file_names.get(entry.id)
        better = _rank(entry, name) > _rank(first, name)
        kept[entry.id] = entry if better else first
        duplicates.append((first, entry.path) if better else (entry, first.path))
    return Selection(kept, duplicates, paths)


def _rank(entry: Entry, name: object) -> tuple[bool, int, float, float]:
    facts = entry.facts
    return entry.path == name, facts["version"], facts["updated"] or facts["created"], facts["created"]


def _body() -> JsonObject:
    """Return an index without memories."""
    return dict(zip(KEYS, ({}, {kind: [] for kind in TYPES}, {}, {}, [], {}), strict=True))


def _append(body: JsonObject, entries: Iterable[Entry]) -> None:
    """Append memories to the index."""
    *buckets, times, files = (body[key] for key in KEYS)
    for entry in entries:
        for keys, lists in zip(_bucket_keys(entry), buckets, strict=True):
            for key in keys:
                lists.setdefault(key, []).append(entry.id)
        times.append({"id": entry.id, "timestamp": entry.facts["timestamp"]})
        files[entry.id] = entry.path
    # Stamps of equal width sort as text; equal ones keep the order of the files.
    times.sort(key=itemgetter("timestamp"), reverse=True)


# --- comparison by meaning


def _same(previous: JsonObject, body: JsonObject) -> bool:
    return (
        previous.get("fileIndex") == body["fileIndex"]
        and _same_times(previous.get("temporalIndex"), body["temporalIndex"])
        and all(_same_buckets(previous.get(key), body[key]) for key in _BUCKETS)
    )


def _same_buckets(found: object, wanted: Buckets) -> bool:
    if found == wanted:
        return True
    if not isinstance(found, dict) or not all(map(is_texts, found.values())):
        return False
    return _filled(found) == _filled(wanted)


def _filled(buckets: Buckets) -> dict[str, set[str]]:
    return {key: set(ids) for key, ids in buckets.items() if ids}


def _same_times(found: object, wanted: list[dict[str, str]]) -> bool:
    """Return True for the same moments and ids, newest first; equal moments may be in any order."""
    if found == wanted:
        return True
    if not isinstance(found, list) or len(found) != len(wanted):
        return False
    pairs = [_pair(each) for each in found]
    moments = [pair[0] for pair in pairs]
    return moments == sorted(moments, reverse=True) and sorted(pairs) == sorted(map(_pair, wanted))


def _pair(time: object) -> tuple[int, str]:
    """Return (milliseconds, id); anything invalid sorts to where nothing matches it."""
    if not isinstance(time, dict) or not isinstance(time.get("id"), str):
        return -(10**18), ""
    stamp = parse_stamp(time.get("timestamp"))
    return (round(stamp.seconds * 1000) if stamp else -(10**18)), time["id"]


# --- findings


def _file_names(previous: JsonObject | None) -> JsonObject:
    file_names = previous.get("fileIndex") if previous else None
    return file_names if isinstance(file_names, dict) else {}


def _file_names_in_torn(content: bytes) -> JsonObject:
    """Return the pairs of id and file name that a torn index still shows."""
    _, found, rest = content.partition(b'"fileIndex"')
    return {each[1].decode("utf-8", "replace"): each[2].decode() for each in _PAIR.finditer(rest)} if found else {}


def _times(previous: JsonObject | None) -> Mapping[str, object]:
    listed = previous.get("temporalIndex") if previous else None
    pairs = (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
    return {str(each.get("id")): each.get("timestamp") for each in pairs}


def _lost(file_names: JsonObject, previous: JsonObject | None, selection: Selection, remembered: Facts) -> list[str]:
    """Return the ids whose file holds another memory, now or in an earlier index, and that did not come back. An id is
    not lost where its file holds a memory of the same moment: somebody corrected the id."""
    before = set(remembered.get("lost", ())) - selection.entries.keys()
    gone = file_names.keys() - selection.entries.keys()
    if not gone:
        return sorted(before)
    times = _times(previous)
    made = {entry.path: entry.facts["timestamp"] for entry in selection.entries.values()}
    for identity in gone:
        path = file_names[identity]
        if isinstance(path, str) and path in selection.paths and times.get(identity, "") != made.get(path):
            before.add(identity)
    return sorted(before)


def _lost_finding(lost: Collection[str]) -> Iterable[Finding]:
    if lost:
        message = f"lost_to_name_collision: {len(lost)}; their files were overwritten by memories of the same second"
        yield Finding("lost-to-name-collision", INDEX, message)


def _duplicate_findings(selection: Selection) -> Iterable[Finding]:
    for entry, counted in selection.duplicates:
        message = f"duplicate id, also in {counted}, which counts; give this one another id or delete it"
        yield Finding("duplicate-id", entry.path, message, None, entry.id)


def _legacy(files: Iterable[FileStats]) -> Iterable[Finding]:
    count = sum("legacy" in each.facts for each in files)
    if count:
        message = f"{count} files left by the server's migration; not memories, left alone"
        yield Finding("legacy-file", LEGACY_DIR, message)


_COUNTED = ("totalMemories", "byType", "byProject", "averageRelevanceScore")
STATS_KEYS = (*_COUNTED, "lastUpdated")


def statistics(entries: Collection[Entry], body: JsonObject) -> JsonObject:
    """Return the statistics without the time; `body` is that of the index. Archived memories count: the flag moves
    nothing."""
    kinds, projects = ({key: len(ids) for key, ids in body[name].items()} for name in ("typeIndex", "projectIndex"))
    return _statistics(kinds, projects, [entry.facts["relevance"] for entry in entries])


def _statistics(kinds: JsonObject, projects: JsonObject, scores: Collection[float]) -> JsonObject:
    by = {"byType": kinds, "byProject": projects}
    return {"totalMemories": len(scores), **by, "averageRelevanceScore": _mean(scores)}


def render_stats(counted: JsonObject, content: bytes | None, now: float) -> bytes | None:
    """Return the new file, or None where the present one is right."""
    previous = decode_object(content)
    if previous is not None and _same_stats(previous, counted):
        return None
    return encode_pretty({**counted, "lastUpdated": iso_ms(now), **unknown_members(content, previous, STATS_KEYS)})


def _mean(scores: Collection[float]) -> float:
    mean = math.fsum(scores) / len(scores) if scores else 0.0
    return int(mean) if mean.is_integer() else mean  # the server writes 1, not 1.0


def _same_stats(previous: JsonObject, counted: JsonObject) -> bool:
    return (
        isinstance(previous.get("lastUpdated"), str)
        and all(previous.get(key) == counted[key] for key in ("totalMemories", "averageRelevanceScore"))
        and all(_filled_counts(previous.get(key)) == _filled_counts(counted[key]) for key in ("byType", "byProject"))
    )


def _filled_counts(counts: object) -> JsonObject | None:
    """Return the counts without zeros: a project without memories equals a missing one."""
    return {key: number for key, number in counts.items() if number != 0} if isinstance(counts, dict) else None


def decode_object(content: bytes | None) -> JsonObject | None:
    """Return the JSON object in `content`, or None."""
    if not content:
        return None
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        value = _decoded_slowly(content)
    return value if isinstance(value, dict) else None


def _decoded_slowly(content: bytes) -> object:
    """Decode what only Python's parser accepts: escaped lone surrogates, which the server writes."""
    try:
        return decode_text(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def unknown_members(
    content: bytes | None, previous: JsonObject | None, keys: Collection[str]
) -> dict[str, msgspec.Raw]:
    """Return the members of an index file that are not ours, as raw JSON."""
    if not content or previous is None or all(key in keys for key in previous):
        return {}
    try:
        found = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):  # a key that UTF-8 cannot encode: the index file is rebuilt
        return {}
    return {key: value for key, value in found.items() if key not in keys}


def encode_pretty(value: JsonObject) -> bytes:
    """Return the bytes of `JSON.stringify(value, null, 2)`."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
