"""The timetable on a real scheduler. Nothing sleeps to be right: tests wait for the firing itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from apscheduler.jobstores.base import JobLookupError

from memoryd.core.schedule import Cron, parse_schedule
from memoryd.disk.journal import Journal
from memoryd.service.roots import first_armed
from memoryd.service.timetable import MAX_ADAPTIVE_S, Scheduler, Timetable, next_cron
from tests.daemon import until

YEAR = 365 * 86_400.0
WAIT = 20.0


class Inbox:
    """Collects what was enqueued; `wait` returns once that many firings came."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []
        self.broken = False
        self.changed = threading.Condition()

    def __call__(self, root: str, job: str) -> None:
        if self.broken:
            raise RuntimeError("inbox closed")
        with self.changed:
            self.got.append((root, job))
            self.changed.notify_all()

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= count, WAIT), self.got


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def timetable(inbox: Inbox) -> Iterator[Timetable]:
    table = Timetable(inbox)
    table.start()
    yield table
    table.shutdown()


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_job_overdue_for_a_year_runs_once(timetable: Timetable, inbox: Inbox) -> None:
    now = time.time()
    timetable.set("agents", "archive", parse_schedule("every 1m"), now - YEAR, now)
    timetable.set("agents", "backup", parse_schedule("every 1d"), None, now)
    inbox.wait(2)
    timetable.set("agents", "marker", parse_schedule("every 1d"), None, now)
    inbox.wait(3)
    assert sorted(inbox.got) == [("agents", "archive"), ("agents", "backup"), ("agents", "marker")]
    assert timetable.next_run("agents", "archive") == pytest.approx(time.time() + 60, abs=10)


def test_a_job_that_ran_lately_waits(timetable: Timetable, inbox: Inbox) -> None:
    now = time.time()
    timetable.set("agents", "archive", parse_schedule("every 6h"), now - 3600, now)
    assert timetable.next_run("agents", "archive") == pytest.approx(now + 5 * 3600)
    assert inbox.got == []


def test_an_interval_goes_on(timetable: Timetable, inbox: Inbox) -> None:
    now = time.time()
    timetable.set("agents", "locks", parse_schedule("every 1s"), now, now)
    inbox.wait(2)
    assert set(inbox.got) == {("agents", "locks")}


def test_off_takes_a_job_off(timetable: Timetable) -> None:
    now = time.time()
    timetable.set("agents", "dedupe", parse_schedule("every 6h"), now, now)
    timetable.set("agents", "dedupe", parse_schedule("off"), now, now)
    assert timetable.next_run("agents", "dedupe") is None


def test_a_changed_schedule_replaces_the_old_one(timetable: Timetable) -> None:
    now = time.time()
    timetable.set("agents", "dedupe", parse_schedule("every 6h"), now, now)
    timetable.set("agents", "dedupe", parse_schedule("every 2h"), now, now)
    assert timetable.next_run("agents", "dedupe") == pytest.approx(now + 7200)


def test_a_removed_root_never_fires(timetable: Timetable, inbox: Inbox) -> None:
    now = time.time()
    timetable.set("gone", "locks", parse_schedule("every 1s"), now, now)
    timetable.set("here", "locks", parse_schedule("every 1s"), now, now)
    timetable.remove("gone")
    inbox.wait(2)
    assert timetable.next_run("gone", "locks") is None
    assert {root for root, _ in inbox.got} == {"here"}


@pytest.mark.parametrize(
    ("line", "zone", "expected"),
    [
        ("15 3 * * *", "UTC", "2026-03-02T03:15"),
        ("15 3 * * 0", "UTC", "2026-03-08T03:15"),  # Sunday, which APScheduler would number 6
        ("15 3 * * 7", "UTC", "2026-03-08T03:15"),
        ("15 3 * * 1-5", "UTC", "2026-03-02T03:15"),
        ("0 9 1 * *", "UTC", "2026-04-01T09:00"),
        ("15 3 * * *", "Europe/Berlin", "2026-03-02T02:15"),
        ("0 12 * * *", "America/New_York", "2026-03-01T17:00"),
    ],
)
def test_cron_lines_mean_what_cron_means(line: str, zone: str, expected: str) -> None:
    table = Timetable(lambda _root, _job: None)  # not started: nothing can fire
    now = moment("2026-03-01T12:00")  # a Sunday
    table.set("agents", "archive", parse_schedule(line), now, now, timezone=zone)
    assert table.next_run("agents", "archive") == moment(expected)


def test_cron_across_the_change_of_summer_time() -> None:
    table = Timetable(lambda _root, _job: None)
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 28, 12, tzinfo=berlin).timestamp()
    table.set("agents", "archive", parse_schedule("30 4 * * *"), now, now, timezone="Europe/Berlin")
    assert table.next_run("agents", "archive") == datetime(2026, 3, 29, 4, 30, tzinfo=berlin).timestamp()


def test_a_missed_cron_time_is_due_at_once() -> None:
    table = Timetable(lambda _root, _job: None)
    now = moment("2026-03-01T12:00")
    table.set("agents", "archive", parse_schedule("15 3 * * *"), moment("2026-02-20T03:15"), now)
    assert table.next_run("agents", "archive") == now


def test_a_success_in_the_minute_of_the_line_does_not_repeat_it() -> None:
    table = Timetable(lambda _root, _job: None)
    ran = moment("2026-03-01T03:15")
    table.set("agents", "archive", parse_schedule("15 3 * * *"), ran, ran)
    assert table.next_run("agents", "archive") == ran + 86_400


def test_an_unknown_zone_changes_nothing() -> None:
    table = Timetable(lambda _root, _job: None)
    table.set("agents", "archive", parse_schedule("every 6h"), 0.0, 0.0)
    with pytest.raises(ZoneInfoNotFoundError):
        table.set("agents", "archive", parse_schedule("15 3 * * *"), 0.0, 0.0, timezone="Mars/Olympus")
    assert table.next_run("agents", "archive") == 6 * 3600


def test_a_failing_inbox_is_counted_and_the_job_armed_again(timetable: Timetable, inbox: Inbox) -> None:
    inbox.broken = True
    now = time.time()
    timetable.set("agents", "backup", parse_schedule("every 6h"), None, now)
    until(lambda: timetable.errors > 0, "it fails")
    assert timetable.errors == 1
    assert timetable.missed == 0
    assert timetable.next_run("agents", "backup") == pytest.approx(now + 6 * 3600, abs=10)


def test_an_adaptive_job_runs_when_armed_and_by_itself_within_an_hour(timetable: Timetable, inbox: Inbox) -> None:
    now = time.time()
    timetable.set("agents", "rescan", parse_schedule("adaptive"), None, now)
    assert timetable.next_run("agents", "rescan") == pytest.approx(now + MAX_ADAPTIVE_S)
    timetable.arm("agents", "rescan", now)
    inbox.wait(1)
    assert timetable.next_run("agents", "rescan") == pytest.approx(now + MAX_ADAPTIVE_S, abs=10)
    timetable.arm("agents", "unheard-of", now)
    assert timetable.next_run("agents", "unheard-of") is None


def test_after_a_jump_ahead_each_job_runs_once(inbox: Inbox) -> None:
    wall = [time.time()]
    table = Timetable(inbox, clock=lambda: wall[0])
    table.start()
    try:
        for root in ("one", "two"):
            table.set(root, "locks", parse_schedule("every 10s"), wall[0], wall[0])
        wall[0] += YEAR
        table.rearm_all(wall[0])
        assert table.next_run("one", "locks") == wall[0]
        # The scheduler itself lives in true time, so what is due in a year is brought forward by hand.
        table.arm("one", "locks", 0.0)
        table.arm("two", "locks", 0.0)
        inbox.wait(2)
        assert sorted(inbox.got) == [("one", "locks"), ("two", "locks")]
        assert table.next_run("one", "locks") == wall[0] + 10
    finally:
        table.shutdown()


def test_after_a_jump_back_nothing_waits_for_the_old_time() -> None:
    table = Timetable(lambda _root, _job: None)
    now = moment("2027-03-01T12:00")
    table.set("agents", "locks", parse_schedule("every 10s"), now, now)
    table.set("agents", "archive", parse_schedule("15 3 * * *"), now, now)
    back = now - YEAR
    table.rearm_all(back)
    assert table.next_run("agents", "locks") == back
    assert table.next_run("agents", "archive") == moment("2026-03-02T03:15")


def test_a_firing_that_was_overtaken_by_a_change_does_nothing(inbox: Inbox) -> None:
    """Both are due in one pass. While the first runs, the second gets another time."""
    entered, release = threading.Event(), threading.Event()

    def enqueue(root: str, job: str) -> None:
        if job == "backup":
            entered.set()
            release.wait(WAIT)
        inbox(root, job)

    table, now = Timetable(enqueue), time.time()
    for at, job in enumerate(("backup", "locks"), 1):
        table.set("agents", job, parse_schedule("every 10h"), None, now)
        table.arm("agents", job, float(at))
    table.start()
    assert entered.wait(WAIT)
    table.set("agents", "locks", parse_schedule("every 20h"), now, now)
    table.set("agents", "dedupe", parse_schedule("every 6h"), None, now)
    release.set()
    inbox.wait(2)
    assert inbox.got == [("agents", "backup"), ("agents", "dedupe")]
    assert table.next_run("agents", "locks") == now + 20 * 3600
    table.shutdown()


def test_jobs_run_on_the_thread_of_the_scheduler_alone(inbox: Inbox) -> None:
    """A pool would wake two more times for each."""
    before, threads = set(threading.enumerate()), set()

    def enqueue(root: str, job: str) -> None:
        threads.update(set(threading.enumerate()) - before)
        inbox(root, job)

    table = Timetable(enqueue)
    table.start()
    table.set("agents", "locks", parse_schedule("every 1s"), None, time.time())
    inbox.wait(2)
    table.shutdown()
    assert len(threads) == 1


def test_the_clock_proves_that_it_runs(inbox: Inbox) -> None:
    ahead = 0.0
    table = Timetable(inbox, monotonic=lambda: time.monotonic() + ahead)
    table.start()
    ahead = 100.0
    assert table.tick_age() > 99
    table.rearm_all(0.0)  # a beat due long ago is due now
    until(lambda: table.tick_age() < 50, "it beats")
    table.shutdown()


def test_stopping_does_not_wait_for_an_inbox_that_hangs() -> None:
    entered, release = threading.Event(), threading.Event()

    def hang(_root: str, _job: str) -> None:
        entered.set()
        release.wait(WAIT)

    table = Timetable(hang)
    table.start()
    table.set("agents", "locks", parse_schedule("every 1s"), None, time.time())
    assert entered.wait(WAIT)
    done = threading.Event()

    def stop() -> None:
        table.shutdown()
        done.set()

    threading.Thread(target=stop, daemon=True).start()
    assert done.wait(WAIT / 2)
    release.set()
    table.shutdown()  # twice is fine


def test_cron_lines_in_utc_need_no_zone_tables(timetable: Timetable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slim container has none; UTC is the default, so the daemon must not fail there."""

    def none(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr("memoryd.core.dates.ZoneInfo", none)
    now = moment("2026-03-10T12:00:00")
    timetable.set("agents", "archive", parse_schedule("15 3 * * *"), now, now)
    assert timetable.next_run("agents", "archive") == moment("2026-03-11T03:15:00")


def test_stopped_in_the_middle_of_a_pass_its_thread_ends_in_order() -> None:
    """APScheduler then looks for the job it has just submitted among those of a scheduler not yet started."""
    scheduler = Scheduler(timezone=UTC)
    scheduler.start()
    scheduler.shutdown(wait=False)
    scheduler.remove_job("already gone")


def test_a_job_that_is_not_there_is_still_told_while_it_runs() -> None:
    scheduler = Scheduler(timezone=UTC)
    scheduler.start()
    with pytest.raises(JobLookupError):
        scheduler.remove_job("never there")
    scheduler.shutdown(wait=False)


def test_an_hour_that_comes_twice_fires_a_line_that_names_it_once() -> None:
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()  # 02:30 in Berlin, summer time
    cron = parse_schedule("30 2 * * *")
    assert isinstance(cron, Cron)
    assert next_cron(cron, "Europe/Berlin", first, first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC).timestamp()
    hourly = parse_schedule("30 * * * *")
    assert isinstance(hourly, Cron)
    assert next_cron(hourly, "Europe/Berlin", first, first) == first + 3600


def test_a_cron_line_that_never_ran_is_caught_up_from_when_it_was_first_armed(tmp_path: Path) -> None:
    """Five nights asleep at the time of the line; the daemon starts each morning."""
    journal = Journal(str(tmp_path / "journal"))
    cron = parse_schedule("15 3 * * *")
    assert isinstance(cron, Cron)
    evening = datetime(2026, 11, 1, 20, tzinfo=UTC).timestamp()
    assert first_armed(journal, "archive", cron, evening) == evening
    for day in range(1, 6):
        morning = evening + day * 86_400 - 43_200
        armed = first_armed(journal, "archive", cron, morning)
        assert armed == evening
        due = next_cron(cron, "UTC", armed, morning)
        assert due is not None
        assert due <= morning
    other = parse_schedule("15 4 * * *")
    assert isinstance(other, Cron)
    assert first_armed(journal, "archive", other, morning) == morning
    journal.close()
