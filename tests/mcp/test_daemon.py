"""End to end: a client of the protocol, `memoryd mcp`, the real daemon, the files of all five layouts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters, types

import memoryd
from tests.daemon import Daemon
from tests.mcp.session import in_process, refusal, result_of, session, text_of

pytestmark = pytest.mark.slow

VECTOR = [round(0.01 * (i % 7 + 1), 2) for i in range(384)]


class Case(NamedTuple):
    """One layout: arguments of `add_memory`, `changes` for `update_memory`, and the text `written` to its file."""

    root: str
    layout: str
    add: dict[str, Any]
    changes: dict[str, Any]
    written: str


CASES = (
    Case(
        "agents",
        "jsonl-store",
        {"memory": {"type": "learning", "content": "The zeppelin pool holds 20 connections", "tags": ["db"]}},
        {"content": "The zeppelin pool holds 30 connections"},
        "30 connections",
    ),
    Case(
        "files",
        "json-files",
        {"memory": {"content": "The zeppelin cache is warmed at night", "summary": "cache", "tags": ["cache"]}},
        {"summary": "warm cache"},
        "warm cache",
    ),
    Case(
        "notes",
        "markdown-topics",
        {
            "topic": "deploy",
            "subtopic": "rollback",
            "memory": {"title": "Zeppelin rollback", "problem": "It hung", "solution": "Drain first"},
        },
        {"solution": "Drain, then switch"},
        "Drain, then switch",
    ),
    Case(
        "sessions",
        "session-files",
        {
            "session": "2026-01-02-03-04-05-zeppelin-review",
            "memory": {
                "type": "decision",
                "category": "code",
                "title": "Zeppelin uses SQLite",
                "content": "One file, no server, and it is fast enough",
                "confidence_score": 90,
            },
        },
        {"confidence_score": 95},
        "95",
    ),
    Case(
        "people",
        "user-document",
        {
            "user": "ada",
            "memory": {"content": "Ada flies a zeppelin", "importance": 0.5, "topics": ["air"], "embedding": VECTOR},
        },
        {"importance": 0.75},
        "0.75",
    ),
)
EVERY = pytest.mark.parametrize("case", CASES, ids=[case.layout for case in CASES])


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    tables = []
    for case in CASES:
        (tmp_path / case.root).mkdir()
        tables.append(f'[[root]]\nname = "{case.root}"\npath = "{tmp_path / case.root}"\nlayout = "{case.layout}"\n')
    with Daemon(tmp_path / "d", config="\n".join(tables)) as daemon:
        yield daemon.start()
    assert daemon.bugs() == []


def content(root: Path) -> str:
    """All text of a root. Lock files and replaced inodes may go while it is read."""
    texts = []
    for path in sorted(root.rglob("*")):
        with suppress(FileNotFoundError, IsADirectoryError):
            texts.append(path.read_text(encoding="utf-8"))
    return "\n".join(texts)


@EVERY
def test_the_life_cycle_of_a_memory_in_each_layout(case: Case, daemon: Daemon, tmp_path: Path) -> None:
    """A memory is stored, searched, read by tool and as a resource, changed and forgotten; then that is undone."""
    root = tmp_path / case.root

    async def work(client: Client) -> str:
        added = await result_of(client, "add_memory", root=case.root, **case.add)
        assert "eppelin" in content(root)
        assert (root / added["path"]).is_file()
        hits = (await result_of(client, "search_memories", query="zeppelin", user=case.add.get("user")))["hits"]
        assert [(hit["root"], hit["id"], hit["uri"]) for hit in hits] == [(case.root, added["id"], added["uri"])]
        memory = await result_of(client, "get_memory", id=added["id"])
        assert "eppelin" in str(memory["memory"])
        read = (await client.read_resource(added["uri"])).contents[0]
        assert read.mime_type == ("text/markdown" if case.layout == "markdown-topics" else "application/json")
        changed = await result_of(client, "update_memory", id=added["id"], root=case.root, changes=case.changes)
        assert case.written in content(root)
        listed = await result_of(client, "list_memories", root=case.root, user=case.add.get("user"))
        assert [row["id"] for row in listed["memories"]] == [changed["id"]]
        forgotten = await result_of(client, "forget_memory", id=changed["id"])
        remaining = await result_of(client, "search_memories", query="zeppelin", user=case.add.get("user"))
        assert remaining["hits"] == []
        return str(forgotten["receipt"])

    receipt = session(in_process(daemon.socket), work)
    daemon.rpc("undo", receipt=receipt)
    assert case.written in content(root)


def test_several_roots_are_searched_at_once_and_within_limits(daemon: Daemon) -> None:
    async def store(client: Client) -> None:
        for case in CASES:
            await result_of(client, "add_memory", root=case.root, **case.add)
        await result_of(client, "add_memory", root="people", **{**CASES[-1].add, "user": "bob"})

    async def search(client: Client) -> list[str]:
        result = await result_of(client, "search_memories", query="zeppelin", mode="text")
        return sorted({hit["root"] for hit in result["hits"]})

    async def recall(client: Client) -> str:
        made = await client.get_prompt("recall", {"topic": "zeppelin", "max_tokens": "200"})
        assert isinstance(made.messages[0].content, types.TextContent)
        return made.messages[0].content.text

    session(in_process(daemon.socket), store)
    assert session(in_process(daemon.socket), search) == [
        "agents",
        "files",
        "notes",
        "sessions",
    ]  # users are separated
    assert session(in_process(daemon.socket, "files", "notes"), search) == ["files", "notes"]
    text = session(in_process(daemon.socket, "agents", "notes"), recall)
    assert "20 connections" in text
    assert "Drain first" in text
    assert "cache is warmed" not in text


def test_errors_of_the_daemon_reach_the_agent_without_the_secret(daemon: Daemon) -> None:
    secret = "ghp_" + "a1B2c3D4" * 5
    note = {"root": "notes", "topic": "t", "subtopic": "s"}

    async def work(client: Client) -> None:
        text = await refusal(client, "add_memory", **note, memory={"title": "x", "solution": f"use {secret}"})
        assert text.startswith("Security violation: Cannot store sensitive data\nhint: ")
        assert "(-32008)" in text
        assert secret not in text
        text = await refusal(client, "add_memory", **note, memory={"title": "Key bindings", "solution": "none"})
        assert "(-32008)" in text
        done = await client.call_tool(
            "add_memory",
            {**note, "memory": {"title": "Key bindings", "solution": "none"}, "allow_sensitive_words": True},
        )
        assert not done.is_error, text_of(done)
        text = await refusal(client, "add_memory", root="agents", memory={"type": "learning"})
        assert "content" in text
        assert "invalid-memory (-32011)" in text
        assert "(-32007)" in await refusal(client, "get_memory", id="nothing")

    session(in_process(daemon.socket), work)


def test_a_restarted_daemon_is_found_through_its_state_directory(daemon: Daemon, tmp_path: Path) -> None:
    """The environment of an agent does not name the socket; the state directory does."""
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memoryd", "--state-dir", str(daemon.state), "mcp", "--root", "agents"],
        env={"PYTHONPATH": str(Path(memoryd.__file__).parents[1]), "HOME": str(tmp_path)},
    )

    async def work(client: Client) -> None:
        added = await result_of(client, "add_memory", **CASES[0].add)
        assert daemon.stop() == 0
        assert "no-daemon" in await refusal(client, "get_memory", id=added["id"])
        daemon.start()
        assert (await result_of(client, "get_memory", id=added["id"]))["memory"]["tags"] == ["db"]

    session(started, work)
