"""`memoryd restore FILE` finds the root of a file, restores all of it or what it lost, and can be undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.control.client import Client
from memoryd.errors import (
    GuardError,
    InvalidMemoryError,
    MemorydError,
    NotFoundError,
    PausedError,
    RootMissingError,
    UsageError,
)
from tests.agents import line, memory
from tests.daemon import Daemon
from tests.end_to_end.conftest import MakeDaemon

FILE = "learnings.jsonl"


def backed_up(root: Path, daemon: Daemon) -> list[str]:
    """Return the lines of a file that is backed up, and then loses the second and the third one."""
    lines = [line(memory()) for _ in range(4)]
    (root / FILE).write_text("".join(lines))
    daemon.rpc("sync")
    daemon.rpc("backup.create")
    tear(root, daemon, lines)
    return lines


def tear(root: Path, daemon: Daemon, lines: list[str]) -> None:
    (root / FILE).write_text(lines[0] + lines[3])
    daemon.rpc("sync")


def refused(daemon: Daemon, file: Path) -> MemorydError:
    with Client(daemon.socket) as client, pytest.raises(MemorydError) as error:
        client.call("file.restore", {"file": str(file), "lost_only": True})
    return error.value


def test_a_file_gets_back_what_it_lost(root: Path, daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    tending = daemon(root).start()
    lines = backed_up(root, tending)
    torn = (root / FILE).read_text()
    link = root.with_name("link")
    link.symlink_to(root)
    monkeypatch.chdir(link)
    planned = tending.run("restore", FILE, "--lost-only", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "+++ learnings.jsonl" in planned.stdout
    assert "\n-{" not in planned.stdout
    assert (root / FILE).read_text() == torn
    done = json.loads(tending.run("restore", FILE, "--lost-only", "--json").stdout)
    assert (root / FILE).read_text() == torn + lines[1] + lines[2]
    assert (done["lost"], done["gained"], done["plan"]["actions"][0]["kind"]) == (0, 2, "append")
    undone = tending.run("undo", done["receipt"])
    assert undone.returncode == 0, undone.stderr
    assert (root / FILE).read_text() == torn
    left_out = tending.run("restore", str(root / FILE), "--lost-only")
    assert "left out: removed or changed by undo" in left_out.stdout
    whole = tending.run("restore", str(root / FILE))
    assert "done, receipt" in whole.stdout
    assert sorted((root / FILE).read_text().splitlines()) == sorted("".join(lines).splitlines())


def test_what_an_agent_is_moving_to_another_file_is_not_lost(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    lines = [line(memory()) for _ in range(4)]
    (root / FILE).write_text("".join(lines))
    tending.rpc("sync")
    tending.rpc("backup.create")
    with open(root / "core_memories.jsonl", "w") as other:  # not closed: nothing reads it at once
        other.write(lines[1])
        other.flush()
        (root / FILE).write_text(lines[0] + lines[2] + lines[3])
        done = tending.rpc("file.restore", file=str(root / FILE), lost_only=True)
    assert [each["why"] for each in done["plan"]["actions"]] == ["left out: in another file or in the archive"]
    assert lines[1] not in (root / FILE).read_text()


def test_what_is_no_file_of_a_root(root: Path, daemon: MakeDaemon, tmp_path: Path) -> None:
    tending = daemon(root).start()
    for file, kind, said in (
        (tmp_path / "x", NotFoundError, "is in no watched root"),
        (root, UsageError, "is a root, not a file"),
        (root / "x.jsonl", NotFoundError, "no backup of x.jsonl"),
        (root / "index.json", NotFoundError, "no backup of index.json"),
    ):
        error = refused(tending, file)
        assert (type(error), said in error.message, bool(error.hint)) == (kind, True, True)
    done = tending.run("restore", str(root / FILE), "--at", "no-such-backup")
    assert (done.returncode, "no-such-backup" in done.stderr) == (1, True)


@pytest.mark.slow
def test_a_root_that_may_not_be_changed(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root, config='[defaults]\nmode = "observe"\n').start()
    lines = backed_up(root, tending)
    tending.rpc("root.pause", name="memories")
    assert isinstance(refused(tending, root / FILE), PausedError)
    tending.rpc("root.resume", name="memories")
    tending.rpc("file.restore", file=str(root / FILE), lost_only=True)
    assert len((root / FILE).read_text().splitlines()) == 4, "the mode is for what nobody requested"
    tear(root, tending, lines)
    away = root.with_name("away")
    root.rename(away)
    assert isinstance(refused(tending, root / FILE), RootMissingError)
    root.mkdir()
    assert isinstance(refused(tending, root / FILE), GuardError)


@pytest.mark.slow
def test_a_layout_that_nobody_confirmed(root: Path, daemon: MakeDaemon) -> None:
    (root / FILE).write_text(line(memory()))
    tending = daemon(root, layout=None).start()
    error = refused(tending, root / FILE)
    assert isinstance(error, InvalidMemoryError)
    assert "root confirm" in str(error.hint)
