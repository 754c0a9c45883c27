"""Whole sessions over standard input and output, against a daemon with a few memories."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client, types

from memoryd.errors import ConflictError, MemorydError
from memoryd.mcp.memories import memory_uri
from memoryd.mcp.tools import answer_text
from tests.mcp.fake import FakeDaemon
from tests.mcp.session import in_process, protocol_error, refusal, result_of, server, session, text_of

ENTRY = "## 2026-01-02: Pool size\n\n**Context:** db/pool\n\n---\n"
READING = ["search_memories", "get_memory", "list_memories", "memory_status"]
HEAVY = {"simsimd", "watchdog", "apscheduler", "structlog", "rich", "sqlite3", "httpx2"}
WRITING = ["add_memory", "update_memory", "forget_memory"]


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    memories: dict[str, dict[str, Any]] = {
        "agents": {
            "1": {"type": "learning", "content": "the pool size is ten", "tags": ["db"]},
            "2": {"type": "core", "content": "the board meets on Mondays"},
        },
        "notes": {"db/pool#2026-01-02:pool-size": {"text": ENTRY}, "1": {"text": "same id"}},
        "private": {"u/1": {"data": {"content": "likes tea"}, "embedding": [0.25] * 384, "content": "likes pool"}},
    }
    with FakeDaemon(**memories) as daemon:
        yield daemon


def test_the_handshake_has_the_server_and_its_capabilities(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> None:
        assert client.server_info is not None
        assert client.server_info.name == "memoryd"
        capabilities = client.server_capabilities
        assert capabilities.tools
        assert capabilities.resources
        assert capabilities.prompts
        assert "Search" in (client.instructions or "")

    session(server(daemon.socket), work)


def test_the_newest_protocol_is_supported(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> None:
        assert len((await client.list_tools()).tools) == 7
        assert (await result_of(client, "search_memories", query="pool"))["hits"]

    session(in_process(daemon.socket), work, mode="auto")


def test_seven_tools_with_types_and_hints(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> list[types.Tool]:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in session(in_process(daemon.socket), work)}
    assert sorted(tools) == sorted(READING + WRITING)
    for name, tool in tools.items():
        hints = tool.annotations
        assert hints is not None
        assert hints.read_only_hint is (name in READING)
        assert hints.destructive_hint is (name in ("update_memory", "forget_memory"))
        assert hints.open_world_hint is False
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert all(part.get("description") for part in tool.input_schema["properties"].values()), name
        assert (tool.output_schema or {}).get("type") == "object"
    assert "agents (jsonl-store), notes (markdown-topics)" in (tools["add_memory"].description or "")


def test_a_memory_is_stored_found_read_changed_and_forgotten(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> None:
        memory = {"type": "learning", "content": "vacuum before the dump"}
        added = await result_of(client, "add_memory", root="agents", memory=memory)
        assert added["receipt"] == "r-1"
        [hit] = (await result_of(client, "search_memories", query="vacuum"))["hits"]
        assert (hit["root"], hit["id"]) == ("agents", added["id"])
        assert (await result_of(client, "get_memory", id=hit["id"]))["memory"] == memory
        await result_of(client, "update_memory", id=hit["id"], changes={"content": "vacuum after it", "tags": None})
        read = await client.read_resource(hit["uri"])
        assert isinstance(read.contents[0], types.TextResourceContents)
        assert '"vacuum after it"' in read.contents[0].text
        await result_of(client, "forget_memory", id=hit["id"])
        assert "not-found" in await refusal(client, "get_memory", id=hit["id"])

    session(server(daemon.socket), work)
    assert daemon.calls_of("memory.update")[0]["changes"]["tags"] is None


def test_a_search_links_its_hits(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> types.CallToolResult:
        return await client.call_tool("search_memories", {"query": "pool", "root": "notes"})

    result = session(in_process(daemon.socket), work)
    links = [block for block in result.content if isinstance(block, types.ResourceLink)]
    assert [link.uri for link in links] == ["memory://notes/db%2Fpool%232026-01-02%3Apool-size"]


def test_whole_memories_come_as_text_ready_to_use(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> types.CallToolResult:
        return await client.call_tool("search_memories", {"query": "pool size", "root": "agents", "max_tokens": 50})

    result = session(in_process(daemon.socket), work)
    assert len(result.content) == 1
    assert text_of(result) == "the pool size is ten (agents 1)"
    assert result.structured_content is not None
    assert "snippet" not in str(result.structured_content["hits"])


def test_a_very_long_memory_is_read_in_parts(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> list[str]:
        first = await result_of(client, "get_memory", id="1", root="notes", offset=0)
        second = await result_of(client, "get_memory", id="1", root="notes", offset=first["next_offset"])
        return [first["part"], second["part"]]

    daemon.memories["notes"]["1"]["text"] = "a" * 10 + "b" * 10
    assert session(in_process(daemon.socket), work) == ["a" * 10, "b" * 10]


class TestResources:
    def test_they_are_listed_page_by_page_and_each_can_be_read(self, daemon: FakeDaemon) -> None:
        daemon.memories["agents"] |= {f"n{i}": {"content": f"number {i}"} for i in range(120)}

        async def work(client: Client) -> list[str]:
            uris: list[str] = []
            cursor = None
            while True:
                page = await client.list_resources(cursor=cursor)
                uris += [each.uri for each in page.resources]
                cursor = page.next_cursor
                if cursor is None:
                    break
            for uri in uris[::40]:
                assert (await client.read_resource(uri)).contents
            return uris

        uris = session(in_process(daemon.socket), work)
        assert len(uris) == len(set(uris)) == 125

    def test_topic_entries_are_markdown_and_the_rest_json(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> list[tuple[str | None, str]]:
            uris = [memory_uri("notes", "db/pool#2026-01-02:pool-size"), memory_uri("private", "u/1")]
            read = [(await client.read_resource(uri)).contents[0] for uri in uris]
            return [(each.mime_type, each.text) for each in read if isinstance(each, types.TextResourceContents)]

        markdown, document = session(in_process(daemon.socket), work)
        assert markdown == ("text/markdown", ENTRY)
        assert document[0] == "application/json"
        assert "0.25" not in document[1]

    def test_one_template_names_them_and_roots_are_completed(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> None:
            [template] = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "memory://{root}/{id}"
            reference = types.ResourceTemplateReference(uri=template.uri_template)
            done = await client.complete(reference, {"name": "root", "value": "a"})
            assert done.completion.values == ["agents"]

        session(in_process(daemon.socket), work)

    @pytest.mark.parametrize("uri", ["memory://agents", "memory://agents/%ff", "memory://agents/none", "http://x/y"])
    def test_a_missing_resource_is_a_clear_error(self, daemon: FakeDaemon, uri: str) -> None:
        async def work(client: Client) -> None:
            error = await protocol_error(client.read_resource(uri))
            assert error.code == types.INVALID_PARAMS
            assert error.data["code"] in ("usage", "not-found")

        session(in_process(daemon.socket), work)


class TestPrompt:
    def test_it_brings_the_best_memories(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> str:
            [prompt] = (await client.list_prompts()).prompts
            assert [argument.name for argument in prompt.arguments or []] == ["topic", "max_tokens", "user"]
            made = await client.get_prompt("recall", {"topic": "pool size", "max_tokens": "300"})
            [message] = made.messages
            assert message.role == "user"
            assert isinstance(message.content, types.TextContent)
            return message.content.text

        text = session(in_process(daemon.socket), work)
        assert "the pool size is ten" in text
        assert "agents 1" in text
        assert daemon.calls_of("memory.search") == [{"query": "pool size", "max_tokens": 300}]

    def test_an_empty_result_is_reported(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> None:
            made = await client.get_prompt("recall", {"topic": "zeppelin"})
            assert "No memories" in str(made.messages[0].content)
            wrong = await protocol_error(client.get_prompt("recall", {"topic": "x", "max_tokens": "many"}))
            assert "max_tokens" in wrong.message
            assert (await protocol_error(client.get_prompt("other", {}))).code == types.INVALID_PARAMS

        session(in_process(daemon.socket), work)

    @pytest.mark.parametrize("read_only", [False, True])
    def test_only_available_tools_are_named(self, daemon: FakeDaemon, read_only: bool) -> None:
        async def work(client: Client) -> bool:
            made = await client.get_prompt("recall", {"topic": "zeppelin"})
            return "add_memory" in str(made.messages[0].content)

        assert session(in_process(daemon.socket, read_only=read_only), work) is not read_only

    def test_an_empty_text_is_no_answer(self) -> None:
        """An agent that reads text only still gets the reason why nothing was found."""
        fresh = {"users": {"state": "fresh", "withheld": "name one"}}
        assert "name one" in answer_text({"hits": [], "embedding": "", "tokens": 0, "fresh": fresh})


class TestErrors:
    def test_each_has_a_hint_and_its_code(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> None:
            secret = "ghp_" + "a1B2c3D4" * 5
            text = await refusal(client, "add_memory", root="agents", memory={"content": secret})
            assert text.splitlines() == [
                "Security violation: Cannot store sensitive data",
                "hint: store where it is kept",
                "code: sensitive (-32008)",
            ]
            text = await refusal(client, "add_memory", root="agents", memory={"type": "core"})
            assert 'findings: [{"field":"content","rule":"is missing"}]' in text
            assert "conflict (-32006)" in await refusal(client, "get_memory", id="1")
            assert "there is no memory [redacted:github-token]" in await refusal(client, "get_memory", id=secret)
            assert "unknown-root" in await refusal(client, "search_memories", query="x", root="none")
            assert "`root` is one of: agents (jsonl-store)" in await refusal(
                client, "add_memory", memory={"content": "x"}
            )
            assert (await protocol_error(client.call_tool("no_tool", {}))).code == types.INVALID_PARAMS

        session(in_process(daemon.socket), work)

    def test_errors_of_the_daemon_reach_the_agent(self, daemon: FakeDaemon) -> None:
        async def work(client: Client, error: MemorydError) -> str:
            daemon.fail = error
            return await refusal(client, "search_memories", query="x")

        changed = ConflictError("it has changed", hint="read it again", data={"changed": ["l.jsonl"]})
        text = session(in_process(daemon.socket), lambda client: work(client, changed))
        assert text.splitlines() == [
            "it has changed", "hint: read it again", "code: conflict (-32006)", 'changed: ["l.jsonl"]'
        ]  # fmt: skip

    def test_each_call_reports_a_missing_daemon_and_finds_a_new_one(self, daemon: FakeDaemon) -> None:
        daemon.stop()

        async def work(client: Client) -> None:
            assert len((await client.list_tools()).tools) == 7
            text = await refusal(client, "search_memories", query="pool")
            assert "memoryd run" in text
            assert "code: no-daemon" in text
            error = await protocol_error(client.list_resources())
            assert error.data["code"] == "no-daemon"
            daemon.start()
            assert (await result_of(client, "search_memories", query="pool"))["hits"]
            daemon.stop()
            assert "no-daemon" in await refusal(client, "memory_status")
            daemon.start()
            assert (await result_of(client, "memory_status"))["roots"]

        session(in_process(daemon.socket), work)


class TestLimits:
    def test_read_only_offers_and_carries_out_nothing_that_writes(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> None:
            assert sorted(tool.name for tool in (await client.list_tools()).tools) == sorted(READING)
            for name in WRITING:
                assert "is read-only" in await refusal(client, name, id="1", memory={"content": "x"}, root="agents")

        session(server(daemon.socket, "--read-only"), work)
        assert {name for name, _ in daemon.calls} <= {"status"}

    def test_other_roots_are_out_of_reach(self, daemon: FakeDaemon) -> None:
        async def work(client: Client) -> None:
            status = await result_of(client, "memory_status")
            assert [root["name"] for root in status["roots"]] == ["agents", "notes"]
            hits = (await result_of(client, "search_memories", query="pool"))["hits"]
            assert {hit["root"] for hit in hits} == {"agents", "notes"}
            listed = await client.list_resources()
            assert all(not each.uri.startswith("memory://private") for each in listed.resources)
            for tool, needed in (
                ("search_memories", {"query": "x"}),
                ("get_memory", {"id": "u/1"}),
                ("list_memories", {}),
            ):
                assert "does not serve this root" in await refusal(client, tool, root="private", **needed)
            assert "not-found" in await refusal(client, "get_memory", id="u/1")
            for name in ("update_memory", "forget_memory"):
                more: dict[str, Any] = {"changes": {"content": "x"}} if name == "update_memory" else {}
                assert "not-found" in await refusal(client, name, id="u/1", **more)
                assert "does not serve" in await refusal(client, name, id="u/1", root="private", **more)
            assert "does not serve" in await refusal(client, "add_memory", root="private", memory={"content": "x"})
            assert (await protocol_error(client.read_resource(memory_uri("private", "u/1")))).data[
                "code"
            ] == "unknown-root"

        session(server(daemon.socket, "--root", "agents", "--root", "notes"), work)
        calls_of = [params.get("roots", params.get("root")) for name, params in daemon.calls if name != "status"]
        assert {str(each) for each in calls_of} == {"agents", "notes", "['agents', 'notes']"}
        assert "u/1" in daemon.memories["private"]


def test_concurrent_calls_get_their_own_answers(daemon: FakeDaemon) -> None:
    async def work(client: Client) -> None:
        answers = await asyncio.gather(
            *(result_of(client, "get_memory", id=str(i % 2 + 1), root="agents") for i in range(40))
        )
        assert [answer["id"] for answer in answers] == [str(i % 2 + 1) for i in range(40)]

    session(server(daemon.socket), work)


class RawClient:
    """A client that sends exactly the given messages, in any version of the protocol."""

    def __init__(self, socket: str) -> None:
        started = server(socket)
        self.process = subprocess.Popen(
            [started.command, *started.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(started.env or {})},
        )
        assert self.process.stdin
        assert self.process.stdout
        self.send, self.receive = self.process.stdin, self.process.stdout

    def send_line(self, method: str, **more: Any) -> None:
        self.send.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
        self.send.flush()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.send_line(method, id=1, params=params)
        answer: dict[str, Any] = json.loads(self.receive.readline())
        return dict(answer["result"])

    def initialize(self, version: str) -> str:
        result_of = self.request(
            "initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "raw", "version": "1"}
        )
        self.send_line("notifications/initialized")
        return str(result_of["protocolVersion"])


@pytest.fixture
def raw(daemon: FakeDaemon) -> Iterator[RawClient]:
    client = RawClient(daemon.socket)
    with client.process:
        yield client
        client.process.kill()


@pytest.mark.parametrize(("version", "links"), [("2024-11-05", 0), ("2025-03-26", 0), ("2025-06-18", 1)])
def test_older_agents_get_no_unknown_content(raw: RawClient, version: str, links: int) -> None:
    assert raw.initialize(version) == version
    result = raw.request("tools/call", name="search_memories", arguments={"query": "pool", "root": "agents"})
    kinds = [block["type"] for block in result["content"]]
    assert kinds == ["text", *["resource_link"] * links]
    assert json.loads(result["content"][0]["text"])["hits"][0]["id"] == "1"


def test_an_agent_that_has_exited_causes_no_output(raw: RawClient) -> None:
    raw.initialize("2025-06-18")
    raw.receive.close()
    raw.send_line("ping", id=2)
    raw.send.close()
    assert raw.process.wait(30) == 0
    assert raw.process.stderr
    assert raw.process.stderr.read() == ""


def test_a_hanging_daemon_does_not_delay_the_list_of_tools(tmp_path: Path) -> None:
    """It accepts connections and never answers."""
    with socket.socket(socket.AF_UNIX) as silent, tempfile.TemporaryDirectory(prefix="md-") as short:
        silent.bind(f"{short}/c")
        silent.listen(1)

        async def work(client: Client) -> None:
            began = time.monotonic()
            assert len((await client.list_tools()).tools) == 7
            assert time.monotonic() - began < 10
            silent.close()  # ends the waiting call

        session(in_process(f"{short}/c"), work)


def test_it_ends_with_its_input_and_prints_nothing_else(daemon: FakeDaemon) -> None:
    started = server(daemon.socket)
    env = {**os.environ, **(started.env or {})}
    done = subprocess.run(
        [started.command, *started.args], input="no json\n", capture_output=True, text=True, timeout=60, env=env
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_the_first_answer_costs_little(daemon: FakeDaemon) -> None:
    """Nearly all is for loading the protocol's package: compared with a process that does only that, in turn, because
    a busy machine needs more for both."""

    def first() -> float:
        raw = RawClient(daemon.socket)
        with raw.process:
            raw.initialize("2025-06-18")
            assert raw.request("tools/call", name="search_memories", arguments={"query": "pool"})["content"]
            spent = psutil.Process(raw.process.pid).cpu_times()
            raw.process.kill()
        return float(spent.user + spent.system)

    def floor() -> float:
        code = "import os, mcp.server; spent = os.times(); print(spent.user + spent.system)"
        return float(subprocess.check_output([sys.executable, "-c", code], timeout=60))

    took, least = zip(*((first(), floor()) for _ in range(3)), strict=True)
    print(f"first answer: {min(took):.2f} s, the package alone: {min(least):.2f} s")
    assert min(took) < 2 * min(least)


def test_nothing_of_the_daemon_is_loaded() -> None:
    """Every agent starts such a process."""
    modules = "[name for name in sys.modules if name.startswith('memoryd.')]"
    load = "import sys, memoryd.cli.main; from memoryd.mcp.loading import load; load()"
    code = f"{load}; print(*{modules}, *(set(sys.modules) & {HEAVY}))"
    env = {**os.environ, **(server("").env or {})}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env, check=True)
    names = done.stdout.split()
    loaded = {name.split(".")[1] if name.startswith("memoryd.") else name for name in names}
    # layouts: the fields of their memories; config: where the socket is
    assert loaded == {"mcp", "cli", "config", "control", "core", "errors", "layouts"}


def test_an_sdk_with_another_structure_is_imported_normally(daemon: FakeDaemon) -> None:
    """A later version of the SDK whose modules need the `__init__` of their package."""
    code = """
import sys
from importlib.abc import MetaPathFinder

class Later(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "mcp.server.lowlevel" and self in sys.meta_path:
            sys.meta_path.remove(self)
            raise ImportError(name)

sys.meta_path.insert(0, Later())
from memoryd.mcp.loading import load
print(load().__name__, "httpx2" in sys.modules)
"""
    env = {**os.environ, **(server("").env or {})}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env, check=True)
    assert done.stdout.split() == ["memoryd.mcp.server", "True"]


def test_a_missing_package_is_named(daemon: FakeDaemon) -> None:
    """`memoryd mcp` without the package mcp."""
    code = "import sys; sys.modules['mcp'] = None; from memoryd.cli.main import main; main(sys.argv[1:])"
    started = server(daemon.socket)
    env = {**os.environ, **(started.env or {})}
    done = subprocess.run(
        [sys.executable, "-c", code, "mcp"],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 78
    assert f"hint: {sys.executable} -m pip install 'mcp" in done.stderr
    assert "Traceback" not in done.stderr
