"""Writing: what is kept, what is refused, and what happens when others write at the same moment."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.spans import joined
from memoryd.disk import atomic, processes, syscalls, temps
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.replaced_file import ReplacedFile
from memoryd.disk.syscalls import ChangingError, NotBeneathError, NotRegularError
from memoryd.disk.temps import PART, UNSYNCED
from memoryd.disk.tree import Tree

OLD = b'{"id":1}\n{"id":2}\n'
NEW = b'{"id":2}\n'
LATE = b'{"id":3}\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    (path / "f").write_bytes(OLD)
    return path


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with Tree(os.path.realpath(root)) as opened:
        yield opened


@pytest.fixture(params=["exchange", "link", "descriptor"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way an old inode is preserved: by exchange, by a second link, or only by its descriptor."""

    def cannot(*_args: object, **_more: object) -> None:
        raise OSError(errno.EINVAL, "cannot")

    if request.param != "exchange":
        monkeypatch.setattr(syscalls, "exchange", cannot)
    if request.param == "descriptor":
        monkeypatch.setattr(os, "link", cannot)
    return str(request.param)


def ours(tree: Tree) -> list[str]:
    """Our temporary files, sorted."""
    return sorted(tree.scan(lambda _: False, only=temps.is_our_temp).files)


def foreign_replace(root: Path, content: bytes) -> None:
    """Replace the file like a well-behaved program that does not know memoryd."""
    (root / "f.jsonl.tmp").write_bytes(content)
    os.replace(root / "f.jsonl.tmp", root / "f")


def assert_clean(root: Path, content: bytes | None) -> None:
    assert sorted(os.listdir(root)) == ([] if content is None else ["f"])
    if content is not None:
        assert (root / "f").read_bytes() == content


def displaced_by(tree: Tree, content: bytes = NEW) -> ReplacedFile:
    _, fingerprint = tree.read("f")
    replaced = atomic.replace(tree, "f", content, expected=fingerprint, exchange=True)
    assert replaced.replaced_file is not None
    return replaced.replaced_file


class TestReplace:
    def test_returns_the_fingerprint_of_what_it_wrote(self, root: Path, tree: Tree) -> None:
        replaced = atomic.replace(tree, "f", NEW, expected=tree.stat("f"))
        assert replaced.fingerprint == tree.stat("f")
        assert replaced.replaced_file is None
        assert_clean(root, NEW)

    def test_new_files_are_private_whatever_the_umask(self, root: Path, tree: Tree) -> None:
        tree.mkdir("d")
        old = os.umask(0)
        try:
            atomic.replace(tree, "d/a", NEW, expected=None)
            os.umask(0o777)
            atomic.replace(tree, "d/b", NEW, expected=None, mode=0o644)
            atomic.create(tree, "d/c", NEW, 0o640)
        finally:
            os.umask(old)
        modes = {name: stat.S_IMODE((root / "d" / name).stat().st_mode) for name in "abc"}
        assert modes == {"a": 0o600, "b": 0o644, "c": 0o640}

    def test_mode_and_attributes_are_preserved(self, root: Path, tree: Tree) -> None:
        os.chmod(root / "f", 0o4751)
        with suppress(OSError):  # not every file system has them; then there is nothing to lose
            os.setxattr(root / "f", "user.origin", b"agent")
        attributes = {n: os.getxattr(root / "f", n) for n in os.listxattr(root / "f")}
        atomic.replace(tree, "f", NEW, expected=tree.stat("f"), mode=0o600)
        assert stat.S_IMODE((root / "f").stat().st_mode) == 0o4751
        assert {n: os.getxattr(root / "f", n) for n in os.listxattr(root / "f")} == attributes

    @pytest.mark.root_only
    def test_owner_is_preserved(self, root: Path, tree: Tree) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can make a file of another owner")
        os.chown(root / "f", 12345, 54321)
        os.chmod(root / "f", 0o6755)
        atomic.replace(tree, "f", NEW, expected=tree.stat("f"))
        found = (root / "f").stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o6755)

    def test_an_owner_that_cannot_be_preserved_is_an_error(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.fstat

        def of_another(fd: int) -> os.stat_result:
            found = real(fd)
            owner = found.st_uid + (found.st_size == len(OLD))
            times = {"st_mtime_ns": found.st_mtime_ns, "st_ctime_ns": found.st_ctime_ns}
            return os.stat_result((*found[:4], owner, *found[5:]), times)

        def refuse(*_args: object) -> None:
            raise PermissionError(errno.EPERM, "not permitted")

        expected = tree.stat("f")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fchown", refuse)
            patch.setattr(os, "fstat", of_another)
            with pytest.raises(PermissionError):
                atomic.replace(tree, "f", NEW, expected=expected)
        assert tree.stat("f") == expected
        assert_clean(root, OLD)

    @pytest.mark.parametrize("exchange", [False, True])
    def test_a_hard_link_is_broken_not_written_through(
        self, tmp_path: Path, root: Path, tree: Tree, exchange: bool
    ) -> None:
        os.link(root / "f", tmp_path / "outside")
        done = atomic.replace(tree, "f", NEW, expected=tree.stat("f"), exchange=exchange)
        if done.replaced_file:
            done.replaced_file.close()
        assert (tmp_path / "outside").read_bytes() == OLD
        assert_clean(root, NEW)

    def test_nothing_is_written_through_links_or_into_odd_files(self, tmp_path: Path, root: Path, tree: Tree) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "x").write_bytes(OLD)
        (root / "link").symlink_to(outside / "x")
        (root / "dir").symlink_to(outside)
        os.mkfifo(root / "fifo")
        before = sorted(os.listdir(root))
        expected = tree.stat("f")
        assert expected is not None
        for path in ("link", "fifo"):
            for act in changes(tree, path):
                with pytest.raises((NotRegularError, FileExistsError)):
                    act()
        for act in changes(tree, "dir/x"):
            with pytest.raises(NotBeneathError):
                act()
        assert sorted(os.listdir(root)) == before
        assert (outside / "x").read_bytes() == OLD
        assert os.listdir(outside) == ["x"]

    def test_long_content_is_written_and_synced_in_parts(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced, pauses, real = list[int](), list[int](), os.fsync

        def sync(fd: int) -> None:
            synced.append(os.fstat(fd).st_size)
            real(fd)

        monkeypatch.setattr(os, "fsync", sync)
        whole = bytes(range(256)) * ((UNSYNCED + 2 * PART) // 256) + b"end"
        pieces: list[bytes | memoryview] = [whole[at : at + 1] for at in range(9)]
        pieces += (b"", memoryview(whole)[9 : 3 * PART], whole[3 * PART :])
        for content in (whole, pieces):
            synced.clear()
            pauses.clear()
            atomic.replace(tree, "f", content, expected=tree.stat("f"), pause=lambda: pauses.append(len(synced)))
            assert_clean(root, whole)
            assert UNSYNCED // PART < len(pauses) <= UNSYNCED // PART + 2
            assert UNSYNCED <= synced[0] < len(whole) - PART, "little is left to the last sync"

    def test_short_writes_are_completed(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "writev", lambda fd, pieces: os.write(fd, b"".join(pieces)[:3]))
        pieces: list[bytes | memoryview] = [NEW, b"", memoryview(NEW)[1:], b"end"]
        for content in (NEW * 5, pieces):
            atomic.replace(tree, "f", content, expected=tree.stat("f"))
            assert_clean(root, joined(content))

    def test_no_call_gets_more_pieces_than_a_system_takes(self, root: Path, tree: Tree) -> None:
        pieces = [b"%d\n" % number for number in range(os.sysconf("SC_IOV_MAX") + 1)]
        atomic.replace(tree, "f", pieces, expected=tree.stat("f"))
        assert_clean(root, b"".join(pieces))

    def test_a_disk_that_takes_nothing_is_an_error_not_a_loop(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "writev", lambda fd, pieces: 0)
        with pytest.raises(OSError, match="no more bytes"):
            atomic.replace(tree, "f", NEW, expected=tree.stat("f"))
        assert_clean(root, OLD)

    def test_a_failed_sync_is_never_repeated_on_its_descriptor(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[int] = []

        def fail(fd: int) -> None:
            calls.append(fd)
            raise OSError(errno.EIO, "I/O error")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="I/O error"):
            atomic.replace(tree, "f", NEW, expected=tree.stat("f"))
        assert len(calls) == 1
        assert_clean(root, OLD)

    def test_an_interrupt_leaves_the_original(self, root: Path, tree: Tree) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        expected = tree.stat("f")
        assert expected is not None
        for exchange in (False, True):
            with pytest.raises(KeyboardInterrupt):
                atomic.replace(tree, "f", NEW, expected=expected, guard=interrupt, exchange=exchange)
        with pytest.raises(KeyboardInterrupt):
            atomic.append(tree, "f", NEW, expected=expected, guard=interrupt)
        with pytest.raises(KeyboardInterrupt):
            atomic.remove(tree, "f", expected=expected, guard=interrupt)
        assert tree.stat("f") == expected
        assert_clean(root, OLD)

    def test_a_left_over_temporary_name_is_not_reused(self, root: Path, tree: Tree) -> None:
        number = int(temps.temp_name("f").removesuffix(".tmp").rpartition("-")[2])
        left = root / f"f.memoryd-{os.getpid()}-{number + 1}.tmp"
        left.write_bytes(b"late bytes of a crashed namesake")
        atomic.replace(tree, "f", NEW, expected=tree.stat("f"))
        assert left.read_bytes() == b"late bytes of a crashed namesake"
        assert ours(tree) == [left.name]

    def test_no_descriptor_is_left_open(self, root: Path, tree: Tree, way: str) -> None:
        before = len(os.listdir("/proc/self/fd"))
        displaced_by(tree).close()
        _, now = tree.read("f")
        atomic.append(tree, "f", LATE, expected=now)
        with pytest.raises(StoreChangedError):
            atomic.replace(tree, "f", NEW, expected=now, exchange=True)
        assert len(os.listdir("/proc/self/fd")) <= before


def changes(tree: Tree, path: str) -> list[Callable[[], object]]:
    """Every verb, on a path that it must refuse."""
    some = tree.stat("f")
    assert some is not None
    return [
        lambda: atomic.replace(tree, path, NEW, expected=some, exchange=True),
        lambda: atomic.replace(tree, path, NEW, expected=some),
        lambda: atomic.append(tree, path, NEW, expected=some),
        lambda: atomic.truncate(tree, path, 0, expected=some),
        lambda: atomic.create(tree, path, NEW),
        lambda: atomic.remove(tree, path, expected=some),
    ]


class TestCompareAndSwap:
    @pytest.mark.parametrize("exchange", [False, True])
    @pytest.mark.parametrize("moment", ["before", "under the guard"])
    def test_a_foreign_replace_wins(self, root: Path, tree: Tree, exchange: bool, moment: str) -> None:
        _, expected = tree.read("f")
        guard: Callable[[], None] | None = lambda: foreign_replace(root, b"theirs")  # noqa: E731 - one of two
        if moment == "before":
            foreign_replace(root, b"theirs")
            guard = None
        with pytest.raises(StoreChangedError) as caught:
            atomic.replace(tree, "f", NEW, expected=expected, guard=guard, exchange=exchange)
        assert (caught.value.path, caught.value.replaced_file) == ("f", None)
        assert_clean(root, b"theirs")

    def test_what_was_removed_is_not_recreated(self, root: Path, tree: Tree) -> None:
        _, expected = tree.read("f")
        for exchange in (False, True):
            with pytest.raises(StoreChangedError):
                atomic.replace(
                    tree,
                    "f",
                    NEW,
                    expected=expected,
                    exchange=exchange,
                    guard=lambda: (root / "f").unlink(missing_ok=True),
                )
        for act in (atomic.append, atomic.replace):
            with pytest.raises(StoreChangedError):
                act(tree, "f", NEW, expected=expected)
        with pytest.raises(StoreChangedError):
            atomic.remove(tree, "f", expected=expected)
        assert_clean(root, None)

    def test_in_the_very_window_too(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        before_the_exchange(monkeypatch, lambda: foreign_replace(root, b"theirs"))
        _, expected = tree.read("f")
        with pytest.raises(StoreChangedError) as caught:
            atomic.replace(tree, "f", NEW, expected=expected, exchange=True)
        assert caught.value.replaced_file is None
        assert_clean(root, b"theirs")

    def test_a_plain_rename_would_lose_it(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        """The canary: the same foreign replace in the same window, without exchange."""
        real = os.rename

        def late(*args: Any, **more: Any) -> None:
            foreign_replace(root, b"theirs")
            real(*args, **more)

        _, expected = tree.read("f")
        monkeypatch.setattr(os, "rename", late)
        atomic.replace(tree, "f", NEW, expected=expected)
        assert_clean(root, NEW)

    @pytest.mark.parametrize("odd", ["symlink", "fifo", "directory", "gone"])
    def test_something_odd_in_the_window_is_put_back(
        self, tmp_path: Path, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, odd: str
    ) -> None:
        def swap_in() -> None:
            (root / "f").unlink()
            if odd == "symlink":
                (root / "f").symlink_to(tmp_path / "outside")
            elif odd == "fifo":
                os.mkfifo(root / "f")
            elif odd == "directory":
                (root / "f").mkdir()

        before_the_exchange(monkeypatch, swap_in)
        _, expected = tree.read("f")
        with pytest.raises((NotRegularError, StoreChangedError)):
            atomic.replace(tree, "f", NEW, expected=expected, exchange=True)
        assert os.listdir(root) == ([] if odd == "gone" else ["f"])
        assert not (tmp_path / "outside").exists()
        assert not (root / "f").is_file()

    def test_two_foreign_replaces_around_our_exchange(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The newest stays in place; what it replaced is kept under our temporary name, not deleted."""
        writes = iter([b"first", b"second"])

        def write() -> None:
            content = next(writes, None)
            if content is not None:
                foreign_replace(root, content)

        before_the_exchange(monkeypatch, write, times=3)
        _, expected = tree.read("f")
        with pytest.raises(StoreChangedError):
            atomic.replace(tree, "f", NEW, expected=expected, exchange=True)
        assert (root / "f").read_bytes() == b"second"
        [temp] = ours(tree)
        assert (root / temp).read_bytes() == b"first"

    def test_who_opened_our_withdrawn_content_is_handed_over(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[int] = []

        def write() -> None:
            if not opened:
                foreign_replace(root, b"theirs\n")
                opened.append(-1)
            else:
                opened.append(os.open(root / "f", os.O_WRONLY | os.O_APPEND))

        before_the_exchange(monkeypatch, write, times=2)
        _, expected = tree.read("f")
        with pytest.raises(StoreChangedError) as caught:
            atomic.replace(tree, "f", NEW, expected=expected, exchange=True)
        assert (root / "f").read_bytes() == b"theirs\n"
        displaced = caught.value.replaced_file
        assert displaced is not None
        os.write(opened[1], LATE)
        assert displaced.appended(displaced.base_size) == LATE
        assert not displaced.is_sole_opener()
        os.close(opened[1])
        assert displaced.is_sole_opener()
        displaced.close()
        assert_clean(root, b"theirs\n")

    def test_same_size_rewrite_in_place_is_seen(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        def scribble() -> None:
            with open(root / "f", "r+b") as file:
                file.write(b"#")
            os.utime(root / "f", ns=(1, 1))

        before_the_exchange(monkeypatch, scribble)
        _, expected = tree.read("f")
        with pytest.raises(StoreChangedError):
            atomic.replace(tree, "f", NEW, expected=expected, exchange=True)
        assert_clean(root, b"#" + OLD[1:])

    def test_a_chmod_is_no_change_of_content(self, root: Path, tree: Tree) -> None:
        _, expected = tree.read("f")
        os.chmod(root / "f", 0o640)
        atomic.replace(tree, "f", NEW, expected=expected)
        assert stat.S_IMODE((root / "f").stat().st_mode) == 0o640

    def test_new_means_new(self, root: Path, tree: Tree) -> None:
        with pytest.raises(StoreChangedError):
            atomic.replace(tree, "f", NEW, expected=None)
        with pytest.raises(FileExistsError):
            atomic.create(tree, "f", NEW)
        with pytest.raises(StoreChangedError):
            atomic.append(tree, "f", NEW, expected=None)
        (root / "f").unlink()
        with pytest.raises(FileExistsError):
            atomic.create(tree, "f", NEW, guard=lambda: foreign_replace(root, b"theirs"))
        assert_clean(root, b"theirs")

    @pytest.mark.parametrize("by_link", [False, True])
    def test_new_means_new_in_the_very_window(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, by_link: bool
    ) -> None:
        (root / "f").unlink()
        real = syscalls.rename_new

        def late(directory: int, source: str, target: str) -> None:
            foreign_replace(root, b"theirs")
            real(directory, source, target)

        if by_link:
            without_flags(monkeypatch)
        monkeypatch.setattr(syscalls, "rename_new", late)
        with pytest.raises(StoreChangedError):
            atomic.replace(tree, "f", NEW, expected=None)
        assert_clean(root, b"theirs")

    def test_create_by_link(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        without_flags(monkeypatch)
        (root / "f").unlink()
        atomic.create(tree, "f", NEW)
        assert_clean(root, NEW)
        assert (root / "f").stat().st_nlink == 1


def without_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system whose rename has no flags."""
    monkeypatch.setattr(syscalls, "libc", object())


def before_the_exchange(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], times: int = 1) -> None:
    """Run `act` right before each of the first `times` exchanges."""
    real, left = syscalls.exchange, [times]

    def late(directory: int, one: str, other: str) -> None:
        if left[0]:
            left[0] -= 1
            act()
        real(directory, one, other)

    monkeypatch.setattr(syscalls, "exchange", late)


class TestLateAppends:
    def test_late_appends_to_the_old_inode_are_preserved(self, root: Path, tree: Tree, way: str) -> None:
        writer = os.open(root / "f", os.O_WRONLY | os.O_APPEND)
        displaced = displaced_by(tree)
        assert (root / "f").read_bytes() == NEW
        assert displaced.appended(displaced.base_size) == b""
        assert not displaced.is_sole_opener()
        os.write(writer, LATE)
        assert displaced.appended(displaced.base_size) == LATE
        assert displaced.appended(displaced.base_size + len(LATE)) == b""
        assert displaced.unmodified()
        os.close(writer)
        assert displaced.is_sole_opener()
        displaced.close()
        displaced.close()
        assert_clean(root, NEW)

    def test_between_the_check_and_the_exchange(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        def append() -> None:
            with open(root / "f", "ab") as file:
                file.write(LATE)

        before_the_exchange(monkeypatch, append)
        displaced = displaced_by(tree)
        assert displaced.appended(displaced.base_size) == LATE
        assert not displaced.close_if_unused()
        assert displaced.close_if_unused(displaced.base_size + len(LATE))
        assert displaced.close_if_unused()
        assert_clean(root, NEW)

    def test_a_rewrite_in_place_of_the_old_inode_shows(self, root: Path, tree: Tree) -> None:
        with open(root / "f", "r+b") as writer:
            displaced = displaced_by(tree)
            writer.write(b"#")
        assert not displaced.unmodified()
        displaced.close()

    def test_leave_keeps_the_bytes_for_the_next_start(self, root: Path, tree: Tree) -> None:
        displaced = displaced_by(tree)
        displaced.detach()
        displaced.close()
        [temp] = ours(tree)
        assert f"-{os.getpid()}-" in temp
        assert temps.target_of(temp) == "f"
        assert (root / temp).read_bytes() == OLD

    def test_close_never_removes_another_file(self, root: Path, tree: Tree) -> None:
        displaced = displaced_by(tree)
        assert displaced.temp is not None
        (root / "x").write_bytes(b"other")
        os.replace(root / "x", root / displaced.temp)
        displaced.close()
        assert (root / displaced.temp).read_bytes() == b"other"

    @pytest.mark.parametrize("by", ["lease", "proc"])
    def test_other_processes_count(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
        if by == "proc":
            monkeypatch.setattr(syscalls, "take_lease", lambda fd: None)
        script = "import sys; f = open(sys.argv[1], 'ab'); print(flush=True); sys.stdin.read(1)"
        with subprocess.Popen(
            [sys.executable, "-c", script, str(root / "f")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            displaced = displaced_by(tree)
            assert not displaced.is_sole_opener()
            other.communicate(b"x")
        assert displaced.is_sole_opener()
        displaced.close()

    def test_a_lease_that_is_broken_does_not_end_us(self, root: Path) -> None:
        """An opener during the lease sends a signal; SIGIO, the default, would kill the daemon."""
        fd = os.open(root / "f", os.O_RDONLY)
        try:
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(BlockingIOError):
                os.open(root / "f", os.O_RDONLY | os.O_NONBLOCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            assert processes.is_sole_opener(fd, "f")
            assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK
        finally:
            os.close(fd)


AGENT = """
import os, sys, time
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    time.sleep(0.001)
    os.write(fd, b"%s-%d\\n" % (name.encode(), number))
    os.close(fd)
    time.sleep(0.004)
"""


def carry(tree: Tree, displaced: ReplacedFile) -> int:
    """Append late bytes as the caller does, until no process can add more; return their number."""
    known = displaced.base_size
    while True:  # ends with the agents
        silent = displaced.is_sole_opener()
        late = displaced.appended(known)
        while late:
            with suppress(StoreChangedError):
                _, now = tree.read("f")
                atomic.append(tree, "f", late, expected=now)
                known, late = known + len(late), b""
        if silent:
            displaced.close()
            return known - displaced.base_size


def test_no_append_is_lost_while_we_rewrite(root: Path, tree: Tree) -> None:
    """Two agents append without any lock and we rewrite as often as we can: each line is there once."""
    (root / "f").write_bytes(b"")
    count, rewrites, carried = 200, 0, 0
    agents = [subprocess.Popen([sys.executable, "-c", AGENT, str(root / "f"), name, str(count)]) for name in "ab"]
    while any(agent.poll() is None for agent in agents):
        with suppress(StoreChangedError, ChangingError):
            content, now = tree.read("f")
            displaced = atomic.replace(tree, "f", content, expected=now, exchange=True).replaced_file
            assert displaced is not None
            carried += carry(tree, displaced)
            rewrites += 1
    assert [agent.returncode for agent in agents] == [0, 0]
    lines = (root / "f").read_bytes().splitlines()
    assert sorted(lines) == sorted(b"%s-%d" % (n, i) for n in (b"a", b"b") for i in range(count))
    assert rewrites > 10
    assert carried > 0
    assert os.listdir(root) == ["f"]


class TestAppend:
    def test_existing_and_new(self, root: Path, tree: Tree) -> None:
        os.chmod(root / "f", 0o640)
        _, expected = tree.read("f")
        after = atomic.append(tree, "f", LATE, expected=expected)
        assert after == tree.stat("f")
        assert after.mode == 0o640
        assert_clean(root, OLD + LATE)
        (root / "f").unlink()
        after = atomic.append(tree, "f", LATE, expected=None)
        assert (after, after.mode) == (tree.stat("f"), 0o600)
        assert_clean(root, LATE)

    @pytest.mark.parametrize("written", [0, 1, 5])
    def test_a_short_write_is_taken_back(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, written: int
    ) -> None:
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:written]))
        expected = tree.stat("f")
        assert expected is not None
        with pytest.raises(OSError, match=f"only {written} of"):
            atomic.append(tree, "f", LATE, expected=expected)
        assert_clean(root, OLD)

    def test_what_others_wrote_after_a_short_write_is_never_cut(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write

        def short(fd: int, data: bytes) -> int:
            written = real(fd, data[:4])
            with open(root / "f", "ab", buffering=0) as file:
                real(file.fileno(), b"theirs\n")
            return written

        expected = tree.stat("f")
        assert expected is not None
        monkeypatch.setattr(os, "write", short)
        with pytest.raises(OSError, match="only 4 of"):
            atomic.append(tree, "f", LATE, expected=expected)
        assert (root / "f").read_bytes() == OLD + LATE[:4] + b"theirs\n"

    def test_others_appending_around_us_lose_nothing(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write

        def crowd(fd: int, data: bytes) -> int:
            other = os.open(root / "f", os.O_WRONLY | os.O_APPEND)
            real(other, b"before\n")
            written = real(fd, data)
            real(other, b"after\n")
            os.close(other)
            return written

        expected = tree.stat("f")
        assert expected is not None
        monkeypatch.setattr(os, "write", crowd)
        after = atomic.append(tree, "f", LATE, expected=expected)
        assert_clean(root, OLD + b"before\n" + LATE + b"after\n")
        assert after.size > expected.size + len(LATE)

    def test_a_file_renamed_away_under_the_write_is_reported(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write

        def replaced(fd: int, data: bytes) -> int:
            monkeypatch.undo()
            foreign_replace(root, b"theirs\n")
            return real(fd, data)

        expected = tree.stat("f")
        assert expected is not None
        monkeypatch.setattr(os, "write", replaced)
        with pytest.raises(StoreChangedError):
            atomic.append(tree, "f", LATE, expected=expected)
        assert_clean(root, b"theirs\n")

    def test_a_lying_disk_is_caught(self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, b"\0" * len(data)))
        expected = tree.stat("f")
        assert expected is not None
        with pytest.raises(OSError, match="read-back after append does not match"):
            atomic.append(tree, "f", LATE, expected=expected)

    def test_changed_and_linked_files_are_refused(self, tmp_path: Path, root: Path, tree: Tree) -> None:
        expected = tree.stat("f")
        assert expected is not None

        def theirs() -> None:
            with open(root / "f", "ab") as file:
                file.write(b"theirs\n")

        with pytest.raises(StoreChangedError):
            atomic.append(tree, "f", LATE, expected=expected, guard=theirs)
        assert_clean(root, OLD + b"theirs\n")
        os.link(root / "f", tmp_path / "outside")
        now = tree.stat("f")
        assert now is not None
        with pytest.raises(NotRegularError, match="another hard link"):
            atomic.append(tree, "f", LATE, expected=now)

    @pytest.mark.parametrize("theirs", [b"", b"x" * 100])
    def test_what_another_program_writes_over_ours_is_no_failure_of_the_disk(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, theirs: bytes
    ) -> None:
        expected = tree.stat("f")
        assert expected is not None
        monkeypatch.setattr(syscalls, "sync_file", lambda _: (root / "f").write_bytes(theirs))
        with pytest.raises(StoreChangedError):
            atomic.append(tree, "f", LATE, expected=expected)
        assert_clean(root, theirs)

    def test_truncate_takes_an_append_back(self, root: Path, tree: Tree) -> None:
        before = tree.stat("f")
        assert before is not None
        after = atomic.append(tree, "f", LATE, expected=before)
        with pytest.raises(ValueError, match="cannot cut"):
            atomic.truncate(tree, "f", after.size + 1, expected=after)
        with pytest.raises(StoreChangedError):
            atomic.truncate(tree, "f", before.size, expected=before)
        assert atomic.truncate(tree, "f", before.size, expected=after) == tree.stat("f")
        assert_clean(root, OLD)


class TestRemove:
    def test_removes(self, root: Path, tree: Tree) -> None:
        expected = tree.stat("f")
        assert expected is not None
        atomic.remove(tree, "f", expected=expected)
        assert_clean(root, None)

    @pytest.mark.parametrize("by_link", [False, True])
    def test_a_foreign_change_in_the_window_goes_back(
        self, root: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch, by_link: bool
    ) -> None:
        real = os.rename

        def late(*args: Any, **more: Any) -> None:
            monkeypatch.setattr(os, "rename", real)
            foreign_replace(root, b"theirs")
            real(*args, **more)

        if by_link:
            without_flags(monkeypatch)
        expected = tree.stat("f")
        assert expected is not None
        monkeypatch.setattr(os, "rename", late)
        with pytest.raises(StoreChangedError):
            atomic.remove(tree, "f", expected=expected)
        assert_clean(root, b"theirs")


class TestTemporaryNames:
    @pytest.mark.parametrize(
        ("name", "ours"),
        [
            ("core.jsonl.memoryd-12-3.tmp", True),
            ("with\nnewline.memoryd-12-3.tmp", True),
            ("core.jsonl.memoryd-12.tmp", False),
            ("core.jsonl.memoryd-0-1.tmp", False),
            ("core.jsonl.memoryd--1-1.tmp", False),
            ("core.jsonl.memoryd-12-3.tmp.bak", False),
            (".memoryd-12-3.tmp", False),
            ("core.jsonl.tmp", False),
            ("core.jsonl.memoryd-99999999999-3.tmp", False),
            ("core.jsonl.memoryd-12-3.tmp\n", False),
        ],
    )
    def test_exactly_our_pattern(self, name: str, ours: bool) -> None:
        assert temps.is_our_temp(name) is ours

    @given(st.text(min_size=1, max_size=20).filter(lambda name: "/" not in name and "\0" not in name))
    def test_every_name_we_make_leads_back_to_its_target(self, name: str) -> None:
        assert temps.target_of(temps.temp_name(name)) == name

    @pytest.mark.parametrize("letter", ["x", "é", "東", "\udcff"])
    def test_a_name_that_leaves_no_room_is_cut_and_found_among_others(self, root: Path, letter: str) -> None:
        longest = (letter * 255)[: 255 // len(os.fsencode(letter))]
        temp = temps.temp_name(longest)
        (root / temp).touch()
        assert temps.is_our_temp(temp)
        assert temp.startswith(longest[: temps.SAME_START])
        others = ["other", f"d/{longest[:-1]}", f"d/{longest}", f"e/{longest}"]
        assert temps.target_of(f"d/{temp}", others) == f"d/{longest}"
        assert temps.temp_name(longest[:-1]).partition(".memoryd-")[0] != temp.partition(".memoryd-")[0]

    def test_a_scan_finds_them_in_every_directory(self, root: Path, tree: Tree) -> None:
        tree.mkdir("d/e")
        for name in ("a.memoryd-12-3.tmp", "a.tmp", "e/b.memoryd-7-1.tmp"):
            (root / "d" / name).touch()
        (root / "d/c.memoryd-1-1.tmp").symlink_to("a.tmp")
        assert ours(tree) == ["d/a.memoryd-12-3.tmp", "d/e/b.memoryd-7-1.tmp"]
        with pytest.raises(ValueError, match="not a temporary name"):
            temps.target_of("a.tmp")
