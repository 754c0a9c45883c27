"""The scenes of the demo in their order. Each prints what it observes, and raises NotObservedError for what does not
happen."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from memoryd import __version__
from memoryd.cli.demo.sandbox import Agent, NotObservedError, Sandbox, require, shorten
from memoryd.errors import SensitiveError

JSONL, FILES, TOPICS = "jsonl-store", "json-files", "markdown-topics"
SESSIONS, DOCUMENT = "session-files", "user-document"
DAMAGE = ("torn-tail", "joined-lines", "invalid-encoding", "invalid-json", "duplicate-id")  # one of each in the sample
LIVE = ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")
LONG_TOPIC = "deploy/rollback.md"
READ_S = 1.0  # between two scenes on a terminal

ADA = ("The linter must run before the type checker.", "東京 time is UTC+9 all year round.", "Dry runs are slow.")
BO = ("Add an index on orders.created_at.", "Port the cron jobs to timers.", "Shrink the Docker image.")
FIRST = 2  # how many of them are written before an agent dies

STORED = "Restarting the exporter twice in a row corrupts its checkpoint: wait until it is up again."
TOKEN = "ghp_" + "aB3dE6gH9" * 4  # shaped like a real one, and nobody's
QUESTIONS = {  # root of the answer: a question that shares next to no words with it
    JSONL: "what happens when the exporter is bounced again too early",
    SESSIONS: "why did forked child processes break the database connections",
}
CONTENTS = """\
  jsonl-store, json-files, ...   the stores as they are now
  found                          the stores as they were
  agents                         what the agents reported
  state                          journal, index, backups and quarantine
  daemon.log                     the log of the daemon"""
NEXT_COMMANDS = """\
  {program} init --dry-run   # the configuration it would write
  {program} init             # find your memory directories and write it
  {program} run              # look after them, in the foreground"""


def perform(demo: Sandbox, *, keep: bool) -> None:
    """Perform all scenes, then print the contents of the directory and the next commands."""
    demo.narrator.title(f"memoryd {__version__} demo: a throw-away directory, none of your files is touched")
    for number, (title, scene) in enumerate(SCENES, 1):
        if demo.narrator.live:
            demo.sleep(READ_S)
        demo.narrator.title(f"{number}  {title}")
        scene(demo)
    if keep:
        demo.narrator.title(f"Kept in {demo.directory}, the daemon is stopped")
        demo.narrator.plain(CONTENTS)
    demo.narrator.title("What to type next")
    program = own_command()
    if keep:
        demo.narrator.plain(f"  {program} check --offline {demo.path(JSONL)}")
        demo.narrator.plain(f"  cd {demo.directory} && {program} --config memoryd.toml --state-dir state run")
    demo.narrator.plain(NEXT_COMMANDS.format(program=program))


def own_command() -> str:
    """Return how to type this program in a shell: by name if that finds it, else by its path, else as a module."""
    called = os.path.abspath(sys.argv[0])
    if os.path.basename(called) != "memoryd":
        return f"{shlex.quote(sys.executable)} -m memoryd"
    found = shutil.which("memoryd")
    return "memoryd" if found and os.path.samefile(found, called) else shlex.quote(called)


# --- jsonl-store: damage, agents, archive


def _observe(demo: Sandbox) -> None:
    """Observe mode: all damage is found, and no byte changes."""
    store = demo.create(JSONL, mode=0o644)
    demo.configure(JSONL, layout=JSONL, mode="observe")
    demo.say("note", f"{store}: a JSONL store with some damage")
    demo.say("note", f"memoryd runs (pid {demo.start()}) in observe mode: it reads and writes nothing")
    for code in DAMAGE:
        (each,) = _findings(demo, JSONL, code, 1)
        demo.say("found", f"{each['path']}:{each['line']} {code}: {each['message']}")
    wide = [each["path"] or "the directory" for each in _findings(demo, JSONL, "wide-permissions", 5)]
    demo.say("found", f"open to other users: {', '.join(wide)}")
    listed, count = _index_count(demo), demo.row(JSONL)["memories"]
    demo.say("found", f"index.json lists {listed} memories, the files contain {count}", observed=listed != count)
    same = all((store / path.name).read_bytes() == path.read_bytes() for path in demo.path("found", JSONL).iterdir())
    demo.say("done", "no byte of the four files changed", observed=same)


def _maintain(demo: Sandbox) -> None:
    """Maintain mode: index, permissions and backups are brought in order; the memories do not change."""
    demo.say("note", "from now on it may write. Locks are checked every second here (else every 10 s)")
    count = demo.row(JSONL)["memories"]
    schedule = {"locks": "every 1s", "archive": "off", "limits": "off"}
    demo.configure(JSONL, mode="maintain", lock_stale_after_s=3, schedule=schedule)
    demo.until(lambda: _index_count(demo) == count, f"memoryd writes index.json with {count} memories")
    demo.say("done", f"index.json rebuilt: {count} memories")
    receipt = demo.change(JSONL, "permissions")["receipt"]
    wide = [path for path in ("", *LIVE, "index.json") if demo.path(JSONL, path).stat().st_mode & 0o077]
    demo.say("done", f"permissions tightened: files 600, directory 700 (receipt {receipt})", observed=not wide)
    originals = _live(demo.path("found", JSONL))
    for name, content in originals.items():
        backup = demo.until(partial(_backup_of, demo, name, content), f"memoryd backs up {name}")
        demo.say("done", f"backed up: {backup}")
    same = _live(demo.path(JSONL)) == originals
    demo.say("done", "the memories, broken lines included, are byte for byte as before", observed=same)


def _write(demo: Sandbox) -> None:
    """Two agents write, a third is killed while it holds the lock, and the other two continue."""
    agents = ada, bo = demo.agent("Ada", "write", JSONL, LIVE[1]), demo.agent("Bo", "write", JSONL, LIVE[2])
    learnings = [_memory("learning", content) for content in ADA]
    tasks = [_memory("task", content, task_metadata={"status": "in-progress"}) for content in BO]
    demo.say("note", "Ada and Bo write: take .lock, append a line, remove .lock")
    times: dict[str, int] = {}
    ada.write(learnings[:FIRST])
    bo.write(tasks[:FIRST])
    demo.until(lambda: _follow(demo, agents, times, 2 * FIRST), "the first memories are in index.json")
    demo.call("sync", root=JSONL)  # so that memoryd has nothing to index and needs no lock just now
    pid = demo.killed_agent("Cid", "die", JSONL)
    left = demo.path(JSONL, ".lock").read_text().startswith(f"{pid} ")
    demo.say("found", f"Cid (pid {pid}) took .lock and was killed; the file is left", observed=left)
    ada.write(learnings[FIRST:])
    bo.write(tasks[FIRST:])
    demo.until(lambda: all(agent.reports("waits") for agent in agents), "both agents wait for the lock")
    demo.say("agent", "Ada and Bo have something to write and wait, because .lock exists")
    entry = demo.change(JSONL, "lock-clear")
    named = f"process {pid} is gone" in entry["summary"]
    demo.say("done", f"cleared {entry['summary']} (receipt {entry['receipt']})", observed=named)
    demo.until(lambda: _follow(demo, agents, times, len(learnings + tasks)), "all memories are in index.json")
    demo.say("done", f"{len(times)} memories, the slowest in the index after {max(times.values())} ms")


def _memory(kind: str, content: str, **more: object) -> dict[str, object]:
    """Return a memory for the JSONL store; the agent adds the times."""
    about = {"access_count": 1, "tags": ["ops"], "importance": "medium", "archived": False}
    return {"id": str(uuid.uuid4()), "type": kind, "content": content, **about, **more}


def _follow(demo: Sandbox, agents: Iterable[Agent], times: dict[str, int], count: int) -> bool:
    """Print the memories whose ids are now in `index.json`, with the delay in ms. Return True after `count`."""
    index, now = demo.path(JSONL, "index.json").read_text(encoding="utf-8"), time.monotonic()
    for agent in agents:
        for report in agent.reports("wrote"):
            if report["id"] in index and report["id"] not in times:
                times[report["id"]] = took = max(0, round((now - report["closed"]) * 1000))
                text = f"{agent.name} wrote {shorten(report['content'])}"
                demo.say("agent", f"{text}, in the index after {took} ms")
    return len(times) == count


def _archive(demo: Sandbox) -> None:
    """The schedule archives what is due; undo restores it and the schedule respects that; then it is archived by id."""
    demo.call("sync", root=JSONL)
    store = demo.path(JSONL)
    before = _live(store)
    actions = demo.call("archive", root=JSONL, dry_run=True)["plan"]["actions"]
    due = {each["id"]: each["why"] for action in actions if action["kind"] == "rewrite" for each in action["memories"]}
    demo.say("note", "due: learnings unused for 90 days, tasks completed 30 days ago")
    demo.configure(JSONL, schedule={"archive": "every 2s"})
    receipt = demo.change(JSONL, "archive")["receipt"]
    archived = _archived(demo)
    require(bool(due) and due.keys() == archived.keys(), "just the memories that are due are archived")
    for id_, (content, path) in archived.items():
        demo.say("done", f"{shorten(content)}: {due[id_]}; now in {path}")
    for name in LIVE[1:]:
        backup = _backup_of(demo, name, before[name])
        demo.say("done", f"{name} was backed up first: {backup}", observed=backup is not None)

    def last_run() -> object:
        return demo.call("jobs.list", root=JSONL, name="archive")["jobs"][0]["last_run"]

    demo.call("undo", receipt=receipt)
    demo.say("done", f"`memoryd undo {receipt}`: both files are back, byte for byte", observed=_live(store) == before)
    last = last_run()
    demo.until(lambda: last_run() != last, "the archive job runs once more")
    left = _live(store) == before
    demo.say("done", "the next scheduled run left them alone: what you undo stays undone", observed=left)
    receipt = demo.call("archive", root=JSONL, ids=list(due))["receipt"]
    demo.say("done", f"archived again by name (receipt {receipt})", observed=_archived(demo) == archived)


def _live(store: Path) -> dict[str, bytes]:
    """Return the files with the live memories of the JSONL store."""
    return {name: (store / name).read_bytes() for name in LIVE}


def _backup_of(demo: Sandbox, name: str, content: bytes) -> str | None:
    """Return the backup of a file with that content, as a path in the store."""
    paths = demo.path(JSONL, ".backup").glob(f"{name}.backup.*")
    return next((f".backup/{path.name}" for path in paths if path.read_bytes() == content), None)


def _archived(demo: Sandbox) -> dict[str, tuple[str, str]]:
    """Return {id: (content, path)} of the memories in archive files."""
    store = demo.path(JSONL)
    files = {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.glob("archive/*/*.jsonl"))}
    natives = [(path, json.loads(line)) for path, text in files.items() for line in text.splitlines()]
    return {native["id"]: (native["content"], path) for path, native in natives}


# --- the other layouts


def _json_files(demo: Sandbox) -> None:
    """Index and statistics are corrected, and torn files are repaired."""
    store = demo.create(FILES)
    names = sorted(path.name for path in store.glob("memory_*"))
    named = len(_load_json(store / "_index.json")["fileIndex"])
    demo.say("note", f"{len(names)} memories; _index.json and _stats.json count {named}")
    demo.adopt(FILES, schedule={"archive": "off"})

    def rebuilt() -> bool:
        listed, stats = _load_json(store / "_index.json")["fileIndex"], _load_json(store / "_stats.json")
        return sorted(listed.values()) == names and stats["totalMemories"] == len(names)

    demo.until(rebuilt, "memoryd rebuilds index and statistics")
    demo.say("done", f"recognised as {FILES}; index and statistics rebuilt: {len(names)} memories")
    (lost,) = _findings(demo, FILES, "lost-to-name-collision", 1)
    demo.say("found", lost["message"])
    torn = [store / each["path"] for each in _findings(demo, FILES, "torn-file", 2)]
    demo.say("found", f"overwritten with shorter content: {', '.join(path.name for path in torn)}")
    receipt = demo.call("repair", root=FILES)["receipt"]
    text = f"repaired (receipt {receipt}); the originals are kept in quarantine"
    demo.say("done", text, observed=all(_load_json(path) for path in torn))


def _markdown_topics(demo: Sandbox) -> None:
    """Missing files are added to an index kept by hand; a long file is pruned to an archive by year."""
    store = demo.create(TOPICS)
    names = sorted(path.name for path in store.glob("*/*.md"))
    entries, manual_lines = _headings(store / LONG_TOPIC), (store / "index.md").read_text(encoding="utf-8").split("\n")
    demo.say("note", f"{len(names)} topic files; index.md, kept by hand, lists 1")
    demo.adopt(TOPICS, schedule={"prune": "every 1s"})

    def listed() -> str | None:
        text = (store / "index.md").read_text(encoding="utf-8")
        return text if sorted(re.findall("^- `(.+)` - ", text, re.MULTILINE)) == names else None

    lines = iter(demo.until(listed, "memoryd adds the missing files to index.md").splitlines())
    same = all(line in lines for line in manual_lines if line)
    demo.say("done", f"recognised as {TOPICS}; index.md lists all files, its lines by hand unchanged", observed=same)
    receipt = demo.change(TOPICS, "prune")["receipt"]
    remaining = _headings(store / LONG_TOPIC)
    for heading in entries[10:]:
        archive = f"archive/deploy/{heading[:4]}.md"
        moved = heading in _headings(store / archive)
        demo.say("done", f"pruned from {LONG_TOPIC}: “{heading}”, now in {archive}", observed=moved)
    text = f"{len(remaining)} of {len(entries)} entries stay; `memoryd undo {receipt}` brings the others back"
    demo.say("note", text, observed=remaining == entries[:10])


def _session_files(demo: Sandbox) -> None:
    """The lock of a dead archiver is cleared, and a memory that a session holds twice is merged."""
    store = demo.create(SESSIONS)
    pid = demo.killed_agent("Eva", "die-archiving", SESSIONS)
    text = f"Eva, an archiver (pid {pid}), was killed: her .archive.lock would stop every later run"
    demo.say("found", text, observed=_load_json(store / ".archive.lock")["pid"] == pid)
    demo.adopt(SESSIONS, lock_stale_after_s=1, schedule={"locks": "every 1s", "dedupe": "every 1s", "archive": "off"})
    summary = demo.change(SESSIONS, "lock-clear")["summary"]
    gone = f"process {pid} is gone" in summary and not (store / ".archive.lock").exists()
    demo.say("done", f"recognised as {SESSIONS}; cleared {summary}", observed=gone)
    receipt = demo.change(SESSIONS, "dedupe")["receipt"]
    first, second = (_load_json(path)["memories"] for path in sorted(store.glob("*/*.json")))
    titles = [each["title"] for each in first]
    demo.say(
        "done", f"duplicates of “{titles[0]}” merged (receipt {receipt})", observed=len(set(titles)) == len(titles)
    )
    demo.say(
        "note", "two different memories with one title, in the other session, both stay", observed=len(second) == 2
    )


def _user_document(demo: Sandbox) -> None:
    """Each good version is backed up at once; a sudden loss is reported and reversed; a command merges duplicates."""
    path = demo.create(DOCUMENT) / (name := "mia/__long-memories/data.json")
    demo.adopt(DOCUMENT, schedule={"dedupe": "off", "backup": "off"})
    document = _load_json(path)
    data = {"id": int(time.time()), "content": "She flies to Porto on 3 May.", "importance": 0.5, "topics": ["travel"]}
    new = {"data": data, "embedding": document["memories"][1]["embedding"][::-1]}
    _replace(path, {**document, "memories": [*document["memories"], new]})
    demo.call("sync", root=DOCUMENT)
    good, count = path.read_bytes(), len(document["memories"]) + 1
    version = demo.call("backup.list", root=DOCUMENT, file=name)["backups"][0]
    text = f"recognised as {DOCUMENT}; its agent stored memory {count}, backed up at once as {version['id']}"
    demo.say("done", text, observed=version["valid"])
    _replace(path, {**document, "memories": [new]})
    _findings(demo, DOCUMENT, "shrunk", 1)
    demo.say("found", f"the agent lost its document and began a new one: {count} memories became 1")
    receipt = demo.call("backup.restore", root=DOCUMENT, file=name, at=version["id"])["receipt"]
    text = f"restored from {version['id']} on command, byte for byte (receipt {receipt})"
    demo.say("done", text, observed=path.read_bytes() == good)
    receipt = demo.call("dedupe", root=DOCUMENT)["receipt"]
    contents = [each["data"]["content"] for each in _load_json(path)["memories"]]
    survivor, duplicate = (document["memories"][place]["data"]["content"] for place in (0, -1))
    merged = survivor in contents and duplicate not in contents
    demo.say(
        "done", f"dedupe on command: “{duplicate}” is merged into “{survivor}” (receipt {receipt})", observed=merged
    )


# --- search, and the end


def _search(demo: Sandbox) -> None:
    """A memory is stored through memoryd, one with a token is refused, and questions go to all stores."""
    memory = {"type": "learning", "content": STORED, "tags": ["exporter"], "importance": "high"}
    stored = demo.call("memory.add", root=JSONL, memory=memory)
    last = demo.path(JSONL, stored["path"]).read_bytes().splitlines()[-1]
    text = f"stored a learning: it is the last line of {stored['path']}"
    demo.say("done", text, observed=stored["id"].encode() in last)
    try:
        demo.call("memory.add", root=JSONL, memory={**memory, "content": f"log in with {TOKEN}"})
    except SensitiveError as refused:
        demo.say("done", f"a memory with an access token is refused: {refused.message}")
    else:
        raise NotObservedError("a memory with an access token is refused")
    for root, question in QUESTIONS.items():
        answer = demo.until(partial(_search_all, demo, question), "an answer that is fresh in every store")
        require(bool(answer["hits"]) and answer["hits"][0]["root"] == root, f"“{question}” is answered from {root}")
        hit = answer["hits"][0]
        demo.say("note", f"searched {len(answer['fresh'])} stores, all of them up to date: {question}?")
        demo.say("done", f"{shorten(hit['title'], 60)} in {root}/{hit['path']}")


def _search_all(demo: Sandbox, question: str) -> dict[str, Any] | None:
    """Search all stores. Return None while one of them has a change that is not indexed yet."""
    answer = demo.call("memory.search", query=question, limit=3)
    return dict(answer) if all(each["state"] == "fresh" for each in answer["fresh"].values()) else None


def _end(demo: Sandbox) -> None:
    """The state of every store, the broken lines, and a clean stop."""
    demo.call("sync")
    rows = demo.call("status")["roots"]
    healthy = [row["state"] for row in rows] == ["ok"] * 5
    demo.say("done", "one daemon looks after five stores, all in state ok:", observed=healthy)
    for row in rows:
        demo.say("note", f"{row['layout']}: {row['memories']} memories, {row['archived']} archived")
    _findings(demo, JSONL, "invalid-json", 1)
    demo.say("note", "the broken lines of the first store are still there, unchanged")
    code, seconds = demo.stop()
    demo.say("done", f"memoryd stopped when asked: exit 0 after {seconds:.1f} s", observed=code == 0)


# --- reading


def _findings(demo: Sandbox, root: str, code: str, count: int) -> list[dict[str, Any]]:
    """Return the findings with that code; there must be exactly `count`."""
    findings = [each for each in demo.call("check", root=root)["findings"] if each["code"] == code]
    require(len(findings) == count, f"memoryd finds {code} in {root} {count} times, not {len(findings)} times")
    return findings


def _index_count(demo: Sandbox) -> int:
    """Return the number of memories that `index.json` of the JSONL store counts."""
    return int(_load_json(demo.path(JSONL, "index.json"))["statistics"]["total_memories"])


def _load_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _headings(path: Path) -> list[str]:
    """Return the dated headings of a topic file."""
    return re.findall("^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def _replace(path: Path, document: object) -> None:
    """Replace a document atomically, as its agent does."""
    path.with_suffix(".tmp").write_text(json.dumps(document), encoding="utf-8")
    path.with_suffix(".tmp").replace(path)


SCENES: tuple[tuple[str, Callable[[Sandbox], None]], ...] = (
    ("A store of memories as found after a year", _observe),
    ("memoryd may write", _maintain),
    ("Agents write, and one of them dies", _write),
    ("Old memories are archived, with a way back", _archive),
    ("Another layout: json-files, one file per memory", _json_files),
    ("Another layout: markdown-topics, dated entries", _markdown_topics),
    ("Another layout: session-files, one file per session", _session_files),
    ("Another layout: user-document, one document per user", _user_document),
    ("Store and search, one question to all stores", _search),
    ("The end", _end),
)
