"""The claims of the demo about the layouts that keep whole files, checked as in `demo_claims`: nothing of memoryd is
imported, what it should have done is worked out here anew from the copies in `found/`."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Claim = Mapping[str, Any]
FILES, TOPICS, SESSIONS, DOCUMENT = "json-files", "markdown-topics", "session-files", "user-document"
DATA = "mia/__long-memories/data.json"
KINDS = ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def loaded(path: Path) -> Any:
    return json.loads(path.read_bytes())


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


class LayoutClaims:
    """`entries` and `steps`: the journals of all stores. Each `check_` raises where a claim does not hold."""

    dir: Path
    claims: list[dict[str, Any]]
    entries: dict[str, dict[str, Any]]
    steps: list[dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [claim for claim in self.claims if claim["claim"] == name]

    def held(self) -> dict[str, int]:
        """Memories in each of the four stores as they are now."""
        sessions = [loaded(path) for path in (self.dir / SESSIONS).glob("*/*.json")]
        return {
            FILES: len(first_values(self.dir / FILES)),
            TOPICS: sum(len(dated(path)) for path in topic_files(self.dir / TOPICS)),
            SESSIONS: sum(len(session["memories"]) for session in sessions),
            DOCUMENT: len(loaded(self.dir / DOCUMENT / DATA)["memories"]),
        }

    def entry(self, receipt: str, store: str, operation: str, state: str, by: str) -> dict[str, Any]:
        found = self.entries[receipt]
        assert (found["store"], found["operation"], found["state"], found["by"]) == (store, operation, state, by)
        return found

    def changed(self, receipt: str, path: str) -> tuple[str, str]:
        """Hashes before and after."""
        (found,) = [s for s in self.steps if s["receipt"] == receipt and os.fsdecode(s["path"]) == path]
        return found["before_sha"], found["after_sha"]

    # --- json-files

    def check_files_sample(self, claim: Claim) -> None:
        found = self.dir / "found" / FILES
        assert claim["path"] == str(self.dir / FILES)
        assert claim["memories"] == len(first_values(found))
        assert claim["named"] == len(loaded(found / "_index.json")["fileIndex"]) > claim["memories"]
        assert claim["counted"] == loaded(found / "_stats.json")["totalMemories"]

    def check_files_index(self, claim: Claim) -> None:
        store = self.dir / FILES
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
        assert claim["memories"] == stats["totalMemories"] == len(memories)
        assert claim["dropped"] == len(loaded(self.dir / "found" / FILES / "_index.json")["fileIndex"]) - len(memories)
        assert claim["files"] == {name: sha(store / name) for name in ("_index.json", "_stats.json")}

    def check_files_torn(self, claim: Claim) -> None:
        found = self.dir / "found" / FILES
        torn = [name for name in first_values(found) if (found / name).read_bytes().endswith(b"}se\n}")]
        assert claim["paths"] == torn

    def check_files_repaired(self, claim: Claim) -> None:
        store, found = self.dir / FILES, self.dir / "found" / FILES
        (torn,) = self.of("files-torn")
        self.entry(claim["receipt"], FILES, "repair", "undone", "command")
        assert claim["originals"] == {name: sha(found / name) for name in torn["paths"]}
        assert claim["files"] == {name: sha(store / name) for name in torn["paths"]}
        (journal,) = self.dir.glob(f"state/roots/{FILES}-*/journal.sqlite")
        for name, digest in claim["originals"].items():
            assert loaded(store / name) == first_values(found)[name]
            assert self.changed(claim["receipt"], name) == (digest, claim["files"][name])
            kept = zlib.decompress((journal.parent / "blobs" / f"{digest}.z").read_bytes())
            assert kept == (found / name).read_bytes()
        quarantined = rows(journal, "SELECT file, sha256 FROM quarantine")
        assert {os.fsdecode(row["file"]): row["sha256"] for row in quarantined} == claim["originals"]

    def check_files_undone(self, claim: Claim) -> None:
        (repaired,) = self.of("files-repaired")
        assert claim["receipt"] == repaired["receipt"]
        assert self.entries[claim["receipt"]]["undone_by"] == claim["by"]
        assert self.entry(claim["by"], FILES, "undo", "undone", "command")["undone_by"] == claim["again"]
        self.entry(claim["again"], FILES, "undo", "done", "command")
        for name, digest in repaired["originals"].items():
            assert self.changed(claim["by"], name) == (repaired["files"][name], digest)
            assert self.changed(claim["again"], name) == (digest, repaired["files"][name])

    # --- markdown-topics

    def check_topics_sample(self, claim: Claim) -> None:
        found = self.dir / "found" / TOPICS
        paths = topic_files(found)
        assert claim["path"] == str(self.dir / TOPICS)
        assert claim["files"] == len(paths)
        assert claim["entries"] == sum(len(dated(path)) for path in paths)
        assert claim["listed"] == len(listed(found / "index.md"))

    def check_topics_index(self, claim: Claim) -> None:
        before, after = (place / TOPICS / "index.md" for place in (self.dir / "found", self.dir))
        assert sorted(listed(after)) == sorted(path.name for path in topic_files(self.dir / TOPICS))
        assert claim["added"] == len(listed(after)) - len(listed(before)) > 0
        own = [line for line in before.read_text(encoding="utf-8").splitlines() if line]
        present = iter(after.read_text(encoding="utf-8").splitlines())
        assert all(line in present for line in own)
        assert claim["kept"] == len(own)

    def check_topics_pruned(self, claim: Claim) -> None:
        store, found = self.dir / TOPICS, self.dir / "found" / TOPICS
        (entry,) = [each for each in dated(found / claim["source"]) if each[:2] == (claim["day"], claim["title"])]
        assert entry in dated(store / claim["path"])
        assert entry not in dated(store / claim["source"])
        assert claim["path"] == f"archive/{Path(claim['source']).parent}/{claim['day'][:4]}.md"
        assert f"<!-- from: {Path(claim['source']).name} -->" in (store / claim["path"]).read_text(encoding="utf-8")
        self.entry(claim["receipt"], TOPICS, "prune", "done", "schedule")

    def check_topics_left(self, claim: Claim) -> None:
        store, found = self.dir / TOPICS, self.dir / "found" / TOPICS
        before, after = dated(found / claim["path"]), dated(store / claim["path"])
        assert (claim["before"], claim["after"]) == (len(before), len(after))
        assert after == sorted(before, reverse=True)[:10]
        assert self.changed(claim["receipt"], claim["path"]) == (sha(found / claim["path"]), sha(store / claim["path"]))
        assert len(self.of("topics-pruned")) == len(before) - len(after)

    # --- session-files

    def check_sessions_sample(self, claim: Claim) -> None:
        paths = list((self.dir / "found" / SESSIONS).glob("*/*.json"))
        assert claim["path"] == str(self.dir / SESSIONS)
        assert claim["sessions"] == len(paths)
        assert claim["memories"] == sum(len(loaded(path)["memories"]) for path in paths)

    def check_sessions_locked(self, claim: Claim) -> None:
        (took,) = map(json.loads, (self.dir / "agents" / f"{claim['agent'].lower()}.jsonl").read_bytes().splitlines())
        assert (took["event"], took["pid"]) == ("took the lock", claim["pid"])
        assert loaded(self.dir / claim["evidence"])["pid"] == claim["pid"]

    def check_sessions_cleared(self, claim: Claim) -> None:
        entry = self.entry(claim["receipt"], SESSIONS, "lock-clear", "done", "schedule")
        assert entry["summary"] == f".archive.lock: {claim['evidence']}"
        assert claim["pid"] == self.of("sessions-locked")[0]["pid"]
        assert f"process {claim['pid']} is gone" in claim["evidence"]
        assert not os.path.lexists(self.dir / SESSIONS / ".archive.lock")

    def check_sessions_merged(self, claim: Claim) -> None:
        before, after = (loaded(place / SESSIONS / claim["path"]) for place in (self.dir / "found", self.dir))
        twins = [memory for memory in before["memories"] if memory["title"] == claim["title"]]
        gone, kept = sorted(twins, key=lambda memory: int(memory["confidence_score"]))
        words = [set(re.findall(r"\w+", memory["content"].casefold())) for memory in twins]
        assert 20 * len(words[0] & words[1]) > 17 * len(words[0] | words[1])
        assert (gone["type"], gone["title"]) == (kept["type"], kept["title"])
        assert (claim["gone"], claim["kept"]) == (gone["confidence_score"], kept["confidence_score"])
        others = [memory for memory in before["memories"] if memory not in twins]
        assert after == before | {"memories": [kept, *others]}
        self.entry(claim["receipt"], SESSIONS, "dedupe", "done", "schedule")

    def check_sessions_kept(self, claim: Claim) -> None:
        found = self.dir / "found" / SESSIONS
        (merged,) = self.of("sessions-merged")
        every = {str(path.relative_to(found)) for path in found.glob("*/*.json")}
        assert set(claim["paths"]) == every - {merged["path"]}
        for path in claim["paths"]:
            assert sha(self.dir / SESSIONS / path) == sha(found / path)
            titles = [memory["title"] for memory in loaded(found / path)["memories"]]
            assert len(set(titles)) < len(titles)

    # --- user-document

    def check_document_sample(self, claim: Claim) -> None:
        assert claim["path"] == str(self.dir / DOCUMENT)
        assert claim["memories"] == len(loaded(self.dir / "found" / DOCUMENT / DATA)["memories"])

    def kept_version(self, name: str) -> tuple[str, bytes]:
        """Hash and content of a version in the vault."""
        (vault,) = self.dir.glob(f"state/roots/{DOCUMENT}-*/snapshots.sqlite")
        query = "SELECT 'v' || v.seq AS id, c.sha256, c.deflated FROM versions v JOIN contents c USING (sha256)"
        (row,) = [row for row in rows(vault, query) if row["id"] == name]
        return row["sha256"], zlib.decompress(row["deflated"])

    def check_document_kept(self, claim: Claim) -> None:
        digest, content = self.kept_version(claim["version"])
        assert claim["sha256"] == digest == hashlib.sha256(content).hexdigest()
        first = loaded(self.dir / "found" / DOCUMENT / DATA)["memories"]
        memories = json.loads(content)["memories"]
        assert memories[:-1] == first
        assert claim["memories"] == len(memories)

    def check_document_shrunk(self, claim: Claim) -> None:
        evidence = self.dir / claim["evidence"]
        (restored,) = self.of("document-restored")
        assert self.changed(restored["receipt"], DATA)[0] == sha(evidence)
        assert claim["after"] == len(loaded(evidence)["memories"])
        assert claim["before"] == len(json.loads(self.kept_version(claim["version"])[1])["memories"])
        assert claim["after"] * 2 < claim["before"]

    def check_document_restored(self, claim: Claim) -> None:
        self.entry(claim["receipt"], DOCUMENT, "restore", "done", "command")
        assert claim["sha256"] == self.kept_version(claim["version"])[0]
        assert self.changed(claim["receipt"], DATA)[1] == claim["sha256"]

    def check_document_merged(self, claim: Claim) -> None:
        (restored,) = self.of("document-restored")
        before = json.loads(self.kept_version(restored["version"])[1])
        after = loaded(self.dir / DOCUMENT / DATA)
        found = {each["data"]["content"]: each for each in before["memories"]}
        kept, gone = found[claim["kept"]], found[claim["gone"]]
        assert cosine(kept["embedding"], gone["embedding"]) >= 0.95
        assert kept["data"]["importance"] > gone["data"]["importance"]
        assert claim["topics"] == [
            *kept["data"]["topics"],
            *(set(gone["data"]["topics"]) - set(kept["data"]["topics"])),
        ]
        united = {**kept, "data": kept["data"] | {"topics": claim["topics"]}}
        wanted = [united if each == kept else each for each in before["memories"] if each != gone]
        assert after["memories"] == wanted
        assert after["last_deduplicated_at"] is not None
        self.entry(claim["receipt"], DOCUMENT, "dedupe", "done", "command")
        assert self.changed(claim["receipt"], DATA) == (restored["sha256"], sha(self.dir / DOCUMENT / DATA))


def rows(database: Path, query: str) -> list[sqlite3.Row]:
    db = sqlite3.connect(database)
    db.row_factory = sqlite3.Row
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()
