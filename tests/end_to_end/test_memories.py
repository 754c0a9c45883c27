"""The seven verbs of memories through a real daemon and its socket, in every layout."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoryd.control.client import Client
from memoryd.core.secrets import VIOLATION
from memoryd.disk.temps import is_our_temp
from memoryd.errors import (
    ConflictError,
    InvalidMemoryError,
    LimitExceededError,
    NotFoundError,
    SensitiveError,
    UsageError,
)
from tests.daemon import Daemon, refused, until
from tests.end_to_end.conftest import MakeDaemon

QUIET = '[defaults.schedule]\narchive = "off"\nbackup = "off"\ndedupe = "off"\nprune = "off"\nlimits = "off"\n'
CANARY = "ghp_" + "aB3dE6gH9" * 4
WORDS = "the quorum of zebrafish"


@dataclass(frozen=True)
class Case:
    """`memory` is stored, then changed by `changes`; `there` stands in the root before."""

    layout: str
    memory: Mapping[str, Any]
    changes: Mapping[str, Any]
    where: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, str] = field(default_factory=dict)
    wrong: str = "content"

    def params(self, **more: Any) -> dict[str, Any]:
        return {"memory": {**self.memory, **more}, **self.where}


OTHER = {"data": {"id": 1, "content": "another"}, "embedding": [0.25, 1.5, 2]}
DOCUMENT = {"memories": [OTHER], "updated_at": "2025-12-31T12:00:00Z", "last_deduplicated_at": None}
SESSION = "2026-01-31-10-00-00-pool"
CASES = [
    Case("jsonl-store", {"type": "learning", "content": WORDS}, {"importance": "high"}),
    Case("json-files", {"content": WORDS, "type": "fact", "tags": ["a"]}, {"summary": "changed"}),
    Case(
        "markdown-topics",
        {"title": "Pool", "context": "c", "problem": "p", "solution": WORDS},
        {"solution": f"{WORDS} changed"},
        {"topic": "db", "subtopic": "pool"},
        wrong="title",
    ),
    Case(
        "session-files",
        {"type": "insight", "category": "code", "title": "Pool", "content": WORDS, "confidence_score": 80},
        {"confidence_score": 90},
        {"session": SESSION},
    ),
    Case(
        "user-document",
        {"content": WORDS, "embedding": [1.0, 0.5, 0.25]},
        {"importance": 0.9},
        {"user": "bucket"},
        {"bucket/__long-memories/data.json": json.dumps(DOCUMENT, separators=(",", ":"))},
    ),
]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.layout))


def begun(make: MakeDaemon, tmp_path: Path, case: Case, config: str = QUIET) -> tuple[Daemon, Path]:
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    for path, text in case.there.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    return make(root, config=config, options=["--layout", case.layout]).start(), root


def sources(root: Path) -> dict[str, bytes]:
    """All files of the root but what memoryd derives or keeps beside, replaced inodes for a moment among it."""
    found = (path for path in root.rglob("*") if path.is_file() and not is_our_temp(path.name))
    aside = ("index.json", "index.md", "_index.json", "_stats.json", ".backup", ".lock")
    kept = (path for path in found if not {*path.relative_to(root).parts} & {*aside})
    return {str(path.relative_to(root)): path.read_bytes() for path in kept if path.stat().st_size}


def everything(daemon: Daemon, root: Path) -> bytes:
    places = (path for place in (daemon.state, root) for path in place.rglob("*") if path.is_file())
    return b"".join(path.read_bytes() for path in places) + daemon.log.read_bytes()


@EACH
def test_a_memory_comes_changes_goes_and_comes_back(case: Case, tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, case)
    at_first = sources(root)
    with Client(held.socket) as client:
        added = client.call("memory.add", case.params())
        assert WORDS.encode() in (root / added["path"]).read_bytes()
        got = client.call("memory.get", {"id": added["id"]})
        assert (got["root"], got["id"], got["path"], got["layout"]) == ("memories", *_place(added), case.layout)
        assert WORDS in json.dumps(got["memory"])
        assert got.get("text") == got["memory"].get("text")
        assert [each["id"] for each in client.call("memory.list", {"limit": 1})["memories"]] == [added["id"]]
        assert client.call("memory.search", {"query": WORDS, "mode": "text"})["hits"][0]["id"] == added["id"]
        updated = client.call("memory.update", {"id": added["id"], "changes": case.changes})
        changed = client.call("memory.get", {"id": updated["id"], "root": "memories"})
        for value in case.changes.values():
            assert str(value) in json.dumps(changed["memory"])
        before = sources(root)
        gone = client.call("memory.forget", {"id": updated["id"]})
        assert live(client, updated["id"]) is None
        back = client.call("memory.unarchive", {"id": updated["id"]})
        again = live(client, back["id"])
        assert again is not None
        assert again["memory"] == changed["memory"]
        assert {path for path, text in sources(root).items() if WORDS.encode() in text} == {back["path"]}
        held.rpc("sync")
        assert held.rpc("check")["summary"]["error"] == 0
        for receipt in (back["receipt"], gone["receipt"]):
            client.call("undo", {"receipt": receipt})
        assert sources(root) == before
        for receipt in (updated["receipt"], added["receipt"]):
            client.call("undo", {"receipt": receipt})
        assert sources(root) == at_first


def live(client: Client, identity: str) -> dict[str, Any] | None:
    """The memory, unless it is archived or gone."""
    try:
        found = dict(client.call("memory.get", {"id": identity}))
    except NotFoundError:
        return None
    return None if found["archived"] else found


def _place(added: dict[str, Any]) -> tuple[str, str]:
    return added["id"], added["path"]


@EACH
@pytest.mark.slow
def test_what_is_wrong_is_said_by_field_and_rule(case: Case, tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, case)
    before = sources(root)
    error = refused(lambda: held.rpc("memory.add", **case.params(**{case.wrong: 7})))
    assert isinstance(error, InvalidMemoryError)
    assert case.wrong in [each["field"] for each in error.data["findings"]]
    assert all(each.keys() == {"field", "rule"} for each in error.data["findings"])
    assert sources(root) == before


@EACH
@pytest.mark.slow
def test_a_secret_is_not_stored_and_nowhere_repeated(case: Case, tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, case)
    stored = held.rpc("memory.add", **case.params())
    with Client(held.socket) as listener:
        listener.call("subscribe")
        for act in (
            lambda: held.rpc("memory.add", **case.params(more=f"it is {CANARY}")),
            lambda: held.rpc("memory.update", id=stored["id"], changes={"more": {"deep": [CANARY]}}),
            lambda: held.rpc("memory.update", id=CANARY, changes={"more": "x"}),
            lambda: held.rpc("memory.get", id=CANARY),
        ):
            error = refused(act)
            assert CANARY not in repr((error, error.message, error.hint, error.data))
            if isinstance(error, SensitiveError):
                assert error.message == VIOLATION
                assert error.hint
        held.rpc("memory.update", id=stored["id"], changes=dict(case.changes))
        for event in listener.events():
            assert CANARY not in json.dumps(event)
            assert WORDS not in json.dumps(event)
            if event.get("operation") == "memory.update":
                break
    assert CANARY not in json.dumps([held.rpc("metrics"), held.rpc("history.list"), held.rpc("check")])
    assert held.stop() == 0
    assert CANARY.encode() not in everything(held, root)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[2:], ids=lambda case: str(case.layout))
def test_a_secret_names_no_place(case: Case, tmp_path: Path, daemon: MakeDaemon) -> None:
    """Files and folders bear these names, and so does every list, event and line of the log."""
    held, root = begun(daemon, tmp_path, case)
    before = sources(root)
    for name, value in case.where.items():
        asked = {**case.params(), name: f"{value}.{CANARY}"}
        error = refused(partial(held.rpc, "memory.add", **asked))
        assert (type(error), error.message, error.data["field"]) == (SensitiveError, VIOLATION, name)
    assert sources(root) == before
    assert held.stop() == 0
    assert CANARY.encode() not in everything(held, root)


@EACH
@pytest.mark.slow
def test_unknown_fields_are_kept(case: Case, tmp_path: Path, daemon: MakeDaemon) -> None:
    if case.layout == "markdown-topics":
        pytest.skip("an entry is text: it has no fields to be unknown")
    held, _ = begun(daemon, tmp_path, case)
    added = held.rpc("memory.add", **case.params(projectId="p-1", nested={"ä": [1, 2.5]}))
    updated = held.rpc("memory.update", id=added["id"], changes={"later": [True]})
    found = json.dumps(held.rpc("memory.get", id=updated["id"])["memory"], ensure_ascii=False)
    assert all(part in found for part in ('"projectId": "p-1"', '"ä": [1, 2.5]', '"later": [true]'))


@pytest.mark.slow
def test_the_words_that_a_topic_file_may_hold_when_asked(tmp_path: Path, daemon: MakeDaemon) -> None:
    case = CASES[2]
    held, _ = begun(daemon, tmp_path, case)
    wanted = case.params(solution="Key learnings about the token")
    assert isinstance(refused(lambda: held.rpc("memory.add", **wanted)), SensitiveError)
    stored = held.rpc("memory.add", **wanted, allow_sensitive_words=True)
    assert "Key learnings" in held.rpc("memory.get", id=stored["id"])["text"]
    stolen = {**wanted, "memory": {**wanted["memory"], "solution": "-----begin"}}
    assert isinstance(refused(lambda: held.rpc("memory.add", **stolen, allow_sensitive_words=True)), SensitiveError)


@pytest.mark.slow
def test_a_hard_limit_refuses_and_a_soft_one_makes_room(tmp_path: Path, daemon: MakeDaemon) -> None:
    limits = '[defaults.limits]\n"core_memories.jsonl" = {max_count = 2}\n"learnings.jsonl" = {max_count = 2}\n'
    held, root = begun(daemon, tmp_path, CASES[0], QUIET + limits)
    for number in range(2):
        held.rpc("memory.add", memory={"type": "core", "content": f"{number}"})
    error = refused(lambda: held.rpc("memory.add", memory={"type": "core", "content": "one too many"}))
    assert isinstance(error, LimitExceededError)
    assert (root / "core_memories.jsonl").read_bytes().count(b"\n") == 2
    for number in range(3):
        held.rpc("memory.add", memory={"type": "learning", "content": f"{number}"})
    held.rpc("jobs.run", name="limits")
    assert (root / "learnings.jsonl").read_bytes().count(b"\n") == 2


@pytest.mark.slow
def test_what_was_stored_is_counted(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, _ = begun(daemon, tmp_path, CASES[0])
    added = held.rpc("memory.add", **CASES[0].params())
    refused(lambda: held.rpc("memory.add", memory={"type": "core"}))
    held.rpc("memory.forget", id=added["id"])
    text = held.rpc("metrics")["text"]
    for verb, count in (("add", 1), ("forget", 1), ("update", 0)):
        assert f'memoryd_memory_changes_total{{operation="{verb}",root="memories"}} {count}.0' in text


def test_the_index_follows_without_being_asked(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0])
    added = held.rpc("memory.add", memory={"type": "core", "content": "x", "tags": ["zebra"]})

    until((root / "index.json").exists, "an index is written")
    assert json.loads((root / "index.json").read_text())["tags_index"]["zebra"] == [added["id"]]
    held.until_root(lambda row: row["memories"] == 1 and row["lag_ms"] == 0, "status says so")


@pytest.mark.slow
def test_commands_write_in_observe_mode_and_the_daemon_by_itself_does_not(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0], QUIET + '[defaults]\nmode = "observe"\n')
    held.rpc("memory.add", memory={"type": "core", "content": "x"})
    assert held.rpc("sync")["roots"]["memories"]["written"] is False
    assert sorted(os.listdir(root)) == ["core_memories.jsonl"]


@pytest.mark.slow
def test_a_root_that_rests_or_is_gone_says_so(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0])
    added = held.rpc("memory.add", memory={"type": "core", "content": "x"})
    calls = {
        "memory.add": {"memory": {"type": "core", "content": "y"}},
        "memory.get": {"id": added["id"]},
        "memory.update": {"id": added["id"], "changes": {"content": "y"}},
        "memory.forget": {"id": added["id"]},
        "memory.unarchive": {"id": added["id"]},
    }

    def codes() -> set[int]:
        return {refused(lambda m=m, p=p: held.rpc(m, **p)).rpc_code for m, p in calls.items()}  # type: ignore[misc]

    held.rpc("root.pause", name="memories")
    assert codes() == {-32013}
    held.rpc("root.resume", name="memories")
    root.rename(tmp_path / "away")
    held.until_root(lambda row: row["state"] == "missing", "the root is missing")
    assert codes() == {-32003}
    root.mkdir(mode=0o700)
    held.until_root(lambda row: row["state"] == "suspect", "the root is suspect")
    assert codes() == {-32012}


def two_roots(tmp_path: Path, daemon: MakeDaemon) -> Daemon:
    """A daemon of the empty stores `one` and `two`."""
    roots = [tmp_path / name for name in ("one", "two")]
    for root in roots:
        root.mkdir(mode=0o700)
        (root / "core_memories.jsonl").touch(mode=0o600)
    return daemon(*roots, config=QUIET).start()


@pytest.mark.slow
def test_a_memory_of_a_root_that_rests_or_is_gone_is_not_said_not_to_exist(tmp_path: Path, daemon: MakeDaemon) -> None:
    """Also where the root is not named, and there are others."""
    held = two_roots(tmp_path, daemon)
    identity = held.rpc("memory.add", root="one", memory={"type": "core", "content": "x"})["id"]

    def code(memory: str) -> int:
        return refused(lambda: held.rpc("memory.get", id=memory)).rpc_code

    held.rpc("root.pause", name="one")
    assert (code(identity), code("absent")) == (-32013, -32007)
    held.rpc("root.resume", name="one")
    (tmp_path / "one").rename(tmp_path / "away")
    until(lambda: held.root("one")["state"] == "missing", "the root is missing")
    assert [hit["id"] for hit in held.rpc("memory.search", query="x")["hits"]] == [identity]
    assert (code(identity), code("absent")) == (-32003, -32007)


@pytest.mark.slow
def test_ids_are_found_across_roots_while_that_is_beyond_doubt(tmp_path: Path, daemon: MakeDaemon) -> None:
    held = two_roots(tmp_path, daemon)
    memory = {"type": "core", "content": "x"}
    assert "--root" in str(refused(lambda: held.rpc("memory.add", memory=memory)).hint)
    one = held.rpc("memory.add", root="one", memory=memory)
    assert held.rpc("memory.get", id=one["id"])["root"] == "one"
    assert held.rpc("memory.update", id=one["id"], changes={"importance": "low"})["root"] == "one"
    held.rpc("memory.add", root="two", memory={**memory, "id": one["id"]})
    for method, more in (("memory.get", {}), ("memory.forget", {}), ("memory.update", {"changes": {"category": "c"}})):
        error = refused(lambda m=method, p=more: held.rpc(m, id=one["id"], **p))  # type: ignore[misc]
        assert isinstance(error, ConflictError)
        assert error.data["candidates"] == [{"root": name, "id": one["id"]} for name in ("one", "two")]
    learning = {"type": "learning", "content": "y"}
    learned = [held.rpc("memory.add", root=name, memory=learning)["id"] for name in ("one", "two")]
    assert len(held.rpc("archive", ids=learned)["receipts"]) == 2
    assert all(held.rpc("memory.get", id=each)["archived"] for each in learned)
    assert isinstance(refused(lambda: held.rpc("archive", ids=[one["id"]])), ConflictError)
    assert held.rpc("memory.forget", id=one["id"], root="two")["root"] == "two"
    assert held.rpc("memory.update", id=one["id"], changes={"category": "c"})["root"] == "one"


@pytest.mark.slow
def test_reads_are_counted_together_and_a_sync_writes_them(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, _ = begun(daemon, tmp_path, CASES[0])
    added = held.rpc("memory.add", memory={"type": "core", "content": "x"})
    for _ in range(5):
        held.rpc("memory.get", id=added["id"], touch=True)
    held.rpc("memory.get", id=added["id"])
    held.rpc("sync")
    assert held.rpc("memory.get", id=added["id"])["memory"]["access_count"] == 5
    assert [each["operation"] for each in held.rpc("history.list")["entries"]] == ["touch", "add"]
    assert held.rpc("backup.list")["backups"] == []


@pytest.mark.slow
def test_reads_are_counted_before_the_daemon_ends(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0])
    added = held.rpc("memory.add", memory={"type": "core", "content": "x"})
    held.rpc("memory.get", id=added["id"], touch=True)
    assert held.stop() == 0
    assert json.loads((root / "core_memories.jsonl").read_text())["access_count"] == 1


@pytest.mark.slow
def test_reads_of_entries_are_counted_beside_their_files(tmp_path: Path, daemon: MakeDaemon) -> None:
    """A folder under version control holds nothing volatile, and yet a search knows what is used."""
    case = CASES[2]
    held, root = begun(daemon, tmp_path, case)
    added = held.rpc("memory.add", **case.params())
    held.rpc("sync")
    files = [path for path in root.rglob("*") if path.is_file() and not is_our_temp(path.name)]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    def score() -> float:
        return float(held.rpc("memory.search", query=WORDS, mode="text")["hits"][0]["score"])

    unread = score()
    for _ in range(10):
        held.rpc("memory.get", id=added["id"], touch=True)
    held.rpc("sync")
    read = score()
    assert read > unread
    held.stop()
    held.start()
    held.rpc("reindex")
    assert score() == pytest.approx(read, rel=0.01)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before


@pytest.mark.slow
def test_what_an_agent_has_just_written_can_be_asked_for(tmp_path: Path, daemon: MakeDaemon) -> None:
    """Before it is indexed, even where that takes long."""
    slow = "[daemon]\nsettle_ms = 60000\nsettle_cap_ms = 60000\n"
    held, root = begun(daemon, tmp_path, CASES[0], slow)
    identity = "550e8400-e29b-41d4-a716-446655440000"
    native = {"id": identity, "type": "core", "content": "x", "created_at": "2026-01-01T10:00:00Z"}
    (root / "core_memories.jsonl").write_text(json.dumps(native) + "\n")
    done = held.rpc("memory.update", id=identity, changes={"importance": "low"})
    assert done["path"] == "core_memories.jsonl"
    assert held.rpc("memory.get", id=identity)["memory"]["importance"] == "low"


def test_the_commands(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, _ = begun(daemon, tmp_path, CASES[2])
    entry = tmp_path / "entry.md"
    entry.write_text("## 2026-01-31: Pools\n\n**Context:** Zürich\n\n---\n")
    added = held.run("add", "--topic", "db", "--subtopic", "pool", "--file", str(entry), "--json")
    assert added.returncode == 0, added.stderr
    stored = json.loads(added.stdout)
    got = held.run("get", stored["id"])
    assert (got.returncode, "**Context:** Zürich" in got.stdout) == (0, True)
    assert held.run("update", stored["id"], "context=Basel").returncode == 0
    assert "Basel" in held.run("get", stored["id"]).stdout
    forgotten = held.run("forget", stored["id"])
    assert "to undo it: `memoryd undo" in forgotten.stdout
    missing = held.run("update", stored["id"], "context=Bern")
    assert (missing.returncode, "memoryd unarchive" in missing.stderr) == (1, True)
    assert held.run("unarchive", stored["id"]).returncode == 0
    nothing = held.run("get", "db/pool#2020-01-01:none")
    assert (nothing.returncode, nothing.stdout) == (1, "")


@pytest.mark.slow
def test_a_memory_too_long_for_one_answer_comes_in_parts(tmp_path: Path, daemon: MakeDaemon) -> None:
    """The text is worth more than one line of the protocol, the more so in its escapes."""
    text = "## 2026-01-31: Long\n\n" + 'quote " and bell \x07 東京 ' * 40_000 + "\n\n---\n"
    held, root = begun(daemon, tmp_path, CASES[2])
    (root / "db").mkdir()
    (root / "db/long.md").write_text(text)
    held.rpc("sync")
    identity = held.rpc("memory.list")["memories"][0]["id"]
    error = refused(lambda: held.rpc("memory.get", id=identity))
    assert (error.rpc_code, error.data["offset"]) == (-32602, 0)
    got = held.run("get", identity, "--json")
    assert got.returncode == 0, got.stderr
    found = json.loads(got.stdout)
    assert found["text"] == found["memory"]["text"]
    assert found["text"].strip() == text.strip()


@pytest.mark.slow
def test_a_page_is_cut_where_its_cursor_says(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0])
    tags = [f"{n:04}" + "\u0001" * 26 for n in range(10)]
    natives: list[dict[str, Any]] = [
        {"type": "core", "content": f"{n}", "tags": tags, "id": f"m-{n}"} for n in range(700)
    ]
    (root / "core_memories.jsonl").write_text("".join(json.dumps(each) + "\n" for each in natives))
    held.rpc("sync")
    seen: list[str] = []
    page: dict[str, Any] = {"next_cursor": None}
    while "next_cursor" in page:
        page = held.rpc("memory.list", limit=1000, cursor=page["next_cursor"])
        assert "truncated" not in page
        seen += [each["id"] for each in page["memories"]]
    assert sorted(seen) == sorted(each["id"] for each in natives)


@pytest.mark.slow
def test_a_document_with_nobody_to_make_its_vectors_says_what_to_do(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[4])
    before = sources(root)
    error = refused(lambda: held.rpc("memory.add", user="bucket", memory={"content": "no vector"}))
    assert isinstance(error, InvalidMemoryError)
    assert [each["field"] for each in error.data["findings"]] == ["embedding"]
    assert error.hint
    assert sources(root) == before


@pytest.mark.slow
def test_a_topic_file_is_loaded_whole_and_its_entries_count_as_read(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[2])
    for title in ("First", "Second"):
        held.rpc("memory.add", topic="db", subtopic="pool", memory={"title": title, "solution": WORDS})
    got = held.rpc("memory.get", id="db/pool", touch=True)
    assert (got["id"], got["path"], got["line"], got["archived"]) == ("db/pool", "db/pool.md", 1, False)
    assert got["text"].encode() == (root / "db/pool.md").read_bytes()
    assert held.rpc("memory.get", id="db/pool.md")["text"] == got["text"]

    def uses() -> list[int]:
        return [hit["why"]["uses"] for hit in held.rpc("memory.search", query=WORDS, mode="text")["hits"]]

    until(lambda: uses() == [1, 1], "both entries were read")
    for wrong in ("db", "index", "../db/pool", "db/none"):
        assert isinstance(refused(partial(held.rpc, "memory.get", id=wrong)), NotFoundError)


@pytest.mark.slow
def test_memories_are_found_by_a_vector_that_is_given(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, _ = begun(daemon, tmp_path, CASES[4])
    memory = {"content": "near", "embedding": [1.0, 0.0, 0.0]}
    near = held.rpc("memory.add", user="bucket", memory=memory)
    assert held.rpc("memory.search", vector=[1, 0.1, 0.0])["hits"][0]["id"] == near["id"]
    for wrong in (["1", "0", "0"], [True, 0, 0], [10**400, 0, 0]):
        error = refused(partial(held.rpc, "memory.search", vector=wrong))
        assert isinstance(error, UsageError)
        assert "list of finite numbers" in error.message


@pytest.mark.slow
def test_what_was_stored_is_found_by_whoever_asks_next(tmp_path: Path, daemon: MakeDaemon) -> None:
    """The answer to an `add` comes before the catalogue has it; a question waits for that."""
    held, _ = begun(daemon, tmp_path, CASES[0])
    with Client(held.socket) as writer, Client(held.socket) as reader:
        for number in range(30):
            memory = {"type": "core", "content": f"zebra{number} in the herd"}
            added = writer.call("memory.add", {"memory": memory})
            found = reader.call("memory.search", {"query": f"zebra{number}", "mode": "text"})
            assert [hit["id"] for hit in found["hits"]] == [added["id"]]
            assert found["fresh"]["memories"]["lag_ms"] >= 0
            other = writer.call("memory.add", {"memory": {**memory, "content": f"lion{number}"}})
            assert reader.call("memory.get", {"id": other["id"]})["memory"]["content"] == f"lion{number}"
            last = writer.call("memory.add", {"memory": {**memory, "content": f"gnu{number}"}})
            listed = reader.call("memory.list", {"limit": 100})["memories"]  # of one second any is the newest
            assert last["id"] in [each["id"] for each in listed]


@pytest.mark.slow
def test_a_hard_limit_holds_in_a_burst(tmp_path: Path, daemon: MakeDaemon) -> None:
    limits = '[defaults.limits]\n"core_memories.jsonl" = {max_count = 20}\n'
    held, root = begun(daemon, tmp_path, CASES[0], QUIET + limits)
    with Client(held.socket) as client:
        stored = 0
        for number in range(40):
            try:
                client.call("memory.add", {"memory": {"type": "core", "content": f"{number}"}})
            except LimitExceededError:
                continue
            stored += 1
    assert stored == 20
    assert (root / "core_memories.jsonl").read_bytes().count(b"\n") == 20


@pytest.mark.slow
def test_a_kill_right_after_the_answer_costs_no_receipt(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0])
    with Client(held.socket) as client:
        receipts = [
            client.call("memory.add", {"memory": {"type": "core", "content": f"{number}"}})["receipt"]
            for number in range(5)
        ]
        held.kill()
    held.start()
    told = held.rpc("history.list")["entries"]
    assert [(each["receipt"], each["state"]) for each in told[:5]] == [(each, "done") for each in reversed(receipts)]
    held.rpc("undo", receipt=receipts[-1])
    assert (root / "core_memories.jsonl").read_bytes().count(b"\n") == 4


@pytest.mark.slow
def test_the_lock_is_let_go_after_the_answer(tmp_path: Path, daemon: MakeDaemon) -> None:
    held, root = begun(daemon, tmp_path, CASES[0])
    held.rpc("memory.add", memory={"type": "core", "content": "x"})
    until(lambda: not (root / ".lock").exists(), "the lock file has gone")
    refused(lambda: held.rpc("memory.add", memory={"type": "core"}))
    refused(lambda: held.rpc("memory.update", id="nobody", changes={"content": "y"}))
    until(lambda: not (root / ".lock").exists(), "the lock file has gone")
    with (root / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the index files may just be written, under the lock
