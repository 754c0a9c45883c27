"""What `memoryd demo --keep` leaves, checked against what it found: each `check_` of Kept is one promise of the demo.

Nothing of memoryd is imported: files are read by plain JSON, plain SQLite and plain hashes, and what memoryd was to do
is worked out anew from the copies in `found/`. `problems(directory)` is empty when everything holds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sqlite3
import stat
import time
import zlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

JSONL, FILES, TOPICS, SESSIONS, DOCUMENT = STORES = (
    "jsonl-store",
    "json-files",
    "markdown-topics",
    "session-files",
    "user-document",
)
LIVE = ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")
DATA = "mia/__long-memories/data.json"
LONG_TOPIC = "deploy/rollback.md"
KINDS = ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")
DAY = 86_400
DAMAGES = {"torn-tail": 1, "joined-lines": 1, "invalid-encoding": 1, "duplicate-id": 1, "invalid-json": 1}


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def loaded(path: Path) -> Any:
    return json.loads(path.read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def rows(database: Path, query: str) -> list[dict[str, Any]]:
    db = sqlite3.connect(database)
    db.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in db.execute(query)]
    finally:
        db.close()


# --- a plain reading of JSONL stores


def objects(line: bytes) -> list[dict[str, Any]]:
    """All JSON objects on a line; ValueError when it is anything else (UnicodeDecodeError is one)."""
    text, found, at = line.decode("utf-8").strip(), [], 0
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
    return found


def readable(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found += objects(line)
        except ValueError:
            continue
    return found


def live(store: Path) -> dict[str, dict[str, Any]]:
    """The first of equal ids, not archived."""
    every: dict[str, dict[str, Any]] = {}
    for name in LIVE:
        for memory in readable(store / name):
            every.setdefault(memory["id"], memory)
    return {key: memory for key, memory in every.items() if not memory["archived"]}


def archives(store: Path) -> dict[str, list[dict[str, Any]]]:
    return {str(path.relative_to(store)): readable(path) for path in sorted(store.glob("archive/*/*.jsonl"))}


def damages(store: Path) -> list[tuple[str, str, bytes]]:
    """(code, path, line) of every broken line, by a reading of our own."""
    found = []
    for name in LIVE:
        lines, ids = (store / name).read_bytes().split(b"\n"), set()
        for number, line in enumerate(lines, 1):
            try:
                natives = objects(line)
            except UnicodeDecodeError:
                found.append(("invalid-encoding", name, line))
                continue
            except ValueError:
                found.append(("torn-tail" if number == len(lines) else "invalid-json", name, line))
                continue
            found += [("joined-lines", name, line)] * (len(natives) > 1)
            found += [("duplicate-id", name, line) for native in natives if native["id"] in ids]
            ids |= {native["id"] for native in natives}
    return found


def rebuilt(store: Path) -> dict[str, Any]:
    """The index as the seed describes it, without its time stamp."""
    memories, old = live(store), archives(store)
    tags = sorted({tag for memory in memories.values() for tag in memory["tags"]})
    categories = sorted({memory["category"] for memory in memories.values() if memory.get("category")})

    def having(test: Callable[[dict[str, Any]], bool]) -> list[str]:
        return [key for key, memory in memories.items() if test(memory)]

    kinds = ("core", "learning", "task")
    return {
        "version": "1.0.0",
        "statistics": {
            "total_memories": len(memories),
            "by_type": {kind: len(having(lambda m, kind=kind: m["type"] == kind)) for kind in kinds},  # type: ignore[misc]  # bound at once
            "archived_count": sum(len(each) for each in old.values()),
            "total_storage_bytes": sum((store / path).stat().st_size for path in (*LIVE, *old)),
        },
        "tags_index": {tag: having(lambda m, tag=tag: tag in m["tags"]) for tag in tags},  # type: ignore[misc]  # bound at once
        "category_index": {c: having(lambda m, c=c: m.get("category") == c) for c in categories},  # type: ignore[misc]  # bound at once
        "importance_index": {
            level: having(lambda m, level=level: m["importance"] == level)  # type: ignore[misc]  # bound at once
            for level in ("high", "medium", "low")
        },
    }


def index(path: Path) -> dict[str, Any]:
    found = dict(loaded(path))
    assert datetime.fromisoformat(found.pop("last_updated"))
    return found


def is_due(memory: dict[str, Any]) -> bool:
    """By the seed's rule: learnings unused for 90 days, tasks completed 30 days ago."""

    def days(stamp: str) -> float:
        return (time.time() - datetime.fromisoformat(stamp).timestamp()) / DAY

    if memory["type"] == "task":
        return memory["task_metadata"]["status"] == "completed" and days(memory["task_metadata"]["completed_at"]) >= 30
    used = min(days(memory[key]) for key in ("created_at", "updated_at", "accessed_at"))
    return memory["type"] == "learning" and used >= 90


# --- a plain reading of the other layouts


def first_values(store: Path) -> dict[str, dict[str, Any]]:
    """File name -> memory: the first JSON value, whatever stands behind it."""
    paths = sorted(store.glob("memory_*.json"))
    return {path.name: json.JSONDecoder().raw_decode(path.read_text(encoding="utf-8"))[0] for path in paths}


def dated(path: Path) -> list[tuple[str, str, str]]:
    """(day, title, text) of the entries of a topic or archive file; its comments and the space around are left out."""
    text = re.sub(r"^<!--.*-->$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    parts = re.split(r"^## (\d{4}-\d{2}-\d{2}): (.+)$", text, flags=re.MULTILINE)[1:]
    texts = [part.strip() for part in parts[2::3]]
    return list(zip(parts[::3], parts[1::3], texts, strict=True))


def topic_files(store: Path) -> list[Path]:
    return sorted(path for path in store.glob("*/*.md") if path.parent.name != "archive")


def listed(index: Path) -> list[str]:
    return re.findall(r"^- `(.+?)` - ", index.read_text(encoding="utf-8"), flags=re.MULTILINE)


def cosine(a: list[float], b: list[float]) -> float:
    return sum(map(float.__mul__, a, b)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


class Kept:
    """The directory of `demo --keep` and the journals of its stores. Each `check_` raises where a promise is broken."""

    def __init__(self, directory: Path) -> None:
        self.dir = directory
        self.found = directory / "found"
        self.entries: list[dict[str, Any]] = []
        for path in sorted(directory.glob("state/roots/*/journal.sqlite")):
            steps = rows(path, "SELECT * FROM steps")
            for entry in rows(path, "SELECT * FROM entries ORDER BY seq"):
                own = {os.fsdecode(step["path"]): step for step in steps if step["entry"] == entry["seq"]}
                self.entries.append(entry | {"store": path.parent.name.rpartition("-")[0], "steps": own})

    def entry(self, store: str, operation: str, state: str, by: str) -> dict[str, Any]:
        """The one change of that kind."""
        wanted = (store, operation, state, by)
        (found,) = [e for e in self.entries if (e["store"], e["operation"], e["state"], e["by"]) == wanted]
        return found

    def reports(self, agent: str, event: str) -> list[dict[str, Any]]:
        lines = (self.dir / "agents" / f"{agent}.jsonl").read_bytes().splitlines()
        return [report for report in map(json.loads, lines) if report["event"] == event]

    def held(self) -> dict[str, int]:
        """Live memories in each store as it is now."""
        sessions = [loaded(path) for path in (self.dir / SESSIONS).glob("*/*.json")]
        return {
            JSONL: len(live(self.dir / JSONL)),
            FILES: len(first_values(self.dir / FILES)),
            TOPICS: sum(len(dated(path)) for path in topic_files(self.dir / TOPICS)),
            SESSIONS: sum(len(session["memories"]) for session in sessions),
            DOCUMENT: len(loaded(self.dir / DOCUMENT / DATA)["memories"]),
        }

    def blob(self, store: str, digest: str) -> bytes:
        (path,) = self.dir.glob(f"state/roots/{store}-*/blobs/{digest}.z")
        return zlib.decompress(path.read_bytes())

    # --- jsonl-store

    def check_the_damage_that_was_found_is_real(self) -> None:
        assert Counter(code for code, _, _ in damages(self.found / JSONL)) == DAMAGES
        assert index(self.found / JSONL / "index.json")["statistics"]["total_memories"] != len(live(self.found / JSONL))
        assert all(mode(path) & 0o077 for path in [self.found / JSONL, *(self.found / JSONL).iterdir()])

    def check_broken_lines_are_still_there(self) -> None:
        for _, name, line in damages(self.found / JSONL):
            assert line in (self.dir / JSONL / name).read_bytes().split(b"\n")

    def check_the_index_equals_a_rebuild(self) -> None:
        assert index(self.dir / JSONL / "index.json") == rebuilt(self.dir / JSONL)

    def check_permissions_are_closed(self) -> None:
        store = self.dir / JSONL
        assert [path for path in [store, *store.rglob("*")] if mode(path) & 0o077] == []
        assert self.entry(JSONL, "permissions", "done", "schedule")

    def check_each_file_was_backed_up_as_found(self) -> None:
        for name in LIVE:
            backups = list((self.dir / JSONL / ".backup").glob(f"{name}.backup.*"))
            assert sha(self.found / JSONL / name) in map(sha, backups)

    def check_every_memory_of_an_agent_is_in_the_index(self) -> None:
        levels = index(self.dir / JSONL / "index.json")["importance_index"]
        ids = [each for found in levels.values() for each in found]
        for agent, name in (("ada", "learnings.jsonl"), ("bo", "tasks.jsonl")):
            wrote = [report["id"] for report in self.reports(agent, "wrote")]
            assert len(wrote) == 3
            assert set(wrote) <= {memory["id"] for memory in readable(self.dir / JSONL / name)}
            assert set(wrote) <= set(ids)
        assert (self.dir / "agents" / "errors.log").read_bytes() == b""

    def check_the_dead_agents_lock_was_cleared(self) -> None:
        (took,) = self.reports("cid", "took the lock")
        summary = self.entry(JSONL, "lock-clear", "done", "schedule")["summary"]
        assert summary.startswith(".lock: ")
        assert f"process {took['pid']} is gone" in summary
        assert not alive(took["pid"], self.dir)
        age = re.match(r"\.lock: (\d+) s old", summary)
        assert age is not None
        assert int(age[1]) >= 3
        assert not os.path.lexists(self.dir / JSONL / ".lock")
        for agent in ("ada", "bo"):
            last = self.reports(agent, "wrote")[-1]["at"]
            waits = [each["at"] for each in self.reports(agent, "waits")]  # on a busy machine also for one another
            assert any(took["at"] < at < last for at in waits)

    def check_just_what_was_due_is_archived(self) -> None:
        before, places = live(self.found / JSONL), archives(self.dir / JSONL)
        moved = {memory["id"]: (path, memory) for path, memories in places.items() for memory in memories}
        assert moved.keys() == {key for key, memory in before.items() if is_due(memory)}
        assert moved
        assert not moved.keys() & live(self.dir / JSONL).keys()
        for key, (path, memory) in moved.items():
            assert memory == before[key] | {"archived": True}
            created = datetime.fromisoformat(memory["created_at"])
            stem = {"learning": "learnings", "task": "tasks"}[memory["type"]]
            assert path == f"archive/{created.year}/{stem}_{created.year}_Q{(created.month + 2) // 3}.jsonl"

    def check_the_scheduled_archive_was_undone_and_not_repeated(self) -> None:
        """And made by name then, from the bytes that the undo brought back."""
        scheduled = self.entry(JSONL, "archive", "undone", "schedule")
        undo = self.entry(JSONL, "undo", "done", "command")
        named = self.entry(JSONL, "archive", "done", "command")
        assert scheduled["undone_by"] == undo["receipt"]
        for name in LIVE[1:]:
            digest = scheduled["steps"][name]["before_sha"]
            assert scheduled["steps"][name]["kind"] == "rewrite"
            assert undo["steps"][name]["after_sha"] == digest == named["steps"][name]["before_sha"]
            assert digest in map(sha, (self.dir / JSONL / ".backup").glob(f"{name}.backup.*"))

    # --- json-files

    def check_index_and_statistics_of_json_files(self) -> None:
        store, found = self.dir / FILES, self.found / FILES
        memories = first_values(store)
        index, stats = loaded(store / "_index.json"), loaded(store / "_stats.json")
        types = Counter(memory["type"] for memory in memories.values())
        assert index["fileIndex"] == {memory["id"]: name for name, memory in memories.items()}
        newest_first = sorted(memories.values(), key=lambda memory: str(memory["created"]), reverse=True)
        assert [each["id"] for each in index["temporalIndex"]] == [memory["id"] for memory in newest_first]
        by_type = {kind: {m["id"] for m in memories.values() if m["type"] == kind} for kind in KINDS}
        assert {kind: set(ids) for kind, ids in index["typeIndex"].items()} == by_type
        assert {tag: set(ids) for tag, ids in index["tagIndex"].items()} == {"ops": set(index["fileIndex"])}
        assert index["projectIndex"] == index["entityIndex"] == stats["byProject"] == {}
        assert stats["byType"] == {kind: types[kind] for kind in KINDS}
        assert stats["totalMemories"] == len(memories) == len(first_values(found))
        assert len(loaded(found / "_index.json")["fileIndex"]) == loaded(found / "_stats.json")["totalMemories"]
        assert loaded(found / "_stats.json")["totalMemories"] > len(memories)

    def check_torn_files_are_repaired_and_in_quarantine(self) -> None:
        store, found = self.dir / FILES, self.found / FILES
        torn = [name for name in first_values(found) if (found / name).read_bytes().endswith(b"}\ne\n}\n")]
        steps = self.entry(FILES, "repair", "done", "command")["steps"]
        assert steps.keys() == set(torn)
        assert len(torn) == 2
        (journal,) = self.dir.glob(f"state/roots/{FILES}-*/journal.sqlite")
        quarantine = {os.fsdecode(row["file"]): row["sha256"] for row in rows(journal, "SELECT * FROM quarantine")}
        assert quarantine == {name: sha(found / name) for name in torn}
        for name in torn:
            assert loaded(store / name) == first_values(found)[name]
            assert (steps[name]["before_sha"], steps[name]["after_sha"]) == (sha(found / name), sha(store / name))
            assert self.blob(FILES, sha(found / name)) == (found / name).read_bytes()
        whole = first_values(found).keys() - set(torn)
        assert all(sha(store / name) == sha(found / name) for name in whole)

    # --- markdown-topics

    def check_the_topic_index_gained_its_files(self) -> None:
        before, after = self.found / TOPICS / "index.md", self.dir / TOPICS / "index.md"
        assert sorted(listed(after)) == sorted(path.name for path in topic_files(self.dir / TOPICS))
        assert len(listed(after)) > len(listed(before)) == 1
        own = [line for line in before.read_text(encoding="utf-8").splitlines() if line]
        present = iter(after.read_text(encoding="utf-8").splitlines())
        assert all(line in present for line in own)

    def check_the_long_topic_was_pruned(self) -> None:
        store, found = self.dir / TOPICS, self.found / TOPICS
        before, after = dated(found / LONG_TOPIC), dated(store / LONG_TOPIC)
        assert after == sorted(before, reverse=True)[:10]
        assert len(after) < len(before)
        for entry in (entry for entry in before if entry not in after):
            archive = store / "archive" / Path(LONG_TOPIC).parent / f"{entry[0][:4]}.md"
            assert entry in dated(archive)
            assert f"<!-- from: {Path(LONG_TOPIC).name} -->" in archive.read_text(encoding="utf-8")
        step = self.entry(TOPICS, "prune", "done", "schedule")["steps"][LONG_TOPIC]
        assert (step["before_sha"], step["after_sha"]) == (sha(found / LONG_TOPIC), sha(store / LONG_TOPIC))

    def check_the_other_topics_are_as_found(self) -> None:
        for path in topic_files(self.found / TOPICS):
            name = path.relative_to(self.found / TOPICS)
            assert str(name) == LONG_TOPIC or sha(self.dir / TOPICS / name) == sha(path)

    # --- session-files

    def check_the_dead_archivers_lock_was_cleared(self) -> None:
        summary = self.entry(SESSIONS, "lock-clear", "done", "schedule")["summary"]
        assert re.match(r"\.archive\.lock: .*process \d+ is gone", summary)
        assert not os.path.lexists(self.dir / SESSIONS / ".archive.lock")

    def check_the_duplicate_of_a_session_was_merged(self) -> None:
        entry = self.entry(SESSIONS, "dedupe", "done", "schedule")
        (path,) = entry["steps"]
        before, after = (loaded(place / SESSIONS / path) for place in (self.found, self.dir))
        titles = Counter(memory["title"] for memory in before["memories"])
        twins = [memory for memory in before["memories"] if titles[memory["title"]] == 2]
        gone, kept = sorted(twins, key=lambda memory: int(memory["confidence_score"]))
        words = [set(re.findall(r"\w+", memory["content"].casefold())) for memory in twins]
        assert 20 * len(words[0] & words[1]) > 17 * len(words[0] | words[1])
        assert (gone["type"], gone["title"]) == (kept["type"], kept["title"])
        others = [memory for memory in before["memories"] if memory not in twins]
        assert after == before | {"memories": [kept, *others]}

    def check_the_other_session_is_as_found(self) -> None:
        (merged,) = self.entry(SESSIONS, "dedupe", "done", "schedule")["steps"]
        paths = {str(path.relative_to(self.found / SESSIONS)) for path in (self.found / SESSIONS).glob("*/*.json")}
        (other,) = paths - {merged}
        assert sha(self.dir / SESSIONS / other) == sha(self.found / SESSIONS / other)
        titles = [memory["title"] for memory in loaded(self.found / SESSIONS / other)["memories"]]
        assert len(set(titles)) < len(titles)

    # --- user-document

    def version(self, digest: str) -> list[dict[str, Any]]:
        """The memories of a version of the document, from the vault of versions."""
        (vault,) = self.dir.glob(f"state/roots/{DOCUMENT}-*/snapshots.sqlite")
        (row,) = rows(vault, f"SELECT deflated FROM contents WHERE sha256 = '{digest}'")
        content = zlib.decompress(row["deflated"])
        assert hashlib.sha256(content).hexdigest() == digest
        return list(json.loads(content)["memories"])

    def restore(self) -> dict[str, str]:
        """The step that put the document back."""
        return dict(self.entry(DOCUMENT, "restore", "done", "command")["steps"][DATA])

    def check_the_last_good_version_was_kept_and_restored(self) -> None:
        first = loaded(self.found / DOCUMENT / DATA)["memories"]
        assert self.version(self.restore()["after_sha"])[:-1] == first

    def check_the_document_that_was_replaced_can_be_had_too(self) -> None:
        """The one that the agent began anew."""
        assert len(self.version(self.restore()["before_sha"])) == 1

    def check_duplicates_of_the_document_were_merged(self) -> None:
        before, after = self.version(self.restore()["after_sha"]), loaded(self.dir / DOCUMENT / DATA)
        kept, gone = before[0], before[-2]
        assert cosine(kept["embedding"], gone["embedding"]) >= 0.95
        assert kept["data"]["importance"] > gone["data"]["importance"]
        topics = list(dict.fromkeys([*kept["data"]["topics"], *gone["data"]["topics"]]))
        united = {**kept, "data": kept["data"] | {"topics": topics}}
        assert after["memories"] == [united if each == kept else each for each in before if each != gone]
        assert after["last_deduplicated_at"] is not None
        entry = self.entry(DOCUMENT, "dedupe", "done", "command")
        assert entry["steps"][DATA]["before_sha"] == self.restore()["after_sha"]
        assert entry["steps"][DATA]["after_sha"] == sha(self.dir / DOCUMENT / DATA)

    # --- search, and the end

    def check_what_was_stored_is_the_last_line(self) -> None:
        self.entry(JSONL, "add", "done", "command")
        last = readable(self.dir / JSONL / "learnings.jsonl")[-1]
        assert (last["type"], last["tags"]) == ("learning", ["exporter"])

    def check_nothing_of_the_token_is_anywhere(self) -> None:
        """In whatever form the files are."""
        places = [path for path in self.dir.rglob("*") if path.is_file()]
        assert [path for path in places if b"ghp_aB3" in path.read_bytes()] == []

    def check_the_daemon_stopped_cleanly(self) -> None:
        events = [json.loads(line) for line in (self.dir / "daemon.log").read_bytes().splitlines()]
        assert events[-1]["event"] == "stopped"
        assert events[-1]["clean"] is True
        assert not [event for event in events if event["event"] == "unexpected" or "exception" in event]
        assert not (self.dir / "control.sock").exists()


def alive(pid: int, directory: Path) -> bool:
    """A process of the demo; another one may have got its number since."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return os.fsencode(directory) in words


CHECKS = tuple(name for name in dir(Kept) if name.startswith("check_"))


def problems(directory: Path) -> list[str]:
    found = []
    kept = Kept(directory)
    for name in CHECKS:
        try:
            getattr(kept, name)()
        except (AssertionError, LookupError, OSError, TypeError, ValueError) as error:
            found.append(f"{name.removeprefix('check_').replace('_', ' ')}: {type(error).__name__} {error}")
    return found
