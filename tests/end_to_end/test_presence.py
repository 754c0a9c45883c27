"""Missing is not empty: a root that goes, comes back, or is another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import GuardError, PausedError, RootMissingError
from memoryd.store.index_state import DELETION_QUIET_S
from tests.agents import line, memory
from tests.daemon import Daemon, refused, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.faults import mounts_work
from tests.layouts import json_samples

pytestmark = pytest.mark.slow

OFF = '[daemon]\nquiet_s = 0\n[defaults.schedule]\nbackup = "off"\n'
MANY = 30  # more than a sudden loss may be without a word


def fill(root: Path, count: int = MANY, days: float = 0) -> None:
    root.mkdir(mode=0o700, exist_ok=True)
    for name, kind in checks.LIVE.items():
        with open(root / name, "a") as file:
            file.writelines(line(memory(days=days, kind=kind)) for _ in range(count))


def first_jobs_over(tending: Daemon) -> None:
    """Those that are due at the start, each to its end: only then does nothing change any more by itself."""
    names = ("backup", "permissions", "verify")
    until(lambda: all(tending.job(name)["last_result"] == "ok" for name in names), "the first jobs are over")
    for root in tending.roots:
        until(lambda root=root: not checks.temporary_files(root), "replaced inodes are let go")  # type: ignore[misc]  # mypy cannot infer the default


@pytest.fixture
def kept(root: Path, daemon: MakeDaemon) -> Daemon:
    """A daemon that knows a store, has backed it up and has something due."""
    fill(root)
    tending = daemon(root).start()
    until(lambda: tending.root()["backups"]["count"] == 3, "backups are there")
    tending.until_root(lambda row: row["memories"] == 3 * MANY, "all is known")
    first_jobs_over(tending)
    return tending


def state(daemon: Daemon, wanted: str) -> dict[str, Any]:
    row: dict[str, Any] = daemon.until_root(lambda row: row["state"] == wanted, f"the root is {wanted}")
    return row


def assert_idle(daemon: Daemon, error: type[Exception]) -> None:
    """Nothing is written, archived or rotated, by the schedule or on command."""
    for job in ("archive", "backup", "limits", "locks", "permissions"):
        assert isinstance(refused(lambda job=job: daemon.rpc("jobs.run", name=job)), error)  # type: ignore[misc]  # mypy cannot infer the default
    failed = refused(lambda: daemon.rpc("sync"))
    assert isinstance(failed, error)
    assert failed.message


def test_gone_and_back(root: Path, kept: Daemon) -> None:
    away = root.with_name("away")
    root.rename(away)
    row = state(kept, "missing")
    assert row["memories"] == 3 * MANY
    assert str(root) in row["reasons"][0]
    before = checks.snapshot(away)
    assert_idle(kept, RootMissingError)
    fill(away, count=1)
    done = kept.run("sync")
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert not root.exists()
    before |= {name: about for name, about in checks.snapshot(away).items() if name.endswith(".jsonl")}
    assert checks.snapshot(away) == before
    away.rename(root)
    state(kept, "ok")
    kept.rpc("sync")
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)
    assert kept.root()["memories"] == 3 * (MANY + 1)


def test_nothing_is_stored_in_a_folder_that_was_just_moved_away(root: Path, kept: Daemon) -> None:
    """The daemon may need a moment to notice by itself."""
    away = root.with_name("away")
    root.rename(away)
    before = checks.live_ids(away)
    asked: dict[str, Any] = {"root": "memories", "memory": {"type": "learning", "content": "c"}}
    assert isinstance(refused(lambda: kept.rpc("memory.add", **asked)), RootMissingError)
    root.mkdir(mode=0o700)
    assert isinstance(refused(lambda: kept.rpc("memory.add", **asked)), GuardError)
    assert (checks.live_ids(away), list(root.iterdir())) == (before, [])


def test_deleted_and_made_anew_empty(root: Path, kept: Daemon) -> None:
    shutil.rmtree(root)
    known = state(kept, "missing")["memories"]  # fewer if some files were seen to be deleted before the directory was
    root.mkdir(mode=0o700)
    row = state(kept, "suspect")
    assert row["memories"] == known > 0
    assert "root resume" in row["reasons"][0]
    assert_idle(kept, GuardError)
    time.sleep(3)  # longer than two looks: nothing may happen by itself
    assert kept.root()["state"] == "suspect"
    assert list(root.iterdir()) == []
    done = kept.run("root", "resume", "memories")
    assert done.returncode == 0, done.stderr
    row = state(kept, "ok")
    until(lambda: kept.root()["memories"] == 0, "what is there now is right")


def test_a_slow_removal_of_the_whole_root_succeeds(tmp_path: Path, daemon: MakeDaemon) -> None:
    """Index first, memories one by one: each written index would make the last step fail."""
    root = tmp_path / "memories"
    root.mkdir()
    for number in range(60):
        (root / json_samples.name(number)).write_bytes(json_samples.file(number))
    held = daemon(root, config=OFF, layout="json-files").start()
    held.rpc("sync")
    paths = sorted(root.iterdir())
    assert root / "_index.json" in paths
    longest, last = 0.0, time.monotonic()
    for path in paths:
        path.unlink(missing_ok=True)  # a lock file may have gone
        time.sleep(0.04)  # a removal of 2.5 s, as of many files on a slow disk
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    if longest < DELETION_QUIET_S / 2:
        root.rmdir()
    else:  # this machine stopped for so long that an index may be written
        shutil.rmtree(root)
    until(lambda: held.root(root.name)["state"] == "missing", "it is told")


def test_replaced_by_an_empty_one_in_one_move(root: Path, kept: Daemon) -> None:
    other = root.with_name("other")
    other.mkdir()
    away = root.with_name("away")
    root.rename(away)
    other.rename(root)
    state(kept, "suspect")
    before = checks.snapshot(away)
    assert_idle(kept, GuardError)
    assert list(root.iterdir()) == []
    assert checks.snapshot(away) == before
    root.rename(other)
    away.rename(root)
    state(kept, "ok")
    kept.rpc("sync")
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


def test_replaced_by_a_copy(root: Path, kept: Daemon) -> None:
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    shutil.rmtree(root)
    copy.rename(root)
    state(kept, "ok")
    fill(root, count=1)
    until(lambda: checks.is_indexed(root), "the copy is watched")
    until(lambda: kept.root()["memories"] == 3 * (MANY + 1), "all are there")


def test_replaced_by_other_memories_it_is_taken_after_a_minute(root: Path, kept: Daemon) -> None:
    other = root.with_name("other")
    other.mkdir(mode=0o700)
    (other / "tasks.jsonl").write_text(line(memory(kind="task")))
    shutil.rmtree(root)
    other.rename(root)
    state(kept, "suspect")
    began = time.monotonic()
    assert not (root / "index.json").exists()
    kept.until_root(lambda row: row["state"] == "ok", "it is taken", 90)
    assert time.monotonic() - began > 45
    until(lambda: (root / "index.json").exists(), "it is indexed")


def test_a_link_that_comes_to_lead_elsewhere(tmp_path: Path, daemon: MakeDaemon) -> None:
    one, other, link = tmp_path / "one", tmp_path / "other", tmp_path / "link"
    fill(one)
    other.mkdir()
    link.symlink_to(one)
    tending = daemon(link).start()
    assert tending.root()["state"] == "ok"
    fill(one, count=1)
    until(lambda: checks.is_indexed(one), "the store behind the link is watched")
    point(link, other)
    state(tending, "suspect")
    before = checks.snapshot(one)
    fill(one, count=1)
    assert list(other.iterdir()) == []
    point(link, one)
    state(tending, "ok")
    until(lambda: checks.is_indexed(one), "it is tended again")
    assert before
    copy = tmp_path / "copy"
    shutil.copytree(one, copy)
    point(link, copy)
    tending.until_root(lambda row: row["state"] == "ok", "a copy is as good")
    fill(copy, count=1)
    until(lambda: checks.is_indexed(copy), "the copy is tended")


def point(link: Path, target: Path) -> None:
    new = link.with_name("new-link")
    new.symlink_to(target)
    new.rename(link)


def test_files_deleted_one_by_one_are_followed_to_the_last(root: Path, kept: Daemon) -> None:
    for name in checks.LIVE:
        (root / name).unlink()
    until(lambda: kept.root()["memories"] == 0, "the deletions are followed")
    assert kept.root()["state"] == "ok"
    until(lambda: checks.is_indexed(root), "the index says so")
    assert kept.root()["backups"]["count"] == 3


def test_files_emptied_in_place_are_followed_and_told(root: Path, kept: Daemon) -> None:
    for name in checks.LIVE:
        (root / name).write_bytes(b"")
    until(lambda: kept.root()["memories"] == 0, "what is there is right")
    found = {(each["code"], each["path"]) for each in kept.rpc("check")["findings"]}
    assert {("emptied-file", name) for name in checks.LIVE} <= found
    kept.rpc("jobs.run", name="backup")
    assert kept.root()["backups"]["count"] == 3
    shown = kept.rpc("backup.verify")["backups"]
    assert all(each["valid"] and each["bytes"] for each in shown)
    kept.rpc("backup.restore", file="tasks.jsonl")
    until(lambda: kept.root()["memories"] == MANY, "a backup brings them back")


def test_a_loss_that_nobody_saw(root: Path, kept: Daemon) -> None:
    """While the daemon was away nearly everything went: it says so and does nothing."""
    assert kept.stop() == 0
    saved = root.with_name("saved")
    shutil.copytree(root, saved)
    for name in ("learnings.jsonl", "tasks.jsonl"):
        (root / name).unlink()
    before = checks.snapshot(root)
    kept.start()
    row = state(kept, "suspect")
    assert "60 of 90" in row["reasons"][0]
    assert_idle(kept, GuardError)
    assert checks.snapshot(root) == before
    for name in ("learnings.jsonl", "tasks.jsonl"):
        shutil.copy(saved / name, root / name)
    state(kept, "ok")
    kept.rpc("sync")
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


def test_the_last_good_backup_is_kept_after_a_loss(root: Path, kept: Daemon) -> None:
    newest = {path.name for path in (root / ".backup").iterdir()}
    away = root.with_name("away")
    root.rename(away)
    state(kept, "missing")
    away.rename(root)
    state(kept, "ok")
    for _ in range(8):
        fill(root, count=1)
        kept.rpc("sync")
        kept.rpc("backup.create")
    left = {path.name for path in (root / ".backup").iterdir()}
    assert newest <= left
    assert len(left) <= 3 * 6


def test_a_file_where_the_root_was(root: Path, kept: Daemon) -> None:
    away = root.with_name("away")
    root.rename(away)
    root.write_text("no directory")
    row = state(kept, "failed")
    assert "is not a directory" in row["reasons"][0]
    assert_idle(kept, RootMissingError)
    assert root.read_text() == "no directory"
    root.unlink()
    away.rename(root)
    state(kept, "ok")


def test_paused_is_left_alone(root: Path, kept: Daemon) -> None:
    assert kept.run("root", "pause", "memories").returncode == 0
    state(kept, "paused")
    before = checks.snapshot(root)
    fill(root, count=1)
    assert isinstance(refused(lambda: kept.rpc("sync")), PausedError)
    assert {"index.json": checks.snapshot(root)["index.json"]} == {"index.json": before["index.json"]}
    assert kept.run("root", "resume", "memories").returncode == 0
    state(kept, "ok")
    until(lambda: checks.is_indexed(root), "it is indexed again")


# Modes stop root only without these two.
ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400])
def test_no_permission(mode: int, root: Path, daemon: MakeDaemon) -> None:
    """The root may not be entered, or not listed."""
    fill(root)
    tending = daemon(root, prefix=ORDINARY).start()
    tending.until_root(lambda row: row["memories"] == 3 * MANY, "all is known")
    first_jobs_over(tending)
    before = checks.snapshot(root, times=False)
    root.chmod(mode)
    row = tending.until_root(lambda row: row["state"] != "ok", "it is told", 60)
    assert row["state"] in ("failed", "read_only", "degraded")
    assert row["memories"] == 3 * MANY
    assert "ermission" in row["reasons"][0]
    root.chmod(0o700)
    state(tending, "ok")
    assert checks.snapshot(root, times=False) == before
    fill(root, count=1)
    until(lambda: checks.is_indexed(root), "it is tended again")


def test_one_file_that_may_not_be_read(root: Path, daemon: MakeDaemon) -> None:
    fill(root)
    tending = daemon(root, prefix=ORDINARY).start()
    tending.until_root(lambda row: row["memories"] == 3 * MANY, "all is known")
    (root / "tasks.jsonl").chmod(0)
    with open(root / "tasks.jsonl", "a") as file:
        file.write(line(memory(kind="task")))
    row = state(tending, "degraded")
    assert "tasks.jsonl" in row["reasons"][0]
    fill(root.with_name("other"), count=1)
    with open(root / "learnings.jsonl", "a") as file:
        file.write(line(memory()))
    until(lambda: tending.root()["memories"] == 3 * MANY + 1, "the other files go on, this one is still believed")
    assert tending.run("check").returncode == 1
    (root / "tasks.jsonl").chmod(0o600)  # makes no event: the next scan finds it, here one on demand
    tending.rpc("sync")
    state(tending, "ok")
    until(lambda: checks.is_indexed(root), "it is tended again")


def test_a_link_in_place_of_a_file_of_memories(root: Path, daemon: MakeDaemon) -> None:
    """It is not followed, so its memories are missing from each answer: the root is not well."""
    fill(root)
    tending = daemon(root).start()
    file, elsewhere = root / "learnings.jsonl", root.with_name("elsewhere.jsonl")
    content = file.read_bytes()
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    row = state(tending, "degraded")
    assert row["reasons"] == [
        "learnings.jsonl: a link, directory or special file in place of a file; not opened: replace it with a file"
    ]
    assert elsewhere.read_bytes() == content
    elsewhere.replace(file)
    state(tending, "ok")
    assert tending.root()["memories"] == 3 * MANY


@pytest.mark.root_only
@pytest.mark.skipif(not mounts_work(), reason="mounting needs root")
def test_something_mounted_over_the_root(root: Path, daemon: MakeDaemon) -> None:
    """As a network or a removable disk that comes and goes."""
    fill(root)
    tending = daemon(root, prefix=["unshare", "-m", "--propagation", "private"]).start()

    def inside(*words: str) -> None:
        subprocess.run(["nsenter", "-t", str(tending.pid), "-m", *words], check=True)

    inside("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(root))
    row = state(tending, "suspect")
    assert row["memories"] == 3 * MANY
    assert_idle(tending, GuardError)
    inside("umount", "-l", str(root))
    state(tending, "ok")
    fill(root, count=1)
    until(lambda: checks.is_indexed(root), "it is tended again")
    until(lambda: tending.root()["memories"] == 3 * (MANY + 1), "all are there")


@pytest.mark.root_only
@pytest.mark.skipif(not mounts_work(), reason="mounting needs root")
@pytest.mark.parametrize("bound", [False, True])
def test_something_mounted_below_the_root(bound: bool, tmp_path: Path, daemon: MakeDaemon) -> None:
    """A mount causes no event of a file: no scan is due, and what is there is found all the same."""
    root, other = tmp_path / "memory dir", tmp_path / "other"
    for directory, count in ((root / "db", 1), (root / "ui", 1), (other, 2)):
        directory.mkdir(parents=True)
        entry = "## 2026-01-0{}: Written by an agent\n**Solution:** s\n---\n"
        (directory / "notes.md").write_text("".join(map(entry.format, range(1, count + 1))))
    config = OFF + 'rescan = "off"\n'
    prefix = ["unshare", "-m", "--propagation", "private"]
    held = daemon(root, config=config, layout="markdown-topics", prefix=prefix).start()

    def inside(*words: str) -> None:
        subprocess.run(["nsenter", "-t", str(held.pid), "-m", *words], check=True)

    source = ["--bind", str(other)] if bound else ["-t", "tmpfs", "none"]
    assert held.root()["memories"] == 2
    inside("mount", *source, str(root / "db"))
    held.until_root(lambda row: row["memories"] == (3 if bound else 1), "the mounted one counts", 8)
    inside("umount", str(root / "db"))
    held.until_root(lambda row: row["memories"] == 2, "the former one is back", 8)
    (root / "db" / "more.md").write_text("## 2026-01-03: Another one\n**Solution:** s\n---\n")
    held.until_root(lambda row: row["memories"] == 3, "it is watched", 8)
    assert held.root()["watch"]["mode"] == "events"


def test_a_directory_of_notes_is_created_by_its_owner(tmp_path: Path, daemon: MakeDaemon) -> None:
    """No memory can be added to it."""
    root = tmp_path / "notes"
    row = daemon(root, config=OFF, layout="notes").start().root()
    assert row["reasons"] == [f"{root} does not exist yet; create it: `mkdir -p {root}`"]


def test_the_first_memory_makes_a_root_that_never_was(tmp_path: Path, daemon: MakeDaemon) -> None:
    tmp_path.chmod(0o755)
    root = tmp_path / "memory"
    held = daemon(root, config=OFF, layout="markdown-topics").start()
    row = held.root()
    assert (row["state"], row["reasons"]) == ("missing", [f"{root} does not exist yet; `memoryd add` creates it"])
    params: dict[str, Any] = {"topic": "db", "memory": {"title": "Pool", "solution": "20 connections"}}
    refused(partial(held.rpc, "memory.add", topic="db", memory={"title": ""}))
    assert not root.exists(), "for nothing no folder is made"
    added = held.rpc("memory.add", **params)
    assert (root / added["path"]).is_file()
    assert root.stat().st_mode & 0o777 == 0o755
    held.rpc("sync")
    assert (held.root()["state"], held.root()["memories"]) == ("ok", 1)
    (root / "db/other.md").write_text("## 2026-01-01: Written by an agent\n**Solution:** s\n---\n")
    held.until_root(lambda row: row["memories"] == 2, "the new folder is watched")
    root.rename(tmp_path / "away")
    assert isinstance(refused(partial(held.rpc, "memory.add", **params)), RootMissingError)
    assert not root.exists(), "it was there, so it may be mounted again"


def test_no_more_than_the_last_folder_is_made(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "docs/memory"
    held = daemon(root, config=OFF, layout="markdown-topics").start()
    assert f"mkdir -p {root}" in held.root()["reasons"][0]
    error = refused(partial(held.rpc, "memory.add", topic="db", memory={"title": "T", "solution": "s"}))
    assert isinstance(error, RootMissingError)
    assert not root.parent.exists()
