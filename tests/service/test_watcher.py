"""The watcher on real inotify. Tests wait for what is reported; nothing sleeps to be right."""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from memoryd.engine.interfaces import Change
from memoryd.service.watching import manager as manager_module
from memoryd.service.watching import watcher as watcher_module
from memoryd.service.watching.inotify_limits import Coverage, held_of, kernel_device, limit_hint
from memoryd.service.watching.manager import PROBE_KEY, TouchCall, TroubleCall
from memoryd.service.watching.watcher import WatchdogStream, Watcher
from tests.agents import AT_FDCWD, RENAME_EXCHANGE
from tests.crowd import by_threads
from tests.daemon import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux only")

WAIT = 20.0
Touch = tuple[str, str | None, bool]
Trouble = tuple[str, str | None]


class Reports:
    """What the watcher said, in order."""

    def __init__(self) -> None:
        self.touches: list[Touch] = []
        self.kinds: list[tuple[str | None, Change]] = []
        self.troubles: list[Trouble] = []
        self.broken = False
        self.flooded: set[str] = set()  # keys of which a scan is due
        self.changed = threading.Condition()

    def touch(self, key: str, path: str | None, kind: Change) -> bool:
        if self.broken:
            raise RuntimeError("inbox closed")
        with self.changed:
            self.touches.append((key, path, kind is Change.GONE))
            self.kinds.append((path, kind))
            self.changed.notify_all()
        return key in self.flooded

    def trouble(self, reason: str, key: str | None) -> None:
        with self.changed:
            self.troubles.append((reason, key))
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT), (self.touches[-20:], self.troubles)

    def seen_after(self, root: Path) -> bool:
        """Is a new file seen within a second? One written during a rebuild is found by the scan after it."""
        with self.changed:
            (root / f"seen-{len(self.touches)}").write_text("x")
            return self.changed.wait_for(lambda: any("seen" in (path or "") for _, path, _ in self.touches), 1.0)

    def wait_touch(self, *touch: object) -> None:
        self.wait(lambda: touch in self.touches)

    def wait_trouble(self, reason: str, key: str | None = None) -> None:
        self.wait(lambda: (reason, key) in self.troubles)


@pytest.fixture
def reports() -> Reports:
    return Reports()


class RecordedStream(WatchdogStream):
    """One that shows whom it tells."""

    def __init__(self, touch: TouchCall, trouble: TroubleCall) -> None:
        super().__init__(touch, trouble)
        self.touch, self.trouble = touch, trouble


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[RecordedStream]:
    """One for each generation."""
    opened: list[RecordedStream] = []

    def opening(touch: TouchCall, trouble: TroubleCall) -> RecordedStream:
        opened.append(RecordedStream(touch, trouble))
        return opened[-1]

    monkeypatch.setattr(watcher_module, "WatchdogStream", opening)
    return opened


@pytest.fixture
def watcher(reports: Reports, streams: list[RecordedStream], tmp_path: Path) -> Iterator[Watcher]:
    made = Watcher(reports.touch, reports.trouble, str(tmp_path / "state" / "probe"))
    assert made.start()
    yield made
    made.stop()


@pytest.fixture
def root(watcher: Watcher, tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    assert watcher.watch("agents", str(path))
    return path


def directories(root: Path) -> dict[str, tuple[int, int]]:
    places = {os.path.relpath(path, root): os.stat(path) for path, _, _ in os.walk(root)}
    return {"" if path == "." else path: (found.st_dev, found.st_ino) for path, found in places.items()}


def reader_of(stream: WatchdogStream) -> threading.Thread:
    inotify = pytest.importorskip("watchdog.observers.inotify_c")
    [reader] = [each for each in threading.enumerate() if stream.owns(each) and isinstance(each, inotify.InotifyFD)]
    assert isinstance(reader, threading.Thread)
    return reader


def kill_reader(stream: WatchdogStream, root: Path) -> threading.Thread:
    """The next event raises in the reading thread, as watchdog's own KeyError does."""
    reader = reader_of(stream)

    def boom(_event: object) -> None:
        raise KeyError("lost its way")

    reader.handle_event = boom  # type: ignore[attr-defined] # an attribute of the library's own thread class
    (root / "last-seen").write_text("x")
    return reader


def test_write_append_rename_delete(root: Path, reports: Reports) -> None:
    (root / "a.jsonl").write_text("1\n")
    reports.wait_touch("agents", "a.jsonl", False)
    reports.touches.clear()
    with (root / "a.jsonl").open("a") as file:
        file.write("2\n")
        file.flush()
        reports.wait_touch("agents", "a.jsonl", False)  # while the file is still open
    os.rename(root / "a.jsonl", root / "b.jsonl")
    reports.wait_touch("agents", "a.jsonl", True)
    reports.wait_touch("agents", "b.jsonl", False)
    (root / "b.jsonl").unlink()
    reports.wait_touch("agents", "b.jsonl", True)


def test_a_clock_that_refuses_to_sleep_ends_no_thread(
    root: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the clock jumps while the thread that reads events rests."""

    def refused(_: float) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(time, "sleep", refused)
    for name in ("a.jsonl", "b.jsonl"):
        (root / name).write_text("1\n")
        reports.wait_touch("agents", name, False)
    assert reports.troubles == []


def test_lock_files_touch_nothing_and_what_comes_after_does(root: Path, reports: Reports) -> None:
    (root / ".lock").write_text("1")
    (root / ".lock").unlink()
    (root / "sub").mkdir()
    (root / "a.jsonl").write_text("1\n")
    reports.wait_touch("agents", "a.jsonl", False)
    assert not [path for _, path, _ in reports.touches if path and ".lock" in path]
    (root / ".lock").mkdir()  # a directory of that name is none
    reports.touches.clear()
    (root / ".lock" / "b.jsonl").write_text("1\n")
    reports.wait(lambda: bool(reports.touches))


def test_an_atomic_save_touches_the_final_name(root: Path, reports: Reports) -> None:
    (root / "tmp").write_text("new")
    os.replace(root / "tmp", root / "final")
    reports.wait_touch("agents", "final", False)


def test_a_file_is_complete_when_it_is_closed_or_renamed_into_place(root: Path, reports: Reports) -> None:
    with (root / "a").open("w") as file:
        file.write("1")
        file.flush()
        reports.wait(lambda: ("a", Change.MODIFIED) in reports.kinds)
        assert ("a", Change.COMPLETE) not in reports.kinds
    reports.wait(lambda: ("a", Change.COMPLETE) in reports.kinds)
    os.rename(root / "a", root / "b")
    reports.wait(lambda: reports.kinds[-2:] == [("a", Change.GONE), ("b", Change.COMPLETE)])


def test_after_a_barrier_every_earlier_event_has_been_reported(
    watcher: Watcher, root: Path, reports: Reports, tmp_path: Path
) -> None:
    (root / "sub").mkdir()
    reports.wait_touch("agents", None, False)
    for number in range(50):
        (root / f"new-{number}").write_text("x")
        (root / "sub" / f"below-{number}").write_text("x")
        os.rename(root / f"new-{number}", tmp_path / f"gone-{number}")
        assert watcher.barrier(WAIT)
        assert (f"new-{number}", Change.GONE) in reports.kinds
        assert (f"sub/below-{number}", Change.COMPLETE) in reports.kinds


def test_a_barrier_does_not_wait_for_the_end_of_a_burst(
    watcher: Watcher, root: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.service.watching.inotify.GATHER_S", 10 * WAIT)
    (root / "first").write_text("x")
    reports.wait(lambda: "first" in dict(reports.kinds))
    (root / "second").write_text("x")
    assert watcher.barrier(WAIT)
    assert ("second", Change.COMPLETE) in reports.kinds


def test_what_has_happened_is_delivered_before_the_end_of_a_burst(
    watcher: Watcher, root: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.service.watching.inotify.GATHER_S", 10 * WAIT)
    monkeypatch.setattr(manager_module, "DELIVER_S", WAIT)
    for number in range(20):
        (root / f"new-{number}").write_text("x")
        watcher.deliver()
        assert (f"new-{number}", Change.COMPLETE) in reports.kinds


def test_nothing_is_delivered_in_a_flood(
    watcher: Watcher, root: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_flood(root / "first", watcher, reports, monkeypatch)
    monkeypatch.setattr("memoryd.service.watching.inotify.FLOOD_GATHER_S", 10 * WAIT)
    monkeypatch.setattr(manager_module, "DELIVER_S", WAIT)
    (root / "second").write_text("x")
    reports.wait(lambda: bool(reports.touches))  # from here on the reader rests
    del reports.touches[:]
    (root / "third").write_text("x")
    watcher.deliver()
    assert not reports.touches


def begin_flood(path: Path, watcher: Watcher, reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file of a root whose scan is due, and stays due."""
    monkeypatch.setattr("memoryd.service.watching.router.FLOOD_S", 3600.0)
    reports.flooded = {"agents"}
    path.write_text("x")
    assert watcher.barrier(WAIT)
    del reports.touches[:]


@pytest.mark.parametrize("number", [1, 200])
def test_while_a_scan_is_due_files_that_are_written_are_not_told_one_by_one(
    watcher: Watcher, root: Path, reports: Reports, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_flood(root / "first", watcher, reports, monkeypatch)
    for each in range(number):
        (root / f"file-{each}").write_text("x")
    assert watcher.barrier(WAIT)
    assert set(reports.touches) == {("agents", None, False)}
    reports.flooded = set()
    (root / "file-0").unlink()
    assert watcher.barrier(WAIT)
    assert reports.touches[-1] == ("agents", "file-0", True)
    (root / "last").write_text("x")
    assert watcher.barrier(WAIT)
    assert reports.touches[-1] == ("agents", "last", False)


def test_what_is_written_is_told_before_a_later_deletion(
    root: Path, reports: Reports, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_flood(root / "old", watcher, reports, monkeypatch)
    (root / "new").write_text("x")
    (root / "old").unlink()
    (root / "below").mkdir()
    assert watcher.barrier(WAIT)
    assert list(dict.fromkeys(reports.touches)) == [("agents", None, False), ("agents", "old", True)]


def test_a_flood_in_one_root_hides_nothing_from_another_that_holds_it(
    root: Path, reports: Reports, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.service.watching.router.FLOOD_S", 3600.0)
    (root / "inner").mkdir()
    assert watcher.watch("inner", str(root / "inner"))
    reports.flooded = {"inner"}
    (root / "inner/first").write_text("x")
    assert watcher.barrier(WAIT)
    (root / "inner/second").write_text("x")
    assert watcher.barrier(WAIT)
    assert ("agents", "inner/second", False) in reports.touches


def test_canary_without_a_barrier_some_event_is_still_to_come(root: Path, reports: Reports) -> None:
    missing = 0
    for number in range(50):
        (root / f"new-{number}").write_text("x")
        missing += (f"new-{number}", Change.COMPLETE) not in reports.kinds
    assert missing


def test_a_barrier_fails_where_events_are_not_certain(
    watcher: Watcher, streams: list[RecordedStream], root: Path, reports: Reports, tmp_path: Path
) -> None:
    kill_reader(streams[-1], root)
    reports.wait_trouble("thread-died")
    reports.wait_trouble("rebuilt")
    assert watcher.barrier(WAIT), "the new stream is in order"
    streams[-1].in_order = False  # as on a system whose events come in no order
    assert not watcher.barrier(WAIT)
    watcher.stop()
    assert not watcher.barrier(WAIT)


def test_a_barrier_is_given_up_in_time(watcher: Watcher, streams: list[RecordedStream], root: Path) -> None:
    release = threading.Event()
    reader_of(streams[-1]).handle_event = lambda _: release.wait(WAIT)  # type: ignore[attr-defined]
    (root / "stuck").write_text("x")
    assert not watcher.barrier(0.05)
    release.set()
    assert watcher.barrier(WAIT)


@pytest.mark.parametrize("step", ["_check_inotify_fd", "handle_event"])
def test_a_barrier_ends_with_the_thread_that_reads(
    watcher: Watcher, streams: list[RecordedStream], root: Path, step: str
) -> None:
    """What it has not reported will never be reported."""
    reader, reached, release = reader_of(streams[-1]), threading.Event(), threading.Event()
    work = getattr(reader, step)

    def fail(*given: object) -> None:
        work(*given)
        reached.set()
        assert release.wait(WAIT)
        raise OSError(errno.EIO, "Input/output error")

    watcher.restarter.stop()
    setattr(reader, step, fail)
    numbers = count()
    until(lambda: (root / f"new-{next(numbers)}").write_text("x") and reached.is_set(), "it is about to fail")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watcher.barrier, 3 * WAIT)
        release.set()
        assert not waiting.result(WAIT)


def test_a_barrier_covers_more_events_than_one_reading_takes(
    watcher: Watcher, streams: list[RecordedStream], root: Path, reports: Reports
) -> None:
    reader, release = reader_of(streams[-1]), threading.Event()
    handle = reader.handle_event  # type: ignore[attr-defined]
    reader.handle_event = lambda event: (release.wait(WAIT), handle(event))  # type: ignore[attr-defined]
    names = {f"{'long' * 50}-{number}" for number in range(300)}
    for name in names:
        (root / name).write_text("x")
    release.set()
    assert watcher.barrier(WAIT)
    assert names <= {path for path, kind in reports.kinds if kind is Change.COMPLETE}


def test_a_barrier_that_has_nothing_to_wait_for_writes_nothing(watcher: Watcher, tmp_path: Path) -> None:
    assert watcher.barrier(WAIT)
    probes = tmp_path / "state" / "probe"
    before = probes.stat().st_mtime_ns
    assert watcher.barrier(WAIT)
    assert probes.stat().st_mtime_ns == before


def test_moves_across_the_edge_of_a_root(root: Path, reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    os.rename(tmp_path / "outside", root / "inside")
    reports.wait_touch("agents", "inside", False)
    os.rename(root / "inside", tmp_path / "outside")
    reports.wait_touch("agents", "inside", True)


def test_new_directories_ask_for_a_scan_and_are_watched(root: Path, reports: Reports) -> None:
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "b" / "c" / "f").write_text("x")
    reports.wait_touch("agents", None, False)
    reports.wait_touch("agents", "a/b/c/f", False)
    reports.touches.clear()
    (root / "a" / "b" / "c" / "g").write_text("x")
    reports.wait_touch("agents", "a/b/c/g", False)


def test_a_directory_moved_in_and_out(root: Path, reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    os.rename(tmp_path / "d", root / "d")
    reports.wait_touch("agents", None, False)
    (root / "d" / "e" / "f").write_text("x")
    reports.wait_touch("agents", "d/e/f", False)
    os.rename(root / "d", tmp_path / "d")
    reports.wait_touch("agents", None, True)


def test_a_directory_deleted_is_a_deletion_seen(root: Path, reports: Reports) -> None:
    (root / "d").mkdir()
    reports.wait_touch("agents", None, False)
    (root / "d").rmdir()
    reports.wait_touch("agents", None, True)


def test_names_that_are_not_utf8(root: Path, reports: Reports) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    (root / name).write_text("x")
    reports.wait_touch("agents", name, False)


def test_reading_makes_no_event(root: Path, reports: Reports) -> None:
    (root / "sub").mkdir()
    for number in range(20):
        (root / "sub" / f"f{number}").write_text("x")
    (root / "before").write_text("x")
    reports.wait_touch("agents", "before", False)
    reports.wait_touch("agents", "sub/f19", False)
    (root / "mark").write_text("x")
    reports.wait(lambda: [touch[1] for touch in reports.touches].count("mark") >= 2)
    settled = len(reports.touches)
    for path in (root / "sub").iterdir():
        path.read_text()
    os.listdir(root)
    (root / "after").write_text("x")
    reports.wait_touch("agents", "after", False)
    assert {touch[1] for touch in reports.touches[settled:]} <= {"after", "mark"}


def test_roots_are_told_apart(watcher: Watcher, root: Path, reports: Reports, tmp_path: Path) -> None:
    other = tmp_path / "root-2"  # a name that begins like the other root's
    other.mkdir()
    assert watcher.watch("team", str(other))
    (other / "f").write_text("x")
    (root / "g").write_text("x")
    reports.wait_touch("team", "f", False)
    reports.wait_touch("agents", "g", False)
    assert not {("agents", "f", False), ("team", "g", False)} & set(reports.touches)


def test_a_symlinked_root(watcher: Watcher, reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert watcher.watch("linked", str(tmp_path / "link"))
    (tmp_path / "link" / "f").write_text("x")
    reports.wait_touch("linked", "f", False)


def test_a_missing_root_leaks_nothing(watcher: Watcher, reports: Reports, tmp_path: Path) -> None:
    threads = threading.active_count()
    (tmp_path / "file").write_text("x")
    assert not watcher.watch("agents", str(tmp_path / "nowhere"))
    assert not watcher.watch("file", str(tmp_path / "file"))
    until(lambda: threading.active_count() <= threads, "threads of the library end")
    assert watcher.coverage("agents", {"": (1, 2)}) == Coverage(1, 0)
    assert watcher.alive() == ["emitter:agents", "emitter:file"]
    (tmp_path / "nowhere").mkdir()
    assert watcher.watch("agents", str(tmp_path / "nowhere"))
    (tmp_path / "nowhere" / "f").write_text("x")
    reports.wait_touch("agents", "f", False)


def test_a_renamed_root_is_reported_and_a_directory_in_it_is_not(
    watcher: Watcher, root: Path, reports: Reports
) -> None:
    (root / "a").mkdir()
    reports.wait_touch("agents", None, False)
    (root / "a").rename(root / "b")
    assert watcher.barrier(10.0)
    assert not reports.troubles
    root.rename(root.with_name("away"))
    reports.wait_trouble("root-moved", "agents")


def test_a_root_that_goes_and_comes_back(watcher: Watcher, root: Path, reports: Reports) -> None:
    shutil.rmtree(root)
    reports.wait_trouble("root-gone", "agents")
    reports.wait_touch("agents", None, True)
    root.mkdir()
    assert watcher.watch("agents", str(root))
    assert watcher.alive() == []
    (root / "again").write_text("x")
    reports.wait_touch("agents", "again", False)


def test_an_unwatched_root_is_silent(watcher: Watcher, root: Path, reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert watcher.watch("other", str(tmp_path / "other"))
    watcher.unwatch("agents")
    watcher.unwatch("never-known")
    (root / "f").write_text("x")
    (tmp_path / "other" / "g").write_text("x")
    reports.wait_touch("other", "g", False)
    assert not [touch for touch in reports.touches if touch[0] == "agents"]
    assert watcher.alive() == []


def test_coverage_counts_what_the_kernel_watches(watcher: Watcher, root: Path, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / "big" / f"d{number}" / "e").mkdir(parents=True)
    assert watcher.watch("big", str(tmp_path / "big"))
    wanted = directories(tmp_path / "big")
    assert watcher.coverage("big", wanted) == Coverage(41, 41)
    assert watcher.coverage("big", {**wanted, "new": wanted["d0"]}) == Coverage(42, 41)
    assert watcher.coverage("big", {**wanted, "d1": wanted["d0"]}) == Coverage(41, 40)
    assert watcher.coverage("unknown", wanted) == Coverage(41, 0)


def exchange(one: Path, other: Path) -> None:
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    assert renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def test_directories_known_by_wrong_names_are_not_covered(watcher: Watcher, root: Path) -> None:
    """The library mixes up two directories that change places; their events are reported under each other's path."""
    for name in ("a", "b"):
        (root / name).mkdir()
    assert watcher.barrier(WAIT)
    assert watcher.coverage("agents", directories(root)) == Coverage(3, 3)
    exchange(root / "a", root / "b")
    assert watcher.barrier(WAIT)
    assert watcher.coverage("agents", directories(root)).held < 3
    assert watcher.watch("agents", str(root))
    assert watcher.coverage("agents", directories(root)) == Coverage(3, 3)


def test_a_file_that_becomes_readable_is_reported(watcher: Watcher, root: Path, reports: Reports) -> None:
    (root / "f").write_text("x")
    assert watcher.barrier(WAIT)
    reports.touches.clear()
    (root / "f").chmod(0o644)
    assert watcher.barrier(WAIT)
    assert reports.touches == [("agents", "f", False)]


def test_writes_to_a_file_that_was_made_without_a_name_are_reported(
    watcher: Watcher, root: Path, reports: Reports
) -> None:
    try:
        fd = os.open(root, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as error:
        pytest.skip(f"no O_TMPFILE here: {error.strerror}")
    inside = os.open(root, os.O_DIRECTORY)
    os.link(f"/proc/self/fd/{fd}", "f", dst_dir_fd=inside, follow_symlinks=True)
    os.close(inside)
    reports.wait_touch("agents", "f", False)
    assert watcher.barrier(WAIT)
    reports.touches.clear()
    os.write(fd, b"more")
    os.close(fd)
    assert watcher.barrier(WAIT)
    assert ("agents", None, False) in reports.touches


def test_the_devices_of_stat_and_kernel_are_compared_rightly() -> None:
    dev = os.makedev(259, 70_000)
    assert kernel_device(dev) == 259 << 20 | 70_000
    table = {"/r": (kernel_device(dev), 7), "/r/a": (kernel_device(dev), 8)}
    assert held_of({"/r": (dev, 7), "/r/a": (dev, 9)}, table) == Coverage(2, 1)
    assert held_of({"/r/a": (dev + 1, 8)}, table) == Coverage(1, 1)  # btrfs: another device to stat, same inode


def test_the_limit_is_named() -> None:
    assert "max_" in limit_hint()
    assert limit_hint().count("sysctl -w") == 1


def test_a_probe_comes_back(watcher: Watcher, root: Path, reports: Reports, tmp_path: Path) -> None:
    assert watcher.probe(100.0)
    deadline = time.monotonic() + WAIT
    while watcher.probe_outstanding(101.0) is not None:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    assert os.listdir(tmp_path / "state" / "probe") == []
    assert reports.touches == []
    assert reports.troubles == []


def test_two_missed_probes_are_trouble(
    watcher: Watcher, streams: list[RecordedStream], root: Path, reports: Reports
) -> None:
    kill_reader(streams[-1], root).join(WAIT)
    watcher.restarter.stop()
    watcher.rebuild("test")
    streams[-1].unwatch(PROBE_KEY)  # blind for probes while every thread lives
    reports.troubles.clear()
    assert watcher.probe(100.0)
    assert watcher.probe_outstanding(103.0) == 3.0
    watcher.probe(109.0)  # not overdue yet
    watcher.probe(110.0)
    assert reports.troubles == []
    watcher.probe(120.0)
    assert reports.troubles == [("probe", None)]
    assert watcher.alive() == ["probe-watch"]
    assert watcher.rebuild("probe")
    assert watcher.probe_outstanding(121.0) is None
    assert watcher.alive() == []


def test_a_probe_directory_that_went_is_noticed_and_made_again(
    watcher: Watcher, reports: Reports, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "state")
    for now in (100.0, 110.0, 120.0):
        assert watcher.probe(now)
    reports.wait_trouble("probe")
    assert watcher.rebuild("probe")
    assert watcher.alive() == []
    assert (tmp_path / "state" / "probe").is_dir()


def test_a_rebuild_asks_for_a_scan_of_every_root(watcher: Watcher, root: Path, reports: Reports) -> None:
    """Before a barrier on the new stream can pass: what changed during the rebuild caused no event."""
    assert root.is_dir()
    reports.touches.clear()
    assert watcher.rebuild("test")
    assert reports.touches == [("agents", None, False)]


def test_a_dead_reader_is_noticed(
    watcher: Watcher, streams: list[RecordedStream], root: Path, reports: Reports
) -> None:
    watcher.restarter.stop()  # look at the state before it is mended
    kill_reader(streams[-1], root).join(WAIT)
    reports.wait_trouble("thread-died")
    assert watcher.alive() == ["reader"]
    assert watcher.rebuild("thread-died")
    assert watcher.alive() == []
    (root / "seen").write_text("x")
    reports.wait_touch("agents", "seen", False)


def test_a_reader_that_dies_while_it_reads_leaves_no_descriptor(
    root: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each instance of inotify counts against a small limit, and so do its watches."""
    pytest.importorskip("watchdog.observers.inotify_c")

    def is_inotify(fd: int | str) -> bool:
        return os.path.realpath(f"/proc/self/fd/{fd}").endswith("anon_inode:inotify")

    def instances() -> int:
        return sum(is_inotify(fd) for fd in os.listdir("/proc/self/fd"))

    real, failures = os.read, list[int]()

    def fail_once(fd: int, length: int) -> bytes:
        if is_inotify(fd) and not failures:
            failures.append(fd)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, length)

    before = instances()
    assert before
    monkeypatch.setattr(os, "read", fail_once)
    (root / "read").write_text("x")
    reports.wait_trouble("rebuilt")
    until(lambda: instances() <= before, "the old instance is closed", WAIT)


def test_a_dead_reader_is_mended_by_itself(
    watcher: Watcher, streams: list[RecordedStream], root: Path, reports: Reports
) -> None:
    generation = watcher.generation
    kill_reader(streams[-1], root)
    reports.wait_trouble("rebuilt")
    assert reports.troubles == [("thread-died", None), ("rebuilt", None)]
    assert watcher.generation == generation + 1
    (root / "seen").write_text("x")
    reports.wait_touch("agents", "seen", False)


def test_a_reader_that_keeps_dying_is_mended_each_time(
    streams: list[RecordedStream], root: Path, reports: Reports
) -> None:
    def mended(times: int) -> bool:
        return reports.troubles.count(("rebuilt", None)) == times

    kill_reader(streams[-1], root)
    reports.wait(lambda: mended(1))
    kill_reader(streams[-1], root)
    reports.wait(lambda: mended(2))
    (root / "seen").write_text("x")
    reports.wait_touch("agents", "seen", False)


def test_watchdogs_lost_table_entry_is_trouble_but_no_death(root: Path, reports: Reports) -> None:
    inotify = pytest.importorskip("watchdog.observers.inotify")
    groups = [each for each in gc.get_objects() if isinstance(each, inotify.InotifyWatchGroup)]
    [group] = [each for each in groups if each.path == os.fsencode(root)]
    group.on_watch_deleted(99_999)
    reports.wait_trouble("rebuilt")
    assert reports.troubles == [("desync", None), ("rebuilt", None)]
    (root / "seen").write_text("x")
    reports.wait_touch("agents", "seen", False)


def test_churned_directories_do_not_kill_the_reader(root: Path, reports: Reports) -> None:
    """Made, renamed and removed faster than they can be watched: watchdog's own tables trip over this."""

    def churn(number: int) -> None:
        for turn in range(150):
            path = root / f"{number}-{turn % 5}"
            (path / "x" / "y").mkdir(parents=True)
            (path / "x" / "y" / "f").write_text("x")
            os.rename(path, root / f"{number}-moved")
            shutil.rmtree(root / f"{number}-moved")

    by_threads(churn, range(3))
    assert any(reports.seen_after(root) for _ in range(int(WAIT))), reports.troubles
    assert ("thread-died", None) not in reports.troubles


def test_an_exception_in_the_inbox_does_not_end_dispatching(root: Path, reports: Reports) -> None:
    reports.broken = True
    (root / "lost").write_text("x")
    reports.wait_trouble("handler", "agents")
    reports.broken = False
    (root / "seen").write_text("x")
    reports.wait_touch("agents", "seen", False)


def test_what_an_older_generation_says_is_dropped(
    watcher: Watcher, streams: list[RecordedStream], root: Path, reports: Reports
) -> None:
    assert watcher.rebuild("test")
    old, _ = streams
    old.touch("agents", "ghost", Change.GONE)
    old.trouble("overflow", None)
    (root / "real").write_text("x")
    reports.wait_touch("agents", "real", False)
    assert ("agents", "ghost", True) not in reports.touches
    assert reports.troubles == []


def test_a_rebuild_watches_what_is_there_and_names_what_is_not(watcher: Watcher, root: Path, reports: Reports) -> None:
    root.rmdir()
    assert watcher.rebuild("test")
    reports.wait_trouble("unwatched", "agents")
    assert watcher.alive() == ["emitter:agents"]


def test_rebuilds_leave_no_descriptor_and_no_thread(watcher: Watcher, root: Path) -> None:
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        assert watcher.rebuild("test")
    until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors, "threads of the library close what they had open")
    until(lambda: threading.active_count() <= threads, "they end")


def test_stopping_restores_the_thread_hook(reports: Reports, tmp_path: Path) -> None:
    before = threading.excepthook
    watcher = Watcher(reports.touch, reports.trouble, str(tmp_path / "probe"))
    assert watcher.start()
    assert threading.excepthook is not before
    watcher.stop()
    assert threading.excepthook is before
    assert not watcher.rebuild("too late")
    assert not watcher.probe(1.0)
    assert watcher.alive() == ["dispatcher"]


def test_a_foreign_thread_that_dies_goes_to_the_previous_hook(
    monkeypatch: pytest.MonkeyPatch, reports: Reports, tmp_path: Path
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(str(args.exc_value)))
    watcher = Watcher(reports.touch, reports.trouble, str(tmp_path / "probe"))
    watcher.start()

    def die() -> None:
        raise ValueError("not ours")

    thread = threading.Thread(target=die)
    thread.start()
    thread.join(WAIT)
    watcher.stop()
    assert seen == ["not ours"]
    assert reports.troubles == []


# A process that watches and tells on stdout, so that it can be stopped or put into a namespace.
CHILD = textwrap.dedent(
    """
    import json, os, sys
    from memoryd.service.watching.watcher import Watcher
    root, probe = sys.argv[1:]
    touched, troubles = set(), []
    watcher = Watcher(lambda key, path, gone: touched.add(path), lambda *said: troubles.append(said), probe)
    def directories():
        found = {path[len(root) + 1 :]: os.stat(path) for path, _, _ in os.walk(root)}
        return {path: (stat.st_dev, stat.st_ino) for path, stat in found.items()}
    def answer(line):
        if line == "start":
            return [watcher.start(), watcher.watch("agents", root)]
        if line == "rebuild":
            return watcher.rebuild("test")
        coverage = watcher.coverage("agents", directories())
        return {
            "touched": len(touched), "last": "last" in touched, "deep": "late/deep/f" in touched,
            "troubles": troubles, "wanted": coverage.wanted, "held": coverage.held, "alive": watcher.alive(),
            "hint": watcher.limit_hint(),
        }
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), flush=True)
    watcher.stop()
    """
)


class Child:
    def __init__(self, command: list[str], root: Path, probe: Path) -> None:
        self.process = subprocess.Popen(
            [*command, sys.executable, "-c", CHILD, str(root), str(probe)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, line: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        while True:
            said = self.process.stdout.readline()
            assert said, "the watching process ended"
            if said[0] in "[{tf":  # log lines may come before the answer
                return json.loads(said)

    def ask_until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT * 2
        while True:
            told: dict[str, Any] = self.ask("tell")
            if condition(told):
                return told
            assert time.monotonic() < deadline, told
            threading.Event().wait(0.02)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(WAIT)
        self.process.stdout.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[[list[str]], Child]]:
    made: list[Child] = []

    def start(command: list[str]) -> Child:
        made.append(Child(command, tmp_path / "root", tmp_path / "probe"))
        return made[-1]

    (tmp_path / "root").mkdir()
    yield start
    for one in made:
        one.close()


def test_an_overflow_is_told_once_and_does_not_feed_itself(child: Callable[[list[str]], Child], tmp_path: Path) -> None:
    """A stopped reader, more events than the kernel keeps: 3 a file, so 6,000 files against 16,384."""
    files = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) // 3 + 600
    if files > 50_000:
        pytest.skip(f"this system keeps events of {files} files; too many to make for a test")
    root = tmp_path / "root"
    for number in range(50):
        (root / f"d{number}").mkdir()
    watching = child([])
    assert watching.ask("start") == [True, True]
    pid = watching.process.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    for number in range(files):
        (root / f"f{number}").write_text("x")
    (root / "late" / "deep").mkdir(parents=True)
    os.kill(pid, signal.SIGCONT)
    watching.ask_until(lambda told: told["troubles"])
    (root / "last").write_text("x")
    told = watching.ask_until(lambda told: told["last"])
    assert told["troubles"] == [["overflow", None]]
    assert told["alive"] == []
    assert told["touched"] < files  # events really were lost, so only a scan can know
    assert (told["wanted"], told["held"]) == (53, 51)  # made during the overflow: unwatched, and known to be
    assert watching.ask("rebuild") is True
    (root / "late" / "deep" / "f").write_text("x")
    told = watching.ask_until(lambda told: told["deep"])
    assert (told["wanted"], told["held"]) == (53, 53)
    assert told["troubles"] == [["overflow", None]]


def test_a_refused_watch_is_counted_and_the_limit_named(child: Callable[[list[str]], Child], tmp_path: Path) -> None:
    """The limit is lowered in a user namespace of the child only; the machine's own settings stay."""
    lower = "echo 6 > /proc/sys/user/max_inotify_watches"
    inside = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    tried = subprocess.run([*inside, lower], capture_output=True, text=True, timeout=60)
    if tried.returncode:
        pytest.skip(f"no user namespace with a watch limit of its own here: {tried.stderr.strip()}")
    for number in range(10):
        (tmp_path / "root" / f"d{number}").mkdir()
    watching = child([*inside, f'{lower} && exec "$@"', "sh"])
    assert watching.ask("start") == [True, True]
    told = watching.ask("tell")
    assert (told["wanted"], told["held"]) == (11, 5)  # the sixth watches the probes
    assert told["alive"] == []
    assert str(told["hint"]).startswith("user.max_inotify_watches is 6;")


def test_a_root_that_stays_refused_is_logged_once(
    watcher: Watcher, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each scan tries again, every few seconds."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    for _ in range(2):
        with monkeypatch.context() as refusing, capture_logs() as logged:
            refusing.setattr(WatchdogStream, "watch", refuse)
            assert [watcher.watch("agents", str(root)) for _ in range(3)] == [False] * 3
        assert [each["log_level"] for each in logged] == ["warning", "debug", "debug"]
        assert watcher.watch("agents", str(root))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may watch everything")
def test_unreadable_directories_are_uncovered_but_harmless(watcher: Watcher, root: Path) -> None:
    for name in ("a", "b"):
        (root / name).mkdir(mode=0o000)
    try:
        assert watcher.watch("agents", str(root))
        found = {name: os.stat(root / name) for name in ("", "a", "b")}
        wanted = {name: (each.st_dev, each.st_ino) for name, each in found.items()}
        assert watcher.coverage("agents", wanted) == Coverage(3, 1)
    finally:
        for name in ("a", "b"):
            (root / name).chmod(0o700)
