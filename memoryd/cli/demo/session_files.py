"""One file a session: what a session says twice is merged, and the lock of an archiver that died is cleared."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from memoryd.cli.demo.laying import change_of, lay, loaded, tend
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.sample import DAY
from memoryd.cli.demo.stage import NotSeenError
from memoryd.cli.demo.voice import counted

ROOT = "session-files"
LOCK = ".archive.lock"
POOL = "The connection pool of the reports service must be closed before the worker forks, or children share sockets."
SAID = (  # days ago, session, memories: (type, title, content, confidence)
    (
        3,
        "pool-errors",
        (
            ("learning", "Close the pool before forking", POOL, 70),
            ("decision", "Fork late", "Workers are forked after all configuration is read.", 80),
            ("learning", "Close the pool before forking", POOL.replace("must", "should"), 92),
        ),
    ),
    (
        1,
        "report-layout",
        (
            ("decision", "Landscape", "Reports are printed in landscape, because of the wide tables.", 75),
            ("insight", "Landscape", "Nobody prints reports any more; they are read on telephones.", 60),
        ),
    ),
)


def scene(play: Play) -> None:
    now = time.time()
    files = dict(_session(now - days * DAY, name, said) for days, name, said in SAID)
    store = lay(play, ROOT, files)
    held = sum(len(said[2]) for said in SAID)
    text = f"made {store}: {held} memories of {counted(len(files), 'session')}"
    play.voice.say("note", text, "sessions-sample", path=store, memories=held, sessions=len(files))
    pid = _die(play)
    tend(play, ROOT, lock_stale_after_s=1, schedule={"locks": "every 1s", "dedupe": "every 1s", "archive": "off"})
    _tell_cleared(play, store, pid)
    _tell_merged(play, store, files)


def _die(play: Play) -> int:
    """An archiver takes its lock and is killed: the next one would skip its work, for ever."""
    stage = play.stage
    eva = stage.agent("Eva", {"do": "die archiving", "root": stage.path(ROOT)})
    code = stage.until(eva.process.poll, "the archiver takes its lock and dies")
    pid = eva.process.pid
    play.require(code == -signal.SIGKILL, f"the archiver is killed, and not: exit {code}")
    left = loaded(stage.path(ROOT, LOCK))
    play.require(left["pid"] == pid, f"the dead archiver's {LOCK} is left over")
    evidence = play.keep_evidence(stage.path(ROOT, LOCK), "dead-archive-lock")
    text = f"Eva, an archiver (pid {pid}), was killed: her {LOCK} would stop every later run"
    play.voice.say("found", text, "sessions-locked", agent="Eva", pid=pid, evidence=evidence)
    return pid


def _tell_cleared(play: Play, store: str, pid: int) -> None:
    stage = play.stage
    lock = stage.event(lambda event: event.get("root") == ROOT and "lock" in event, f"memoryd clears {LOCK}")["lock"]
    play.require(lock["pid"] == pid, f"the lock that was cleared is that of process {pid}")
    play.require(not os.path.lexists(os.path.join(store, LOCK)), f"{LOCK} is gone")
    entries = stage.call("history.list", root=ROOT)["entries"]
    receipt = next((each["receipt"] for each in entries if each["operation"] == "lock-clear"), None)
    if receipt is None:
        raise NotSeenError("the history knows that the lock was cleared")
    text = f"recognised as session-files; cleared {LOCK}: {lock['evidence']}"
    play.voice.say("did", text, "sessions-cleared", pid=pid, evidence=lock["evidence"], receipt=receipt)


def _tell_merged(play: Play, store: str, files: dict[str, bytes]) -> None:
    """What the session said twice it says once, in the words it was surer of; all else is as it was."""
    event = change_of(play, ROOT, "dedupe")
    (action,) = event["plan"]["actions"]
    path = action["path"]
    before, after = json.loads(files[path]), loaded(os.path.join(store, path))
    gone = [memory for memory in before["memories"] if memory not in after["memories"]]
    play.require(len(gone) == 1 == len(before["memories"]) - len(after["memories"]), "one memory was merged away")
    play.require({**before, "memories": []} == {**after, "memories": []}, "the session is otherwise as it was")
    kept = next((memory for memory in after["memories"] if _key(memory) == _key(gone[0])), None)
    if kept is None:
        raise NotSeenError(f"“{gone[0]['title']}” is still said once")
    scores = {"kept": kept["confidence_score"], "gone": gone[0]["confidence_score"]}
    text = f"“{kept['title']}” was said twice: kept with confidence {scores['kept']}, merged away {scores['gone']}"
    facts = {"path": path, "title": kept["title"], "receipt": event["receipt"], **scores}
    play.voice.say("did", text, "sessions-merged", **facts)
    untouched = [
        name for name in files if name != path and loaded(os.path.join(store, name)) == json.loads(files[name])
    ]
    play.require(len(untouched) == len(files) - 1, "the other sessions are as they were")
    text = "two different things under one title, in the other session, both stay"
    play.voice.say("note", text, "sessions-kept", paths=untouched)


def _key(memory: dict[str, Any]) -> tuple[str, str]:
    return memory["type"], memory["title"]


def _session(began: float, name: str, said: tuple[tuple[str, str, str, int], ...]) -> tuple[str, bytes]:
    """Path and content of one session by the seed's schema."""
    at = time.gmtime(began)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", at)
    native = {
        "session_id": time.strftime(f"%Y-%m-%d-%H-%M-%S-{name}", at),
        "timestamp": stamp,
        "last_updated": stamp,
        "extraction_count": 1,
        "memories": [_memory(*each) for each in said],
        "suggestions": [],
    }
    path = time.strftime(f"%Y-%m-%d/%H-%M-%S-{name}.json", at)
    return path, (json.dumps(native, indent=2, ensure_ascii=False) + "\n").encode()


def _memory(kind: str, title: str, content: str, confidence: int) -> dict[str, Any]:
    return {
        "type": kind,
        "category": "code",
        "title": title,
        "content": content,
        "source_chunk": f"**User:** what did we learn?\n**Assistant:** {content}",
        "confidence_score": confidence,
        "related_entities": [],
        "tools_mentioned": [],
        "urls_mentioned": [],
        "target_agents": [],
    }
