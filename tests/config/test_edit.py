"""Adding and removing roots: the rest of the file keeps every byte."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.config import edit
from memoryd.config.edit import add_root, remove_root, restored_on_error, write_config
from memoryd.config.load import parse
from memoryd.config.settings import Config, RootConfig
from memoryd.config.template import template
from memoryd.config.toml_text import toml
from memoryd.core.defaults import Limit, LimitKind
from memoryd.disk import syscalls
from memoryd.errors import ConfigError, ConflictError, DeniedError, NotFoundError

STATE = "/nowhere/state"

FILE = """\
# My configuration.    Odd   spacing stays.
[daemon]
settle_ms=50   # fast

# the agents
[[root]]
name = "agents" # first
path = '/n/agents'
  [root.limits]   # per file
  # lifted
  "tasks.jsonl" = "off"

# the team's
[[ root ]]
path="/n/team"
# unused: layout = "auto"

# between
[defaults]
backups = 3
[defaults.schedule]
archive = "off"
# the end"""


class Home:
    """A configuration file in a directory of its own."""

    def __init__(self, path: Path, text: str | None = FILE) -> None:
        self.file = path / "config.toml"
        if text is not None:
            self.file.write_bytes(text.encode())

    @property
    def text(self) -> str:
        return self.file.read_bytes().decode()

    @property
    def config(self) -> Config:
        return parse(self.text, str(self.file), STATE)

    def add(self, **root: object) -> RootConfig:
        return add_root(str(self.file), root, state_dir=STATE)

    def remove(self, name: str) -> RootConfig:
        return remove_root(str(self.file), name, state_dir=STATE)

    def names(self) -> list[str]:
        return [root.name for root in self.config.roots]


def test_add_appends_and_keeps_every_byte(tmp_path: Path) -> None:
    home = Home(tmp_path)
    added = home.add(path="/n/new", layout="jsonl-store", limits={"learnings.jsonl": {"max_bytes": "1MB"}})
    assert home.text.startswith(FILE + "\n\n[[root]]\n")
    assert (added.name, added.path, added.layout, added.position) == ("new", "/n/new", "jsonl-store", 2)
    assert home.config.roots[2] == added
    assert added.policy.limits["learnings.jsonl"] is not None
    assert 'name = "new"' in home.text, "a derived name is written down"


def test_add_then_remove_gives_the_file_back(tmp_path: Path) -> None:
    home = Home(tmp_path, FILE + "\n")
    home.add(path="/n/new")
    home.add(path="/n/newer", name="x", limits={"a.jsonl": "off"})
    assert home.names() == ["agents", "team", "new", "x"]
    home.remove("new")
    home.remove("x")
    assert home.text == FILE + "\n"


def test_remove_takes_the_table_and_leaves_the_comments(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gone = home.remove("agents")
    assert (gone.name, gone.path) == ("agents", "/n/agents")
    assert home.text == FILE.replace(
        """\
[[root]]
name = "agents" # first
path = '/n/agents'
  [root.limits]   # per file
  # lifted
  "tasks.jsonl" = "off"

""",
        "\n",
    ), "comments within the table go with it, those around it stay"
    home.remove("team")
    assert "# unused: layout" in home.text
    assert home.names() == []


def test_crlf_is_preserved(tmp_path: Path) -> None:
    text = FILE.replace("\n", "\r\n") + "\r\n"
    home = Home(tmp_path, text)
    home.add(path="/n/new")
    assert "\n" not in home.text.replace("\r\n", "")
    home.remove("new")
    assert home.text == text


def test_a_name_that_was_derived_is_pinned_before_it_would_change(tmp_path: Path) -> None:
    home = Home(tmp_path, "[[root]] # one\npath='/n/a/memories'\n\n[[root]] # two\npath='/n/b/memories'")
    assert home.names() == ["memories", "b/memories"]
    home.remove("memories")
    assert home.names() == ["b/memories"]
    assert home.text == "[[root]] # two\nname = \"b/memories\"\npath='/n/b/memories'"


@pytest.mark.parametrize("text", ["root = []\n[daemon]\n", "# mine\nroot = [ # none yet\n]\n", "  root=[ ]"])
def test_a_root_is_added_to_an_array_that_was_emptied(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path, text)
    home.add(path="/n/x", name="x")
    assert home.names() == ["x"]
    assert all(comment in home.text for comment in ("# mine", "# none yet") if comment in text)
    home.remove("x")
    assert home.names() == []
    home.add(path="/n/y", name="y")
    assert home.names() == ["y"]


def test_inline_array_of_roots(tmp_path: Path) -> None:
    home = Home(tmp_path, "# top\nroot = [{path='/n/a/m'}, {path='/n/b/m'}] # roots\n# end\n")
    home.add(path="/n/c", layout="auto")
    assert home.names() == ["m", "b/m", "c"]
    home.remove("m")
    assert home.names() == ["b/m", "c"]
    assert home.text.startswith("# top\nroot = [")
    assert home.text.endswith("# roots\n# end\n")


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("root = [{path='/n/a'}, {path='/n/b'}]", "b", "root = [{path='/n/a'}]"),
        ("root = [{path='/n/a'}, {path='/n/b'}]", "a", "root = [{path='/n/b'}]"),
        (
            "root = [\n  {path='/n/a'}, # one\n  {path='/n/b'}, # two\n]\n",
            "a",
            "root = [\n  {path='/n/b'}, # two\n]\n",
        ),
        (
            "root = [\n  {path='/n/a'}, # one\n  {path='/n/b'}, # two\n]\n",
            "b",
            "root = [\n  {path='/n/a'}, # one\n # two\n]\n",
        ),
    ],
)
def test_a_root_of_an_inline_array_is_cut_out(tmp_path: Path, before: str, name: str, after: str) -> None:
    home = Home(tmp_path, before)
    home.remove(name)
    assert home.text == after
    added = home.add(path="/n/c", limits={"a b.jsonl": {"max_count": 3, "kind": "hard"}})
    assert added.policy.limits["a b.jsonl"] == Limit(LimitKind.HARD, None, 3)


def test_what_is_written_is_read_back_the_same() -> None:
    for value in ('\n\x7fé\\"', "\U000e0001", True, 3, 0.5, ["a", 1], {"a b": {"c": "x"}, "d": [False]}):
        assert tomllib.loads(f"k = {toml(value)}")["k"] == value


def test_scattered_tables_of_one_root(tmp_path: Path) -> None:
    first, middle = "[[root]]\npath='/n/a'\n", "[daemon]\nsettle_ms=5\n# note\n"
    text = first + middle + "[root.limits]\n'a.jsonl'='off'\n[root.schedule]\nlocks='off'\n"
    home = Home(tmp_path, text)
    home.remove("a")
    assert home.text == middle


def test_the_file_is_made_when_missing(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "er", None)
    assert home.add(path="/n/a").name == "a"
    assert home.names() == ["a"]
    assert stat.S_IMODE(home.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.file.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in home.file.parent.iterdir()] == ["config.toml"]


def test_mode_and_link_are_preserved(tmp_path: Path) -> None:
    real = Home(tmp_path)
    real.file.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to("config.toml")
    add_root(str(link), {"path": "/n/new"}, state_dir=STATE)
    assert link.is_symlink()
    assert real.names() == ["agents", "team", "new"]
    assert stat.S_IMODE(real.file.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("root", "says"),
    [
        ({"path": "/n/agents/x"}, "inside"),
        ({"path": "relative"}, "relative"),
        ({"path": "/n/x", "name": "agents"}, "taken by the root of line"),
        ({"path": "/n/x", "layout": "jsonl"}, "did you mean"),
        ({"path": "/etc/passwd"}, "is a file"),
        ({"name": "x"}, "has no directory"),
        ({"path": STATE}, "state directory"),
    ],
)
def test_what_would_be_wrong_is_refused_and_nothing_written(
    tmp_path: Path, root: Mapping[str, object], says: str
) -> None:
    home = Home(tmp_path)
    before = home.file.stat()
    with pytest.raises(ConfigError, match=says):
        home.add(**root)
    assert (home.text, home.file.stat().st_mtime_ns) == (FILE, before.st_mtime_ns)


def test_an_unknown_root(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(NotFoundError) as caught:
        home.remove("nobody")
    assert caught.value.hint == "its roots: agents, team"
    with pytest.raises(NotFoundError):
        Home(tmp_path / "no", None).remove("x")
    assert home.text == FILE


def test_a_broken_file_is_left_alone(tmp_path: Path) -> None:
    home = Home(tmp_path, "[daemon]\nsetle_ms = 5\n")
    with pytest.raises(ConfigError, match="settle_ms"):
        home.add(path="/n/x")
    assert home.text == "[daemon]\nsetle_ms = 5\n"


def test_somebody_elses_change_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)

    def meddled(text: str, path: str, *more: Any) -> Config:
        """Another program writes between the read and the write."""
        home.file.write_text(FILE + "\n# mine\n")
        return parse(text, path, *more)

    monkeypatch.setattr(edit, "parse", meddled)
    with pytest.raises(ConflictError):
        home.add(path="/n/x")
    assert home.text == FILE + "\n# mine\n"


def test_a_new_file_is_taken_back_and_a_link_to_its_place_stays(tmp_path: Path) -> None:
    link, target = tmp_path / "config.toml", tmp_path / "dotfiles" / "config.toml"
    link.symlink_to(target)
    (tmp_path / "root").mkdir()
    add_root(str(link), {"path": str(tmp_path / "root")}, state_dir=STATE)
    assert target.exists()
    with pytest.raises(DeniedError), restored_on_error(str(link), None):
        raise DeniedError("the root cannot be added")
    assert link.is_symlink()
    assert not target.exists()


def test_a_write_that_fails_leaves_the_file_and_no_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    for number, kind in ((28, ConfigError), (13, DeniedError), (30, DeniedError)):

        def fail(descriptor: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(kind, match="cannot be written"):
                write_config(str(home.file), "x = 1\n")
        assert home.text == FILE
        assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"]


_COMMENT = st.sampled_from(["", "# a", "  # é [[root]]", "#"])
_BLOCKS = st.sampled_from(
    [
        "[daemon]\nsettle_ms = 5",
        "[defaults]\nbackups = 2 # x",
        "[defaults.schedule]\narchive = 'off'",
        "ROOT",
        "ROOT\n[root.limits]\n\n'a.jsonl' = 'off'\n# inner",
        "ROOT\nschedule.locks = '''off'''",
    ]
)


@settings(deadline=None)
@given(st.lists(st.tuples(_COMMENT, _BLOCKS, _COMMENT), max_size=5, unique_by=lambda t: t[1]), st.data())
def test_edits_keep_every_comment_and_value(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    lines = [
        f"{before}\n{block}\n{after}\n".replace("ROOT", f"[[root]]\npath = '/n/{place}'")
        for place, (before, block, after) in enumerate(blocks)
    ]
    text = "".join(lines)
    home = Home(tmp_path_factory.mktemp("edit"), text)
    names = home.names()
    home.add(path="/m/added")
    assert home.text.startswith(text)
    home.remove("added")
    assert home.text == text
    if names:
        gone = data.draw(st.sampled_from(names))
        before = home.config
        home.remove(gone)
        assert home.config.roots == tuple(root for root in before.roots if root.name != gone)
        assert home.config.daemon == before.daemon
        kept = [line for line in home.text.split("\n") if line.strip()]
        stays = iter(line for line in text.split("\n") if line.strip())
        assert all(line in stays for line in kept), "what is left stands in the old order, unchanged"
        for mark in ("# a", "  # é [[root]]"):
            assert home.text.count(mark) == text.count(mark)


def test_the_template_can_be_edited(tmp_path: Path) -> None:
    home = Home(tmp_path, template())
    home.add(path="/n/a")
    home.remove("a")
    assert home.text == template()


def test_a_file_that_another_program_replaces_in_the_last_moment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "f.json", tmp_path / "other"
    path.write_text("old")
    other.write_text("newer")
    lstat = syscalls.lstat

    def replaced_after(*args: Any) -> Any:
        found = lstat(*args)
        if other.exists():
            other.replace(path)
        return found

    monkeypatch.setattr("memoryd.disk.atomic.lstat", replaced_after)
    with pytest.raises(ConflictError, match="changed by another program"):
        write_config(str(path), "ours")
    assert (path.read_text(), [each.name for each in tmp_path.iterdir()]) == ("newer", ["f.json"])
