"""A full, read-only or failing disk makes nothing worse, is told, and is got over without help."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import MemorydError
from tests.agents import line, memory
from tests.daemon import Daemon, refused, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.faults import mounts_work, refusal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.root_only,
    pytest.mark.skipif(not mounts_work(), reason="mounting needs root"),
]

PATIENT = 60.0  # the pauses between tries grow to five seconds; it is over after ten unless the machine is loaded
OFF = """
[defaults.schedule]
archive = "off"
limits = "off"
backup = "off"
"""


class Disk:
    """A small disk in a mount namespace that only we and the daemon see; `path` is where it is mounted."""

    def __init__(self, path: Path, size: str = "256k") -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        command = ["unshare", "-m", "--propagation", "private", "sleep", "infinity"]
        self.keeper = subprocess.Popen(command)
        until(self._apart, "the namespace is there")
        self.inside("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(path))

    def _apart(self) -> bool:
        """Whether `unshare` has done all it does before it becomes `sleep`."""
        return Path(f"/proc/{self.keeper.pid}/comm").read_text() == "sleep\n"

    @property
    def prefix(self) -> list[str]:
        return ["nsenter", "-t", str(self.keeper.pid), "-m"]

    @property
    def seen(self) -> Path:
        """The disk as it is seen from outside of the namespace."""
        return Path(f"/proc/{self.keeper.pid}/root{self.path}")

    def inside(self, *words: str) -> None:
        subprocess.run([*self.prefix, *words], check=True)

    def fill(self) -> None:
        """To the last byte."""
        with open(self.seen / "ballast", "ab", buffering=0) as file:
            for size in (65_536, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def remount(self, mode: str) -> None:
        """As `ro` or `rw`. It cannot become `ro` while a file is open for writing or just being removed."""
        words = [*self.prefix, "mount", "-o", f"remount,{mode}", str(self.path)]
        until(lambda: not subprocess.run(words, capture_output=True, check=False).returncode, f"it is {mode}")

    def free(self) -> None:
        (self.seen / "ballast").unlink()

    def close(self) -> None:
        self.keeper.kill()
        self.keeper.wait()


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk", getattr(request, "param", "256k"))
    yield made
    made.close()


def add(root: Path, count: int = 3, days: float = 0) -> set[str]:
    natives = [memory(days=days) for _ in range(count)]
    with open(root / "learnings.jsonl", "a") as file:
        file.writelines(map(line, natives))
    return {str(native["id"]) for native in natives}


def read_only(tending: Daemon) -> dict[str, Any]:
    row: dict[str, Any] = tending.until_root(lambda row: row["state"] == "read_only", "it is told")
    return row


def files(root: Path) -> dict[str, tuple[object, ...]]:
    """All but the times of directories: a file that is begun and given up again moves those."""
    return {name: about[-1:] for name, about in checks.snapshot(root).items() if name != "ballast"}


def test_a_full_disk(disk: Disk, daemon: MakeDaemon) -> None:
    root = disk.seen
    ids = add(root, 20, days=100) | add(root, 20)
    tending = daemon(disk.path, config=OFF, prefix=disk.prefix).start()
    until(lambda: checks.is_indexed(root), "the store is indexed")
    disk.fill()
    os.truncate(root / "ballast", (root / "ballast").stat().st_size - mmap.PAGESIZE)  # too little for the index
    ids |= add(root, 1)
    disk.fill()
    row = read_only(tending)
    assert "No space left on device" in row["reasons"][0]
    before = files(root)
    error = refused(lambda: tending.rpc("archive"))
    assert "No space left" in error.message
    assert error.hint
    codes = [refused(lambda: tending.rpc("archive")).code for _ in range(2)]
    assert [error.code, *codes] == ["disk-full"] * 3, "the first call and later ones"
    assert tending.run("backup", "create").returncode in (1, 74)
    assert isinstance(refused(lambda: tending.rpc("sync", timeout_ms=500)), MemorydError)
    assert {name: about for name, about in files(root).items() if name.endswith(".jsonl")} == {
        name: about for name, about in before.items() if name.endswith(".jsonl")
    }
    until(lambda: not checks.temporary_files(root), "what a further try began is removed")
    disk.free()
    tending.until_root(lambda row: row["state"] == "ok", "it recovers by itself", PATIENT)
    until(lambda: checks.is_indexed(root), "the index is made up for", PATIENT)
    assert tending.rpc("archive")["receipt"]
    assert checks.missing(root, frozenset(ids)) == set()
    said = [each for each in tending.events() if each["event"] == "trouble"]
    assert 1 <= len(said) <= 3


def test_an_archive_run_that_finds_no_room_takes_back_what_it_began(disk: Disk, daemon: MakeDaemon) -> None:
    """Each time a page more is free, from none at all to enough."""
    root = disk.seen
    ids = add(root, 20, days=100) | add(root, 20, days=200) | add(root, 5)
    tending = daemon(disk.path, config=OFF, prefix=disk.prefix).start()
    until(lambda: checks.is_indexed(root), "the store is indexed")
    disk.fill()
    done = False
    for pages in range(1, 40):
        os.truncate(root / "ballast", max(0, (root / "ballast").stat().st_size - 4096))
        error = refusal(tending)
        done = error is None
        assert done or "No space left" in str(error), (pages, error)
        assert checks.missing(root, frozenset(ids)) == set(), pages
        archived = checks.archived_ids(root)
        assert len(archived) == len(set(archived))
        if done:
            break
        assert not archived, pages
    assert done
    assert len(checks.archived_ids(root)) == 40
    disk.free()
    tending.until_root(lambda row: row["state"] == "ok", "it recovers by itself", PATIENT)
    until(lambda: checks.is_indexed(root), "the index is right", PATIENT)
    until(lambda: not checks.temporary_files(root), "no temporary file is left")


def test_read_only_while_it_runs(disk: Disk, daemon: MakeDaemon) -> None:
    root = disk.seen
    add(root, 5, days=100)
    tending = daemon(disk.path, config=OFF, prefix=disk.prefix).start()
    until(lambda: checks.is_indexed(root), "the store is indexed")
    until(lambda: tending.job("permissions")["last_result"], "the first jobs are over")
    disk.remount("ro")
    before = checks.snapshot(root)
    error = refused(lambda: tending.rpc("archive"))
    assert "ead-only" in error.message
    row = read_only(tending)
    assert "ead-only" in row["reasons"][0]
    assert [error.code, refused(lambda: tending.rpc("archive")).code] == ["read-only"] * 2
    assert row["memories"] == 5
    assert checks.snapshot(root) == before
    assert tending.run("plan").returncode == 0
    disk.remount("rw")
    tending.until_root(lambda row: row["state"] == "ok", "it recovers by itself", PATIENT)
    assert tending.rpc("archive")["receipt"]
    assert len(checks.archived_ids(root)) == 5


def test_read_only_from_the_start_with_something_to_put_in_order(disk: Disk, daemon: MakeDaemon) -> None:
    """What a crash left cannot be swept yet; the memories are read all the same."""
    root = disk.seen
    add(root, 5, days=100)
    (root / "learnings.jsonl.memoryd-99999-1.tmp").write_text("torn")
    disk.remount("ro")
    before = checks.snapshot(root)
    tending = daemon(disk.path, config=OFF, prefix=disk.prefix)
    tending.start()
    row = read_only(tending)
    assert "ead-only" in row["reasons"][0]
    tending.until_root(lambda row: row["memories"] == 5, "the memories are read")
    assert tending.run("check").returncode in (0, 1)
    assert checks.snapshot(root) == before
    disk.remount("rw")
    tending.until_root(lambda row: row["state"] == "ok", "it recovers by itself", PATIENT)
    until(lambda: checks.is_indexed(root), "it is indexed")
    until(lambda: not checks.temporary_files(root), "and put in order", PATIENT)


@pytest.mark.parametrize("disk", ["4m"], indirect=True)
def test_the_disk_of_the_state_is_full(disk: Disk, root: Path, daemon: MakeDaemon) -> None:
    """Nothing is changed that could not be written down first; indexing waits or goes on, and recovers."""
    ids = add(root, 5, days=100)
    tending = daemon(root, config=OFF, prefix=disk.prefix)
    tending.state = disk.path / "state"
    tending.start()
    until(lambda: checks.is_indexed(root), "the store is indexed")
    disk.fill()
    before = checks.snapshot(root)
    error = refused(lambda: tending.rpc("archive"))
    assert error.message
    assert "unexpected" not in error.message
    assert error.hint
    assert [error.code, refused(lambda: tending.rpc("archive")).code] == ["disk-full"] * 2
    row = read_only(tending)
    assert "full" in row["reasons"][0] or "No space" in row["reasons"][0]
    assert {name: about[-1] for name, about in checks.snapshot(root).items() if name.endswith("l")} == {
        name: about[-1] for name, about in before.items() if name.endswith("l")
    }
    ids |= add(root, 2)
    disk.free()
    tending.until_root(lambda row: row["state"] == "ok", "it recovers by itself", PATIENT)
    until(lambda: checks.is_indexed(root), "the index is made up for", PATIENT)
    assert tending.rpc("archive")["receipt"]
    assert checks.missing(root, frozenset(ids)) == set()
    assert tending.stop() == 0


def test_canary_a_writer_that_truncates_first_is_caught(disk: Disk) -> None:
    root = disk.seen
    ids = add(root, 20)
    disk.fill()
    lines = (root / "learnings.jsonl").read_bytes()
    write: Callable[[], int] = lambda: (root / "learnings.jsonl").write_bytes(lines * 10)  # noqa: E731 - one line
    with pytest.raises(OSError, match="No space"):
        write()
    assert checks.missing(root, frozenset(ids)) != set() or (root / "learnings.jsonl").read_bytes() != lines


@pytest.mark.parametrize("disk", ["64k", "256k", "512k"], indirect=True)
def test_a_state_that_is_full_from_the_start(disk: Disk, root: Path, daemon: MakeDaemon) -> None:
    """It starts and says so, or says why it cannot; never a crash, never a change of the store."""
    add(root, 5, days=100)
    disk.fill()
    for room in (0, 4, 16, 40, 56, 120, 200):
        os.truncate(disk.seen / "ballast", max(0, disk.seen.joinpath("ballast").stat().st_size - 1024 * room))
        disk.inside("rm", "-rf", str(disk.path / "state"))
        lines = (root / "learnings.jsonl").read_bytes()
        tending = daemon(root, base=f"d-{room}", config=OFF, prefix=disk.prefix)
        tending.state = disk.path / "state"
        process = tending.spawn()
        until(lambda process=process, it=tending: process.poll() is not None or answers(it), "it decides")  # type: ignore[misc]  # mypy cannot infer the defaults
        if process.poll() is not None:
            assert process.returncode == 74, (room, tending.said())
            assert "hint:" in tending.said()
            tending.log.unlink()
        else:
            state = tending.await_ready()["roots"][0]["state"]
            assert state in ("ok", "read_only", "failed"), room
            assert tending.stop() == 0
        assert (root / "learnings.jsonl").read_bytes() == lines


@pytest.mark.parametrize("disk", ["4m"], indirect=True)
def test_a_state_that_is_read_only_at_a_start(disk: Disk, root: Path, daemon: MakeDaemon) -> None:
    """As after an error of its disk: another start is worth it, so the end is not that of missing permissions."""
    add(root, 5)
    tending = daemon(root, config=OFF, prefix=disk.prefix)
    tending.state = disk.path
    disk.remount("ro")
    assert tending.spawn().wait(60) == 74, tending.said()
    assert "ead-only" in tending.said()
    assert "hint:" in tending.said()
    tending.log.unlink()
    disk.remount("rw")
    assert tending.start().root()["memories"] == 5


def answers(tending: Daemon) -> bool:
    try:
        return bool(tending.rpc("ping"))
    except MemorydError:
        return False
