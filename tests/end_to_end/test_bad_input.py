"""Bad input gets a message that says what and what to do, the right exit code, and leaves every file as it was."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow

MB = 1024 * 1024


def refused_start(daemon: Daemon) -> tuple[int, str]:
    """A daemon that must not come up: its exit code, and what it said."""
    process = daemon.spawn()
    code = process.wait(60)
    said = daemon.said()
    assert "Traceback" not in said
    assert "hint:" in said, said
    daemon.log.unlink()
    return code, said


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[daemon\n", ["config.toml:1", "TOML"]),
        ('[daemon]\nlog_levle = "info"\n', ["config.toml:2", "log_levle", "log_level"]),
        ("[daemon]\nsettle_ms = -5\n", ["config.toml:2", "settle_ms", "0"]),
        ('[defaults]\nmode = "mantain"\n', ["config.toml:2", "mode", "maintain"]),
        ('[defaults.schedule]\narchive = "sometimes"\n', ["config.toml:2", "archive", "every"]),
        ('[[root]]\nname = "a"\n', ["config.toml:1", "path"]),
        ('[[root]]\npath = "{root}"\nlayout = "jsonl"\n', ["config.toml:3", "layout", "jsonl-store"]),
        ('[[root]]\npath = "{root}"\n[[root]]\npath = "{root}/archive"\n', ["config.toml", "archive", "inside"]),
        (
            '[[root]]\npath = "{root}"\n[root.limits]\n"learnings.jsonl" = {{ max_bytes = "5XB" }}\n',
            ["max_bytes", "5XB"],
        ),
    ],
)
def test_a_broken_configuration(config: str, words: list[str], root: Path, daemon: MakeDaemon) -> None:
    (root / "learnings.jsonl").write_text(line(memory(days=200)))
    before = checks.snapshot(root)
    broken = daemon(root, config=config.format(root=root) if "{root}" in config else config)
    code, said = refused_start(broken)
    assert code == 78
    for word in words:
        assert word in said
    assert checks.snapshot(root) == before
    assert not broken.socket_there()
    shown = broken.run("check", "--offline", str(root))
    assert shown.returncode in (0, 1, 78)
    assert checks.snapshot(root) == before


def test_a_configuration_that_is_not_there(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root)
    tending.config.unlink()
    code, said = refused_start(tending)
    assert code == 78
    assert str(tending.config) in said


def test_no_root_at_all(daemon: MakeDaemon, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    tending = daemon(env={"HOME": str(home)})
    code, said = refused_start(tending)
    assert code == 78
    assert ".claude/agents/memories" in said
    assert "memoryd run DIRECTORY" in said


def test_a_root_that_is_a_file(daemon: MakeDaemon, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("no directory")
    tending = daemon(path)
    process = tending.spawn()
    until(lambda: process.poll() is not None or tending.socket_there(), "it decides")
    if process.poll() is not None:
        assert process.poll() in (2, 78)
        assert "director" in tending.said()
        tending.log.unlink()
    else:
        [row] = tending.await_ready()["roots"]
        assert row["state"] == "failed"
        assert "no directory" in row["reasons"][0]
        assert tending.run("sync").returncode == 1
        assert "no directory" in tending.run("sync").stderr
    assert path.read_text() == "no directory"


def test_an_unknown_root(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    for words in (["status", "nonsense"], ["sync", "nonsense"], ["root", "pause", "nonsense"], ["check", "nonsense"]):
        done = tending.run(*words)
        assert done.returncode == 1, words
        assert "'nonsense'" in done.stderr
        assert "memories" in done.stderr, "the roots there are"
        assert "hint:" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "run", "nonsense"],
        ["nonsense"],
        ["backup", "restore"],
        ["sync", "--timeout", "soon"],
        ["undo"],
        ["log-level", "loud"],
        ["archive", "--nonsense"],
    ],
)
def test_words_that_make_no_sense(words: list[str], root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    done = tending.run(*words)
    assert done.returncode in (1, 2), (words, done)
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_ids_and_receipts_that_nobody_has(root: Path, daemon: MakeDaemon) -> None:
    (root / "learnings.jsonl").write_text(line(memory(days=10)))
    tending = daemon(root, config="[daemon]\nquiet_s = 0\n").start()
    tending.rpc("sync")
    jobs = [row["name"] for row in tending.rpc("jobs.list")["jobs"] if row["name"] != "rescan"]
    until(lambda: all(tending.job(name)["last_result"] for name in jobs), "the first jobs are over")
    before = checks.snapshot(root)
    for words in (["archive", "no-such-id"], ["undo", "20990101-1"], ["backup", "restore", "--at", "no-such-backup"]):
        done = tending.run(*words)
        assert done.returncode == 1, words
        assert words[-1] in done.stderr
        assert "hint:" in done.stderr
    done = tending.run("lock", "clear", "--force", str(root / "learnings.jsonl"))
    assert done.returncode == 1
    assert checks.snapshot(root) == before


@pytest.mark.parametrize("kind", ["foreign", "empty", "two"])
def test_a_directory_of_no_known_layout(kind: str, daemon: MakeDaemon, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    if kind == "foreign":
        (root / "diary.txt").write_text("dear diary")
        (root / "sub").mkdir()
        (root / "sub" / "data.bin").write_bytes(os.urandom(1000))
    if kind == "two":
        (root / "learnings.jsonl").write_text(line(memory()) + "\n")
        (root / "memory_20250101000000.json").write_text('{"id": "mem_1_a", "content": "x", "type": "decision"}')
    before = checks.snapshot(root)
    tending = daemon(root, layout=None).start()
    row = tending.until_root(lambda row: row["state"] == "degraded", "it is told")
    assert row["layout"] is None
    assert "layout = " in row["reasons"][0]
    done = tending.run("archive")
    assert done.returncode == 1
    assert "layout" in done.stderr
    answer = tending.rpc("sync")["roots"]["root"]
    assert answer["written"] is False
    assert answer["reason"]
    assert tending.run("check").returncode in (0, 1)
    assert checks.snapshot(root) == before
    if kind == "empty":
        (root / "learnings.jsonl").write_text(line(memory()))
        tending.until_root(lambda row: row["layout"] == "jsonl-store", "it is recognised when it comes")
        tending.rpc("root.confirm", name="root")
        until(lambda: (root / "index.json").exists(), "and tended")


def test_huge_and_hostile_lines(root: Path, daemon: MakeDaemon) -> None:
    good = memory()
    lines = [
        line(memory() | {"content": "x" * 20 * MB}).encode(),
        b"[" * 200_000 + b"\n",
        b'{"id":' + b"9" * 5000 + b"}\n",
        b'{"a":1e999,"b":NaN}\n',
        b"\xff\xfe\x00broken\n",
        b'{"id":"\\ud800","type":"learning","content":"lone"}\n',
        b"\0" * 5000 + b"\n",
        line(good).encode(),
    ]
    content = b"".join(lines)
    (root / "learnings.jsonl").write_bytes(content)
    tending = daemon(root, config='[defaults.schedule]\nlimits = "off"\n').start()
    tending.rpc("sync", timeout=60)
    row = tending.root()
    assert row["findings"]["error"] + row["findings"]["warning"] >= 5
    assert row["state"] == "ok"
    assert tending.run("check").returncode == 1
    index = checks.index_on_disk(root)
    assert good["id"] in {each for ids in index["importance_index"].values() for each in ids}
    assert (root / "learnings.jsonl").read_bytes() == content
    used = tending.rpc("status")["resources"]["rss_bytes"]
    assert used < 400 * MB
    with open(root / "learnings.jsonl", "a") as file:
        file.write(line(memory(days=100)))
    tending.rpc("archive", timeout=60)
    assert (root / "learnings.jsonl").read_bytes() == content, "what cannot be read is carried through"


def test_a_file_too_large_to_be_read(root: Path, daemon: MakeDaemon) -> None:
    with open(root / "learnings.jsonl", "wb") as file:
        file.truncate(1 << 40)
    (root / "tasks.jsonl").write_text(line(memory(kind="task")))
    tending = daemon(root).start()
    row = tending.until_root(lambda row: row["state"] == "degraded", "it is told")
    assert "learnings.jsonl" in row["reasons"][0]
    assert "64 MB" in row["reasons"][0]
    tending.until_root(lambda row: row["memories"] == 1, "the other file is read")
    done = tending.run("backup", "create")
    assert done.returncode == 1, done.stderr
    assert "learnings.jsonl" in done.stderr
    tending.until_root(lambda row: row["state"] == "degraded", "it is no fault of the disk")
    (root / "learnings.jsonl").unlink()
    tending.until_root(lambda row: row["state"] == "ok", "all is well without it")


def test_what_is_no_file(root: Path, daemon: MakeDaemon, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(line(memory(kind="core")))
    os.mkfifo(root / "tasks.jsonl")
    (root / "core_memories.jsonl").symlink_to(secret)
    (root / ".backup").symlink_to(tmp_path)
    (root / "archive").mkdir()
    (root / "archive" / "2024").symlink_to("/")
    tending = daemon(root).start()
    tending.rpc("sync")
    assert tending.root()["memories"] == 0
    shown = tending.rpc("check")["findings"]
    assert {each["path"] for each in shown if each["code"] == "not-a-regular-file"} >= {
        "tasks.jsonl",
        "core_memories.jsonl",
    }
    tending.run("backup", "create")
    tending.run("archive")
    assert secret.stat().st_nlink == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["secret"]
    assert tending.run("ping").returncode == 0


def test_a_second_daemon_on_the_same_state(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    done = tending.run("run", str(root))
    assert done.returncode == 75
    assert str(tending.pid) in done.stderr
    assert "hint:" in done.stderr
    assert tending.run("ping").returncode == 0


def test_a_second_daemon_on_the_same_root(root: Path, daemon: MakeDaemon, tmp_path: Path) -> None:
    tending = daemon(root).start()
    second = daemon(root, base="second")
    code, said = refused_start(second)
    assert code == 75
    assert str(root) in said
    assert str(tending.pid) in said
    link = tmp_path / "link"
    link.symlink_to(root)
    code, said = refused_start(daemon(link, base="third"))
    assert code == 75
    assert tending.root()["state"] == "ok"
    tending.stop()
    second.start()
    assert second.root()["state"] == "ok"


def test_a_root_inside_another_daemons_root(root: Path, daemon: MakeDaemon) -> None:
    """Not refused (it is another directory), but neither may harm the other."""
    inner = root / "archive"
    inner.mkdir()
    daemon(root).start()
    second = daemon(inner, base="second", options=["--layout", "jsonl-store"])
    second.start()
    second.rpc("sync")


def test_no_daemon(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root)
    for words in (["ping"], ["status"], ["sync"], ["check"], ["history"], ["jobs"], ["stop"], ["events"]):
        done = tending.run(*words)
        assert done.returncode == 69, words
        assert tending.socket in done.stderr
        assert "memoryd run" in done.stderr
    shown = json.loads(tending.run("status", "--json").stdout)
    assert shown["error"]["message"]


def test_checking_without_a_daemon(root: Path, daemon: MakeDaemon) -> None:
    (root / "learnings.jsonl").write_text(line(memory()) + "broken\n")
    before = checks.snapshot(root)
    tending = daemon()
    done = tending.run("check", "--offline", str(root))
    assert done.returncode == 1
    assert "Invalid JSON at line 2" in done.stdout + done.stderr
    assert checks.snapshot(root) == before
    missing = tending.run("check", "--offline", str(root / "nowhere"))
    assert missing.returncode in (1, 2)
    assert "nowhere" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_what_answers_is_not_memoryd(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root)
    Path(tending.socket).write_text("a file where the socket should be")
    code, said = refused_start(tending)
    assert code in (75, 77, 78)
    assert tending.socket in said
    assert Path(tending.socket).read_text() == "a file where the socket should be"


def test_a_state_directory_that_cannot_be_made(root: Path, daemon: MakeDaemon) -> None:
    before = checks.snapshot(root)
    tending = daemon(root)
    tending.state.write_text("a file")
    code, said = refused_start(tending)
    assert code in (77, 78)
    assert str(tending.state) in said
    assert checks.snapshot(root) == before


def test_the_rest_of_the_words(root: Path, daemon: MakeDaemon) -> None:
    """Every command explains itself, without a daemon."""
    tending = daemon(root)
    shown = tending.run("--help").stdout
    commands = [text.split()[0] for text in shown.partition("Commands:")[2].splitlines() if text.startswith("  ")]
    for command in commands:
        if command in ("Example:", "memoryd"):
            continue
        done: subprocess.CompletedProcess[str] = tending.run(command, "--help")
        assert done.returncode == 0, command
