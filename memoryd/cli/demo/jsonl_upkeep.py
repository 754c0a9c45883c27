"""The JSONL store grows old: what is due is archived, taken back byte for byte, and archived again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

from memoryd.cli.demo import reading
from memoryd.cli.demo.jsonl_look import ROOT
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.voice import counted, cut

FILES = ("learnings.jsonl", "tasks.jsonl")


def upkeep(play: Play) -> None:
    stage, voice = play.stage, play.voice
    store = stage.path(ROOT)
    stage.call("sync", root=ROOT)
    before = {name: reading.sha(os.path.join(store, name)) for name in FILES}
    live = reading.live(store)
    voice.say("note", "the archive job is on from now, every 2 s (usually every 6 h)")
    voice.say("note", "due: learnings unused for 90 days, tasks completed 30 days ago")
    actions, receipt = _scheduled(play)
    moved = _tell_moved(play, store, actions, live, receipt)
    _tell_backed_up(play, store, before, receipt)
    _take_back(play, store, before, moved, receipt)
    _hold(play, store, before)
    _again(play, store, moved, live)


def _scheduled(play: Play) -> tuple[list[dict[str, Any]], str]:
    stage = play.stage
    assert stage.events is not None
    stage.events.mark()
    stage.configure(ROOT, schedule={"archive": "every 2s"})
    stage.call("config.reload")
    event = stage.event(lambda event: event.get("operation") == "archive", "the archive job runs")
    return event["plan"]["actions"], event["receipt"]


def _tell_moved(
    play: Play, store: str, actions: Iterable[dict[str, Any]], live: dict[str, dict[str, Any]], receipt: str
) -> list[str]:
    """Each memory that left, with the archive file it is found in and the reason memoryd gave; their ids."""
    moved: list[str] = []
    for action in (action for action in actions if action["kind"] == "rewrite"):
        for each in action["memories"]:
            play.require(each["id"] in live, f"what was archived was there before: {each['id']}")
            _tell_one_moved(play, store, action["path"], each, live[each["id"]], receipt)
            moved.append(each["id"])
    play.require(bool(moved), "memories are due and leave")
    for place, number in sorted(Counter(claim["path"] for claim in play.claims("archived")).items()):
        text = f"{counted(number, 'memory', 'memories')} in {place}"
        play.voice.say("note", text, "archive", path=place, count=number)
    play.voice.say("did", f"receipt of this change: {receipt}", "receipt", receipt=receipt, operation="archive")
    return moved


def _tell_one_moved(
    play: Play, store: str, path: str, each: dict[str, Any], memory: dict[str, Any], receipt: str
) -> None:
    id_, why = each["id"], each["why"]
    place = reading.archived(store).get(id_)
    left = id_ not in {found["id"] for found in reading.memories(os.path.join(store, path))}
    play.require(place is not None and left, f"{id_} is in an archive file and no more in {path}")
    text = f"archived “{cut(memory['content'])}”: {why}"
    play.voice.say("did", text, "archived", id=id_, source=path, path=place, why=why, receipt=receipt)


def _tell_backed_up(play: Play, store: str, before: dict[str, str], receipt: str) -> None:
    """The backup from before the change: same hash, and older than what the change wrote."""
    for name, digest in before.items():
        listed = play.stage.call("backup.list", root=ROOT, file=name)["backups"]
        paths = [os.path.join(".backup", each["id"]) for each in listed if each["id"].startswith(name)]
        found = [path for path in paths if reading.sha(os.path.join(store, path)) == digest]
        play.require(bool(found), f"a backup holds {name} as it was before the change")
        first, then = (os.stat(os.path.join(store, path)).st_mtime_ns for path in (found[0], name))
        play.require(first <= then, f"{found[0]} is older than the new {name}")
        text = f"backed up first: {found[0]}"
        facts = {"file": name, "path": found[0], "sha256": digest, "receipt": receipt}
        play.voice.say("did", text, "backup", **facts)


def _take_back(play: Play, store: str, before: dict[str, str], moved: list[str], receipt: str) -> None:
    undone = play.stage.call("undo", receipt=receipt)["receipt"]
    after = {name: reading.sha(os.path.join(store, name)) for name in FILES}
    play.require(after == before, "after the undo both files have the hashes from before")
    left = [id_ for id_ in moved if id_ in reading.archived(store)]
    play.require(not left, "no archive copy is left after the undo")
    play.voice.say("note", f"taken back, as with `memoryd undo {receipt}`:")
    for name, digest in after.items():
        text = f"{name} is as before, byte for byte (sha256 {digest[:8]}…)"
        facts = {"receipt": receipt, "by": undone, "path": name, "sha256": digest}
        play.voice.say("did", text, "undone", **facts)


def _hold(play: Play, store: str, before: dict[str, str]) -> None:
    """What somebody took back is not moved again by the schedule: seen over one more run of it."""
    stage = play.stage
    assert stage.events is not None
    stage.events.mark()
    event = stage.event(lambda event: event.get("job") == "archive", "the archive job runs once more")
    play.require(event["result"] == "ok", f"the archive job succeeds, and not: {event['result']} {event['reason']}")
    after = {name: reading.sha(os.path.join(store, name)) for name in FILES}
    play.require(after == before, "the schedule leaves alone what was taken back")
    text = "the next scheduled run left them alone: what you take back stays back"
    play.voice.say("did", text, "held", files=after)


def _again(play: Play, store: str, moved: list[str], live: dict[str, dict[str, Any]]) -> None:
    """By name, as a command does it."""
    stage = play.stage
    done = stage.call("archive", root=ROOT, ids=moved)
    receipt = done["receipt"]
    places = reading.archived(store)
    kept = reading.live(store)
    play.require(all(id_ in places and id_ not in kept for id_ in moved), "the named memories are archived again")
    play.require(set(kept) == set(live) - set(moved), "no other memory went or came")
    text = f"archived again by name (receipt {receipt}): {counted(len(moved), 'memory', 'memories')}"
    play.voice.say("did", text, "archived-again", ids=moved, receipt=receipt)
