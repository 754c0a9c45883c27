"""What `memoryd help agents` tells agents to put into their configuration is of their form, and starts the server."""

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
from tests.mcp.session import session, told


def entries() -> dict[str, list[str]]:
    """{key under which the agent keeps servers: the command line}."""
    found: dict[str, list[str]] = {}
    for block in (prose.MCP_SERVERS, prose.VS_CODE, prose.ZED, prose.OPENCODE):
        [(key, servers)] = json.loads(block).items()
        found[key] = command_of(servers["memoryd"])
    found["config.toml"] = command_of(tomllib.loads(prose.CODEX)["mcp_servers"]["memoryd"])
    words = shlex.split(prose.CLAUDE_CODE)
    assert words[:3] == ["claude", "mcp", "add"]
    assert words[words.index("--") - 1] == "memoryd"
    found["claude mcp add"] = words[words.index("--") + 1 :]
    return found


def command_of(entry: dict[str, Any]) -> list[str]:
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


def test_every_form_is_there() -> None:
    forms = {"mcpServers", "servers", "context_servers", "mcp", "config.toml", "claude mcp add"}
    assert set(entries()) == forms


@pytest.mark.parametrize("form", ["mcpServers", "servers"])
def test_its_command_starts_the_server(form: str, tmp_path: Path) -> None:
    """With hardly any environment, and `memoryd` found as the agent finds it: on the path."""
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
            return {hit["root"] for hit in (await told(client, "search_memories", query="pool"))["hits"]}

        found = session(StdioServerParameters(command=command, args=args, env=env), work)
    assert found == ({"agents"} if "--root" in args else {"agents", "notes"})


def test_all_forms_start_the_same_program() -> None:
    assert {tuple(words[:2]) for words in entries().values()} == {("memoryd", "mcp")}


def test_the_readme_says_the_same() -> None:
    assert prose.CLAUDE_CODE in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
