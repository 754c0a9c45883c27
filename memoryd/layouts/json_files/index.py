"""`_index.json` and `_stats.json`, in exactly the shapes that the real server reads.

The index holds six maps, pretty-printed, without final newline. The server writes it too, so it is left alone while its
meaning is right: empty buckets and the order inside a bucket do not count, unknown keys are preserved. Ids whose file
is gone are dropped. If another memory has taken the file, the id counts as lost, and is passed on to the next render,
since the new index no longer shows it. So is an accepted loss: a running server may write the old index again.

The statistics have the server's key order and true numbers: the server itself always writes an average of 0 and omits
unknown types from the total, and its reader only displays the file. `lastUpdated` changes only when something else
does, or every render would cause a file event.

Both files are read leniently and written like the server's `JSON.stringify(value, null, 2)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from memoryd.core.dates import iso_ms, parse_stamp
from memoryd.core.findings import Finding
from memoryd.core.records import Entry, FileChange, FileStats, JsonObject
from memoryd.core.spans import Content, joined
from memoryd.layouts.index_text import A_LINE_EACH, IdLists, json_text
from memoryd.layouts.json_files.names import INDEX, LEGACY_DIR, STATS, is_memory, sort_key
from memoryd.layouts.json_files.parser import decode_text
from memoryd.layouts.json_files.schema import TYPES
from memoryd.layouts.protocol import IndexResult, IndexView
from memoryd.layouts.validation import is_texts

BUCKETS = ("projectIndex", "typeIndex", "tagIndex", "entityIndex")
KEYS = (*BUCKETS, "temporalIndex", "fileIndex")
STATS_KEYS = ("totalMemories", "byType", "byProject", "averageRelevanceScore", "lastUpdated")
MAX_CACHED_ENTRIES = 200_000  # at about a kilobyte each; a larger index is rendered as a whole each time

UNIT = 2**1074  # the greatest denominator of a float
_TIME = b",\n    {"  # how each time begins; no JSON string contains a newline
_PAIR = re.compile(rb'"([^"\\]+)"\s*:\s*"([A-Za-z0-9_.-]+\.json)"')


def render(view: IndexView) -> IndexResult:
    """Render both index files; those whose meaning is right are left alone."""
    present, stats = _Present(view.previous.get(INDEX), KEYS), _Present(view.previous.get(STATS), STATS_KEYS)
    view.pause()
    file_names = _file_names(present)
    text, duplicates = _select(view, file_names)
    view.pause()
    legacy = tuple(_legacy(view.files.values()))
    if not text.names and not any(view.previous.values()):
        return IndexResult(findings=legacy)  # nothing to index yet, so no index
    text.unknown = present.unknown
    files: dict[str, Content] = {} if _same(present, file_names, text) else {INDEX: text}
    if not _same_stats(stats, counted := text.statistics()):
        files[STATS] = encode_pretty({**counted, "lastUpdated": iso_ms(view.now), **stats.unknown})
    view.pause()
    lost = _lost(file_names, present, text, view, duplicates)
    findings = (*_duplicate_findings(duplicates), *_lost_finding(lost), *legacy)
    special = findings or lost or view.state.get("lost") or present.unknown or stats.unknown
    small = 0 < len(text.names) <= MAX_CACHED_ENTRIES
    accepted = sorted(_accepted(view.state) - text.names.keys())
    next_state = ({"lost": lost} if lost else {}) | ({"accepted": accepted} if accepted else {})
    update = text.update if small and not special else None
    return replace(text.result(files), findings=findings, next_state=next_state, update=update)


class _Present:
    """A present index file, of which only the members that are needed are decoded. `unknown` are the members whose keys
    are not among `keys`."""

    def __init__(self, content: bytes | None, keys: Collection[str]) -> None:
        self.content = content or b""
        self._members: Mapping[str, object] | None = None
        self.unknown: Mapping[str, object] = {}
        try:
            found = msgspec.json.decode(self.content, type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError):  # a key that UTF-8 cannot encode: the index file is rebuilt
            self._members = decode_object(content)
            return
        unknown = {key: value for key, value in found.items() if key not in keys}
        if not unknown or decode_object(content) is not None:
            self._members, self.unknown = found, unknown

    def __bool__(self) -> bool:
        return self._members is not None

    def text(self, key: str) -> bytes | None:
        """Return the text of a member; None where it is not known."""
        member = self._members.get(key) if self._members else None
        return bytes(member) if isinstance(member, msgspec.Raw) else None

    def __getitem__(self, key: str) -> object:
        """Return a member; None if there is none."""
        text = self.text(key)
        return decode(text) if text is not None else self._members.get(key) if self._members else None


class _Text:
    """Both index files, which grow with the memories; iterating yields the text of `_index.json`. `names` has the path
    of each memory by id; `again` the entries with an id that an earlier one has. `unknown` are further members."""

    def __init__(self, entries: Iterable[Entry], winners: Mapping[str, Entry] = MappingProxyType({})) -> None:
        self._lists = [IdLists(A_LINE_EACH, TYPES if key == "typeIndex" else ()) for key in BUCKETS]
        self._counts: list[dict[str, int]] = [{}, dict.fromkeys(TYPES, 0)]  # by project, and by type
        self._times = bytearray()  # the newest first, and of equal ones the first added
        self._files = bytearray()
        self._values: dict[str, int] = {}  # the hash of what `_index.json` has of a memory, by path
        self._relevance: dict[str, float] = {}
        self._relevance_sum = 0  # exact, in units, so that it need not be added up anew for each change
        self._archived: set[str] = set()
        self._last = ""
        self.names: dict[str, str] = {}
        self.again: list[Entry] = []
        self.unknown: Mapping[str, object] = {}
        times: list[bytes] = []
        for entry in entries:
            if entry.id in self.names:
                self.again.append(entry)
            else:
                times.append(self._add(winners.get(entry.id, entry)))
        times.sort(key=_stamp, reverse=True)
        self._times += b"".join(times)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        lead = b"{\n  "
        for key in KEYS:
            yield b'%b"%b": ' % (lead, key.encode())
            yield from self.member(key)
            lead = b",\n  "
        yield b"," + encode_pretty(self.unknown)[1:] if self.unknown else b"\n}"

    def member(self, key: str) -> Iterator[bytes | memoryview]:
        """Yield the text of a member."""
        if key in BUCKETS:
            yield from self._lists[BUCKETS.index(key)].pieces()
        elif key == "temporalIndex":
            yield b"["
            yield memoryview(self._times)[1:]
            yield b"\n  ]" if self._times else b"]"
        else:
            yield b"{"
            yield memoryview(self._files)[1:]
            yield b"\n  }" if self._files else b"}"

    def update(self, changed: Mapping[str, FileChange], now: float) -> IndexResult | None:
        """Render memories added after all others, and changed memories with the same values in the index; None for any
        other change."""
        before, counted = len(self.names), self.statistics()
        for path in sorted(changed, key=sort_key):
            entries = [*changed[path].entries]
            if len(entries) != 1 or not is_memory(path):
                return None
            [entry] = entries
            known = self._values.get(path)
            if known is None:
                if entry.id in self.names or sort_key(path) < sort_key(self._last):
                    return None
                _insert_time(self._times, self._add(entry))
            elif known == _values(entry):
                self._note(entry)
            else:
                return None
        files: dict[str, Content] = {INDEX: self} if len(self.names) > before else {}
        if (recounted := self.statistics()) != counted:
            files[STATS] = encode_pretty({**recounted, "lastUpdated": iso_ms(now)})
        return replace(self.result(files), update=self.update if len(self.names) <= MAX_CACHED_ENTRIES else None)

    def _add(self, entry: Entry) -> bytes:
        """Add a memory to all but the times, where its text is to be added."""
        identity = json_text(entry.id)
        for keys, lists in zip(_bucket_keys(entry), self._lists, strict=True):
            for key in keys:
                lists.append(key, identity)
        for keys, counts in zip(_bucket_keys(entry), self._counts, strict=False):
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
        self._files += b",\n    %b: %b" % (identity, json_text(entry.path))
        self.names[entry.id] = self._last = entry.path
        self._values[entry.path] = _values(entry)
        self._note(entry)
        stamp = json_text(entry.facts["timestamp"])
        return b'%b\n      "id": %b,\n      "timestamp": %b\n    }' % (_TIME, identity, stamp)

    def _note(self, entry: Entry) -> None:
        """Note what only the counts depend on."""
        relevance = entry.facts["relevance"]
        self._relevance_sum += _units(relevance) - _units(self._relevance.get(entry.path, 0))
        self._relevance[entry.path] = relevance
        if entry.archived:
            self._archived.add(entry.path)
        else:
            self._archived.discard(entry.path)

    def statistics(self) -> JsonObject:
        """Return the statistics without the time. Archived memories count: the flag moves nothing."""
        by_project, by_type = map(dict, self._counts)
        count = len(self._relevance)
        by = {"byType": by_type, "byProject": by_project}
        return {"totalMemories": count, **by, "averageRelevanceScore": _mean(self._relevance_sum, count)}

    def result(self, files: Mapping[str, Content]) -> IndexResult:
        """Return a result with these files."""
        archived = len(self._archived)
        return IndexResult(files, len(self.names) - archived, archived, dict(self._counts[1]))


def _values(entry: Entry) -> int:
    return hash((entry.id, entry.facts["timestamp"], *map(tuple, _bucket_keys(entry))))


def _stamp(time: bytes | bytearray) -> bytes | bytearray:
    """Return the end of the text of a time, from its stamp on. All have the same width, so that they sort as text."""
    return time[time.rindex(b'"timestamp"') :]


def _insert_time(times: bytearray, time: bytes) -> None:
    """Insert a time before the first older one, found by bisection."""
    start, end, stamp = 0, len(times), _stamp(time)
    while start < end:
        begin = times.rindex(_TIME, start, (start + end) // 2 + len(_TIME))
        after = times.find(_TIME, begin + 1, end)
        after = end if after < 0 else after
        if _stamp(times[begin:after]) < stamp:
            end = begin
        else:
            start = after
    times[start:start] = time


def _bucket_keys(entry: Entry) -> tuple[Sequence[str], ...]:
    """Return the keys under which a memory is listed in each of the buckets."""
    facts = entry.facts
    project, kind = facts["project"], entry.type
    return (project,) if project else (), (kind,) if kind else (), facts["tags"], facts["entities"]


def _select(view: IndexView, file_names: JsonObject) -> tuple[_Text, list[tuple[Entry, str]]]:
    """Render one entry of each id: the file named in the index, else the higher version, else the later change; it
    stands where the first of them does. Return the others too, each with the path of the one that counts instead."""
    text = _Text(view.entries)
    if not text.again:
        return text, []
    winners: dict[str, Entry] = {}
    duplicates: list[tuple[Entry, str]] = []
    several = {entry.id for entry in text.again}
    for entry in view.entries:
        if entry.id not in several:
            continue
        first = winners.setdefault(entry.id, entry)
        if first is not entry:
            name = file_names.get(entry.id)
            better = _rank(entry, name) > _rank(first, name)
            winners[entry.id] = entry if better else first
            duplicates.append((first, entry.path) if better else (entry, first.path))
    return _Text(view.entries, winners), duplicates


def _rank(entry: Entry, name: object) -> tuple[bool, int, float, float]:
    facts = entry.facts
    return entry.path == name, facts["version"], facts["updated"] or facts["created"], facts["created"]


# --- comparison by meaning


def _same(present: _Present, file_names: JsonObject, text: _Text) -> bool:
    same_names = file_names == text.names and (bool(file_names) or present["fileIndex"] == {})
    return same_names and all(_same_member(present, text, key) for key in KEYS[:-1])


def _same_member(present: _Present, text: _Text, key: str) -> bool:
    wanted = joined(text.member(key))
    if present.text(key) == wanted:
        return True
    same = _same_times if key == "temporalIndex" else _same_buckets
    return same(present[key], decode(wanted))


def _same_buckets(found: object, wanted: Any) -> bool:
    if found == wanted:
        return True
    if not isinstance(found, dict) or not all(map(is_texts, found.values())):
        return False
    return _filled(found) == _filled(wanted)


def _filled(buckets: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    return {key: set(ids) for key, ids in buckets.items() if ids}


def _same_times(found: object, wanted: Any) -> bool:
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


def _file_names(present: _Present) -> JsonObject:
    """Return the file names by id, also those that a torn index still shows."""
    if isinstance(file_names := present["fileIndex"], dict):
        return file_names
    _, found, rest = present.content.partition(b'"fileIndex"')
    return {each[1].decode("utf-8", "replace"): each[2].decode() for each in _PAIR.finditer(rest)} if found else {}


def _times(present: _Present) -> Mapping[str, object]:
    listed = present["temporalIndex"]
    pairs = (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
    return {str(each.get("id")): each.get("timestamp") for each in pairs}


def _lost(
    file_names: JsonObject, present: _Present, text: _Text, view: IndexView, duplicates: Iterable[tuple[Entry, str]]
) -> list[str]:
    """Return the ids whose file holds another memory, now or in an earlier index, and that did not come back. An id is
    not lost where its file holds a memory of the same moment: somebody corrected the id."""
    lost = set(view.state.get("lost", ())) - text.names.keys()
    known = text.names.keys() | _accepted(view.state)
    gone = {each: path for each, path in file_names.items() if each not in known and isinstance(path, str)}
    paths = {*text.names.values(), *(entry.path for entry, _ in duplicates)} if gone else set[str]()
    reused = {each: path for each, path in gone.items() if path in paths}
    if not reused:
        return sorted(lost)
    times, again = _times(present), {*reused.values()}
    made = {
        entry.path: entry.facts["timestamp"]
        for entry in view.entries
        if entry.path in again and text.names.get(entry.id) == entry.path
    }
    return sorted(lost | {each for each, path in reused.items() if times.get(each, "") != made.get(path)})


def _accepted(state: JsonObject) -> set[str]:
    return set(state.get("accepted", ()))


def accept_lost(state: JsonObject) -> JsonObject:
    """Return the state of the next render, in which all lost ids are accepted."""
    accepted = _accepted(state).union(state.get("lost", ()))
    return {"accepted": sorted(accepted)} if accepted else {}


def _lost_finding(lost: Collection[str]) -> Iterable[Finding]:
    if lost:
        several = len(lost) != 1
        what = f"{len(lost)} memories are lost: their files were" if several else "1 memory is lost: its file was"
        why = f"overwritten by {'memories' if several else 'a memory'} of the same second"
        message = f"{what} {why}; accept the loss with `memoryd repair --code lost-to-name-collision`"
        yield Finding("lost-to-name-collision", INDEX, message)


def _duplicate_findings(duplicates: Iterable[tuple[Entry, str]]) -> Iterable[Finding]:
    for entry, counted in duplicates:
        message = f"duplicate id, also in {counted}, which counts; give this one another id or delete it"
        yield Finding("duplicate-id", entry.path, message, None, entry.id)


def _legacy(files: Iterable[FileStats]) -> Iterable[Finding]:
    count = sum("legacy" in each.facts for each in files)
    if count:
        message = f"{count} files left by the server's migration; not memories, left alone"
        yield Finding("legacy-file", LEGACY_DIR, message)


def _units(score: float) -> int:
    """Return a score as a whole number of parts of 1/UNIT."""
    numerator, denominator = score.as_integer_ratio()
    return numerator * (UNIT // denominator)


def _mean(units: int, count: int) -> float:
    mean = units / (UNIT * count) if count else 0.0
    return int(mean) if mean.is_integer() else mean  # the server writes 1, not 1.0


def _same_stats(present: _Present, counted: JsonObject) -> bool:
    return (
        isinstance(present["lastUpdated"], str)
        and all(present[key] == counted[key] for key in ("totalMemories", "averageRelevanceScore"))
        and all(_filled_counts(present[key]) == _filled_counts(counted[key]) for key in ("byType", "byProject"))
    )


def _filled_counts(counts: object) -> JsonObject | None:
    """Return the counts without zeros: a project without memories equals a missing one."""
    return {key: number for key, number in counts.items() if number != 0} if isinstance(counts, dict) else None


def decode_object(content: bytes | None) -> JsonObject | None:
    """Return the JSON object in `content`, or None."""
    value = decode(content) if content else None
    return value if isinstance(value, dict) else None


def decode(content: bytes) -> object:
    """Return the JSON value in `content`, also with what only Python's parser accepts: escaped lone surrogates, which
    the server writes. None if it is no JSON."""
    for read in (msgspec.json.decode, _decoded_slowly):
        with suppress(ValueError, RecursionError):
            return read(content)
    return None


def _decoded_slowly(content: bytes) -> object:
    return decode_text(content.decode("utf-8"))


def encode_pretty(value: Mapping[str, object]) -> bytes:
    """Return the bytes of `JSON.stringify(value, null, 2)`."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
