"""The order of the demo, its end, and what it leaves behind. A further layout is further scenes in `SCENES`."""

from __future__ import annotations

import json
import os
import shutil

from memoryd import __version__
from memoryd.cli.demo import asking, json_files, markdown_topics, reading, session_files, user_document
from memoryd.cli.demo.jsonl_agents import write
from memoryd.cli.demo.jsonl_look import ROOT, act, look
from memoryd.cli.demo.jsonl_upkeep import upkeep
from memoryd.cli.demo.play import Play, Scene
from memoryd.cli.demo.voice import counted

LAYOUTS = ("jsonl-store", json_files.ROOT, markdown_topics.ROOT, session_files.ROOT, user_document.ROOT)
READ_S = 1.0  # between two scenes, where somebody looks on

SCENES: tuple[Scene, ...] = (
    Scene("A store of memories as one finds it after a year", look),
    Scene("memoryd may act", act),
    Scene("Agents write, and one of them dies", write),
    Scene("Old memories, with a way back", upkeep),
    Scene("Another layout: json-files, one file a memory", json_files.scene),
    Scene("Another layout: markdown-topics, dated entries", markdown_topics.scene),
    Scene("Another layout: session-files, one file a session", session_files.scene),
    Scene("Another layout: user-document, one document a user", user_document.scene),
    Scene("Storing and finding, one question to all of them", asking.scene),
)


def tell(play: Play) -> None:
    """All scenes, then the end. Raises NotSeenError where something does not happen."""
    play.voice.title(f"memoryd {__version__} demo: a throw-away directory, nothing of yours is touched")
    for number, scene in enumerate((*SCENES, Scene("The end", _end)), 1):
        if play.voice.live:
            play.stage.sleep(READ_S)
        play.voice.title(f"{number}  {scene.title}")
        scene.play(play)


def _end(play: Play) -> None:
    """Once everything is quiet: the index against the files once more, and every broken line still there."""
    stage, voice = play.stage, play.voice
    store = stage.path(ROOT)
    stage.call("sync")
    play.require(reading.agrees(store), "index.json says what a rebuild says, at the end")
    numbers = reading.index(store)["statistics"]
    held, archived = numbers["total_memories"], numbers["archived_count"]
    text = f"index.json equals a rebuild: {held} memories, {archived} archived"
    voice.say("did", text, "index-at-end", memories=held, archived=archived)
    _tell_broken_kept(play, store)
    _tell_stores(play)
    code, seconds = stage.stop()
    play.require(code == 0, f"the daemon ends with 0, and not {code}")
    voice.say("did", f"memoryd stopped when asked: exit 0 after {seconds:.1f} s", "stopped", code=code)


def _tell_broken_kept(play: Play, store: str) -> None:
    lines = []
    for damage in play.damage:
        if damage.line is None:
            continue
        with open(os.path.join(play.stage.path("before"), damage.path), "rb") as file:
            line = file.read().split(b"\n")[damage.line - 1]
        with open(os.path.join(store, damage.path), "rb") as file:
            play.require(line in file.read().split(b"\n"), f"{damage.path} still holds its broken line {damage.line}")
        lines.append([damage.path, damage.line])
    text = f"all {len(lines)} broken lines are still there byte for byte, for you to look at"
    play.voice.say("note", text, "broken-kept", lines=lines)


def _tell_stores(play: Play) -> None:
    """What the one daemon says it holds, a store of each layout."""
    rows = play.stage.call("status")["roots"]
    play.require(all(row["state"] == "ok" for row in rows), "every store is in order")
    held = {row["layout"]: row["memories"] for row in rows}
    play.require(sorted(held) == sorted(LAYOUTS), "a store of each layout is tended")
    play.voice.say("did", f"one daemon tends {len(held)} stores, all in state ok", "stores", memories=held)


def summarise(play: Play, *, keep: bool) -> None:
    """Counts of what was told, and what to type next."""
    voice = play.voice
    times = play.claims("times")[0]
    several = sum(len(claim["paths"]) for claim in play.claims("found-wide", "files-torn"))
    counts = {
        "wrong": len(play.claims("found", "index-stale", "document-shrunk")) + several,
        "closed": len(play.claims("mode")),
        "indexed": times["count"],
        "cleared": len(play.claims("lock-cleared", "sessions-cleared")),
        "archived": len(play.claims("archived")),
    }
    voice.title("In short")
    voice.say("plain", f"{counts['wrong']} things found wrong, {counts['closed']} permissions closed")
    indexed = f"{counts['indexed']} memories of two agents indexed, median {times['median_ms']} ms"
    voice.say("plain", f"{indexed}, slowest {times['slowest_ms']} ms")
    moved = f"{counts['archived']} memories archived, taken back, archived"
    text = f"{counted(counts['cleared'], 'dead lock')} cleared; {moved}"
    voice.say("plain", text, "summary", **counts)
    voice.say("plain", "and five stores, one of each layout, with these memories at the end:")
    for layout, memories in play.claims("stores")[0]["memories"].items():
        voice.say("plain", f"  {layout:<16}{memories:>3}")
    voice.say("plain", f"{voice.seconds:.1f} s in all")
    if keep:
        write_claims(play, ok=True, problem=None)
        _tell_places(play)
    voice.title("What to type next")
    for command, does in _next(play, keep=keep):
        voice.say("plain", f"{command:<38}  {does}")


def _tell_places(play: Play) -> None:
    stage, voice = play.stage, play.voice
    voice.title(f"Kept in {stage.directory}, the daemon is stopped")
    for name, what in (
        (ROOT, "the JSONL store as it is now"),
        ("before", "the same store as it was"),
        *((layout, "the store of that layout as it is now") for layout in LAYOUTS[1:]),
        ("found", "these four as they were"),
        ("state", "journal, catalogue, and what an undo needs"),
        ("daemon.log", "what the daemon logged"),
        ("demo.json", "what this demo said, in a form that can be checked"),
    ):
        play.require(os.path.exists(stage.path(name)), f"{name} is kept")
        voice.say("plain", f"{name:<17}{what}")


def _next(play: Play, *, keep: bool) -> list[tuple[str, str]]:
    stage = play.stage
    places = f"--config {stage.config} --state-dir {stage.path('state')}"
    again = [
        (f"memoryd check --offline {stage.path(ROOT)}", "look at this store again"),
        (f"memoryd {places} run", "tend it again"),
    ]
    return [
        *(again if keep else []),
        ("memoryd init", "write your configuration"),
        ("memoryd run ~/.claude/agents/memories", "tend one directory"),
        ("memoryd status", "see what it does"),
    ]


def write_claims(play: Play, *, ok: bool, problem: str | None) -> None:
    """`demo.json`, written beside the store when everything has been said."""
    document = {
        "version": __version__,
        "ok": ok,
        "problem": problem,
        "store": play.stage.path(ROOT),
        "seconds": round(play.voice.seconds, 3),
        "claims": play.voice.claims,
    }
    target = play.stage.path("demo.json")
    with open(f"{target}.tmp", "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=1)
    shutil.move(f"{target}.tmp", target)
