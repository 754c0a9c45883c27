"""The JSONL store at work: two agents write, a third dies with the lock in its hand."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

from memoryd.cli.demo import reading
from memoryd.cli.demo.following import IndexEye
from memoryd.cli.demo.jsonl_look import ROOT
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.sample import new_memories
from memoryd.cli.demo.stage import Agent, NotSeenError, Stage
from memoryd.cli.demo.voice import cut

THINK_S = (0.15, 0.35)
ADA = (
    "The linter must run before the type checker, or it hides errors.",
    "The export endpoint is limited to 100 rows a page.",
    "Two workers on one queue need idempotent jobs.",
    "東京 time is UTC+9 all year round.",
    "The font licence forbids embedding in PDFs.",
    "Dry runs of the migration take four minutes.",
)
BO = (
    "Add an index on orders.created_at.",
    "Ask legal about the cookie banner.",
    "Port the cron jobs to timers.",
    "Document the rollback.",
    "Shrink the Docker image.",
    "Check the façade tests on Windows.",
)


def write(play: Play) -> None:
    """Every memory is told when its id stands in the index on disk, with the time that took."""
    eye = IndexEye(play.stage.path(ROOT, "index.json"))
    ada, bo = _agents(play.stage)
    first = len(ADA) - 2
    play.voice.say("note", "Ada and Bo write: take .lock, append a line, give .lock back")
    for agent in (ada, bo):
        agent.go()
    _tell_indexed(play, eye, (ada, bo), first)
    _die(play)
    for agent in (ada, bo):
        agent.go()
    _tell_waiting(play, (ada, bo))
    _tell_cleared(play)
    _tell_going_on(play, (ada, bo))
    _tell_indexed(play, eye, (ada, bo), len(ADA))
    times = sorted(claim["ms"] for claim in play.claims("indexed"))
    middle, slowest = times[(len(times) - 1) // 2], times[-1]
    text = f"{len(times)} memories: half were in the index within {middle} ms, all within {slowest} ms"
    play.voice.say("did", text, "times", count=len(times), median_ms=middle, slowest_ms=slowest)


def _agents(stage: Stage) -> tuple[Agent, Agent]:
    jobs = [
        ("Ada", "learnings.jsonl", new_memories("learning", ADA, tags=["demo"], importance="low")),
        ("Bo", "tasks.jsonl", new_memories("task", BO, tags=["demo"], task_metadata={"status": "in-progress"})),
    ]
    made = []
    for name, file, natives in jobs:
        batches = [natives[:-2], natives[-2:]]
        job = {"do": "write", "root": stage.path(ROOT), "file": file, "batches": batches, "think": THINK_S}
        made.append(stage.agent(name, job))
    return made[0], made[1]


def _tell_indexed(play: Play, eye: IndexEye, agents: tuple[Agent, ...], each: int) -> None:
    """Until every agent has written `each` memories and all of them are in the index."""
    told = {claim["id"] for claim in play.claims("indexed")}

    def look() -> bool | None:
        eye.look()
        wrote = [(agent, said) for agent in agents for said in agent.said() if said["event"] == "wrote"]
        fresh = [(agent, said) for agent, said in wrote if said["id"] in eye.seen and said["id"] not in told]
        for agent, said in sorted(fresh, key=lambda pair: float(pair[1]["closed"])):
            told.add(said["id"])
            _tell_one(play, agent, said, eye.seen[said["id"]])
        return True if len(wrote) == len(told) == each * len(agents) else None

    play.stage.until(look, f"{each * len(agents)} memories are written and in index.json")


def _tell_one(play: Play, agent: Agent, said: dict[str, Any], seen: float) -> None:
    ms = max(0, round((seen - said["closed"]) * 1000))
    found = reading.live(play.stage.path(ROOT)).get(said["id"])
    if found is None:
        raise NotSeenError(f"the memory {said['id']} of {agent.name} is in {said['file']}")
    text = f"{agent.name} wrote “{cut(found['content'])}”, in the index after {ms} ms"
    facts = {"id": said["id"], "path": said["file"], "agent": agent.name, "ms": ms, "seen": seen}
    play.voice.say("agent", text, "indexed", **facts)


def _die(play: Play) -> None:
    """The third agent takes the lock and is killed; the file it leaves bars everyone who goes by its existence."""
    stage = play.stage
    assert stage.events is not None
    stage.events.mark()
    stage.call("sync", root=ROOT)  # so that memoryd has no index to write, and wants no lock, just now
    cid = stage.agent("Cid", {"do": "die", "root": stage.path(ROOT)})
    code = stage.until(cid.process.poll, "the third agent takes the lock and dies")
    play.require(code == -signal.SIGKILL, f"the third agent is killed, and not: exit {code}")
    content = _lock_content(stage)
    if content is None or not content.startswith(f"{cid.process.pid} "):
        raise NotSeenError("the dead agent's .lock is left over")
    evidence = play.keep_evidence(stage.path(ROOT, ".lock"), "dead-lock")
    took = cid.said()[0]["at"]
    text = f"Cid (pid {cid.process.pid}) took .lock and was killed: the file is left over"
    play.voice.say("found", text, "died", agent="Cid", pid=cid.process.pid, took_at=took, evidence=evidence)


def _lock_content(stage: Stage) -> str | None:
    try:
        with open(stage.path(ROOT, ".lock"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _tell_waiting(play: Play, agents: tuple[Agent, ...]) -> None:
    for agent in agents:
        what = f"{agent.name} waits for the dead agent's lock"
        said = play.stage.until(partial(_since_death, play, agent, "waits"), what)
        text = f"{agent.name} wants to write and waits, because .lock is there"
        play.voice.say("agent", text, "waits", agent=agent.name, since=said["since"])


def _since_death(play: Play, agent: Agent, event: str) -> dict[str, Any] | None:
    died = play.claims("died")[0]["took_at"]
    return next((said for said in agent.said() if said["event"] == event and said["at"] > died), None)


def _tell_cleared(play: Play) -> None:
    """What memoryd says of it, what its journal says, and that the file is gone."""
    stage = play.stage
    event = stage.event(lambda event: "lock" in event, "memoryd clears the dead lock")
    lock = event["lock"]
    pid = play.claims("died")[0]["pid"]
    play.require(lock["pid"] == pid, f"the lock that was cleared is that of process {pid}")
    entry = _history(stage, "lock-clear")
    play.require(str(pid) in entry["summary"], "the history says whose lock was cleared")
    text = f"memoryd cleared it, receipt {entry['receipt']}; it was {lock['evidence']}"
    facts = {"pid": pid, "age_s": lock["age_s"], "evidence": lock["evidence"], "receipt": entry["receipt"]}
    play.voice.say("did", text, "lock-cleared", **facts)


def _history(stage: Stage, operation: str) -> dict[str, Any]:
    """The newest change of that kind."""
    entries = stage.call("history.list", root=ROOT)["entries"]
    found = [entry for entry in entries if entry["operation"] == operation]
    if not found:
        raise NotSeenError(f"the history knows of a {operation}")
    return dict(found[0])


def _tell_going_on(play: Play, agents: tuple[Agent, ...]) -> None:
    for agent in agents:
        what = f"{agent.name} writes on when the lock is gone"
        said = play.stage.until(partial(_since_death, play, agent, "goes on"), what)
        waited = round(said["waited"], 1)
        play.voice.say(
            "agent", f"{agent.name} writes on after {waited} s", "goes-on", agent=agent.name, waited_s=waited
        )
