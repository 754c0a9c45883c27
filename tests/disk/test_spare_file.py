"""An index file that is replaced by its spare file: whole for every reader, and never over another program's change."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from memoryd.core.spans import Content
from memoryd.disk import atomic, spare_file, syscalls
from memoryd.disk.atomic import Guard, StoreChangedError
from memoryd.disk.spare_file import SpareFile
from memoryd.disk.temps import PART, write_content
from memoryd.disk.tree import Tree
from memoryd.errors import BusyError

FIRST = b"first\n" * 50_000
VERSIONS = (b"second version\n" * 30_000, b"third\n" * 10, b"fourth\n" * 60_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    (path / "index").write_bytes(FIRST)
    (path / "index").chmod(0o640)
    return path


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with Tree(os.path.realpath(root)) as opened:
        yield opened


@pytest.fixture
def spare(tmp_path: Path) -> SpareFile:
    return SpareFile(os.path.join(os.path.realpath(tmp_path), "spare"))


def write(tree: Tree, spare: SpareFile, content: Content) -> None:
    expected = tree.stat("index")
    assert expected is not None
    with atomic.exchanging(tree) as exchanged:
        written = atomic.replace_derived(tree, "index", content, expected=expected, spare=spare, exchanged=exchanged)
    assert written == tree.stat("index")


@pytest.mark.usefixtures("leases")
def test_two_files_take_turns(root: Path, tree: Tree, spare: SpareFile, tmp_path: Path) -> None:
    inodes = []
    for number, content in enumerate(VERSIONS):
        write(tree, spare, content)
        assert (root / "index").read_bytes() == content
        assert (tmp_path / "spare").read_bytes() == (FIRST, *VERSIONS)[number]
        assert (root / "index").stat().st_mode & 0o777 == 0o640
        inodes.append((root / "index").stat().st_ino)
    assert inodes[0] == inodes[2] != inodes[1]
    assert os.listdir(root) == ["index"]


def test_content_in_pieces(root: Path, tree: Tree, spare: SpareFile) -> None:
    pieces: list[bytes | memoryview] = [b"x" * PART, memoryview(b"y" * 10), b"z" * PART]
    for _ in range(3):
        write(tree, spare, pieces)
        assert (root / "index").read_bytes() == b"".join(pieces)


def test_a_changed_mode_is_kept(root: Path, tree: Tree, spare: SpareFile) -> None:
    for mode in (0o600, 0o400, 0o644):
        (root / "index").chmod(mode)
        for content in VERSIONS:
            write(tree, spare, content)
            assert (root / "index").read_bytes() == content
            assert (root / "index").stat().st_mode & 0o777 == mode


Read = Callable[[], bytes]


def by_descriptor(path: Path, _place: Path) -> Read:
    fd = os.open(path, os.O_RDONLY)

    def read() -> bytes:
        with os.fdopen(fd, "rb") as file:
            return file.read()

    return read


def by_mapping(path: Path, _place: Path) -> Read:
    with open(path, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return lambda: bytes(mapping)


def by_process(path: Path, _place: Path) -> Read:
    script = "import sys; f = open(sys.argv[1], 'rb'); print(flush=True); input(); sys.stdout.buffer.write(f.read())"
    words = [sys.executable, "-c", script, str(path)]
    reader = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"\n"
    return lambda: reader.communicate(b"\n")[0]


def by_link(path: Path, place: Path) -> Read:
    os.link(path, place / "link")
    return (place / "link").read_bytes


def replace_beside(open_version: Callable[[Path, Path], Read], tree: Tree, spare: SpareFile, place: Path) -> None:
    index = Path(tree.path, "index")
    write(tree, spare, VERSIONS[0])
    read = open_version(index, place)
    for content in (VERSIONS[2], FIRST, VERSIONS[1]):
        write(tree, spare, content)
        assert index.read_bytes() == content
    is_whole = read() == VERSIONS[0]  # apart: pytest takes minutes to show how two such files differ
    assert is_whole, "a version was overwritten while it was read"


@pytest.mark.parametrize("way", [by_descriptor, by_mapping, by_process, by_link])
def test_a_version_that_is_open_stays_as_it_was(
    way: Callable[[Path, Path], Read], tree: Tree, spare: SpareFile, tmp_path: Path
) -> None:
    replace_beside(way, tree, spare, tmp_path)


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("way", [by_descriptor, by_process])  # a mapping would end the process: the file is shorter
def test_without_the_lease_it_would_be_overwritten(
    way: Callable[[Path, Path], Read],
    tree: Tree,
    spare: SpareFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spare_file, "take_lease", lambda _fd: True)
    with pytest.raises(AssertionError, match="overwritten while it was read"):
        replace_beside(way, tree, spare, tmp_path)


def test_every_read_sees_a_whole_version(root: Path, tree: Tree, spare: SpareFile) -> None:
    """Readers that open the file again and again, while it is replaced as often."""
    known, torn, stop = {FIRST, *VERSIONS}, list[bytes](), threading.Event()

    def read() -> None:
        while not stop.is_set():
            found = (root / "index").read_bytes()
            if found not in known:
                torn.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(100):
            write(tree, spare, VERSIONS[number % len(VERSIONS)])
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not torn


@pytest.mark.usefixtures("leases")
def test_one_who_opens_it_meanwhile_waits_until_it_is_complete(
    root: Path, tree: Tree, spare: SpareFile, tmp_path: Path
) -> None:
    """A program that looked the name up before the exchange and opens the file only after it."""
    write(tree, spare, VERSIONS[0])
    content, got = VERSIONS[2] * 2, list[bytes]()
    late = threading.Thread(target=lambda: got.append((tmp_path / "spare").read_bytes()))

    def start() -> None:
        if late.ident is None:
            late.start()
            late.join(0.2)  # it may not get further than the open

    expected = tree.stat("index")
    assert expected is not None
    with atomic.exchanging(tree) as exchanged:
        atomic.replace_derived(tree, "index", content, expected=expected, spare=spare, exchanged=exchanged, pause=start)
    late.join()
    assert (root / "index").read_bytes() == content
    assert got in ([content], [VERSIONS[0]])  # the spare file when the lease ended, or what the exchange put there


@pytest.mark.parametrize("way", ["rename", "in place", "removed"])
def test_what_another_program_just_wrote_is_not_replaced(
    way: str, root: Path, tree: Tree, spare: SpareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, spare, VERSIONS[0])
    exchange = syscalls.exchange
    index, theirs = root / "index", b"of another program"

    def exchange_after_another_program(directory: int, one: str, other: str) -> None:
        monkeypatch.setattr(spare_file, "exchange", exchange)
        if way == "rename":
            (root / "new").write_bytes(theirs)
            (root / "new").rename(index)
        elif way == "in place":
            index.write_bytes(theirs)
        else:
            index.unlink()
        exchange(directory, one, other)

    monkeypatch.setattr(spare_file, "exchange", exchange_after_another_program)
    with pytest.raises(StoreChangedError):
        write(tree, spare, VERSIONS[1])
    if way == "removed":
        assert not index.exists()
        return
    assert index.read_bytes() == theirs
    write(tree, spare, VERSIONS[2])
    assert index.read_bytes() == VERSIONS[2]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EINVAL])
def test_where_names_cannot_be_exchanged_each_version_is_a_new_file(
    code: int, root: Path, tree: Tree, spare: SpareFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def cannot(*given: object) -> None:
        calls.append(given)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(spare_file, "exchange", cannot)
    for content in VERSIONS:
        write(tree, spare, content)
        assert (root / "index").read_bytes() == content
    assert len(calls) == 1, "asked again although the answer is known"
    assert os.listdir(root) == ["index"]
    assert not (tmp_path / "spare").exists()


def test_without_leases_each_version_is_a_new_file(
    root: Path, tree: Tree, spare: SpareFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare_file, "take_lease", lambda _fd: None)
    for content in VERSIONS:
        write(tree, spare, content)
        assert (root / "index").read_bytes() == content
        assert not (tmp_path / "spare").exists()


def test_a_state_directory_that_is_gone_costs_only_speed(root: Path, tree: Tree, tmp_path: Path) -> None:
    spare = SpareFile(str(tmp_path / "gone" / "spare"))
    for content in VERSIONS:
        write(tree, spare, content)
        assert (root / "index").read_bytes() == content


def test_no_descriptor_stays_open(tree: Tree, spare: SpareFile) -> None:
    write(tree, spare, VERSIONS[0])
    before = len(os.listdir("/dev/fd"))
    for content in VERSIONS:
        write(tree, spare, content)
    assert len(os.listdir("/dev/fd")) <= before


LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print(flush=True)
input()
"""


@pytest.mark.usefixtures("leases")
def test_a_program_with_a_lease_is_not_waited_for(root: Path, tree: Tree, spare: SpareFile, sizes: list[int]) -> None:
    """As a file server has one; the kernel would let it keep the lease for 45 seconds."""
    words = [sys.executable, "-c", LEASE, str(root / "index")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        write(tree, spare, VERSIONS[0])  # its file is the spare one now
        writer = threading.Thread(target=write, args=(tree, spare, VERSIONS[1]))
        writer.start()
        writer.join(30)
        waits = writer.is_alive()
        holder.communicate(b"\n")
        writer.join()
    assert not waits
    assert sizes == [0, 0]
    assert (root / "index").read_bytes() == VERSIONS[1]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the spare file before each time it is written: 0 where it is new. Its inode may have the number of another."""
    found = list[int]()

    def write_and_note(fd: int, content: Content, pause: Callable[[], None]) -> None:
        found.append(os.fstat(fd).st_size)
        write_content(fd, content, pause)

    monkeypatch.setattr(spare_file, "write_content", write_and_note)
    return found


@pytest.mark.usefixtures("leases")
def test_what_an_earlier_process_left_is_not_overwritten(
    tree: Tree, spare: SpareFile, tmp_path: Path, sizes: list[int]
) -> None:
    """On the disk it may still be the live file."""
    write(tree, spare, VERSIONS[0])
    write(tree, spare, VERSIONS[1])
    write(tree, SpareFile(str(tmp_path / "spare")), VERSIONS[2])
    assert sizes == [0, len(FIRST), 0]


@pytest.mark.usefixtures("leases")
def test_nor_is_what_may_not_have_been_exchanged_on_the_disk(
    root: Path, tree: Tree, spare: SpareFile, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(syscalls, "sync_directory", fail)
        with pytest.raises(OSError, match="Input"):
            write(tree, spare, VERSIONS[0])
    write(tree, spare, VERSIONS[1])
    assert (root / "index").read_bytes() == VERSIONS[1]
    assert sizes == [0, 0]


@pytest.mark.usefixtures("leases")
def test_nor_is_what_was_live_until_the_exchange_was_undone(
    root: Path, tree: Tree, spare: SpareFile, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is synced between the two exchanges: after a power failure, the directory may name either file."""
    write(tree, spare, VERSIONS[0])
    exchange = syscalls.exchange

    def exchange_after_another_program(directory: int, one: str, other: str) -> None:
        monkeypatch.setattr(spare_file, "exchange", exchange)
        (root / "index").write_bytes(b"of another program")
        exchange(directory, one, other)

    monkeypatch.setattr(spare_file, "exchange", exchange_after_another_program)
    with pytest.raises(StoreChangedError):
        write(tree, spare, VERSIONS[1])
    write(tree, spare, VERSIONS[2])
    assert (root / "index").read_bytes() == VERSIONS[2]
    assert sizes == [0, len(FIRST), 0]


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("lost", [False, True])
def test_several_files_share_one_sync_of_their_directory(
    lost: bool, root: Path, tree: Tree, tmp_path: Path, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the lock was lost before the last of them."""
    synced = list[bytes]()
    monkeypatch.setattr(syscalls, "sync_directory", lambda _: synced.append((root / "index").read_bytes()))
    spares = {name: SpareFile(str(tmp_path / f"{name}.spare")) for name in ("index", "other")}
    (root / "other").write_bytes(FIRST)

    def guard() -> None:
        if lost:
            raise BusyError("lost")

    def write_all(content: Content, last: Guard | None) -> None:
        with atomic.exchanging(tree) as exchanged:
            for name, spare in spares.items():
                expected = tree.stat(name)
                assert expected is not None
                check = last if name == "other" else None
                atomic.replace_derived(
                    tree, name, content, expected=expected, spare=spare, exchanged=exchanged, guard=check
                )

    with pytest.raises(BusyError) if lost else nullcontext():
        write_all(VERSIONS[0], guard)
    write_all(VERSIONS[1], None)
    assert synced == [VERSIONS[0], VERSIONS[1]]
    assert sizes[2] == len(FIRST), "overwritten, since it was synced"


def test_what_cannot_be_removed_is_neither_used_nor_in_the_way(
    root: Path, tree: Tree, spare: SpareFile, tmp_path: Path
) -> None:
    (tmp_path / "spare").mkdir()
    (tmp_path / "spare" / "file").touch()
    for content in VERSIONS:
        write(tree, spare, content)
        assert (root / "index").read_bytes() == content
    spare.discard()
    assert (tmp_path / "spare" / "file").exists()


def test_an_attribute_that_was_removed_stays_so(root: Path, tree: Tree, spare: SpareFile) -> None:
    index = root / "index"
    try:
        os.setxattr(index, "user.seen", b"1")
    except (OSError, AttributeError):
        pytest.skip("there are no attributes here")
    write(tree, spare, VERSIONS[0])
    assert os.getxattr(index, "user.seen") == b"1"
    os.removexattr(index, "user.seen")
    for content in VERSIONS:
        write(tree, spare, content)
        assert os.listxattr(index) == []


def test_the_newer_of_two_foreign_versions_stays(
    root: Path, tree: Tree, spare: SpareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program replaces the file right before the exchange, and once more before it is undone."""
    exchange, number = syscalls.exchange, iter(range(9))
    index = root / "index"

    def exchange_after_another_program(directory: int, one: str, other: str) -> None:
        at = next(number)
        if at < 2:
            (root / "new").write_bytes(b"foreign %d" % at)
            (root / "new").rename(index)
        exchange(directory, one, other)

    monkeypatch.setattr(spare_file, "exchange", exchange_after_another_program)
    with pytest.raises(StoreChangedError):
        write(tree, spare, VERSIONS[0])
    assert index.read_bytes() == b"foreign 1"
    assert os.listdir(root) == ["index"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES])
def test_a_refused_exchange_is_followed_by_a_rename(
    code: int, root: Path, tree: Tree, spare: SpareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(spare_file, "exchange", refuse)
    write(tree, spare, VERSIONS[0])
    assert (root / "index").read_bytes() == VERSIONS[0]


def test_another_file_system_is_not_written_to(
    root: Path, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == root.stat().st_dev:
        pytest.skip("there is no second file system here")
    place = elsewhere / f"{os.getpid()}-spare"
    written = list[int]()
    monkeypatch.setattr(spare_file, "write_content", lambda *_: written.append(1))
    spare = SpareFile(str(place))
    for content in VERSIONS:
        write(tree, spare, content)
        assert (root / "index").read_bytes() == content
    assert not written
    assert not place.exists()
