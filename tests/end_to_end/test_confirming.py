"""A layout that was only recognised is no permission to write: what such a root does, and how that ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import ConflictError, InvalidMemoryError
from tests.daemon import refused
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.layouts.samples import line, memory
from tests.lookalikes import LOOKALIKES

pytestmark = pytest.mark.slow

ENTRY = "## 2026-01-{day:02}: Title {day}\n**Context:** c\n**Problem:** p\n**Solution:** s\n\n---\n"
BUSY = """[daemon]
quiet_s = 0
quiet_cap_s = 0
[defaults.schedule]
prune = "every 1s"
backup = "every 1s"
permissions = "every 1s"
locks = "every 1s"
archive = "every 1s"
"""


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    """More entries than a topic file may have, in a folder that is open to others."""
    root = tmp_path / "notes"
    (root / "a").mkdir(parents=True)
    (root / "a/b.md").write_text("".join(ENTRY.format(day=day) for day in range(20, 0, -1)))
    return root


def test_a_recognised_root_is_observed_until_it_is_confirmed(topics: Path, daemon: MakeDaemon) -> None:
    before = checks.snapshot(topics)
    held = daemon(topics, config=BUSY, layout=None).start()
    row = held.root()
    assert (row["layout"], row["state"], row["mode"]) == ("markdown-topics", "ok", "observe")
    (reason,) = row["reasons"]
    assert "a/b.md:1" in reason
    assert "memoryd root confirm notes" in reason
    (finding,) = [each for each in held.rpc("check")["findings"] if each["code"] == "layout-unconfirmed"]
    assert (finding["severity"], row["findings"]["info"]) == ("info", 1)
    synced = held.rpc("sync")["roots"]["notes"]
    assert (synced["written"], synced["reason"]) == (False, "its layout is not confirmed")
    assert held.rpc("memory.search", query="title 20")["hits"]
    (plan,) = held.rpc("plan")["roots"]
    told = {(each["kind"], each["path"]) for each in plan["actions"]}
    assert {("write", "index.md"), ("copy", "."), ("rewrite", "a/b.md")} <= told
    assert plan["waits"]["prune"] == "its layout is not confirmed"
    assert plan["due"]["prune"] is None
    (again,) = held.rpc("plan")["roots"]
    assert {(each["kind"], each["path"]) for each in again["actions"]} == told, "it is no news that is told once"
    added = refused(lambda: held.rpc("memory.add", root="notes", topic="a", subtopic="b", memory={"title": "x"}))
    assert isinstance(added, InvalidMemoryError)
    assert added.hint == "`memoryd root confirm notes`"
    assert isinstance(refused(lambda: held.rpc("archive", root="notes")), InvalidMemoryError)
    assert isinstance(refused(lambda: held.rpc("jobs.run", name="prune", root="notes")), InvalidMemoryError)
    held.rpc("repair", root="notes", dry_run=True)
    held.rpc("reindex", root="notes")
    assert checks.snapshot(topics) == before

    done = held.run("root", "confirm", "notes")
    assert done.returncode == 0, done.stderr
    assert (held.root()["mode"], held.root()["reasons"]) == ("maintain", [])
    assert "`b.md`" in (topics / "index.md").read_text()
    held.until_root(lambda _: (topics / "archive/a/2026.md").exists(), "what is due is done, also what fell due before")
    assert [each for each in held.rpc("check")["findings"] if each["code"] == "layout-unconfirmed"] == []
    held.rpc("memory.add", root="notes", topic="a", subtopic="b", memory={"title": "x", "context": "y"})


def test_a_confirmation_lasts_and_a_guess_does_not(topics: Path, daemon: MakeDaemon) -> None:
    held = daemon(topics, layout=None).start()
    held.stop()
    assert held.start().root()["mode"] == "observe"
    held.rpc("root.confirm", name="notes")
    held.stop()
    assert held.start().root()["mode"] == "maintain"
    held.rpc("root.confirm", name="notes")


def test_a_confirmation_does_not_end_observe_mode(topics: Path, daemon: MakeDaemon) -> None:
    """It is kept, and its answer names the line to remove."""
    table = f'[[root]]\nname = "notes"\npath = "{topics}"\n'
    held = daemon(config=table + 'mode = "observe"\n').start()
    error = refused(lambda: held.rpc("root.confirm", name="notes"))
    assert isinstance(error, ConflictError)
    assert error.message == "the layout of notes is confirmed, but it stays in observe mode: nothing is written there"
    named = re.fullmatch(r'remove `mode = "observe"` at (.+):(\d+), then `memoryd reload`', error.hint or "")
    assert named is not None, error.hint
    assert Path(named[1]).read_text().splitlines()[int(named[2]) - 1] == 'mode = "observe"'
    held.configure(table)
    held.rpc("config.reload")
    assert held.root()["mode"] == "maintain"
    assert "waits" not in held.rpc("plan")["roots"][0]


def test_a_root_of_no_layout_has_nothing_to_confirm(tmp_path: Path, daemon: MakeDaemon) -> None:
    (tmp_path / "empty").mkdir()
    held = daemon(tmp_path / "empty", layout=None).start()
    error = refused(lambda: held.rpc("root.confirm", name="empty"))
    assert isinstance(error, InvalidMemoryError)
    assert "no layout to confirm" in error.message
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_layout_named_in_the_configuration_needs_no_confirmation(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    (root / "core_memories.jsonl").write_bytes(line(memory(1)) + b"\n")
    held = daemon(config=f'[[root]]\nname = "m"\npath = "{root}"\n').start()
    assert held.root()["mode"] == "observe"
    assert sorted(each.name for each in root.iterdir()) == ["core_memories.jsonl"]
    held.configure(f'[[root]]\nname = "m"\npath = "{root}"\nlayout = "jsonl-store"\n')
    held.rpc("config.reload")
    held.rpc("sync")
    assert held.root()["mode"] == "maintain"
    assert json.loads((root / "index.json").read_bytes())["statistics"]["total_memories"] == 1


def test_a_home_is_not_tended_and_not_watched(tmp_path: Path, daemon: MakeDaemon) -> None:
    home = tmp_path / "me"
    (home / "notes").mkdir(parents=True)
    (home / "notes/a.md").write_text(ENTRY.format(day=1))
    held = daemon(home, layout=None, env={"HOME": str(home)}).start()
    row = held.root()
    assert (row["layout"], row["state"], row["watch"]["held"]) == (None, "degraded", 0)
    (reason,) = row["reasons"]
    assert "is your home directory" in reason
    assert sorted(path.name for path in home.rglob("*")) == ["a.md", "notes"]


def test_what_is_ignored_is_no_memory_and_not_watched(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "notes"
    for path in ("a/b.md", "a/c.draft.md", "node_modules/x/y.md", "private/z.md", ".git/refs/w.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(ENTRY.format(day=1))
    table = f'[[root]]\nname = "n"\npath = "{root}"\nlayout = "markdown-topics"\n'
    held = daemon(config=table).start()
    assert (held.root()["files"], held.root()["watch"]) == (3, {"mode": "events", "wanted": 3, "held": 3})
    held.configure(table + 'ignore = ["*.draft.md", "private/"]\n')
    held.rpc("config.reload")
    held.rpc("sync")
    row = held.root()
    assert (row["state"], row["files"]) == ("ok", 1), "nothing was lost: it is left alone from now on"
    assert [line for line in (root / "index.md").read_text().splitlines() if line.startswith("- ")] == [
        "- `b.md` - Title 1"
    ]


def test_another_programs_index_is_told_as_a_reason(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "m"
    root.mkdir(mode=0o700)
    (root / "core_memories.jsonl").write_bytes(line(memory(1)) + b"\n")
    (root / "index.json").write_text('[{"title": "a"}]')
    held = daemon(root).start()
    row = held.root()
    assert (row["state"], row["memories"], row["findings"]["warning"]) == ("degraded", 1, 1)
    assert "index.json belongs to another program" in row["reasons"][0]
    assert held.rpc("memory.add", root="m", memory={"type": "core", "content": "x"})["id"]
    assert held.rpc("sync")["roots"]["m"]["written"] is False
    (root / "index.json").unlink()
    held.rpc("sync")
    assert held.root()["state"] == "ok"
    assert json.loads((root / "index.json").read_bytes())["statistics"]["total_memories"] == 2


@pytest.mark.parametrize(
    ("layout", "like", "said"),
    [
        ("markdown-topics", "Claude Code", "Claude Code auto memory"),
        ("jsonl-store", "knowledge graph", "MCP knowledge graph"),
        ("json-files", "plain files", "none of the files here belongs to it"),
        ("jsonl-store", "training log", "none of its files can be read"),
        (None, "Claude Code", "Claude Code auto memory"),
    ],
)
def test_a_named_layout_that_fits_nothing_is_told(
    layout: str | None, like: str, said: str, tmp_path: Path, daemon: MakeDaemon
) -> None:
    root = tmp_path / "m"
    for path, content in LOOKALIKES[like].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    before = checks.snapshot(root)
    held = daemon(root, layout=layout).start()
    row = held.root()
    assert (row["layout"], row["state"]) == (layout, "degraded")
    assert said in row["reasons"][0]
    if layout is not None:
        assert "layout-misfit" in [each["code"] for each in held.rpc("check")["findings"]]
    held.rpc("sync")
    if "has no layout" in row["reasons"][0]:
        assert "layout =" not in row["reasons"][0], "nobody is led to force one"
        asked: dict[str, Any] = {"topic": "a"} if layout == "markdown-topics" else {}
        error = refused(lambda: held.rpc("memory.add", root="m", memory={"type": "core", "content": "x"}, **asked))
        assert isinstance(error, InvalidMemoryError)
    if like != "training log":  # whose file has the name of one of the layout, and is indexed as such
        assert checks.snapshot(root) == before


def test_the_notes_of_another_program_can_be_searched(tmp_path: Path, daemon: MakeDaemon) -> None:
    """As `init` advises: the layout `notes` writes nothing, so that nothing is wrong with it."""
    root = tmp_path / "m"
    for path, content in LOOKALIKES["Claude Code"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    before = checks.snapshot(root)
    held = daemon(root, layout="notes").start()
    held.rpc("sync")
    row = held.root()
    assert (row["state"], row["reasons"], row["findings"]) == ("ok", [], {"error": 0, "warning": 0, "info": 0})
    assert row["memories"] == sum(path.endswith(".md") for path in LOOKALIKES["Claude Code"])
    assert checks.snapshot(root) == before


def test_a_new_store_fits_and_so_does_one_that_comes_to_be(tmp_path: Path, daemon: MakeDaemon) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old/README.md").write_text("what this is")
    held = daemon(tmp_path / "new", tmp_path / "old").start()
    assert (held.root("new")["state"], held.root("old")["state"]) == ("ok", "degraded")
    held.rpc("memory.add", root="old", memory={"type": "core", "content": "x"})
    held.rpc("sync")
    assert (held.root("old")["state"], held.root("old")["memories"]) == ("ok", 1)
