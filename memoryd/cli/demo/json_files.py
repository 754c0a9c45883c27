"""One file a memory: its index and statistics are made true, files that two writers tore are healed."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from memoryd.cli.demo import reading
from memoryd.cli.demo.laying import content, index_of, keeps, lay, loaded, tend
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.sample import DAY
from memoryd.cli.demo.voice import counted

ROOT = "json-files"
INDEX, STATS = "_index.json", "_stats.json"
TYPES = ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")
MEMORIES = (  # days ago, type, summary
    (60, "decision", "Dates go over the wire as UTC."),
    (41, "error_recovery", "A full disk shows as a timeout."),
    (33, "pattern", "One migration, one deployment."),
    (20, "user_preference", "No emoji in commit messages."),
    (9, "breakthrough", "The leak was the cache of templates."),
    (2, "decision", "Queues before cron."),
)
TORN = (1, 4)  # by their place in MEMORIES
LOST = 8  # further memories that the index still names; their files were taken by others of the same second


def scene(play: Play) -> None:
    store = lay(play, ROOT, _files(time.time()))
    named, stated = len(_index(store)["fileIndex"]), loaded(os.path.join(store, STATS))["totalMemories"]
    held = len(_memories(store))
    text = f"made {store}: {held} memories; {INDEX} names {named}, {STATS} counts {stated}"
    play.voice.say("note", text, "files-sample", path=store, memories=held, named=named, counted=stated)
    tend(play, ROOT, schedule={"archive": "off"})
    _tell_index(play, store, named)
    _heal(play, store)


def _tell_index(play: Play, store: str, named: int) -> None:
    index_of(play, ROOT)
    held = _memories(store)
    index, stats = _index(store), loaded(os.path.join(store, STATS))
    play.require(index["fileIndex"] == held, f"{INDEX} names just the memories that are there")
    play.require(stats["totalMemories"] == len(held), f"{STATS} counts the memories that are there")
    findings = play.stage.call("check", root=ROOT)["findings"]
    told = [each["message"] for each in findings if each["code"] == "lost-to-name-collision"]
    play.require(len(told) == 1, "memoryd tells that memories were lost when others took their files' names")
    shas = {name: reading.sha(os.path.join(store, name)) for name in (INDEX, STATS)}
    dropped = named - len(held)
    text = f"recognised as json-files; both made true: {len(held)} memories, {dropped} lost ones no longer named"
    play.voice.say("did", text, "files-index", memories=len(held), dropped=dropped, files=shas)


def _heal(play: Play, store: str) -> None:
    """Repair, undo, and undo of the undo, which needs no second repair."""
    stage, voice = play.stage, play.voice
    findings = stage.call("check", root=ROOT)["findings"]
    torn = sorted(each["path"] for each in findings if each["code"] == "torn-file")
    play.require(len(torn) == len(TORN), f"memoryd finds {len(TORN)} torn files")
    text = f"{counted(len(torn), 'file')} torn, a short text written over a longer one: {', '.join(torn)}"
    voice.say("found", text, "files-torn", paths=torn)
    before = _hashes(store, torn)
    receipt = stage.call("repair", root=ROOT)["receipt"]
    after = _hashes(store, torn)
    play.require(set(torn) <= set(_whole(store)), "the torn files can be read whole after the repair")
    play.require(all(keeps(play, ROOT, sha) for sha in before.values()), "the torn bytes are kept in quarantine")
    text = f"repaired on command (receipt {receipt}); the torn originals lie in quarantine"
    voice.say("did", text, "files-repaired", receipt=receipt, originals=before, files=after)
    undone = stage.call("undo", receipt=receipt)["receipt"]
    play.require(_hashes(store, torn) == before, "after the undo the files are torn as before")
    again = stage.call("undo", receipt=undone)["receipt"]
    play.require(_hashes(store, torn) == after, "after the undo of the undo the files are whole")
    text = "undone, the old bytes were back (sha256); that undone too, the files are whole"
    voice.say("did", text, "files-undone", receipt=receipt, by=undone, again=again)


def _hashes(store: str, paths: list[str]) -> dict[str, str]:
    return {path: reading.sha(os.path.join(store, path)) for path in paths}


def _index(store: str) -> dict[str, Any]:
    return dict(loaded(os.path.join(store, INDEX)))


def _memories(store: str) -> dict[str, str]:
    """Id -> file name, of the first value in each file."""
    found: dict[str, str] = {}
    for name in sorted(os.listdir(store)):
        if name.startswith("memory_") and name.endswith(".json"):
            first, _ = json.JSONDecoder().raw_decode(content(os.path.join(store, name)).decode())
            found[first["id"]] = name
    return found


def _whole(store: str) -> list[str]:
    """The names of those files that are one JSON value and nothing else."""
    return [name for name in _memories(store).values() if loaded(os.path.join(store, name))]


# --- the store as found


def _files(now: float) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    for place, (days, kind, summary) in enumerate(MEMORIES):
        at = now - days * DAY
        native = _memory(at, place, kind, summary)
        name = time.strftime("memory_%Y%m%d%H%M%S.json", time.gmtime(at))
        short = _text(native)
        longer = _text({**native, "accessCount": 10_000})  # another writer's, written first: four bytes longer
        files[name] = short + longer[len(short) :] if place in TORN else short
        names[native["id"]] = name
    taken = list(names.values())
    names |= {f"mem_{round((now - 50 * DAY) * 1000) + each}_lost{each}": taken[each % 4] for each in range(LOST)}
    index = {
        "projectIndex": {},
        "typeIndex": {kind: [] for kind in TYPES} | {"decision": list(names)},
        "tagIndex": {},
        "entityIndex": {},
        "temporalIndex": [],
        "fileIndex": names,
    }
    stats = {"totalMemories": len(names), "byType": dict.fromkeys(TYPES, 0) | {"decision": len(names)}}
    stats |= {"byProject": {}, "averageRelevanceScore": 0, "lastUpdated": _stamp(now - 50 * DAY)}
    return {**files, INDEX: _text(index), STATS: _text(stats)}


def _memory(at: float, place: int, kind: str, summary: str) -> dict[str, Any]:
    """One memory by the seed's schema."""
    return {
        "content": f"{summary} Noted while the reason was fresh.",
        "summary": summary,
        "type": kind,
        "confidence": 0.9,
        "tags": ["ops"],
        "entities": [],
        "id": f"mem_{round(at * 1000)}_demo{place}",
        "version": 1,
        "created": _stamp(at),
        "lastAccessed": _stamp(at),
        "accessCount": 0,
        "relevanceScore": 1,
        "archived": False,
    }


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{round(at * 1000) % 1000:03d}Z"


def _text(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()
