"""One document a user: every good version is kept at once, a sudden loss is told and taken back, duplicates go on
command. Nothing is written here unasked, because the agent keeps a cache and would write over it."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

from memoryd.cli.demo import reading
from memoryd.cli.demo.laying import content, lay, loaded, tend
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.sample import DAY
from memoryd.cli.demo.stage import NotSeenError
from memoryd.cli.demo.voice import cut

ROOT = "user-document"
FILE = "mia/__long-memories/data.json"
LENGTH = 384  # numbers of an embedding, as the usual small model makes them
MEMORIES = (  # importance, topics, content
    (0.9, ["home"], "Mia lives in Lisbon."),
    (0.5, ["work"], "She edits school books."),
    (0.4, ["food"], "She does not eat fish."),
    (0.7, ["family"], "Her brother is called Tomé."),
    (0.3, ["sport"], "She rows on Tuesdays."),
    (0.6, ["home", "travel"], "Mia's home is in Lisbon, near the river."),
)
NEW = (0.5, ["travel"], "She flies to Porto on 3 May.")
TWINS = (0, 5)  # by place: nearly one embedding


def scene(play: Play) -> None:
    native = _document(time.time())
    store = lay(play, ROOT, {FILE: _text(native)})
    held = len(native["memories"])
    text = f"made {store}: {FILE} with {held} memories and embeddings; the demo plays its agent"
    play.voice.say("note", text, "document-sample", path=store, memories=held)
    tend(play, ROOT, schedule={"dedupe": "off", "backup": "off"})
    good = _kept(play, store, native)
    _tell_lost(play, store, good)
    _tell_back(play, store, good)
    _tell_merged(play, store)


def _kept(play: Play, store: str, native: dict[str, Any]) -> dict[str, Any]:
    """The agent stores one more, the whole document anew: that version is kept, backups by schedule are off."""
    native["memories"].append(_memory(NEW, _embedding(random.Random(7)), time.time()))  # noqa: S311 - no secret
    held = len(native["memories"])
    _replace(os.path.join(store, FILE), _text(native))
    play.stage.call("sync", root=ROOT)
    sha = reading.sha(os.path.join(store, FILE))
    versions = play.stage.call("backup.list", root=ROOT, file=FILE)["backups"]
    found = next((each for each in versions if each["sha256"] == sha and each["valid"]), None)
    if found is None:
        raise NotSeenError("the new version of the document is kept at once")
    text = f"recognised as user-document; the agent stored memory {held}, that version was kept at once: {found['id']}"
    play.voice.say("did", text, "document-kept", version=found["id"], sha256=sha, memories=held)
    return dict(found)


def _tell_lost(play: Play, store: str, good: dict[str, Any]) -> None:
    """What the real program does when it cannot read its document once."""
    path = os.path.join(store, FILE)
    before = len(loaded(path)["memories"])
    fresh = {"memories": [_memory(NEW, _embedding(random.Random(7)), time.time())]}  # noqa: S311 - no secret
    _replace(path, _text({**fresh, "updated_at": _stamp(time.time()), "last_deduplicated_at": None}))
    findings = play.stage.call("check", root=ROOT)["findings"]
    play.require("shrunk" in [each["code"] for each in findings], "memoryd tells that the document shrank")
    after = len(loaded(path)["memories"])
    evidence = play.keep_evidence(path, "shrunk-document.json")
    text = f"the agent began an empty document and stored into it: alarm, {before} memories became {after}"
    facts = {"before": before, "after": after, "evidence": evidence, "version": good["id"]}
    play.voice.say("found", text, "document-shrunk", **facts)


def _tell_back(play: Play, store: str, good: dict[str, Any]) -> None:
    receipt = play.stage.call("backup.restore", root=ROOT, file=FILE, at=good["id"])["receipt"]
    sha = reading.sha(os.path.join(store, FILE))
    play.require(sha == good["sha256"], "the kept version is back, byte for byte")
    text = f"brought back from {good['id']} on command, byte for byte (sha256 {sha[:8]}…), receipt {receipt}"
    play.voice.say("did", text, "document-restored", receipt=receipt, version=good["id"], sha256=sha)


def _tell_merged(play: Play, store: str) -> None:
    """Dedupe by command: the more important one stays in its own words, with the topics of both."""
    path = os.path.join(store, FILE)
    before = [each["data"] for each in loaded(path)["memories"]]
    receipt = play.stage.call("dedupe", root=ROOT)["receipt"]
    after = [each["data"] for each in loaded(path)["memories"]]
    kept, gone = before[TWINS[0]], before[TWINS[1]]
    topics = list(dict.fromkeys([*kept["topics"], *gone["topics"]]))
    wanted = [{**each, "topics": topics} if each == kept else each for each in before if each != gone]
    play.require(after == wanted, "one of two memories that say the same went, and all others stayed")
    text = f"dedupe on command: “{cut(gone['content'])}” says what “{kept['content']}” says, which stays; topics united"
    facts = {"kept": kept["content"], "gone": gone["content"], "topics": topics, "receipt": receipt}
    play.voice.say("did", text, "document-merged", **facts)


# --- the document, as its agent writes it


def _document(now: float) -> dict[str, Any]:
    numbers = random.Random(2)  # noqa: S311 - a sample, no secret
    vectors = [_embedding(numbers) for _ in MEMORIES]
    vectors[TWINS[1]] = [round(each + numbers.gauss(0, 0.008), 6) for each in vectors[TWINS[0]]]
    memories = [
        _memory(each, vector, now - (len(MEMORIES) - place) * DAY)
        for place, (each, vector) in enumerate(zip(MEMORIES, vectors, strict=True))
    ]
    return {"memories": memories, "updated_at": _stamp(now - DAY), "last_deduplicated_at": None}


def _memory(said: tuple[float, list[str], str], embedding: list[float], at: float) -> dict[str, Any]:
    importance, topics, text = said
    about = {"id": int(at), "content": text, "importance": importance, "category": "general", "topics": topics}
    return {"data": about, "embedding": embedding}


def _embedding(numbers: random.Random) -> list[float]:
    return [round(numbers.gauss(0, LENGTH**-0.5), 6) for _ in range(LENGTH)]


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _text(native: dict[str, Any]) -> bytes:
    return json.dumps(native, separators=(",", ":"), ensure_ascii=False).encode()


def _replace(path: str, text: bytes) -> None:
    """Whole, as the agent does; and no other file is left beside it."""
    with open(f"{path}.tmp", "wb") as file:
        file.write(text)
    os.replace(f"{path}.tmp", path)
    assert content(path) == text
