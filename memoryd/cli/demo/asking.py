"""Storing and finding: one memory goes in through memoryd, a token does not, and one question goes to all stores."""

from __future__ import annotations

import os
from typing import Any

from memoryd.cli.demo import session_files
from memoryd.cli.demo.jsonl_look import ROOT
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.stage import NotSeenError
from memoryd.cli.demo.voice import counted, cut
from memoryd.core.secrets import VIOLATION
from memoryd.errors import SensitiveError

STORED = "Restarting the exporter twice in a row corrupts its checkpoint: wait until it is up again."
TOKEN = "ghp_" + "aB3dE6gH9" * 4  # as long and as mixed as a real one, and nobody's
QUESTIONS = (  # root of the answer, question: they share next to no words
    (ROOT, "what happens when somebody bounces the exporter again too early"),
    (session_files.ROOT, "why did forked child processes break the database connections"),
)


def scene(play: Play) -> None:
    memory = {"type": "learning", "content": STORED, "tags": ["exporter"], "importance": "high"}
    stored = play.stage.call("memory.add", root=ROOT, memory=memory)
    with open(play.stage.path(ROOT, stored["path"]), encoding="utf-8", errors="replace") as file:
        last = file.read().splitlines()[-1]
    play.require(stored["id"] in last and STORED in last, "what was stored is the last line of its file")
    facts = {"id": stored["id"], "path": stored["path"], "receipt": stored["receipt"]}
    play.voice.say("did", f"stored a learning: on disk, the last line of {stored['path']}", "stored", **facts)
    _refuse(play, memory)
    for root, question in QUESTIONS:
        _ask(play, root, question)


def _refuse(play: Play, memory: dict[str, Any]) -> None:
    try:
        play.stage.call("memory.add", root=ROOT, memory={**memory, "content": f"log in with {TOKEN}"})
    except NotSeenError as refused:
        error = refused.__cause__
        if not isinstance(error, SensitiveError):
            raise
        play.require(error.message == VIOLATION, "a token is refused in the words of the format")
        pattern = error.data["pattern"]
        text = f"a memory with an access token is refused ({pattern}): {error.message}"
        play.voice.say("did", text, "refused", pattern=pattern, message=error.message)
        return
    play.require(False, "a memory with an access token is refused")


def _ask(play: Play, root: str, question: str) -> None:
    answer = play.stage.call("memory.search", query=question, limit=3)
    play.require(bool(answer["hits"]), f"“{question}” has an answer")
    hit, asked = answer["hits"][0], len(answer["fresh"])
    play.require(hit["root"] == root, f"the answer to “{question}” is found in {root}")
    where = os.path.join(hit["root"], hit["path"])
    text = f"asked {counted(asked, 'store')} “{question}”: “{cut(hit['title'], 60)}” in {where}"
    facts = {"query": question, "id": hit["id"], "root": root, "path": hit["path"], "title": hit["title"]}
    play.voice.say("did", text, "asked", stores=asked, **facts)
