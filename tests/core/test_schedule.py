"""Schedules: what may be written, what it means to the clock, when an interval is due."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.defaults import DEFAULT_SCHEDULE
from memoryd.core.schedule import Adaptive, Cron, Every, Off, next_due, parse_schedule


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("every 1s", Every(1)),
        ("every 30s", Every(30)),
        ("every 10m", Every(600)),
        ("every 6h", Every(21_600)),
        ("every 1d", Every(86_400)),
        ("  EVERY  2 h ", Every(7200)),
        ("off", Off()),
        ("Adaptive", Adaptive()),
    ],
)
def test_intervals_and_words(text: str, wanted: object) -> None:
    assert parse_schedule(text) == wanted


def test_every_default_can_be_read() -> None:
    assert all(parse_schedule(text) for text in DEFAULT_SCHEDULE.values())


@pytest.mark.parametrize(
    ("weekday", "names"),
    [
        ("0", "sun"),
        ("7", "sun"),
        ("1-5", "mon,tue,wed,thu,fri"),
        ("*/2", "sun,tue,thu,sat"),
        ("5-7", "sun,fri,sat"),
        ("0-6", "*"),
        ("0-7", "*"),
        ("1-7", "*"),
        ("*", "*"),
        ("mon-fri", "mon,tue,wed,thu,fri"),
        ("fri-sun", "sun,fri,sat"),
        ("1-5/2", "mon,wed,fri"),
        ("2/2", "tue,thu,sat"),
        ("0,7", "sun"),
        ("SAT,1", "mon,sat"),
    ],
)
def test_weekdays_become_names(weekday: str, names: str) -> None:
    """0 is Sunday for everybody who writes a cron line, and Monday for the clock underneath."""
    schedule = parse_schedule(f"0 3 * * {weekday}")
    assert isinstance(schedule, Cron)
    assert schedule.fields[4] == names


def _week_of(schedule: Cron) -> set[int]:
    """ISO weekdays (Monday 1, Sunday 7) on which the real clock fires within a week."""
    minute, hour, day, month, weekday = schedule.fields
    trigger = CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=UTC)
    at, found = datetime(2026, 3, 2, tzinfo=UTC), set()
    end = at + timedelta(days=7)
    while (fire := trigger.get_next_fire_time(None, at)) is not None and fire < end:
        found.add(fire.isoweekday())
        at = fire + timedelta(seconds=1)
    return found


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        ("0", {7}),
        ("7", {7}),
        ("1-5", {1, 2, 3, 4, 5}),
        ("*/2", {7, 2, 4, 6}),
        ("5-7", {5, 6, 7}),
        ("0-6", {*range(1, 8)}),
    ],
)
def test_the_real_clock_fires_on_the_days_meant(weekday: str, days: set[int]) -> None:
    schedule = parse_schedule(f"30 4 * * {weekday}")
    assert isinstance(schedule, Cron)
    assert _week_of(schedule) == days


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("*/15 * * * *", ("0,15,30,45", "*", "*", "*", "*")),
        ("5/20 0-4/2 1,15 jan-mar *", ("5,25,45", "0,2,4", "1,15", "1,2,3", "*")),
        ("0 0 29 2 *", ("0", "0", "29", "2", "*")),
        ("*/1 */1 */1 */1 */1", None),
    ],
)
def test_cron_fields(line: str, fields: tuple[str, ...] | None) -> None:
    if fields is None:
        with pytest.raises(ValueError, match="both a day of the month and a weekday"):
            parse_schedule(line)
        return
    schedule = parse_schedule(line)
    assert isinstance(schedule, Cron)
    assert schedule.fields == fields
    assert schedule.text == line


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a schedule; allowed"),
        ("6h", "is not a schedule; allowed"),
        ("hourly", "is not a schedule; allowed"),
        ("@daily", "is not a schedule; allowed"),
        ("every", "is not an interval"),
        ("every 0s", "out of range"),
        ("every -1s", "is not an interval"),
        ("every 1.5h", "is not an interval"),
        ("every 6 hours", "is not an interval"),
        ("every 99999999d", "out of range"),
        ("every ٣h", "is not an interval"),
        ("60 * * * *", "minute: '60' is not a number from 0 to 59"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "weekday"),
        ("* * * * 5-1", "runs backwards"),
        ("*/0 * * * *", "step"),
        ("*/x * * * *", "step"),
        ("1,,2 * * * *", "minute"),
        ("0 0 31 2 *", "never occurs"),
        ("0 0 31 4,6 *", "never occurs"),
        ("0 0 1 * 1", "both a day of the month and a weekday"),
    ],
)
def test_bad_schedules_say_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_schedule(text)


@given(st.text(max_size=40))
def test_reading_raises_nothing_else(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_schedule(text)


@given(st.lists(st.text("0123456789*/,-suntweh", min_size=1, max_size=6), min_size=5, max_size=5))
def test_what_is_accepted_is_accepted_by_the_clock_too(parts: list[str]) -> None:
    try:
        schedule = parse_schedule(" ".join(parts))
    except ValueError:
        return
    assert isinstance(schedule, Cron)
    minute, hour, day, month, weekday = schedule.fields
    trigger = CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=UTC)
    assert trigger.get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC)) is not None


def test_due() -> None:
    hourly = Every(3600)
    assert next_due(hourly, None, 1000.0) == 1000.0, "the first run is due at once"
    assert next_due(hourly, 1000.0, 2000.0) == 4600.0
    assert next_due(hourly, 1000.0, 90_000.0) == 4600.0, "overdue stays one due time, not many"
    for other in (Off(), Adaptive(), parse_schedule("0 3 * * *")):
        assert next_due(other, None, 1000.0) is None


@given(st.integers(1, 10**6), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_clock_set_back_never_stalls(seconds: int, last: float, now: float) -> None:
    """Whatever the stamp says, the job is due within one interval."""
    at = next_due(Every(seconds), last, now)
    assert at is not None
    assert at <= now + seconds
    if last > now:
        assert at == now
