"""The configurations that `memoryd help agents` prints have the form of each agent and start the server."""

from __future__ import annotations

import json
import sys
import textwrap
import tomllib
from pathlib import Path

from mcp import Client, StdioServerParameters

import memoryd
from memoryd.cli.help.render import as_text
from memoryd.cli.help.tables import TOPICS
from memoryd.cli.program import cli
from memoryd.installer.agent_setup import snippet
from memoryd.installer.agents import AGENTS, entries, server_entry
from tests.mcp.fake import FakeDaemon
from tests.mcp.session import result_of, session


def command_of(name: str) -> list[str]:
    """The command line in the entry of an agent."""
    entry = server_entry(AGENTS[name], ["memoryd"], {})
    text = snippet(entry)
    table = tomllib.loads(text) if entry.path.endswith(".toml") else json.loads(text)
    [(_, servers)] = table.items()
    server = servers["memoryd"]
    command = server["command"]
    return list(command) if isinstance(command, list) else [command, *server["args"]]


def test_every_form_is_printed() -> None:
    printed = as_text(TOPICS["agents"].sections(cli), 10_000)
    for agent in AGENTS.values():
        for entry in entries(agent, ["memoryd"], {}):
            assert textwrap.indent(snippet(entry), "  ") in printed
        assert str(agent.file) in printed


def test_its_command_starts_the_server(tmp_path: Path) -> None:
    """With hardly any environment, and `memoryd` on the path, as an agent starts it."""
    program = tmp_path / "bin" / "memoryd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memoryd "$@"\n')
    program.chmod(0o755)
    command, *args = command_of("cursor")
    memories = {"agents": {"1": {"content": "the pool size is ten"}}, "notes": {"2": {"text": "pool"}}}
    with FakeDaemon(**memories) as daemon:
        env = {
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(Path(memoryd.__file__).parents[1]),
            "MEMORYD_SOCKET": daemon.socket,
        }

        async def work(client: Client) -> set[str]:
            return {hit["root"] for hit in (await result_of(client, "search_memories", query="pool"))["hits"]}

        roots = session(StdioServerParameters(command=command, args=args, env=env), work)
    assert roots == {"agents", "notes"}


def test_all_forms_start_the_same_program() -> None:
    assert [command_of(name) for name in AGENTS] == [["memoryd", "mcp"]] * len(AGENTS)
