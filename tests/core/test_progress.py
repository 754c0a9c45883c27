"""The progress of long work: counted truly, with a rate only where one can be told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.progress import Progress, ProgressMeter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_step_is_shown_while_it_lasts_with_rate_and_time_left() -> None:
    clock = Clock()
    meter = ProgressMeter(clock)
    assert meter.current() is None
    with meter.measure("reading", "bytes", 200):
        clock.now += 0.5
        meter.reach(10)
        early = meter.current()
        assert early is not None
        assert (early.done, early.rate, early.left_s) == (10, None, None)
        clock.now += 1.5
        meter.reach(50)
        assert meter.current() == Progress("reading", "bytes", 200, 50, 2.0)
        later = meter.current()
        assert later is not None
        assert (later.rate, later.left_s, later.percent) == (25.0, 6.0, 25)
    assert meter.current() is None
    assert meter.done == 0


def test_a_step_without_work_is_not_shown() -> None:
    meter = ProgressMeter()
    with meter.measure("reading", "bytes", 0):
        meter.reach(5)
        assert meter.current() is None


def test_an_inner_step_gives_way_to_the_outer_one() -> None:
    meter = ProgressMeter()
    with meter.measure("reading", "bytes", 10):
        meter.reach(4)
        with meter.measure("indexing", "memories", 3):
            inner = meter.current()
            assert inner is not None
            assert inner.step == "indexing"
        assert meter.done == 4


def test_a_part_is_counted_once_however_far_it_said_it_was() -> None:
    meter = ProgressMeter()
    with meter.measure("reading", "bytes", 10):
        for inner in (0, 2):
            with meter.part(3):
                meter.reach(meter.done + inner)
        assert meter.done == 6


@given(st.integers(1, 1000), st.lists(st.integers(-5, 2000)))
def test_it_never_goes_back_nor_above_the_total(total: int, points: list[int]) -> None:
    meter, seen = ProgressMeter(), [0]
    meter.observer = lambda: seen.append(meter.done)
    with meter.measure("reading", "bytes", total):
        for point in points:
            meter.reach(point)
        progress = meter.current()
    assert seen == sorted(seen)
    assert seen[-1] <= total
    assert len(seen) == len(points) + 1
    assert progress is not None
    assert (progress.percent == 100) == (progress.done == total)
