"""`memoryd setup`: the entry of each agent, in files that stay as they are but for it, and its removal."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.cli.main import run
from memoryd.config.edit import write_config
from memoryd.core.json_entries import strict
from memoryd.errors import ConflictError
from memoryd.installer import agent_setup, requirements
from memoryd.installer.agent_setup import carry_out, insert, plan_setup, remove_inserted
from memoryd.installer.agents import AGENTS, Agent, Entry, entries
from tests.program import run_program

COMMAND = (sys.executable, "-m", "memoryd")
JSON_FILES = (
    "",
    "{}",
    '{"theme":"dark","mcpServers":{"a":{}}}',
    '{\r\n\t"theme": "dark",\r\n\t"hooks": {"SessionStart": []}\r\n}\r\n',
    '// settings\n{\n  "mcpServers": { // all\n    "a": {}, /* b */\n  },\n  "servers": {},\n  // last\n}\n',
    '\ufeff{\n    "hooks": {\n        "SessionStart": [\n            {"hooks": []} // mine\n        ]\n    }\n}',
)
TOML_FILES = ("", "# mine\r\n[mcp_servers.a]\r\ncommand = 'x' # y\r\n", 'model = "m"')


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("MEMORYD_", "XDG_", "CLAUDE_", "CODEX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(requirements, "start_command", lambda: COMMAND)
    return tmp_path


def files_of(agent: Agent) -> list[Path]:
    """The files of an agent in the home directory, whose directories are made."""
    paths = [Path(entry.path) for entry in entries(agent, COMMAND, {})]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return list(dict.fromkeys(paths))


def decoded(path: Path) -> dict[str, object]:
    text = path.read_bytes().decode()
    found = (
        tomllib.loads(text) if path.suffix == ".toml" else json.loads(strict(text.encode()).decode().strip("\ufeff"))
    )
    assert isinstance(found, dict)
    return found


def everything(home: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and time of all files but those of memoryd."""
    files = (path for path in home.rglob("*") if path.is_file() and ".local" not in path.parts)
    return {str(each): (each.read_bytes(), each.stat().st_mode, each.stat().st_mtime_ns) for each in files}


def contents(home: Path) -> dict[str, tuple[bytes, int]]:
    return {path: each[:2] for path, each in everything(home).items()}


@pytest.mark.parametrize("name", AGENTS)
def test_each_agent_gets_its_entries_once_and_gets_its_bytes_back(
    home: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = AGENTS[name]
    paths = files_of(agent)
    for text in TOML_FILES if paths[0].suffix == ".toml" else JSON_FILES:
        for path in paths:
            path.write_bytes(text.encode())
            path.chmod(0o640)
        before = contents(home)
        assert run(["setup", name]) == 0
        for entry in entries(agent, COMMAND, {}):
            value: object = decoded(Path(entry.path))
            for key in entry.keys:
                value = value[key]  # type: ignore[index]
            assert value == entry.value
        after = everything(home)
        assert run(["setup", name]) == 0
        assert everything(home) == after
        assert run(["setup", name, "--undo"]) == 0
        assert contents(home) == before
    assert "restart" in capsys.readouterr().out


@pytest.mark.parametrize("name", AGENTS)
def test_files_that_were_missing_go_again(home: Path, name: str) -> None:
    paths = files_of(AGENTS[name])
    assert run(["setup", name, "--dry-run"]) == 0
    assert not any(path.exists() for path in paths)
    assert run(["setup", name]) == 0
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600] * len(paths)
    assert run(["setup", name, "--undo"]) == 0
    assert everything(home) == {}
    assert run(["setup", name, "--undo"]) == 1, "there is nothing left to remove"


def test_the_command_that_is_written_works_anywhere(home: Path) -> None:
    [path] = files_of(AGENTS["cursor"])
    assert run_program("--socket", "s", "setup", "cursor", cwd=home).returncode == 0
    server = json.loads(path.read_text())["mcpServers"]["memoryd"]
    assert server["args"][-3:] == ["--socket", str(home / "s"), "mcp"]
    words = [server["command"], *server["args"][:-1], "version"]
    assert subprocess.run(words, cwd="/", env={}, capture_output=True, timeout=60).returncode == 0
    assert run(["setup", "cursor"]) == 0
    assert "--socket" not in path.read_text(), "another command replaces that of setup"


def test_a_program_with_another_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, hooks = files_of(AGENTS["claude-code"])
    monkeypatch.setattr(requirements, "start_command", lambda: ("/opt/notes",))
    assert [run(["setup", "claude-code"]) for _ in range(2)] == [0, 0]
    assert hooks.read_text().count("/opt/notes hook session-start") == 1
    assert run(["setup", "claude-code", "--undo"]) == 0
    assert everything(home) == {}


def test_a_link_stays_a_link(home: Path) -> None:
    [path] = files_of(AGENTS["cursor"])
    target = home / "dotfiles"
    target.write_text('{"a": 1}')
    path.symlink_to(target)
    assert run(["setup", "cursor"]) == 0
    assert path.is_symlink()
    assert "memoryd" in target.read_text()
    assert run(["setup", "cursor", "--undo"]) == 0
    assert (path.is_symlink(), target.read_text()) == (True, '{"a": 1}')


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("claude-code", '{\n  "a": 1\n  "b": 2\n}', ":3:3: not valid JSON"),
        ("zed", "{\n /* open\n", ":2:2: not valid JSON"),
        ("cursor", b'{\n"a": "\xff"}', ":2: not UTF-8"),
        ("cursor", '{"mcpServers": []}', ": what should hold 'memoryd' is not an object"),
        ("cursor", "[]", ": what should hold 'mcpServers' is not an object"),
        ("codex", "a = 1\nb\n", ":2:2: not valid TOML"),
        ("codex", "mcp_servers = {}\n", ": memoryd cannot edit this file safely"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | bytes, place: str
) -> None:
    path = files_of(AGENTS[name])[-1]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = everything(home)
    assert run(["setup", name]) == 78
    error = capsys.readouterr().err
    assert f"{path}{place}" in error
    assert "UTF-8" in place or "memoryd" in error.partition("by hand:")[2], "what to paste"
    assert everything(home) == before, "nor is another file written"


def test_an_entry_of_the_user_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers, hooks = files_of(AGENTS["claude-code"])
    servers.write_text('{"mcpServers": {"memoryd": {"command": "memoryd", "args": ["mcp"]}}}')
    before = servers.read_bytes()
    assert run(["setup", "claude-code"]) == 1
    assert f"left the MCP server in {servers} unchanged" in capsys.readouterr().out
    assert "hook session-start" in hooks.read_text(), "the rest is done"
    assert run(["setup", "claude-code", "--undo"]) == 0
    assert (servers.read_bytes(), hooks.exists()) == (before, False)


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_an_entry_that_was_changed_by_hand_stays(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    paths = files_of(AGENTS[name])
    assert run(["setup", name]) == 0
    for path in paths:
        path.write_text(path.read_text().replace("-m", "-I"))
    before = contents(home)
    assert run(["setup", name]) == run(["setup", name, "--undo"]) == run(["setup", name, "--undo"]) == 1
    assert contents(home) == before
    assert capsys.readouterr().out.count("unchanged: it is not what setup wrote") == 3 * len(paths)


def test_undo_after_other_changes_removes_the_entries_only(home: Path) -> None:
    servers, hooks = files_of(AGENTS["claude-code"])
    hooks.write_text('{\n  // mine\n  "model": "x"\n}\n')
    assert run(["setup", "claude-code"]) == 0
    grown = json.loads(servers.read_text())
    grown["mcpServers"]["b"] = {}
    servers.write_text(json.dumps(grown, indent=4))  # as the agent itself writes it
    hooks.write_text(hooks.read_text().replace('"x"\n', '"y", // new\n  "z": []\n'))
    assert run(["setup", "claude-code", "--undo"]) == 0
    assert servers.read_text() == '{\n    "mcpServers": {\n        "b": {}\n    }\n}'
    assert hooks.read_text() == '{\n  // mine\n  "model": "y", // new\n  "z": []\n}\n'


def test_a_copy_of_the_entry_in_a_comment_stays(home: Path) -> None:
    [path] = files_of(AGENTS["cursor"])
    path.write_text('{\n  "a": 1\n}\n')
    assert run(["setup", "cursor"]) == 0
    text = path.read_text()
    copy = "/*" + text[1 : text.index('  "a"')] + '*/\n  "a"'
    path.write_text(text.replace('"args": ', '"args":').replace('  "a"', copy))
    assert run(["setup", "cursor", "--undo"]) == 0
    assert path.read_text() == '{\n  "a": 1\n}\n'.replace('  "a"', copy)


def test_undo_leaves_the_table_of_another_server(home: Path) -> None:
    [path] = files_of(AGENTS["codex"])
    path.write_text("a = 1\n")
    assert run(["setup", "codex"]) == 0
    path.write_text(path.read_text().replace("args =", "args=") + "\n# b\n[mcp_servers.b]\ncommand = 'b'\n")
    assert run(["setup", "codex", "--undo"]) == 0
    assert path.read_text() == "a = 1\n\n# b\n[mcp_servers.b]\ncommand = 'b'\n"


def test_a_file_that_changes_meanwhile_is_not_overwritten(home: Path) -> None:
    [path] = files_of(AGENTS["cursor"])
    path.write_text("{}")
    change = plan_setup(AGENTS["cursor"], COMMAND, [], {})
    path.write_text('{"new": 1}')
    with pytest.raises(ConflictError, match="changed by another program"):
        carry_out(change, str(home / "record.json"))
    assert path.read_text() == '{"new": 1}'
    assert sorted(each.name for each in path.parent.iterdir()) == ["mcp.json"]


@pytest.mark.parametrize("written", [0, 1])
def test_a_replacement_that_fails_can_be_undone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], written: int
) -> None:
    _, hooks = files_of(AGENTS["claude-code"])
    hooks.write_text("{}\n")
    before = contents(home)
    assert run(["setup", "claude-code"]) == 0
    left = [None] * (1 + written)  # the record, and a file

    def fail(path: str, *args: Any, **kwargs: Any) -> None:
        if not left:
            raise ConflictError(path)
        left.pop()
        write_config(path, *args, **kwargs)

    monkeypatch.setattr(agent_setup, "write_config", fail)
    assert run(["--socket", "s", "setup", "claude-code"]) != 0
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(home))
    assert run(["setup", "claude-code", "--undo"]) == 0
    assert contents(home) == before
    assert "left the" not in capsys.readouterr().out


def test_a_record_that_changes_meanwhile_is_not_overwritten(home: Path) -> None:
    [path] = files_of(AGENTS["cursor"])
    record = str(home / ".local" / "record.json")
    first, second = (plan_setup(AGENTS["cursor"], (word,), [], {}) for word in "ab")
    carry_out(first, record)
    with pytest.raises(ConflictError, match="changed by another program"):
        carry_out(second, record)
    carry_out(agent_setup.plan_undo(agent_setup.read_record(record)), record)
    assert not path.exists()


def test_the_dry_run_shows_the_change_without_secrets(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [path] = files_of(AGENTS["cursor"])
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    path.write_text(f'{{"mcpServers": {{"x": {{"env": {{"T": "{token[:40]}"}}}}}}}}')
    before = everything(home)
    assert run(["setup", "cursor", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"+++ {path}\n" in out
    assert '"memoryd": {"command": ' in out
    assert token[:40] not in out
    assert everything(home) == before
    assert not (home / ".local").exists()
    assert run(["setup", "cursor", "--dry-run", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["entries"] == [{"what": "MCP server", "path": str(path), "state": "added"}]


def test_an_agent_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, directory in (("claude-code", ".claude"), ("zed", ".config/zed")):
        assert run(["setup", name]) == 1
        assert f"no directory {home / directory}" in capsys.readouterr().err
    assert not any(home.iterdir())


def test_without_an_agent_the_known_ones_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["nobody"]):
        assert run(["setup", *words]) == 2
        error = capsys.readouterr().err
        assert all(name in error for name in ("claude-code", "codex", "zed"))


def test_the_directories_that_variables_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("claude", "codex", "xdg/zed"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    for agent in ("claude-code", "codex", "zed"):
        assert run(["setup", agent]) == 0
    made = {str(Path(path).relative_to(home)) for path in everything(home)}
    assert made == {"claude/.claude.json", "claude/settings.json", "codex/config.toml", "xdg/zed/settings.json"}


def test_opencode_with_comments_in_its_own_file(home: Path) -> None:
    [path] = files_of(AGENTS["opencode"])
    other = path.with_suffix(".jsonc")
    other.write_text("{\n  // mine\n}\n")
    assert run(["setup", "opencode"]) == 0
    assert not path.exists()
    assert other.read_text().startswith('{\n  "mcp": {\n    "memoryd": {')


# --- any file

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='ab"\\/*,{}\n\u00e9', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "a": VALUES,
        "mcpServers": TABLES,
        "hooks": st.fixed_dictionaries({}, optional={"SessionStart": st.lists(VALUES, max_size=2), "Stop": VALUES}),
        "z": VALUES,
    },
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """A JSON file in some style, perhaps with comments and trailing commas."""
    text = json.dumps(draw(DOCUMENTS), indent=draw(st.sampled_from([None, 0, 2, "\t"])), ensure_ascii=False)
    lines = text.split("\n")
    for place in range(len(lines) - 1):
        mark = draw(st.sampled_from(["", "", " // c, }", " /* { */", ","]))
        if mark != "," or (lines[place][-1] not in "{[," and lines[place + 1].strip()[0] in "}]"):
            lines[place] += mark
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return draw(st.sampled_from(["", "\ufeff", "// c\n"])) + newline.join(lines) + draw(st.sampled_from(["", newline]))


def set_up(path: str, text: str) -> tuple[str, list[agent_setup.Inserted]]:
    record = []
    for entry in entries(AGENTS["gemini"], COMMAND, {}):
        text, inserted = insert(Entry(entry.what, path, entry.keys, entry.value), text, created=False)
        record.append(inserted)
    return text, record


@settings(max_examples=60)
@given(json_texts() | st.sampled_from(["", "\n", "/* c */"]))
def test_any_json_file_gets_its_bytes_back(text: str) -> None:
    after, record = set_up("x.json", text)
    assert remove_inserted(record, after) == text


@settings(max_examples=60)
@given(json_texts(), st.sampled_from([0, 1]))
def test_each_entry_can_be_removed_alone(text: str, which: int) -> None:
    after, record = set_up("x.json", text)
    left = remove_inserted([record[which]], after)
    assert remove_inserted([record[1 - which]], left) is not None
    was_strict = strict(text.encode()) == text.encode()
    assert not was_strict or strict(left.encode()) == left.encode(), "strict JSON stays strict JSON"


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["# c", "", "[a]", "[mcp_servers.b]", "[[c]]", "[c.d]"]), max_size=6, unique=True),
       st.sampled_from(["\n", "\r\n"]), st.booleans())  # fmt: skip
def test_any_toml_file_gets_its_bytes_back(lines: Sequence[str], newline: str, ends: bool) -> None:
    text = newline.join(lines) + (newline if ends else "")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    [entry] = entries(AGENTS["codex"], COMMAND, {})
    after, inserted = insert(entry, text, created=False)
    assert remove_inserted([inserted], after) == text
