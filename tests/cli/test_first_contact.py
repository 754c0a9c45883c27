"""`try` and `init`: what a person sees before memoryd may write anything."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec import to_builtins

from memoryd.cli.first_contact import show_preview
from memoryd.cli.screen import make_screen
from memoryd.config.detect import examine, walk
from memoryd.config.settings import Config
from memoryd.core.progress import ProgressMeter
from memoryd.engine.preview import preview
from tests.daemon import Daemon
from tests.layouts.json_samples import file
from tests.layouts.json_samples import name as file_name
from tests.program import run_program

LINE = '{"id": "%s", "content": "b", "type": "learning", "created_at": "2020-01-01T00:00:00Z"}\n'


def program(*args: str, home: Path, stdin: str = os.devnull) -> subprocess.CompletedProcess[str]:
    """Run memoryd with its own home and temporary directory."""
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORYD_", "XDG_"))}
    return run_program(*args, env={**kept, "HOME": str(home), "TMPDIR": str(temporary)}, cwd=home, stdin=stdin)


def state_of(directory: Path) -> dict[str, tuple[object, ...]]:
    """Return the mode, mtime, inode and content of everything below."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (stat.st_mode, stat.st_mtime_ns, stat.st_ino, content)
    return found


def make_store(directory: Path) -> Path:
    """Make a store with a broken line, a stale lock, wide modes, no index and no backup."""
    directory.mkdir(parents=True)
    (directory / "learnings.jsonl").write_text(LINE % "a" + "{broken\n" + LINE % "b")
    (directory / ".lock").write_text("4194304999\n2020-01-01T00:00:00Z\n")
    os.utime(directory / ".lock", (1_600_000_000, 1_600_000_000))
    (directory / "learnings.jsonl").chmod(0o644)
    return directory


def test_try_shows_findings_and_changes_and_writes_nothing(tmp_path: Path) -> None:
    home, store = tmp_path / "home", make_store(tmp_path / "a" / "memories")
    (home / "tmp").mkdir(parents=True)
    before, before_home = state_of(store), state_of(home).keys()
    done = program("try", str(store), home=home)
    assert done.returncode == 0, done.stderr
    assert "jsonl-store: learnings.jsonl:1 holds a memory" in done.stdout
    backup, upkeep = "back up learnings.jsonl: not backed up yet", "\n  upkeep would make "
    for expected in ("error invalid-json learnings.jsonl:2", "write index.json", backup, upkeep, "chmod "):
        assert expected in done.stdout
    assert state_of(store) == before
    assert state_of(home).keys() == before_home, "nothing is left elsewhere either"


def test_try_as_json_has_every_finding_and_action(tmp_path: Path) -> None:
    store = make_store(tmp_path / "memories")
    done = program("try", str(store), "--json", home=tmp_path / "home")
    [found] = json.loads(done.stdout)["directories"]
    assert (found["layout"], found["memories"]) == ("jsonl-store", 2)
    assert "invalid-json" in {each["code"] for each in found["findings"]}
    kinds = {(each["kind"], each["path"]) for each in found["actions"]}
    assert {("write", "index.json"), ("copy", "learnings.jsonl"), ("chmod", "learnings.jsonl")} <= kinds


def test_try_tells_which_files_it_cannot_judge_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with bytes after its memory may be in the making: it is a finding only two seconds later."""
    now, screen = 1_800_000_000.0, make_screen(sys.stdout)
    for number in range(3):
        path = tmp_path / file_name(number)
        path.write_bytes(file(number) + (b"}" if number else b""))
        os.utime(path, (now, now))
    young, old = (
        to_builtins(preview(str(tmp_path), at, "json-files", ProgressMeter(), Config())) for at in (now, now + 60)
    )
    assert (young["unjudged"], old["unjudged"]) == (2, 0)
    assert [each["code"] for each in old["findings"] if each not in young["findings"]] == ["torn-file"] * 2
    show_preview(screen, young)
    assert "files changed in the last seconds are not judged yet: 2" in capsys.readouterr().out
    show_preview(screen, old)
    shown = capsys.readouterr().out
    assert "not judged" not in shown
    assert "    back up all files: not backed up yet\n" in shown


def test_try_agrees_with_what_upkeep_moves(tmp_path: Path) -> None:
    """An old learning is due for the archive."""
    store = make_store(tmp_path / "memories")
    found = json.loads(program("try", str(store), "--json", home=tmp_path / "home").stdout)["directories"][0]
    moved = [each["ids"] for each in found["actions"] if each.get("job") == "archive" and each["kind"] == "rewrite"]
    assert moved == [["a", "b"]]


SETTINGS = """
[defaults]
ignore = ["tasks.jsonl"]
archive_learnings_after_days = 9000
[[root]]
name = "named"
path = "{}"
archive_learnings_after_days = 90
"""


@pytest.mark.parametrize("place", ["--config", "home"])
@pytest.mark.parametrize("command", ["try", "check"])
def test_the_configuration_of_a_root_counts_without_a_daemon(tmp_path: Path, place: str, command: str) -> None:
    """The file that --config names, else the user's own: its root, and its defaults for any other directory."""
    home, named, other = tmp_path / "home", make_store(tmp_path / "named"), make_store(tmp_path / "other")
    for store in (named, other):
        (store / "tasks.jsonl").write_text("{broken\n")
    file = tmp_path / "c.toml" if place == "--config" else home / ".config" / "memoryd" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SETTINGS.format(named))
    options = ["--config", str(file)] if place == "--config" else []
    words = ["try"] if command == "try" else ["check", "--offline"]
    for store, root, archives in ((named, "named", True), (other, "other", False)):
        result = json.loads(program(*options, *words, str(store), "--json", home=home).stdout)
        [found] = result.get("directories", [result])
        assert {each["root"] for each in found["findings"]} == {root}
        broken = {each["path"] for each in found["findings"] if each["code"] == "invalid-json"}
        assert broken == {"learnings.jsonl"}
        if command == "try":
            assert any(each.get("job") == "archive" for each in found["actions"]) is archives


def test_try_takes_the_layout_of_the_configuration(tmp_path: Path) -> None:
    """As the daemon does: without it, nothing tells the layout of an empty directory."""
    (tmp_path / "empty").mkdir()
    file = tmp_path / "c.toml"
    file.write_text(f'[[root]]\npath = "{tmp_path}/empty"\nlayout = "jsonl-store"\n')
    done = program("--config", str(file), "try", str(tmp_path / "empty"), home=tmp_path / "home")
    assert done.returncode == 0, done.stdout
    assert "jsonl-store: named in the configuration" in done.stdout


@pytest.mark.parametrize("words", [["try"], ["check", "--offline"], ["dedupe", "--dry-run", "--offline"]])
@pytest.mark.parametrize("text", [None, "[daemon]\nx = 1\n"])
def test_a_wrong_configuration_is_reported_without_a_daemon(tmp_path: Path, words: list[str], text: str | None) -> None:
    """A missing or invalid file is never ignored: the answer is that of `config validate`."""
    store, file = make_store(tmp_path / "memories"), tmp_path / "c.toml"
    if text is not None:
        file.write_text(text)
    expected = program("--config", str(file), "config", "validate", home=tmp_path / "home")
    done = program("--config", str(file), *words, str(store), home=tmp_path / "home")
    assert (done.returncode, done.stdout, done.stderr) == (78, "", expected.stderr)
    assert str(file) in done.stderr


def test_try_says_why_a_directory_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "x.py").write_text("print()\n")
    make_store(tmp_path / "above" / "memories")
    done = program("try", str(tmp_path / "plain"), str(tmp_path / "above"), home=tmp_path / "home")
    assert done.returncode == 1
    assert "has the files of no layout" in done.stdout
    assert f"the memories are in {tmp_path}/above/memories; name that directory" in done.stdout


@pytest.mark.parametrize(("name", "message"), [("nope", "does not exist"), ("file", "is not a directory")])
def test_try_refuses_a_typo(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("x")
    done = program("try", str(tmp_path / name), home=tmp_path / "home")
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("serach", "did you mean 'search'?"),
        ("intt", "did you mean 'init'?"),
        ("start", "did you mean 'run'?"),
        ("install", "did you mean 'service install'?"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_nearest(tmp_path: Path, typed: str, hint: str) -> None:
    done = program(typed, home=tmp_path)
    assert (done.returncode, f"hint: {hint}" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("typed", ["top", "stpo", "forgt", "archve", "repiar", "dedup", "und", "restor"])
def test_no_suggestion_is_destructive(tmp_path: Path, typed: str) -> None:
    done = program(typed, home=tmp_path)
    assert done.returncode == 2
    for name in ("stop", "forget", "'archive'", "repair", "dedupe", "undo", "restore"):
        assert name not in done.stderr.partition("hint:")[2]


def configured(target: Path) -> dict[str, tuple[object, ...]]:
    """Return layout and mode of each root in a configuration, by path."""
    roots = tomllib.loads(target.read_text()).get("root", [])
    return {root["path"]: (root["layout"], root.get("mode")) for root in roots}


def make_notes(directory: Path) -> Path:
    """Make a store of Claude Code."""
    directory.mkdir(parents=True)
    (directory / "MEMORY.md").write_text("- [A](a.md) - hook\n")
    (directory / "a.md").write_text("a note\n")
    return directory


def test_init_walks_the_home_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    stores = [make_store(home / place) for place in (".claude/agents/memories", "src/app/memory", "x/data/memories")]
    make_store(home / "src/app/node_modules/memory")
    make_store(home / "a/b/c/d/e/f/memory")
    make_store(home / "memoryd/tests/corpora/memory")
    notes = make_notes(home / "src/editor/memory")
    before = state_of(home / "src")
    done = program("--config", str(tmp_path / "c.toml"), "init", "--yes", home=home)
    assert done.returncode == 0, done.stderr
    assert configured(tmp_path / "c.toml") == {str(store): ("jsonl-store", None) for store in stores}
    assert f"not usable {notes}: looks like Claude Code auto memory" in done.stdout
    assert "next: memoryd run" in done.stdout
    assert state_of(home / "src") == before


def test_init_walks_the_paths_given_and_nothing_else(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    make_store(home / ".claude/agents/memories")
    store, odd = make_store(other / "deep/er/store"), other / "x/memories"
    odd.mkdir(parents=True)
    (odd / "a.py").write_text("pass\n")
    done = program("--config", str(tmp_path / "c.toml"), "init", str(other), "--yes", home=home)
    assert list(configured(tmp_path / "c.toml")) == [str(store)]
    assert f"not usable {odd}: has the files of no layout" in done.stdout


def make_user(directory: Path) -> Path:
    """Make a store of user documents with one user."""
    document = directory / "alice" / "__long-memories" / "data.json"
    document.parent.mkdir(parents=True)
    document.write_text('{"memories": [], "updated_at": "2025-12-31T12:00:00Z"}')
    return directory


def test_init_finds_the_stores_of_every_layout_in_a_folder(tmp_path: Path) -> None:
    """User documents below it make the folder itself look like a store of them, which would exclude all others."""
    folder, target = tmp_path / "folder", tmp_path / "c.toml"
    users, store = make_user(folder / "ud"), make_store(folder / "agents")
    done = program("--config", str(target), "init", str(folder), home=tmp_path / "home")
    assert {path: layout for path, (layout, _) in configured(target).items()} == {
        str(users): "user-document",
        str(store): "jsonl-store",
    }
    assert f"not usable {folder}: looks like user-document (ud/alice/" in done.stdout


def test_init_names_a_store_inside_another(tmp_path: Path) -> None:
    """It cannot be a root beside the other: the folder has user documents of its own."""
    folder, target = make_user(tmp_path / "folder"), tmp_path / "c.toml"
    make_user(folder / "team")
    store = make_store(folder / "team" / "memories")
    done = program("--config", str(target), "init", str(folder), home=tmp_path / "home")
    assert list(configured(target)) == [str(folder)]
    assert f"not usable {store}: looks like jsonl-store (learnings.jsonl:1 holds a memory)" in done.stdout
    assert f"but is inside {folder}\n    roots may not overlap" in done.stdout


def test_init_keeps_a_folder_whose_stores_have_one_layout(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "c.toml"
    make_user(folder / "one")
    make_user(folder / "two")
    done = program("--config", str(target), "init", str(folder), home=tmp_path / "home")
    assert list(configured(target)) == [str(folder)]
    assert "not usable" not in done.stdout


def test_init_without_a_terminal_grants_no_write_access(tmp_path: Path) -> None:
    store = make_store(tmp_path / "home/memories")
    done = program("--config", str(tmp_path / "c.toml"), "init", home=tmp_path / "home")
    assert configured(tmp_path / "c.toml") == {str(store): ("jsonl-store", "observe")}
    assert 'remove `mode = "observe"`' in done.stdout


@pytest.mark.parametrize(("options", "mode"), [((), "observe"), (("--yes",), None)])
def test_a_dry_run_of_init_prints_what_it_would_write(
    tmp_path: Path, options: tuple[str, ...], mode: str | None
) -> None:
    store, target = make_store(tmp_path / "home/memories"), tmp_path / "c.toml"
    shown = program("--config", str(target), "init", "--dry-run", *options, home=tmp_path / "home").stdout
    assert not target.exists()
    program("--config", str(target), "init", *options, home=tmp_path / "home")
    assert shown == target.read_text()
    assert configured(target) == {str(store): ("jsonl-store", mode)}


def test_init_writes_no_path_that_a_configuration_cannot_hold(tmp_path: Path) -> None:
    make_store(tmp_path / "good")
    make_store(tmp_path / os.fsdecode(b"caf\xe9"))
    target = tmp_path / "config.toml"
    done = program("--config", str(target), "init", str(tmp_path), home=tmp_path)
    assert done.returncode == 0
    assert f"not usable {tmp_path}/caf\\xe9: the path is not UTF-8" in done.stdout
    assert [root["path"] for root in tomllib.loads(target.read_text())["root"]] == [str(tmp_path / "good")]


def test_init_refuses_a_typo(tmp_path: Path) -> None:
    done = program("--config", str(tmp_path / "c.toml"), "init", str(tmp_path / "nope"), "--yes", home=tmp_path)
    assert (done.returncode, (tmp_path / "c.toml").exists()) == (2, False)
    assert "does not exist" in done.stderr


@pytest.mark.parametrize(("typed", "mode"), [(b"n\n", ""), (b"y\nn\n", "observe"), (b"y\ny\n", None)])
def test_init_asks_on_a_terminal_before_it_writes(tmp_path: Path, typed: bytes, mode: str | None) -> None:
    store, target = make_store(tmp_path / "memories"), tmp_path / "c.toml"
    terminal, side = pty.openpty()
    try:
        os.write(terminal, typed)
        done = program("--config", str(target), "init", home=tmp_path, stdin=os.ttyname(side))
    finally:
        os.close(terminal)
        os.close(side)
    assert done.returncode == 0, done.stderr
    assert f"Write {target}?" in done.stdout
    if mode == "":
        assert not target.exists()
    else:
        assert configured(target) == {str(store): ("jsonl-store", mode)}


def test_a_walk_is_bounded_and_says_so(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name / "memory").mkdir(parents=True)
    assert len(walk(str(tmp_path)).paths) == 3
    assert walk(str(tmp_path)).complete
    assert not walk(str(tmp_path), max_directories=2).complete


def test_a_walk_finds_stores_by_the_names_in_them(tmp_path: Path) -> None:
    for place in ("users/mia/__long-memories", "sessions/2025-09-17", "plain/src"):
        (tmp_path / place).mkdir(parents=True)
    assert walk(str(tmp_path)).paths == [str(tmp_path / "sessions"), str(tmp_path / "users")]


def test_stores_that_overlap_are_found_once(tmp_path: Path) -> None:
    (tmp_path / "a/memory").mkdir(parents=True)
    found = examine([str(tmp_path / "a"), str(tmp_path / "a/memory"), str(tmp_path)], lambda _: ("notes", "so"))
    assert [place.path for place in found] == [str(tmp_path / "a")]


def test_run_refuses_a_typo(tmp_path: Path) -> None:
    done = program("run", str(tmp_path / "nope"), home=tmp_path)
    assert done.returncode == 2
    assert "does not exist" in done.stderr


def test_run_observe_reports_and_finds_and_writes_nothing(tmp_path: Path) -> None:
    """Whatever the configuration says, also after a reload."""
    store = make_store(tmp_path / "memories")
    before = state_of(store)
    config = f'[[root]]\npath = "{store}"\nlayout = "jsonl-store"\nmode = "maintain"\n'
    with Daemon(tmp_path / "d", config=config, options=["--observe"]) as daemon:
        daemon.start()
        assert daemon.root()["mode"] == "observe"
        daemon.configure(config + "backups = 4\n")
        daemon.rpc("config.reload")
        daemon.await_ready()
        assert daemon.root()["mode"] == "observe"
        (plan,) = daemon.rpc("plan")["roots"]
        assert {"write", "remove", "copy", "rewrite"} <= {each["kind"] for each in plan["actions"]}
        assert plan["waits"]["archive"] == "the root is in observe mode"
        (archive,) = daemon.rpc("jobs.list", name="archive")["jobs"]
        assert (archive["waits"], archive["next_run"], plan["due"]["archive"]) == (plan["waits"]["archive"], None, None)
        confirmed = daemon.run("root", "confirm", "memories")
        assert (confirmed.returncode, "stays in observe mode" in confirmed.stderr) == (1, True), confirmed
        assert "hint: run memoryd without --observe" in confirmed.stderr
        assert "invalid-json" in {each["code"] for each in daemon.rpc("check")["findings"]}
        assert len(daemon.rpc("memory.search", query="b")["hits"]) == 2
        assert daemon.stop() == 0
    assert state_of(store) == before
