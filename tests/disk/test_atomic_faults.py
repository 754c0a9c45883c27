"""Every failure and every kill at every call: old or new, nothing left behind, and a test that would notice.

Each sweep runs against our writer, and against an unsafe one (the canary) that the same check must catch.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memoryd
from memoryd.disk import atomic, syscalls, temps
from memoryd.disk.spare_file import SpareFile
from memoryd.disk.tree import Tree

pytestmark = pytest.mark.slow

OLD = b'{"id":1}\n' * 40
NEW = b'{"id":2}\n' * 60
TAIL = b'{"id":3}\n'
CALLS = [
    *("open", "stat", "fstat", "write", "writev", "fsync", "fchmod", "fchown", "listxattr", "pread"),
    *("rename", "link", "unlink", "lseek", "ftruncate", "dup", "mkdir"),
]


@dataclass
class Faults:
    """Counts file calls while `armed`; fails the n-th and, with `lasting`, all writing ones after it."""

    code: int
    fail_at: int = 0
    lasting: bool = False
    armed: bool = False
    count: int = 0
    failed: list[str] = field(default_factory=list)

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        writes = name in ("write", "writev", "fsync", "rename", "link", "fchmod", "rename with flags")

        def call(*args: Any, **more: Any) -> Any:
            if not self.armed:
                return real(*args, **more)
            self.count += 1
            if self.count == self.fail_at or (self.lasting and writes and self.count > self.fail_at):
                self.failed.append(name)
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **more)

        return call

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in CALLS:
            patch.setattr(os, name, self.wrap(name, getattr(os, name)))
        patch.setattr(syscalls, "rename_with_flags", self.wrap("rename with flags", syscalls.rename_with_flags))


Act = Callable[[Tree], object]


def replace(tree: Tree) -> None:
    atomic.replace(tree, "d/f", NEW, expected=tree.stat("d/f"))


def replace_by_exchange(tree: Tree) -> None:
    displaced = atomic.replace(tree, "d/f", NEW, expected=tree.stat("d/f"), exchange=True).replaced_file
    assert displaced is not None
    try:
        displaced.close()
    except OSError:
        displaced.close()  # as the caller's loop would
        raise


def replace_by_spare(tree: Tree) -> None:
    """First by a new spare file, then over the version before, which is outside the root."""
    spare = SpareFile(os.path.join(os.path.dirname(tree.path), "spare"))
    for content in (OLD, NEW):
        expected = tree.stat("d/f")
        assert expected is not None
        with atomic.exchanging(tree) as exchanged:
            atomic.replace_derived(tree, "d/f", content, expected=expected, spare=spare, exchanged=exchanged)


def append(tree: Tree) -> None:
    expected = tree.stat("d/f")
    assert expected is not None
    atomic.append(tree, "d/f", TAIL, expected=expected)


def remove(tree: Tree) -> None:
    expected = tree.stat("d/f")
    assert expected is not None
    atomic.remove(tree, "d/f", expected=expected)


def create(tree: Tree) -> None:
    atomic.create(tree, "d/f", NEW)


def unsafe(tree: Tree) -> None:
    """The canary: truncates and writes in place."""
    fd = os.open(os.path.join(tree.path, "d/f"), os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(fd, NEW)
        os.fsync(fd)
    finally:
        os.close(fd)


def unsafe_temp(tree: Tree) -> None:
    """The second canary: renames, but forgets its temporary file when something fails."""
    temp = os.path.join(tree.path, f"d/f.memoryd-{os.getpid()}-1.tmp")
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT, 0o640)
    try:
        os.write(fd, NEW)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temp, os.path.join(tree.path, "d/f"))


ACTS: dict[str, tuple[Act, bytes | None, bytes | None]] = {
    "replace": (replace, OLD, NEW),
    "exchange": (replace_by_exchange, OLD, NEW),
    "spare": (replace_by_spare, OLD, NEW),
    "append": (append, OLD, OLD + TAIL),
    "remove": (remove, OLD, None),
    "create": (create, None, NEW),
}


def fresh(root: Path, old: bytes | None) -> None:
    shutil.rmtree(root, ignore_errors=True)
    (root / "d").mkdir(parents=True)
    if old is not None:
        (root / "d/f").write_bytes(old)
        os.chmod(root / "d/f", 0o640)


def content_of(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def faults_of(act: Act, old: bytes | None, new: bytes | None, root: Path, code: int, lasting: bool) -> int:
    """Fail each call in turn until the act runs through; the number of calls it makes. Asserts on damage."""
    for number in range(1, 200):
        fresh(root, old)
        faults = Faults(code, number, lasting)
        with Tree(os.path.realpath(root)) as tree, pytest.MonkeyPatch.context() as patch:
            faults.install(patch)
            faults.armed = True
            raised = False
            try:
                act(tree)
            except OSError:
                raised = True
            finally:
                faults.armed = False
            where = f"{code} at call {number} ({faults.failed})"
            now = content_of(root / "d/f")
            assert now in (old, new), where
            assert raised or now == new, f"silent failure: {where}"
            if lasting and "rename with flags" in faults.failed[1:]:
                # The disk went bad between a rename and the call that would take it back.
                recover(root, old, new)
            assert os.listdir(root / "d") == ([] if now is None else ["f"]), where
            if now is not None and old is not None:
                assert stat.S_IMODE((root / "d/f").stat().st_mode) == 0o640, where
        if not faults.failed:
            return number - 1
    raise AssertionError("never ran through")


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=["ENOSPC", "EIO", "EROFS"])
@pytest.mark.parametrize("name", list(ACTS))
def test_each_call_fails_in_turn(tmp_path: Path, name: str, code: int, lasting: bool) -> None:
    act, old, new = ACTS[name]
    before = len(os.listdir("/proc/self/fd"))
    assert faults_of(act, old, new, tmp_path / "root", code, lasting) >= 6
    assert len(os.listdir("/proc/self/fd")) <= before  # fewer where the garbage of another test went meanwhile


@pytest.mark.parametrize("canary", [unsafe, unsafe_temp])
def test_the_sweep_catches_unsafe_writers(tmp_path: Path, canary: Act) -> None:
    with pytest.raises(AssertionError):
        faults_of(canary, OLD, NEW, tmp_path / "root", errno.ENOSPC, False)


@pytest.mark.parametrize("name", list(ACTS))
def test_a_system_without_rename_flags(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "libc", object())
    act, old, new = ACTS[name]
    faults_of(act, old, new, tmp_path / "root", errno.EIO, False)


SWEPT = (
    "write,writev",
    "fsync",
    "fchmod",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "link,linkat",
    "ftruncate",
)
SCRIPT = """
import os, sys
sys.path[:0] = sys.argv[3:5]
import test_atomic_faults as acts
from memoryd.disk.tree import Tree
name, root = sys.argv[1:3]
act = acts.unsafe if name == "unsafe" else acts.ACTS[name][0]
with Tree(root) as tree:
    act(tree)
"""


def kill_before(calls: str, number: int, name: str, root: Path) -> bool:
    """Run an act in a process that dies before its n-th such system call; did it die?"""
    paths = [os.path.dirname(os.path.dirname(memoryd.__file__)), os.path.dirname(__file__)]
    # strace counts each system call on its own, so only one of a set can be the n-th.
    done = subprocess.run(
        ["strace", "-qq", "-o", os.devnull, "-e", f"trace={calls}"]
        + [word for call in calls.split(",") for word in ("-e", f"inject={call}:signal=SIGKILL:when={number}")]
        + [sys.executable, "-B", "-c", SCRIPT, name, os.path.realpath(root), *paths],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, -9, 137), done.stderr
    return done.returncode != 0


def recover(root: Path, old: bytes | None, new: bytes | None) -> None:
    """Recover as the caller does at the next start: a leftover without new content is removed."""
    with Tree(os.path.realpath(root)) as tree:
        for temp in tree.scan(lambda _: False, only=temps.is_our_temp).files:
            left, _ = tree.read(temp)
            assert any(known is not None and known.startswith(left) for known in (old, new))
            tree.unlink(temp)


def kills_of(name: str, old: bytes | None, new: bytes | None, root: Path) -> int:
    """Kill before every call of every kind in turn; the number of kills. Asserts on damage."""
    killed = 0
    for calls in SWEPT:
        for number in range(1, 20):
            fresh(root, old)
            died = kill_before(calls, number, name, root)
            now = content_of(root / "d/f")
            where = f"{calls} {number}"
            assert now == new or (died and now == old), where
            recover(root, old, new)
            assert os.listdir(root / "d") == ([] if now is None else ["f"]), where
            killed += died
            if not died:
                break
        else:
            raise AssertionError(f"never ran through: {calls}")
    return killed


@pytest.fixture
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    probe = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], check=False, capture_output=True)
    if probe.returncode != 0:
        pytest.skip("strace may not trace here")


@pytest.mark.root_only
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("name", list(ACTS))
def test_kill_before_every_call(tmp_path: Path, name: str) -> None:
    _, old, new = ACTS[name]
    assert kills_of(name, old, new, tmp_path / "root") >= 2


@pytest.mark.root_only
@pytest.mark.usefixtures("strace")
def test_the_kill_sweep_catches_an_unsafe_writer(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="write,writev 1"):
        kills_of("unsafe", OLD, NEW, tmp_path / "root")
