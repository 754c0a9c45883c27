"""A second look at what `memoryd demo --keep` leaves: every claim of its `demo.json`, checked against the files.

Nothing of memoryd is imported: the files are read here by plain JSON, plain SQLite and plain hashes.
`problems(directory)` is empty when every claim holds.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.demo_layout_claims import LayoutClaims, sha

LIVE = ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")
DAY = 86_400
Claim = Mapping[str, Any]


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
    found = dict(json.loads(path.read_bytes()))
    assert datetime.fromisoformat(found.pop("last_updated"))
    return found


class Checker(LayoutClaims):
    def __init__(self, directory: Path) -> None:
        self.dir = directory
        self.store = directory / "memories"
        self.before = directory / "before"
        self.document: dict[str, Any] = json.loads((directory / "demo.json").read_bytes())
        self.claims: list[dict[str, Any]] = self.document["claims"]
        self.entries, self.steps = self._journal()

    def _journal(self) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
        """Of all stores: by receipt, and each with the store's name."""
        entries: dict[str, dict[str, Any]] = {}
        steps: list[dict[str, Any]] = []
        for path in self.dir.glob("state/roots/*/journal.sqlite"):
            db = sqlite3.connect(path)
            db.row_factory = sqlite3.Row
            store = {"store": path.parent.name.rpartition("-")[0]}
            try:
                own = {row["receipt"]: dict(row) | store for row in db.execute("SELECT * FROM entries")}
                receipts = {entry["seq"]: receipt for receipt, entry in own.items()}
                steps += [dict(row) | {"receipt": receipts[row["entry"]]} for row in db.execute("SELECT * FROM steps")]
            finally:
                db.close()
            assert not own.keys() & entries.keys()
            entries |= own
        return entries, steps

    def problems(self) -> list[str]:
        found = []
        for claim in self.claims:
            name = f"check_{claim['claim'].replace('-', '_')}"
            try:
                getattr(self, name)(claim)
            except (AssertionError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
                found.append(f"{claim['claim']}: {claim['said']}: {type(error).__name__} {error}")
        return found

    def of(self, name: str) -> list[dict[str, Any]]:
        return [claim for claim in self.claims if claim["claim"] == name]

    def said_by(self, agent: str, event: str) -> list[dict[str, Any]]:
        lines = (self.dir / "agents" / f"{agent.lower()}.jsonl").read_bytes().splitlines()
        return [said for said in map(json.loads, lines) if said["event"] == event]

    def line(self, claim: Claim) -> bytes:
        return bytes((self.before / claim["path"]).read_bytes().split(b"\n")[claim["line"] - 1])

    # --- the first look

    def check_sample(self, claim: Claim) -> None:
        assert claim["path"] == str(self.store)
        assert claim["memories"] == len(live(self.before))

    def check_daemon(self, claim: Claim) -> None:
        assert f"pid {claim['pid']}" in claim["said"]
        assert not alive(claim["pid"], self.dir)

    def check_found(self, claim: Claim) -> None:
        line, path, number = self.line(claim), self.before / claim["path"], claim["line"]
        match claim["code"]:
            case "torn-tail":
                assert path.read_bytes().endswith(line)
                assert line
                assert not sound(line)
            case "invalid-json":
                line.decode("utf-8")
                assert not sound(line)
            case "invalid-encoding":
                assert line.decode("utf-8", "replace").count("\ufffd") == 1
                assert not sound(line)
            case "joined-lines":
                assert len(objects(line)) == 2
            case "duplicate-id":
                (again,) = objects(line)
                above = path.read_bytes().split(b"\n")[: number - 1]
                assert again["id"] in [each["id"] for text in above if sound(text) for each in objects(text)]
            case code:
                raise AssertionError(f"unknown code {code}")

    def check_found_wide(self, claim: Claim) -> None:
        wide = {path for path in ("", *os.listdir(self.before)) if mode(self.before / path) & 0o077}
        assert set(claim["paths"]) == wide

    def check_index_stale(self, claim: Claim) -> None:
        assert index(self.before / "index.json")["statistics"]["total_memories"] == claim["says"]
        assert claim["held"] == len(live(self.before)) != claim["says"]

    def check_untouched(self, claim: Claim) -> None:
        assert set(claim["files"]) in (set(LIVE), {*LIVE, "index.json"})
        assert claim["files"] == {path: sha(self.before / path) for path in claim["files"]}

    # --- put right

    def check_index_true(self, claim: Claim) -> None:
        evidence = self.dir / claim["evidence"]
        assert sha(evidence) == claim["sha256"]
        assert index(evidence) == rebuilt(self.before)
        assert claim["memories"] == len(live(self.before))

    def check_mode(self, claim: Claim) -> None:
        assert f"{mode(self.before / claim['path']):03o}" == claim["before"]
        assert f"{mode(self.store / claim['path']):03o}" == claim["after"]
        assert mode(self.store / claim["path"]) & 0o077 == 0
        self.require_entry(claim["receipt"], "permissions", "done")

    def check_backup(self, claim: Claim) -> None:
        name = Path(claim["path"]).name
        assert claim["path"] == f".backup/{name}"
        assert name.startswith(f"{claim['file']}.backup.")
        assert sha(self.store / claim["path"]) == claim["sha256"]
        if "receipt" in claim:  # made before that change: it holds what the change began with
            assert self.step(claim["receipt"], claim["file"])["before_sha"] == claim["sha256"]
        else:
            assert claim["sha256"] == sha(self.before / claim["file"])

    # --- agents

    def check_indexed(self, claim: Claim) -> None:
        (said,) = [each for each in self.said_by(claim["agent"], "wrote") if each["id"] == claim["id"]]
        assert said["file"] == claim["path"]
        assert claim["ms"] == max(0, round((claim["seen"] - said["closed"]) * 1000))
        assert claim["id"] in [memory["id"] for memory in readable(self.store / claim["path"])]
        levels = index(self.store / "index.json")["importance_index"]
        assert claim["id"] in [each for ids in levels.values() for each in ids]

    def check_times(self, claim: Claim) -> None:
        times = [each["ms"] for each in self.of("indexed")]
        assert claim["count"] == len(times) == len(self.said_by("ada", "wrote")) + len(self.said_by("bo", "wrote"))
        assert claim["median_ms"] == statistics.median_low(times)
        assert claim["slowest_ms"] == max(times)

    def check_died(self, claim: Claim) -> None:
        (took,) = self.said_by(claim["agent"], "took the lock")
        assert (took["pid"], took["at"]) == (claim["pid"], claim["took_at"])
        assert (self.dir / claim["evidence"]).read_text().split()[0] == str(claim["pid"])
        assert not alive(claim["pid"], self.dir)

    def check_waits(self, claim: Claim) -> None:
        (died,) = self.of("died")
        assert died["took_at"] < claim["since"]
        assert claim["since"] in [each["since"] for each in self.said_by(claim["agent"], "waits")]

    def check_goes_on(self, claim: Claim) -> None:
        assert claim["waited_s"] in [round(each["waited"], 1) for each in self.said_by(claim["agent"], "goes on")]

    def check_lock_cleared(self, claim: Claim) -> None:
        entry = self.require_entry(claim["receipt"], "lock-clear", "done")
        assert entry["by"] == "schedule"
        assert entry["summary"] == f".lock: {claim['evidence']}"
        assert f"process {claim['pid']} is gone" in claim["evidence"]
        assert claim["pid"] == self.of("died")[0]["pid"]
        assert claim["evidence"].startswith(f"{claim['age_s']:.0f} s old")
        assert claim["age_s"] > 3
        assert not os.path.lexists(self.store / ".lock")

    # --- upkeep

    def check_archived(self, claim: Claim) -> None:
        (was,) = [each for each in readable(self.before / claim["source"]) if each["id"] == claim["id"]]
        (now,) = [each for each in archives(self.store)[claim["path"]] if each["id"] == claim["id"]]
        assert now == was | {"archived": True}
        assert claim["id"] not in live(self.store)
        created = datetime.fromisoformat(was["created_at"])
        stem = claim["source"].removesuffix(".jsonl")
        quarter = f"{created.year}_Q{(created.month + 2) // 3}"
        assert claim["path"] == f"archive/{created.year}/{stem}_{quarter}.jsonl"
        assert claim["why"] == due(was)
        assert self.step(claim["receipt"], claim["source"])["kind"] == "rewrite"

    def check_archive(self, claim: Claim) -> None:
        assert len(archives(self.store)[claim["path"]]) == claim["count"]

    def check_receipt(self, claim: Claim) -> None:
        entry = self.require_entry(claim["receipt"], claim["operation"], "undone")
        assert entry["by"] == "schedule"

    def check_undone(self, claim: Claim) -> None:
        assert self.require_entry(claim["receipt"], "archive", "undone")["undone_by"] == claim["by"]
        self.require_entry(claim["by"], "undo", "done")
        assert self.step(claim["receipt"], claim["path"])["before_sha"] == claim["sha256"]
        assert claim["sha256"] in [sha(path) for path in self.store.glob(f".backup/{claim['path']}.*")]

    def check_held(self, claim: Claim) -> None:
        assert claim["files"] == {each["path"]: each["sha256"] for each in self.of("undone")}
        (again,) = self.of("archived-again")
        begun_with = {path: self.step(again["receipt"], path)["before_sha"] for path in claim["files"]}
        assert claim["files"] == begun_with

    def check_archived_again(self, claim: Claim) -> None:
        assert self.require_entry(claim["receipt"], "archive", "done")["by"] == "command"
        there = [memory["id"] for memories in archives(self.store).values() for memory in memories]
        assert sorted(claim["ids"]) == sorted(there)

    # --- storing and finding

    def check_stored(self, claim: Claim) -> None:
        self.require_entry(claim["receipt"], "add", "done")
        (memory,) = [each for each in readable(self.store / claim["path"]) if each["id"] == claim["id"]]
        assert memory["type"] == "learning"
        assert memory["content"] in [each["title"] for each in self.of("asked")]

    def check_refused(self, claim: Claim) -> None:
        """Nothing of what was refused is anywhere, in whatever form the files are."""
        places = [path for path in self.dir.rglob("*") if path.is_file()]
        assert [path for path in places if b"ghp_aB3" in path.read_bytes()] == []
        assert claim["message"] == "Security violation: Cannot store sensitive data"
        assert f"({claim['pattern']})" in claim["said"]

    def check_asked(self, claim: Claim) -> None:
        """The answer stands where it was said to be, and shares few words with its question."""
        assert claim["stores"] == 5
        assert f"“{claim['query']}”" in claim["said"]
        directory = self.store if claim["root"] == "memories" else self.dir / claim["root"]
        text = (directory / claim["path"]).read_text(encoding="utf-8", errors="replace")
        assert json.dumps(claim["title"], ensure_ascii=False)[1:-1] in text
        named = [str(each) for each in re.findall(r'"(?:id|session_id|type)": ?"([^"]+)"', text)]
        slug = "-".join(claim["title"].lower().split())
        assert claim["id"] in named or claim["id"] in [f"{named[0]}#{kind}:{slug}" for kind in named[1:]]
        words = {word for word in claim["query"].lower().split() if len(word) > 4}
        assert len(words & set(claim["title"].lower().split())) <= 1

    # --- the end

    def check_index_at_end(self, claim: Claim) -> None:
        assert index(self.store / "index.json") == rebuilt(self.store)
        assert claim["memories"] == len(live(self.store))
        assert claim["archived"] == sum(len(each) for each in archives(self.store).values())

    def check_broken_kept(self, claim: Claim) -> None:
        assert sorted(claim["lines"]) == sorted([each["path"], each["line"]] for each in self.of("found"))
        for path, number in claim["lines"]:
            line = self.line({"path": path, "line": number})
            assert line in (self.store / path).read_bytes().split(b"\n")

    def check_stopped(self, claim: Claim) -> None:
        events = [json.loads(line) for line in (self.dir / "daemon.log").read_bytes().splitlines()]
        assert events[-1]["event"] == "stopped"
        assert events[-1]["clean"] is True
        assert claim["code"] == 0
        assert not (self.dir / "control.sock").exists()

    def check_stores(self, claim: Claim) -> None:
        assert claim["memories"] == {"jsonl-store": len(live(self.store)), **self.held()}

    def check_summary(self, claim: Claim) -> None:
        several = sum(len(each["paths"]) for each in [*self.of("found-wide"), *self.of("files-torn")])
        single = [each for name in ("found", "index-stale", "document-shrunk") for each in self.of(name)]
        assert claim["wrong"] == len(single) + several
        for key, name in (("closed", "mode"), ("indexed", "indexed"), ("archived", "archived")):
            assert claim[key] == len(self.of(name)) > 0
        assert claim["cleared"] == len(self.of("lock-cleared")) + len(self.of("sessions-cleared")) == 2

    # --- the journal

    def require_entry(self, receipt: str, operation: str, state: str) -> dict[str, Any]:
        entry = self.entries[receipt]
        assert (entry["operation"], entry["state"]) == (operation, state)
        return entry

    def step(self, receipt: str, path: str) -> dict[str, Any]:
        (found,) = [s for s in self.steps if s["receipt"] == receipt and os.fsdecode(s["path"]) == path]
        return found


def sound(line: bytes) -> bool:
    try:
        return bool(objects(line))
    except ValueError:
        return False


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def due(memory: dict[str, Any]) -> str:
    """In memoryd's words, by the seed's rule."""

    def days(stamp: str) -> int:
        return int((time.time() - datetime.fromisoformat(stamp).timestamp()) // DAY)

    if memory["type"] == "task":
        ended = days(memory["task_metadata"]["completed_at"])
        assert ended >= 30
        return f"task completed {ended} days ago"
    used = min(days(memory[key]) for key in ("created_at", "updated_at", "accessed_at"))
    assert used >= 90
    return f"learning not used for {used} days"


def alive(pid: int, directory: Path) -> bool:
    """A process of the demo; another one may have got its number since."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
    return os.fsencode(directory) in words


def problems(directory: Path) -> list[str]:
    return Checker(directory).problems()
