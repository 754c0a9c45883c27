"""Reading beneath a root: nothing leads out of it, nothing blocks, and "could not look" is not "gone"."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.spans import sha256
from memoryd.disk import syscalls
from memoryd.disk import tree as tree_module
from memoryd.disk.syscalls import PIECE, ChangingError, NotBeneathError, NotRegularError, TooLargeError, hash_start
from memoryd.disk.tree import PathState, Tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with Tree(os.path.realpath(root)) as opened:
        yield opened


def nothing(_: str) -> bool:
    return False


def odd_entries(root: Path) -> set[str]:
    """One of every kind that is not a regular file."""
    os.mkfifo(root / "fifo.jsonl")
    (root / "link.jsonl").symlink_to("/etc/passwd")
    (root / "dangling.jsonl").symlink_to("nowhere")
    (root / "dirlink").symlink_to("/etc")
    (root / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(root, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/socket.jsonl")  # sun_path is short, tmp_path is not
        finally:
            os.close(here)
    return {"fifo.jsonl", "link.jsonl", "dangling.jsonl", "dirlink", "loop", "socket.jsonl"}


class TestPresence:
    def test_same_missing_replaced(self, root: Path, tree: Tree) -> None:
        assert tree.path_state() is PathState.SAME
        root.rename(root.with_name("elsewhere"))
        assert tree.path_state() is PathState.MISSING
        root.mkdir()
        assert tree.path_state() is PathState.REPLACED
        root.rmdir()
        root.with_name("elsewhere").rename(root)
        assert tree.path_state() is PathState.SAME

    def test_a_removed_and_remade_directory_is_never_taken_for_the_old_one(self, root: Path, tree: Tree) -> None:
        for _ in range(50):  # inode numbers are reused at once, unless a process holds them
            root.rmdir()
            root.mkdir()
            assert tree.path_state() is PathState.REPLACED

    @pytest.mark.parametrize("name", ["EACCES", "EIO", "ESTALE", "ENOTCONN"])
    def test_an_unreadable_path_is_not_missing(self, tree: Tree, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        def refuse(*_args: object, **_more: object) -> os.stat_result:
            raise OSError(getattr(errno, name), name)

        monkeypatch.setattr(os, "stat", refuse)
        assert tree.path_state() is PathState.UNREADABLE

    def test_a_root_is_absolute_and_a_directory(self, root: Path) -> None:
        with pytest.raises(ValueError, match="absolute"):
            Tree("relative")
        (root / "file").touch()
        with pytest.raises(NotADirectoryError):
            Tree(str(root / "file"))

    def test_close_twice(self, root: Path) -> None:
        tree = Tree(str(root))
        tree.close()
        tree.close()
        with pytest.raises(OSError, match="descriptor"):
            tree.listdir("")


class TestPaths:
    @pytest.mark.parametrize("path", ["", "..", "/etc/passwd", "a/../b", "a//b", "a/", ".", "./a", "a\0b"])
    def test_what_is_no_path_beneath_is_refused(self, tree: Tree, path: str) -> None:
        with pytest.raises(ValueError, match="not a path"), tree.parent(path):
            pass

    @given(st.text(alphabet="./a\0é", max_size=12))
    def test_an_accepted_path_stays_beneath(self, path: str) -> None:
        try:
            parts = syscalls.parts_of(path)
        except ValueError:
            return
        assert os.path.normpath(path) == path
        assert ".." not in parts

    def test_symlinked_directory_is_not_followed(self, tmp_path: Path, root: Path, tree: Tree) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "a.jsonl").write_bytes(b"secret")
        (root / "in").symlink_to(outside)
        (root / "real").mkdir()
        (root / "real/in").symlink_to(outside)
        for path in ("in/a.jsonl", "real/in/a.jsonl"):
            for act in (tree.read, tree.stat, tree.unlink, tree.mkdir):
                with pytest.raises(NotBeneathError):
                    act(path)
        with pytest.raises(NotBeneathError):
            tree.listdir("in")
        assert (outside / "a.jsonl").read_bytes() == b"secret"
        assert os.listdir(outside) == ["a.jsonl"]

    def test_a_directory_swapped_for_a_link_all_the_time_never_leads_out(
        self, tmp_path: Path, root: Path, tree: Tree
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "a").write_bytes(b"outside")
        (root / "d").mkdir()
        (root / "d/a").write_bytes(b"inside")
        (root / "link").symlink_to(outside)
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                os.rename(root / "d", root / "x")
                os.rename(root / "link", root / "d")
                os.rename(root / "d", root / "link")
                os.rename(root / "x", root / "d")

        thread = threading.Thread(target=swap)
        thread.start()
        seen: set[str] = set()
        try:
            for _ in range(3000):
                try:
                    assert tree.read("d/a")[0] == b"inside"
                    seen.add("read")
                except (NotBeneathError, NotADirectoryError, FileNotFoundError, ChangingError) as error:
                    seen.add(type(error).__name__)
                assert all(not p.startswith("link/") for p in tree.scan(nothing).files)
        finally:
            stop.set()
            thread.join()
        assert "read" in seen

    @pytest.mark.parametrize("name", [b"caf\xe9.jsonl", b"line\nbreak", b" -rf ", "東京".encode(), b"\x1b[2J"])
    def test_names_are_bytes(self, root: Path, tree: Tree, name: bytes) -> None:
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(b"x")
        path = os.fsdecode(name)
        assert tree.read(path)[0] == b"x"
        assert list(tree.scan(nothing).files) == [path]
        assert tree.listdir("") == [path]
        tree.unlink(path)
        assert tree.stat(path) is None


class TestRead:
    def test_bytes_and_fingerprint_belong_together(self, root: Path, tree: Tree) -> None:
        (root / "a").write_bytes(b"one\r\n\xff")
        content, fingerprint = tree.read("a")
        assert content == b"one\r\n\xff"
        assert fingerprint == tree.stat("a")
        assert (fingerprint.size, fingerprint.nlink) == (6, 1)
        assert fingerprint.uid == os.geteuid()

    def test_missing(self, root: Path, tree: Tree) -> None:
        (root / "file").touch()
        assert tree.stat("none") is None
        assert tree.stat("none/deeper") is None
        assert tree.stat("file/deeper") is None
        with pytest.raises(FileNotFoundError):
            tree.read("none")

    def test_only_regular_files_are_opened(self, root: Path, tree: Tree) -> None:
        (root / "directory").mkdir()
        for name in odd_entries(root) | {"directory"}:
            for act in (tree.read, tree.stat):
                with pytest.raises(NotRegularError):
                    act(name)
            with pytest.raises(NotRegularError):
                tree.read_range(name, 0, 1)

    def test_a_fifo_swapped_in_after_the_check_does_not_block(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "a").write_bytes(b"x")
        real = syscalls.lstat

        def look_then_swap(directory: int, name: str, path: str) -> object:
            found = real(directory, name, path)
            os.unlink(root / "a")
            os.mkfifo(root / "a")
            return found

        monkeypatch.setattr(syscalls, "lstat", look_then_swap)
        with pytest.raises(NotRegularError):
            tree.read("a")

    def test_limit(self, root: Path, tree: Tree) -> None:
        (root / "sparse").touch()
        os.truncate(root / "sparse", 1 << 40)
        with pytest.raises(TooLargeError, match="1099511627776"):
            tree.read("sparse")
        (root / "exact").write_bytes(b"1234")
        assert tree.read("exact", limit=4)[0] == b"1234"
        with pytest.raises(TooLargeError):
            tree.read("exact", limit=3)

    @pytest.mark.parametrize("rounds", [1, 2, 99])
    def test_a_change_during_the_read_is_read_again(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, rounds: int
    ) -> None:
        (root / "a").write_bytes(b"0")
        real, done = syscalls.pread_all, [0]

        def read_while_written(fd: int, start: int, length: int) -> bytes:
            content = real(fd, start, length)
            if done[0] < rounds:
                done[0] += 1
                with open(root / "a", "ab") as file:
                    file.write(b"+")
            return content

        monkeypatch.setattr(tree_module, "pread_all", read_while_written)
        if rounds == 99:
            with pytest.raises(ChangingError):
                tree.read("a")
        else:
            assert tree.read("a")[0] == b"0" + b"+" * rounds

    def test_a_file_replaced_during_the_read_gives_the_new_one(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "a").write_bytes(b"old")
        (root / "b").write_bytes(b"new")
        real = syscalls.pread_all

        def read_while_replaced(fd: int, start: int, length: int) -> bytes:
            if (root / "b").exists():
                os.rename(root / "b", root / "a")
            return real(fd, start, length)

        monkeypatch.setattr(tree_module, "pread_all", read_while_replaced)
        assert tree.read("a")[0] == b"new"

    def test_ranges(self, root: Path, tree: Tree) -> None:
        (root / "a").write_bytes(b"0123456789")
        assert tree.read_range("a", 2, 3) == b"234"
        assert tree.read_range("a", 8, 99) == b"89"
        assert tree.read_range("a", 50, 5) == b""

    def test_no_descriptor_is_left_open(self, root: Path, tree: Tree) -> None:
        (root / "d/e").mkdir(parents=True)
        (root / "d/e/a").write_bytes(b"x")
        odd_entries(root)
        before = len(os.listdir("/proc/self/fd"))
        tree.read("d/e/a")
        tree.scan(nothing)
        tree.chmod("d/e/a", 0o600)
        for path in ("fifo.jsonl", "dirlink/passwd", "d/e", "d/none/x"):
            with pytest.raises(OSError):  # noqa: PT011 - any kind will do, the descriptors are the point
                tree.read(path)
        assert len(os.listdir("/proc/self/fd")) <= before


class TestScannedFiles:
    def test_files_as_they_were_found(self, root: Path, tree: Tree) -> None:
        for path in ("a/1", "a/2", "b/c/1", "top"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(path)
        (root / "empty").touch()
        found = tree.scan(nothing).files
        before = os.listdir("/proc/self/fd")
        with tree.scanned() as files:
            read = {path: files.read(path, found[path]) for path in sorted(found)}
        assert read == {path: path.encode() for path in ("a/1", "a/2", "b/c/1", "top")} | {"empty": b""}
        assert len(os.listdir("/proc/self/fd")) == len(before)

    @pytest.mark.parametrize("change", ["written", "replaced", "removed", "fifo", "link", "moved away", "too large"])
    def test_any_other_file_is_left_to_a_careful_read(self, root: Path, tree: Tree, change: str) -> None:
        (root / "a").mkdir()
        path = root / "a/1"
        path.write_text("one")
        found = tree.scan(nothing).files["a/1"]
        if change == "written":
            path.write_text("more")
        elif change == "too large":
            tree.max_bytes = 2
        elif change == "moved away":
            (root / "a").rename(root / "b")
        else:
            path.rename(root / "old")  # so that its inode number is not used again
        if change == "replaced":
            path.write_text("one")
        elif change == "fifo":
            os.mkfifo(path)
        elif change == "link":
            path.symlink_to(root / "old")
        with tree.scanned() as files:
            assert files.read("a/1", found) is None

    def test_a_file_that_changes_during_the_read(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "f").write_text("one")
        found = tree.scan(nothing).files["f"]
        real = os.pread

        def written_meanwhile(fd: int, size: int, at: int) -> bytes:
            content = real(fd, size, at)
            (root / "f").write_text("two!")
            return content

        monkeypatch.setattr(os, "pread", written_meanwhile)
        with tree.scanned() as files:
            assert files.read("f", found) is None

    def test_no_link_leads_out_of_the_root(self, root: Path, tree: Tree, tmp_path: Path) -> None:
        (root / "a").mkdir()
        (root / "a/f").write_text("inside")
        found = tree.scan(nothing).files["a/f"]
        (root / "a").rename(tmp_path / "outside")
        (root / "a").symlink_to(tmp_path / "outside")
        with tree.scanned() as files:
            assert files.read("a/f", found) is None


class TestScan:
    def test_kinds(self, root: Path, tree: Tree) -> None:
        odd = odd_entries(root)
        (root / "a/b").mkdir(parents=True)
        (root / "a/b/c.jsonl").write_bytes(b"xy")
        (root / "skipped/deep").mkdir(parents=True)
        (root / "skipped/f").touch()
        scan = tree.scan(lambda path: path == "skipped")
        assert set(scan.files) == {"a/b/c.jsonl"}
        assert scan.files["a/b/c.jsonl"] == tree.stat("a/b/c.jsonl")
        assert set(scan.directories) == {"", "a", "a/b"}
        assert scan.directories[""] == tree.identity
        assert set(scan.irregular) == odd
        assert scan.unreadable == []

    @pytest.mark.parametrize("kind", ["EACCES", "EIO", "EMFILE"])
    def test_a_directory_that_cannot_be_read_is_named_not_forgotten(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        for name in ("good", "bad"):
            (root / name).mkdir()
            (root / name / "f").touch()
        real = os.open

        def refuse(path: str, flags: int, *args: int, **more: int) -> int:
            if path == "bad":
                raise OSError(getattr(errno, kind), kind)
            return real(path, flags, *args, **more)

        monkeypatch.setattr(os, "open", refuse)
        scan = tree.scan(nothing)
        assert set(scan.files) == {"good/f"}
        assert scan.unreadable == ["bad"]

    def test_a_root_that_cannot_be_read_is_an_error_not_an_empty_root(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_args: object, **_more: object) -> object:
            raise OSError(5, "I/O error")

        monkeypatch.setattr(os, "scandir", refuse)
        with pytest.raises(OSError, match="I/O"):
            tree.scan(nothing)

    def test_a_removed_root_is_an_error_not_an_empty_root(self, root: Path, tree: Tree) -> None:
        root.rmdir()
        with pytest.raises(FileNotFoundError):
            tree.scan(nothing)
        with pytest.raises(FileNotFoundError):
            tree.listdir("")

    def test_another_device_is_not_entered(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "a").mkdir()
        (root / "a/f").touch()
        monkeypatch.setattr(tree, "identity", (tree.identity[0] + 1, tree.identity[1]))
        scan = tree.scan(nothing)
        assert (scan.files, scan.irregular) == ({}, [""])

    def test_deep(self, root: Path, tree: Tree) -> None:
        deep = "/".join(["d"] * 300)
        made = tree.mkdir(deep)
        assert (len(made), made[0], made[-1]) == (300, "d", deep)
        assert len(tree.scan(nothing).directories) == 301

    def test_it_costs_little_more_than_the_calls_to_the_system(self, root: Path, tree: Tree) -> None:
        names = [f"{number}.json" for number in range(1000)]
        for name in names:
            (root / name).touch()

        def floor() -> None:
            with os.scandir(root) as entries:
                for entry in entries:
                    os.lstat(entry.path)

        times = [(_seconds(lambda: tree.scan(nothing)), _seconds(floor)) for _ in range(5)]
        scan, least = map(min, zip(*times, strict=True))
        assert scan < 5 * least
        assert tree.scan(nothing).files.keys() == set(names)


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


class TestChanges:
    def test_mkdir_is_private_and_repeatable(self, root: Path, tree: Tree) -> None:
        assert tree.mkdir("a/b") == ["a", "a/b"]
        assert tree.mkdir("a/b/c", 0o750) == ["a/b/c"]
        assert tree.mkdir("a/b") == []
        assert stat.S_IMODE((root / "a/b").stat().st_mode) == 0o700
        (root / "file").touch()
        with pytest.raises(NotADirectoryError):
            tree.mkdir("file/x")
        assert sorted(tree.listdir("a")) == ["b"]
        assert tree.listdir("none/here") == []
        tree.rmdir("a/b/c")
        assert tree.listdir("a/b") == []

    def test_chmod_of_our_own_only(self, tmp_path: Path, root: Path, tree: Tree) -> None:
        (root / "f").touch(mode=0o644)
        (root / "d").mkdir(mode=0o755)
        tree.chmod("f", 0o600)
        tree.chmod("d", 0o700)
        tree.chmod("", 0o711)
        assert stat.S_IMODE((root / "f").stat().st_mode) == 0o600
        assert stat.S_IMODE((root / "d").stat().st_mode) == 0o700
        assert stat.S_IMODE(root.stat().st_mode) == 0o711

    def test_chmod_never_reaches_another_file(self, tmp_path: Path, root: Path, tree: Tree) -> None:
        outside = tmp_path / "outside"
        outside.touch(mode=0o644)
        (root / "link").symlink_to(outside)
        os.link(outside, root / "hard")
        os.mkfifo(root / "fifo", 0o644)
        for name in ("link", "fifo"):
            with pytest.raises(NotRegularError):
                tree.chmod(name, 0o600)
        with pytest.raises(PermissionError):
            tree.chmod("hard", 0o600)
        assert stat.S_IMODE(outside.stat().st_mode) == 0o644

    @pytest.mark.root_only
    def test_chmod_leaves_other_owners_alone(self, root: Path, tree: Tree) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can make a file of another owner")
        (root / "f").touch(mode=0o644)
        os.chown(root / "f", 12345, 12345)
        with pytest.raises(PermissionError):
            tree.chmod("f", 0o600)


def test_a_span_is_of_the_file_that_its_fingerprint_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one two three")
    with Tree(str(tmp_path)) as tree:
        assert tree.read_span("a", 4, 3) == (b"two", tree.stat("a"))
        assert tree.read_span("a", 8, 100)[0] == b"three"


class TestGrownFiles:
    def test_the_start_is_hashed_and_the_rest_returned(self, tmp_path: Path) -> None:
        start = b"x" * (2 * PIECE + 1)
        (tmp_path / "a").write_bytes(start + b"more")
        with Tree(str(tmp_path)) as tree:
            digest, added, fingerprint = tree.read_grown("a", len(start), hash_start)
            assert (digest.hexdigest(), added, fingerprint) == (sha256(start), b"more", tree.stat("a"))
            assert tree.read_grown("a", len(start) + 4, hash_start)[1] == b""

    def test_the_file_may_grow_meanwhile(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one\ntwo\n")
        with Tree(str(tmp_path)) as tree:
            before = tree.stat("a")
            hashing = _after(partial(os.truncate, tmp_path / "a", 99))
            assert tree.read_grown("a", 4, hashing)[1:] == (b"two\n", before)

    @pytest.mark.parametrize("change", ["replaced", "removed", "shorter"])
    def test_any_other_change_is_an_error(self, tmp_path: Path, change: str) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"one\ntwo\n")
        (tmp_path / "b").write_bytes(b"one\ntwo\n")
        changes: dict[str, Callable[[], object]] = {
            "replaced": lambda: (tmp_path / "b").rename(path),
            "removed": path.unlink,
            "shorter": lambda: os.truncate(path, 6),
        }
        with Tree(str(tmp_path)) as tree, pytest.raises(ChangingError):
            tree.read_grown("a", 4, _after(changes[change]))

    def test_so_is_a_start_that_cannot_be_hashed(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one\ntwo\n")
        with Tree(str(tmp_path)) as tree, pytest.raises(ChangingError):
            tree.read_grown("a", 4, lambda _fd, _size: None)


def _after(change: Callable[[], object]) -> Callable[[int, int], Any]:
    """Return what changes the file once it is open, and then hashes its start."""

    def hashing(fd: int, size: int) -> Any:
        change()
        return hash_start(fd, size)

    return hashing


def test_a_twin_outlives_the_tree_it_was_made_from(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    tree = Tree(str(tmp_path))
    with tree.duplicate() as twin:
        tree.close()
        assert twin.read("a")[0] == b"one"
        assert twin.identity == tree.identity
    with pytest.raises(FileNotFoundError):
        tree.duplicate()
