"""`_index.json` in exactly the shape the real server reads: six maps, pretty-printed, no final newline.

The server writes the file too, so it is left alone while it means the same: empty buckets and the order inside a
bucket say nothing, unknown keys stay. What the index names and no file holds any more is dropped; where another
memory has taken its file, it is counted as lost, and remembered, since the next index no longer tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.findings import Finding
from memoryd.core.records import Entry
from memoryd.layouts.base import FileSummary, IndexResult, IndexView
from memoryd.layouts.json_files import stats
from memoryd.layouts.json_files.derived import decoded, encoded, unknown
from memoryd.layouts.json_files.names import INDEX, LEGACY_FOLDER, STATS
from memoryd.layouts.json_files.schema import TYPES

_BUCKETS = ("projectIndex", "typeIndex", "tagIndex", "entityIndex")
KEYS = (*_BUCKETS, "temporalIndex", "fileIndex")

Buckets = dict[str, list[str]]


class Chosen(NamedTuple):
    """One entry for each id, in file order; `spare` pairs those that do not count with those that do."""

    entries: dict[str, Entry]
    spare: list[tuple[Entry, str]]
    paths: set[str]


def render(view: IndexView) -> IndexResult:
    previous = decoded(view.previous.get(INDEX))
    named = _named(previous)
    chosen = choose(view.entries, named)
    body = _body(chosen.entries.values())
    files: dict[str, bytes] = {}
    if not chosen.entries and not any(view.previous.values()):
        return IndexResult(findings=(*_legacy(view.files.values()),))  # nothing to index yet, so no index
    if previous is None or not _same(previous, body):
        files[INDEX] = encoded({**body, **unknown(view.previous.get(INDEX), previous, KEYS)})
    counted = stats.count(chosen.entries.values(), body)
    wanted = stats.render(counted, view.previous.get(STATS), view.now)
    if wanted is not None:
        files[STATS] = wanted
    lost = _lost(named, chosen, view.remembered)
    findings = (*_spare(chosen), *_lost_finding(lost), *_legacy(view.files.values()))
    archived = sum(entry.archived for entry in chosen.entries.values())
    total = len(chosen.entries) - archived
    remember = {"lost": lost} if lost else {}
    return IndexResult(files, total, archived, counted["byType"], findings, remember=remember)


def choose(entries: Iterable[Entry], named: Mapping[str, Any]) -> Chosen:
    """Of two files with one id the one the index names counts, else the higher version, else the later change."""
    kept: dict[str, Entry] = {}
    spare: list[tuple[Entry, str]] = []
    paths: set[str] = set()
    for entry in entries:
        paths.add(entry.path)
        first = kept.get(entry.id)
        if first is None:
            kept[entry.id] = entry
            continue
        name = named.get(entry.id)
        better = _rank(entry, name) > _rank(first, name)
        kept[entry.id] = entry if better else first
        spare.append((first, entry.path) if better else (entry, first.path))
    return Chosen(kept, spare, paths)


def _rank(entry: Entry, name: object) -> tuple[bool, int, float, float]:
    facts = entry.facts
    return entry.path == name, facts["version"], facts["updated"] or facts["created"], facts["created"]


def _body(entries: Iterable[Entry]) -> dict[str, Any]:
    projects: Buckets = {}
    types: Buckets = {kind: [] for kind in TYPES}
    tags: Buckets = {}
    entities: Buckets = {}
    times: list[dict[str, str]] = []
    files: dict[str, str] = {}
    for entry in entries:
        identity, facts = entry.id, entry.facts
        if facts["project"]:
            projects.setdefault(facts["project"], []).append(identity)
        if entry.type:
            types.setdefault(entry.type, []).append(identity)
        for tag in facts["tags"]:
            tags.setdefault(tag, []).append(identity)
        for entity in facts["entities"]:
            entities.setdefault(entity, []).append(identity)
        times.append({"id": identity, "timestamp": facts["timestamp"]})
        files[identity] = entry.path
    times.sort(key=_timestamp, reverse=True)  # stamps of one width sort as text; equal ones keep file order
    return dict(zip(KEYS, (projects, types, tags, entities, times, files), strict=True))


def _timestamp(time: Mapping[str, str]) -> str:
    return time["timestamp"]


# --- comparing by meaning


def _same(previous: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return (
        previous.get("fileIndex") == body["fileIndex"]
        and _same_times(previous.get("temporalIndex"), body["temporalIndex"])
        and all(_same_buckets(previous.get(key), body[key]) for key in _BUCKETS)
    )


def _same_buckets(found: object, wanted: Buckets) -> bool:
    if found == wanted:
        return True
    if not isinstance(found, dict) or not all(map(_is_texts, found.values())):
        return False
    return _filled(found) == _filled(wanted)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _filled(buckets: Buckets) -> dict[str, set[str]]:
    return {key: set(ids) for key, ids in buckets.items() if ids}


def _same_times(found: object, wanted: list[dict[str, str]]) -> bool:
    """Newest first, the same moments for the same ids; equal moments in any order."""
    if found == wanted:
        return True
    if not isinstance(found, list) or len(found) != len(wanted):
        return False
    pairs = [_pair(each) for each in found]
    moments = [pair[0] for pair in pairs]
    return moments == sorted(moments, reverse=True) and sorted(pairs) == sorted(map(_pair, wanted))


def _pair(time: object) -> tuple[int, str]:
    """(milliseconds, id); what is neither sorts to where nothing matches it."""
    if not isinstance(time, dict) or not isinstance(time.get("id"), str):
        return -(10**18), ""
    stamp = parse_stamp(time.get("timestamp"))
    return (round(stamp.seconds * 1000) if stamp else -(10**18)), time["id"]


# --- what is told beside


def _named(previous: Mapping[str, Any] | None) -> Mapping[str, Any]:
    named = previous.get("fileIndex") if previous else None
    return named if isinstance(named, dict) else {}


def _lost(named: Mapping[str, Any], chosen: Chosen, remembered: Mapping[str, Any]) -> list[str]:
    """Ids whose file holds another memory, now or when an earlier index told; one that came back is not lost."""
    before = remembered.get("lost", ())
    now = (identity for identity, path in named.items() if isinstance(path, str) and path in chosen.paths)
    return sorted({*before, *now} - chosen.entries.keys())


def _lost_finding(lost: Collection[str]) -> Iterable[Finding]:
    if lost:
        told = f"lost_to_name_collision: {len(lost)}; their files were overwritten by memories of the same second"
        yield Finding("lost-to-name-collision", INDEX, told)


def _spare(chosen: Chosen) -> Iterable[Finding]:
    for entry, counted in chosen.spare:
        told = f"the id stands also in {counted}, which counts; give this one another id or delete it"
        yield Finding("duplicate-id", entry.path, told, None, entry.id)


def _legacy(files: Iterable[FileSummary]) -> Iterable[Finding]:
    count = sum("legacy" in each.facts for each in files)
    if count:
        told = f"{count} files of the server's migration; not memories, left alone"
        yield Finding("legacy-file", LEGACY_FOLDER, told)
