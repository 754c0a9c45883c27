"""What a daemon that runs as root creates in a directory of another user: that user's agents must be able to use it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memoryd.core.retention import Quality
from memoryd.disk import atomic
from memoryd.disk.backups import BackupDirectory
from memoryd.disk.journal import Journal
from memoryd.disk.locks.file import open_or_create
from memoryd.disk.locks.soft import hold_soft
from memoryd.disk.tree import Tree

pytestmark = [
    pytest.mark.root_only,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a file for another user"),
]

AGENT = (12345, 54321)  # user and group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "memories"
    path.mkdir(mode=0o700)
    (path / "f").write_bytes(b"one\n")
    for each in (path, path / "f"):
        os.chown(each, *AGENT)
    return path


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with Tree(str(root)) as tree:
        yield tree


def owner(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid


def test_a_new_file_and_its_new_directories(root: Path, tree: Tree) -> None:
    tree.mkdir("2026/11", 0o750)
    atomic.create(tree, "2026/11/g", b"x", 0o600)
    atomic.replace(tree, "index.json", b"{}", expected=None)
    assert {owner(root / name) for name in ("2026", "2026/11", "2026/11/g", "index.json")} == {AGENT}
    assert stat.S_IMODE((root / "2026").stat().st_mode) == 0o750
    assert stat.S_IMODE((root / "2026/11/g").stat().st_mode) == 0o600


def test_a_directory_put_in_the_place_of_a_new_one_keeps_its_owner(
    root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may rename any directory into the place of what root has just made."""
    other = root / "other"
    other.mkdir(mode=0o700)
    os.chown(other, 12346, 12346)
    made = os.mkdir

    def swapped(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        made(path, mode, dir_fd=dir_fd)
        (root / "new").rmdir()
        other.rename(root / "new")

    monkeypatch.setattr(os, "mkdir", swapped)
    tree.mkdir("new", 0o700)
    assert owner(root / "new") == (12346, 12346)


def hold(tree: Tree) -> None:
    with hold_soft(tree.fd, ".archive.lock"):
        pass


@pytest.mark.parametrize("create", [hold, lambda tree: open_or_create(tree.fd, ".lock")])
def test_a_lock_that_cannot_be_given_away_leaves_nothing_open(
    root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, create: Callable[[Tree], object]
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, "failing disk")

    monkeypatch.setattr(os, "fchown", fail)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="failing disk"):
        create(tree)
    assert os.listdir("/proc/self/fd") == before
    assert [each.name for each in root.iterdir() if ".tmp" in each.name or each.name == ".archive.lock"] == []


def test_locks(root: Path, tree: Tree) -> None:
    opened = open_or_create(tree.fd, ".lock")
    assert opened is not None
    os.close(opened[0])
    with hold_soft(tree.fd, ".archive.lock"):
        assert owner(root / ".lock") == owner(root / ".archive.lock") == AGENT


def test_a_backup_belongs_to_them_only_if_the_memories_do(root: Path, tree: Tree, tmp_path: Path) -> None:
    (root / "g").write_bytes(b"of root\n")
    (root / "g").chmod(0o600)
    made = {}
    with closing(Journal(str(tmp_path / "journal"))) as journal:
        for name in "fg":
            content, seen = tree.read(name)
            directory = BackupDirectory(tree, journal, (name,))
            made[name] = directory.create(name, content, seen, Quality(1, 1), limit=5, now=0.0).name
    assert owner(root / ".backup") == owner(root / ".backup" / made["f"]) == AGENT
    assert owner(root / ".backup" / made["g"]) == (0, os.getegid())


def test_a_refused_change_of_owner_fails_no_write(root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    atomic.create(tree, "g", b"x")
    assert (root / "g").read_bytes() == b"x"
    assert owner(root / "g") == (0, os.getegid())


def test_in_a_directory_of_root_everything_stays_its_own(root: Path, tree: Tree) -> None:
    os.chown(root, 0, AGENT[1])
    atomic.create(tree, "g", b"x")
    assert owner(root / "g") == (0, os.getegid())
