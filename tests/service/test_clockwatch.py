"""Suspend and a clock that was set are told from time that simply passed."""

from __future__ import annotations

import pytest

from memoryd.service.supervision import ClockWatch


def test_time_that_passes_is_no_jump() -> None:
    watch = ClockWatch()
    assert watch.step(1_000.0, 10.0) is None
    assert watch.step(1_015.0, 25.0) is None
    assert watch.step(1_034.0, 40.0) is None  # 4 s off: a correction


def test_a_suspend_is_told_once() -> None:
    watch = ClockWatch()
    watch.step(1_000.0, 10.0)
    assert watch.step(1_000.0 + 28_801, 11.0) == pytest.approx(28_800)
    assert watch.step(1_000.0 + 28_802, 12.0) is None


def test_a_clock_set_back_is_negative() -> None:
    watch = ClockWatch()
    watch.step(10_000.0, 10.0)
    assert watch.step(6_401.0, 11.0) == pytest.approx(-3_600)


def test_slow_drift_never_adds_up() -> None:
    watch = ClockWatch()
    assert all(watch.step(step * 16.0, step * 15.0) is None for step in range(1_000))
