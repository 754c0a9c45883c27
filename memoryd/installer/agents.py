"""The agents that memoryd can be added to: where each keeps its configuration, and the form of an entry there.

`memoryd setup`, `memoryd help agents` and their tests are made from this table.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memoryd.core.json_entries import FIRST, Keys

NAME = "memoryd"  # of the MCP server in every agent
HOOK = ("hook", "session-start")

_XDG = ("XDG_CONFIG_HOME", "~/.config")
_MAC_APPS = "~/Library/Application Support"


class File(NamedTuple):
    """A file in the directory that an environment variable names, else in `usual`, on macOS in `mac` if that is given.
    `other`: another name that it may have. A file whose name ends in .toml is TOML, any other JSON."""

    variable: str
    usual: str
    name: str
    other: str = ""
    mac: str = ""

    def find(self, env: Mapping[str, str]) -> str:
        """Return the absolute path of the file, whether or not it exists."""
        top = env.get(self.variable) or os.path.expanduser(self.usual)
        if self.mac and sys.platform == "darwin":
            top = os.path.expanduser(self.mac)
        path, other = (os.path.abspath(os.path.join(top, name)) for name in (self.name, self.other))
        return other if self.other and not os.path.exists(path) and os.path.exists(other) else path

    def __str__(self) -> str:
        """Return the usual place, for people."""
        directory, name = os.path.split(f"{self.usual}/{self.name}")
        return f"{name} in {directory}"


class Hook(NamedTuple):
    """The session hook of an agent: its file, which sessions it is for ("": all), and its time limit in the agent's
    unit."""

    file: File
    matcher: str
    timeout: int


class Agent(NamedTuple):
    """An agent: the file and the table of its MCP servers, the form of an entry (`typed`: with its type, `custom`: as
    Zed has it, `local`: as opencode has it, "": only the command), and the file of a project, for people."""

    name: str
    title: str
    file: File
    table: str = "mcpServers"
    form: str = ""
    project: str = ""
    hook: Hook | None = None


class Entry(NamedTuple):
    """A value to add to a file, with its keys. `what`: its name for people."""

    what: str
    path: str
    keys: Keys
    value: object


AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code",
            File("CLAUDE_CONFIG_DIR", "~", ".claude.json"),
            project=".mcp.json",
            hook=Hook(File("CLAUDE_CONFIG_DIR", "~/.claude", "settings.json"), "startup|clear|compact", 5),
        ),
        Agent("claude-desktop", "Claude Desktop", File(*_XDG, "Claude/claude_desktop_config.json", mac=_MAC_APPS)),
        Agent("cursor", "Cursor", File("", "~/.cursor", "mcp.json"), project=".cursor/mcp.json"),
        Agent("windsurf", "Windsurf", File("", "~/.codeium/windsurf", "mcp_config.json")),
        Agent(
            "gemini",
            "Gemini CLI",
            File("", "~/.gemini", "settings.json"),
            project=".gemini/settings.json",
            hook=Hook(File("", "~/.gemini", "settings.json"), "", 5000),
        ),
        Agent(
            "cline",
            "Cline",
            File(
                *_XDG,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                mac=_MAC_APPS,
            ),
        ),
        Agent(
            "vscode",
            "VS Code",
            File(*_XDG, "Code/User/mcp.json", mac=_MAC_APPS),
            "servers",
            "typed",
            ".vscode/mcp.json",
        ),
        Agent(
            "zed",
            "Zed",
            File(*_XDG, "zed/settings.json"),
            "context_servers",
            "custom",
            ".zed/settings.json",
        ),
        Agent(
            "opencode",
            "opencode",
            File(*_XDG, "opencode/opencode.json", "opencode/opencode.jsonc"),
            "mcp",
            "local",
            "opencode.json",
        ),
        Agent("codex", "Codex", File("CODEX_HOME", "~/.codex", "config.toml"), "mcp_servers"),
    )
}


def server_entry(agent: Agent, command: Sequence[str], env: Mapping[str, str]) -> Entry:
    """Return the MCP server of memoryd, which runs `command` and `mcp`."""
    program, *options = command
    form: dict[str, object] = {"command": program, "args": [*options, "mcp"]}
    if agent.form == "typed":
        form = {"type": "stdio", **form}
    elif agent.form == "custom":
        form = {"source": "custom", **form, "env": {}}
    elif agent.form == "local":
        form = {"type": "local", "command": [*command, "mcp"], "enabled": True}
    return Entry("MCP server", agent.file.find(env), (agent.table, NAME), form)


def hook_entry(hook: Hook, command: Sequence[str], env: Mapping[str, str]) -> Entry:
    """Return the session hook, a line of the shell that runs `command` and `hook session-start`."""
    run = {"type": "command", "command": shlex.join([*command, *HOOK]), "timeout": hook.timeout}
    matcher = {"matcher": hook.matcher} if hook.matcher else {}
    return Entry("session hook", hook.file.find(env), ("hooks", "SessionStart", FIRST), {**matcher, "hooks": [run]})


def entries(agent: Agent, command: Sequence[str], env: Mapping[str, str]) -> tuple[Entry, ...]:
    """Return what is added for an agent. `command`: the words that start memoryd, with its global options."""
    hooks = (hook_entry(agent.hook, command, env),) if agent.hook else ()
    return (server_entry(agent, command, env), *hooks)
