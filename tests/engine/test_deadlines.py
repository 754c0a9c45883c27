"""When something is due in a root: pure values, so every rule is tried without a disk and without waiting."""

from __future__ import annotations

import pytest

from memoryd.engine.deadlines import (
    BLIND_DUTY,
    BLIND_SCAN_S,
    DUTY,
    MAX_DETECT_S,
    MAX_SCAN_S,
    MAX_TROUBLE_S,
    MIN_DETECT_S,
    MIN_SCAN_S,
    NEVER,
    Deadlines,
)


def test_at_the_beginning_only_the_path_is_looked_at() -> None:
    due = Deadlines()
    assert due.next_due() == 0.0
    due.look = 2.0
    assert due.next_due() == 2.0


@pytest.mark.parametrize("name", ["scan", "index", "late", "merge"])
def test_whatever_comes_first_is_next_and_a_resting_root_has_only_its_path(name: str) -> None:
    due = Deadlines(look=10.0)
    setattr(due, name, 5.0)
    assert due.next_due() == 5.0
    due.rest()
    assert getattr(due, name) == NEVER
    assert due.next_due() == 10.0


@pytest.mark.parametrize("cost", [0.0, 0.001, 0.1, 1.0, 1000.0])
def test_an_adaptive_scan_takes_a_small_part_of_the_time(cost: float) -> None:
    due = Deadlines()
    due.scanned(100.0, 100.0 + cost)
    due.schedule_scan(200.0, "adaptive", reliable=True)
    pause = due.scan - 200.0
    assert MIN_SCAN_S <= pause <= MAX_SCAN_S
    assert pause == pytest.approx(min(MAX_SCAN_S, max(MIN_SCAN_S, DUTY * cost)))


@pytest.mark.parametrize("cost", [0.001, 0.01, 0.1])
def test_scans_of_three_roots_leave_a_daemon_idle(cost: float) -> None:
    due = Deadlines()
    due.scanned(200.0 - cost, 200.0)
    due.schedule_scan(200.0, "adaptive", reliable=True)
    ms_per_s = 3 * cost * 1000 / (due.scan - 200.0)
    assert ms_per_s < 0.11


@pytest.mark.parametrize("schedule", ["adaptive", "every 1d", "off"])
def test_without_reliable_events_it_scans_often_whatever_is_configured(schedule: str) -> None:
    due = Deadlines()
    due.schedule_scan(200.0, schedule, reliable=False)
    assert due.scan == 200.0 + BLIND_SCAN_S
    due.scanned(200.0, 201.0)
    due.schedule_scan(201.0, schedule, reliable=False)
    assert due.scan == 201.0 + BLIND_DUTY


def test_a_configured_interval_holds_and_off_means_never() -> None:
    due = Deadlines()
    due.schedule_scan(200.0, "every 10m", reliable=True)
    assert due.scan == 800.0
    due.schedule_scan(200.0, "off", reliable=True)
    assert due.scan == NEVER


def test_a_disk_that_refuses_is_tried_again_and_scanned_soon() -> None:
    due = Deadlines(scan=5000.0, look=4000.0)
    due.hold_off(100.0, 1.0, looks=False)
    assert (due.index, due.scan, due.look) == (101.0, 100.0 + MAX_TROUBLE_S, 4000.0)
    due.scan = 100.5
    due.hold_off(100.0, 3.0, looks=True)
    assert due.look == 100.0, "the path may be gone"
    assert (due.index, due.scan) == (103.0, 103.0), "not before the pause is over"


def test_a_layout_is_looked_for_more_and_more_rarely_while_it_does_not_come() -> None:
    due, now, pauses = Deadlines(detect=100.0), 100.0, list[float]()
    for _ in range(12):
        assert due.may_detect(now)
        due.not_detected(now, now)
        pauses.append(due.detect - now)
        now = due.detect
    assert pauses[0] == 2 * MIN_DETECT_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_DETECT_S


def test_before_its_time_a_layout_is_left_to_the_next_scan() -> None:
    due = Deadlines(detect=100.0, scan=500.0)
    assert not due.may_detect(99.0)
    assert due.scan == 100.0


def test_after_a_calm_time_a_layout_is_looked_for_soon_again() -> None:
    due = Deadlines(detect=100.0)
    for now in (100.0, 100.5, 101.5):
        due.not_detected(now, now)
    assert due.detect - 101.5 > MIN_DETECT_S
    due.not_detected(1000.0, 1000.0)
    assert due.detect == 1000.0 + MIN_DETECT_S


def test_a_costly_look_for_a_layout_is_rare() -> None:
    due = Deadlines()
    due.not_detected(100.0, 103.0)
    assert due.detect == 103.0 + 3.0 * BLIND_DUTY
