"""The configurations that `memoryd help agents` prints have the form of each agent and start the server."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import memoryd
from memoryd.cli.help import prose
from tests.mcp.fake import FakeDaemon
from tests.mcp.session import result_of, session


def entries() -> dict[str, list[str]]:
    """Return {key of the servers in the configuration of an agent: command line}."""
    commands: dict[str, list[str]] = {}
    for block in (prose.MCP_SERVERS, prose.VS_CODE, prose.ZED, prose.OPENCODE):
        [(key, servers)] = json.loads(block).items()
        commands[key] = command_of(servers["memoryd"])
    commands["config.toml"] = command_of(tomllib.loads(prose.CODEX)["mcp_servers"]["memoryd"])
    words = shlex.split(prose.CLAUDE_CODE)
    assert words[:3] == ["claude", "mcp", "add"]
    assert words[words.index("--") - 1] == "memoryd"
    commands["claude mcp add"] = words[words.index("--") + 1 :]
    return commands


def command_of(entry: dict[str, Any]) -> list[str]:
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


def test_every_form_is_printed() -> None:
    forms = {"mcpServers", "servers", "context_servers", "mcp", "config.toml", "claude mcp add"}
    assert set(entries()) == forms


@pytest.mark.parametrize("form", ["mcpServers", "servers"])
def test_its_command_starts_the_server(form: str, tmp_path: Path) -> None:
    """With hardly any environment, and `memoryd` on the path, as an agent starts it."""
    program = tmp_path / "bin" / "memoryd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memoryd "$@"\n')
    program.chmod(0o755)
    command, *args = entries()[form]
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
    assert roots == ({"agents"} if "--root" in args else {"agents", "notes"})


def test_all_forms_start_the_same_program() -> None:
    assert {tuple(words[:2]) for words in entries().values()} == {("memoryd", "mcp")}


def test_the_readme_says_the_same() -> None:
    assert prose.CLAUDE_CODE in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
