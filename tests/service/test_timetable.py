"""The timetable, driven step by step: time is what the test says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.schedule import Cron, parse_schedule
from memoryd.disk.journal import Journal
from memoryd.service.schedule import first_armed
from memoryd.service.timetable import GRID_S, NEVER, Timetable, next_cron

YEAR = 365 * 86_400.0
START = 1_790_000_003.5  # not on the grid


class Site:
    """A timetable at `now`, and what it has enqueued. `woken` counts the calls of `wake`."""

    def __init__(self) -> None:
        self.now = START
        self.got: list[tuple[str, str]] = []
        self.broken: set[str] = set()
        self.woken = 0
        self.table = Timetable(self._enqueue, clock=lambda: self.now, wake=self._wake)

    def _enqueue(self, root: str, job: str) -> None:
        if job in self.broken:
            raise RuntimeError("inbox closed")
        self.got.append((root, job))

    def _wake(self) -> None:
        self.woken += 1

    def every(self, job: str, schedule: str, last: float | None, root: str = "agents") -> None:
        self.table.set(root, job, parse_schedule(schedule), last, self.now)

    def run(self, at: float | None = None) -> list[tuple[str, str]]:
        """What is enqueued by one call at this time."""
        if at is not None:
            self.now = at
        self.got.clear()
        self.table.run_due()
        return list(self.got)


@pytest.fixture
def site() -> Site:
    return Site()


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_job_overdue_for_a_year_runs_once(site: Site) -> None:
    site.every("archive", "every 1m", START - YEAR)
    site.every("backup", "every 1d", None)
    assert site.run() == [("agents", "archive"), ("agents", "backup")]
    assert site.run() == []
    assert site.table.next_run("agents", "archive") == START + 56.5


def test_a_job_that_ran_lately_waits(site: Site) -> None:
    site.every("archive", "every 6h", START - 3600)
    assert site.table.next_run("agents", "archive") == START + 5 * 3600 - 3.5
    assert site.run() == []


def test_an_interval_goes_on(site: Site) -> None:
    site.every("locks", "every 1s", START)
    assert [len(site.run(START + second)) for second in (0.5, 1, 1.5, 2)] == [0, 1, 0, 1]


def test_jobs_of_several_roots_fall_together(site: Site) -> None:
    """Each wake-up of an idle process is one for all of them."""
    for root, at in (("one", START), ("two", START + 4.4), ("three", START + 9.9)):
        site.now = at
        site.every("locks", "every 10s", at, root)
    times = set()
    while site.now < START + 100:
        site.now = site.table.next_due()
        times.add(site.now)
        site.table.run_due()
    assert all(at % GRID_S == 0 for at in times)
    assert len(times) == 11


@given(
    seconds=st.sampled_from([1, 7, 10, 30, 45, 60, 3600]),
    last=st.floats(START - 4000, START),
    now=st.floats(START, START + 4000),
)
def test_the_grid_delays_no_run_and_repeats_none(seconds: int, last: float, now: float) -> None:
    site = Site()
    site.now = now
    site.every("locks", f"every {seconds}s", last)
    at = site.table.next_run("agents", "locks")
    assert at is not None
    assert at >= now
    assert at <= max(now, last + seconds)
    assert at >= last + seconds - GRID_S
    assert len(site.run(at)) == 1
    assert site.run(at) == []


def test_something_due_sooner_than_told_wakes_the_sleeper(site: Site) -> None:
    assert site.table.next_due() == NEVER
    site.every("archive", "every 6h", START)
    assert site.woken == 1
    site.every("prune", "every 12h", START)
    assert site.woken == 1
    assert site.table.next_due() == site.table.next_run("agents", "archive")
    site.table.arm("agents", "prune", START + 1)
    assert site.woken == 2
    site.table.next_due()
    site.run(START + 2)
    assert site.woken == 2, "what runs on the sleeper's own thread does not wake it"


def test_off_takes_a_job_off(site: Site) -> None:
    site.every("dedupe", "every 6h", START)
    site.every("dedupe", "off", START)
    assert site.table.next_run("agents", "dedupe") is None


def test_a_changed_schedule_replaces_the_old_one(site: Site) -> None:
    site.every("dedupe", "every 6h", START)
    site.every("dedupe", "every 2h", START)
    assert site.table.next_run("agents", "dedupe") == START + 7200 - 3.5


def test_a_removed_root_never_fires(site: Site) -> None:
    site.every("locks", "every 1s", START, "gone")
    site.every("locks", "every 1s", START, "here")
    site.table.remove("gone")
    assert site.run(START + 2) == [("here", "locks")]
    assert site.table.next_run("gone", "locks") is None
    site.table.clear()
    assert site.table.next_due() == NEVER


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


def test_a_failing_inbox_delays_no_other_job(site: Site) -> None:
    site.broken.add("backup")
    for job in ("archive", "backup", "verify"):
        site.every(job, "every 6h", None)
    assert site.run() == [("agents", "archive"), ("agents", "verify")]
    assert site.table.next_run("agents", "backup") == START + 6 * 3600 - 3.5


def test_a_job_that_is_armed_runs_then_and_goes_on_by_its_schedule(site: Site) -> None:
    site.every("backup", "every 6h", START)
    site.table.arm("agents", "backup", site.now)
    assert site.run() == [("agents", "backup")]
    assert site.table.next_run("agents", "backup") == START + 6 * 3600 - 3.5
    site.table.arm("agents", "unheard-of", START)
    assert site.table.next_run("agents", "unheard-of") is None


def test_after_a_jump_ahead_each_job_runs_once(site: Site) -> None:
    for root in ("one", "two"):
        site.every("locks", "every 10s", START, root)
    site.now += YEAR
    site.table.rearm_all(site.now)
    assert site.table.next_run("one", "locks") == site.now
    assert site.run() == [("one", "locks"), ("two", "locks")]
    assert site.run() == []


def test_after_a_jump_back_nothing_waits_for_the_old_time() -> None:
    table = Timetable(lambda _root, _job: None)
    now = moment("2027-03-01T12:00")
    table.set("agents", "locks", parse_schedule("every 10s"), now, now)
    table.set("agents", "archive", parse_schedule("15 3 * * *"), now, now)
    back = now - YEAR
    table.rearm_all(back)
    assert table.next_run("agents", "locks") == back
    assert table.next_run("agents", "archive") == moment("2026-03-02T03:15")


def test_a_job_that_was_given_another_time_meanwhile_does_not_run(site: Site) -> None:
    """Both are due in one pass. While the first runs, the second gets another time."""
    table: Timetable

    def enqueue(root: str, job: str) -> None:
        site.got.append((root, job))
        table.arm("agents", "locks", START + 100)

    table = Timetable(enqueue, clock=lambda: START)
    for job in ("backup", "locks"):
        table.set("agents", job, parse_schedule("every 10h"), None, START)
    table.run_due()
    assert site.got == [("agents", "backup")]
    assert table.next_run("agents", "locks") == START + 100


def test_cron_lines_in_utc_need_no_zone_tables(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slim container has none; UTC is the default, so the daemon must not fail there."""

    def none(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr("memoryd.core.dates.ZoneInfo", none)
    now = moment("2026-03-10T12:00:00")
    site.table.set("agents", "archive", parse_schedule("15 3 * * *"), now, now)
    assert site.table.next_run("agents", "archive") == moment("2026-03-11T03:15:00")


def test_an_hour_that_comes_twice_fires_a_line_that_names_it_once() -> None:
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()  # 02:30 in Berlin, summer time
    cron = parse_schedule("30 2 * * *")
    assert isinstance(cron, Cron)
    assert next_cron(cron, "Europe/Berlin", first, first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC).timestamp()
    hourly = parse_schedule("30 * * * *")
    assert isinstance(hourly, Cron)
    assert next_cron(hourly, "Europe/Berlin", first, first) == first + 3600


def test_a_time_that_summer_time_leaves_out_is_an_hour_later() -> None:
    before = datetime(2026, 3, 28, 11, tzinfo=UTC).timestamp()
    cron = parse_schedule("30 2 * * *")
    assert isinstance(cron, Cron)
    due = datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()  # 03:30 in Berlin, where 01:59 is followed by 03:00
    assert next_cron(cron, "Europe/Berlin", before, before) == due
    assert next_cron(cron, "Europe/Berlin", due, due) == due + 23 * 3600


def test_midnight_that_summer_time_leaves_out_is_an_hour_later() -> None:
    cron = parse_schedule("0 0 * * *")
    assert isinstance(cron, Cron)
    times = [datetime(2026, 3, 6, 12, tzinfo=UTC).timestamp()]  # in Havana 8 March begins at 01:00
    for _ in range(3):
        times.append(next_cron(cron, "America/Havana", times[-1], times[-1]) or 0)
    assert [datetime.fromtimestamp(each, ZoneInfo("America/Havana")).isoformat() for each in times[1:]] == [
        "2026-03-07T00:00:00-05:00",
        "2026-03-08T01:00:00-04:00",
        "2026-03-09T00:00:00-04:00",
    ]


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
