"""Settling: quiet time, cap, collapse, deferral; for any touches: never after the cap, never lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.settler import EARLY_S, Batch, Settler

EPSILON = 1e-9


def test_nothing_touched_is_nothing_to_do() -> None:
    settler = Settler()
    assert settler.ready(5.0) is None
    assert settler.next_due() is None
    assert settler.pending_since() is None


def test_a_batch_waits_for_quiet() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.touch("a", 10.0)
    settler.touch("b", 10.05)
    assert settler.next_due() == 10.15
    assert settler.ready(10.14) is None
    assert settler.ready(10.15) == Batch(frozenset({"a", "b"}), False, 10.0)
    assert settler.ready(99.0) is None


def test_a_change_on_its_own_waits_much_less() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.touch("a", 10.0)
    assert settler.next_due() == pytest.approx(10.1), "it is not complete"
    settler.touch("a", 10.01, at_once=True)
    settler.closed(10.01)
    assert settler.next_due() == pytest.approx(10.01 + EARLY_S)
    assert settler.ready(10.01 + EARLY_S) == Batch(frozenset({"a"}), False, 10.0)
    settler.touch("b", 10.15, at_once=True)
    settler.closed(10.15)
    assert settler.next_due() == pytest.approx(10.25), "the second of a burst"


@pytest.mark.parametrize("more", [{"path": "b"}, {"path": "a", "at_once": True, "early": False}, None])
def test_a_change_with_others_or_of_a_shared_index_waits_for_quiet(more: dict[str, Any] | None) -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.touch("a", 10.0, at_once=True)
    if more is None:
        settler.touch_all(10.0)
    else:
        settler.touch(**more, now=10.0)
    settler.closed(10.0)
    assert settler.next_due() == pytest.approx(10.1)


def test_after_slow_batches_a_change_on_its_own_waits_longer_but_not_for_more_than_quiet() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    for seconds, pause in ((0.04, EARLY_S + 0.015), (0.3, 0.1)):
        settler.note_duration(seconds)
        now = 100 * seconds
        settler.touch("a", now, at_once=True)
        settler.closed(now)
        assert settler.next_due() == pytest.approx(now + pause)
        assert settler.ready(now + pause)


def test_a_writer_that_never_pauses_is_cut_off_by_the_cap() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    for step in range(101):
        settler.touch("busy", 10.0 + step * 0.01)
    assert settler.next_due() == 11.0
    assert settler.ready(11.0) == Batch(frozenset({"busy"}), False, 10.0)


def test_pending_paths_are_told_and_stay() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.touch("a", 10.0, at_once=True)
    settler.defer("b", 12.0)
    assert settler.pending() == frozenset({"a", "b"})
    assert settler.closed(10.0) == frozenset()
    assert settler.ready(10.1) == Batch(frozenset({"a"}), False, 10.0)
    settler.touch_all(11.0)
    assert settler.pending() is None


def _due_under_the_cap(settler: Settler) -> float:
    """When a batch is due that begins at 0 and whose writer never pauses."""
    for step in range(20):
        settler.touch("a", step * 0.05)
    due = settler.next_due()
    assert due is not None
    assert settler.ready(due) is not None
    return due


def test_under_the_cap_the_work_is_done_in_time() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    assert _due_under_the_cap(settler) == 1.0
    settler.note_duration(0.2)
    assert _due_under_the_cap(settler) == pytest.approx(0.7)
    settler.note_duration(0.01)  # one slow batch is remembered
    assert _due_under_the_cap(settler) == pytest.approx(0.73)
    settler.note_duration(60)  # but never more than half of the cap is given to it
    assert _due_under_the_cap(settler) == pytest.approx(0.5)
    for _ in range(50):
        settler.note_duration(0)
    assert _due_under_the_cap(settler) == pytest.approx(1.0, abs=0.01)


def test_slow_work_does_not_shorten_the_quiet_time() -> None:
    settler = Settler(quiet_s=0.1, cap_s=0.12)
    settler.note_duration(60)
    settler.touch("a", 5)
    assert settler.next_due() == pytest.approx(5.1)


def test_each_batch_has_a_cap_of_its_own() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.touch("a", 10.0)
    assert settler.ready(10.5) is not None
    settler.touch("a", 20.0)
    assert settler.pending_since() == 20.0
    assert settler.next_due() == 20.1


def test_too_many_paths_become_everything() -> None:
    settler = Settler(max_paths=3, max_per_dir=100)
    for number in range(3):
        settler.touch(f"d{number}/f", 1.0)
    assert settler.ready(1.05) is None
    settler.touch("d3/f", 1.0)
    assert settler.ready(2.0) == Batch(frozenset(), True, 1.0)


def test_too_many_in_one_directory_become_everything_but_repeats_do_not_count() -> None:
    settler = Settler(max_paths=100, max_per_dir=2)
    for _ in range(5):
        settler.touch("d/one", 1.0)
        settler.touch("d/two", 1.0)
    batch = settler.ready(2.0)
    assert batch is not None
    assert not batch.everything
    for name in ("one", "two", "three"):
        settler.touch(f"d/{name}", 3.0)
    batch = settler.ready(4.0)
    assert batch is not None
    assert batch.everything


def test_a_wanted_scan_swallows_single_paths_and_ends_with_its_batch() -> None:
    settler = Settler()
    settler.touch("a", 1.0)
    settler.touch_all(1.0)
    settler.touch("b", 1.05)
    assert settler.ready(2.0) == Batch(frozenset(), True, 1.0)
    settler.touch("c", 3.0)
    assert settler.ready(4.0) == Batch(frozenset({"c"}), False, 3.0)


def test_a_deferred_path_comes_back_by_itself() -> None:
    settler = Settler()
    settler.defer("half", 12.0)
    assert settler.pending_since() is None
    assert settler.next_due() == 12.0
    assert settler.ready(11.9) is None
    assert settler.ready(12.0) == Batch(frozenset({"half"}), False, 12.0)
    assert settler.next_due() is None


def test_the_earlier_of_two_deferrals_holds() -> None:
    settler = Settler()
    settler.defer("half", 12.0)
    settler.defer("half", 50.0)
    assert settler.next_due() == 12.0


def test_a_touch_ends_a_deferral_because_it_looks_sooner() -> None:
    settler = Settler(quiet_s=0.1)
    settler.defer("half", 50.0)
    settler.touch("half", 10.0)
    assert settler.ready(10.1) == Batch(frozenset({"half"}), False, 10.0)
    assert settler.next_due() is None


def test_a_ripe_deferral_does_not_hurry_an_unsettled_batch() -> None:
    settler = Settler(quiet_s=0.1)
    settler.defer("half", 10.0)
    settler.touch("other", 9.95)
    assert settler.ready(10.0) == Batch(frozenset({"half"}), False, 10.0)
    assert settler.ready(10.05) == Batch(frozenset({"other"}), False, 9.95)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["touch", "touch_all", "defer", "ask"]),
        st.sampled_from([f"d{d}/f{f}" for d in range(3) for f in range(4)]),
        st.floats(0, 0.4),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 6), st.integers(1, 4))
def test_never_lost_and_never_later_than_the_cap(
    steps: list[tuple[str, str, float]], max_paths: int, max_per_dir: int
) -> None:
    """An owner that asks whenever `next_due` says so looks at every touched path within the cap."""
    settler = Settler(quiet_s=0.1, cap_s=1.0, max_paths=max_paths, max_per_dir=max_per_dir)
    touched: dict[str, float] = {}  # path, or "" for a wanted scan, to the time it must have been looked at
    deferred: dict[str, float] = {}
    now = 100.0

    def look(at: float) -> None:
        batch = settler.ready(at)
        if batch is None:
            return
        assert batch.paths or batch.everything
        assert batch.oldest <= at
        for path in set(touched) if batch.everything else batch.paths & touched.keys():
            assert at <= touched.pop(path) + EPSILON
        for path in batch.paths & deferred.keys():
            assert at <= deferred.pop(path) + EPSILON

    def pass_time(until: float) -> None:
        while (due := settler.next_due()) is not None and due <= until:
            look(due)
            left = settler.next_due()
            assert left is None or left > due  # asking at the due time takes out all that is due

    for kind, path, pause in steps:
        now += pause
        pass_time(now)
        if kind == "touch":
            settler.touch(path, now)
            touched.setdefault(path, now + 1.0)
            deferred.pop(path, None)
        elif kind == "touch_all":
            settler.touch_all(now)
            touched.setdefault("", now + 1.0)
        elif kind == "defer":
            settler.defer(path, now + 2.0)
            if path not in touched:
                deferred.setdefault(path, now + 2.0)
        else:
            look(now)
    pass_time(now + 10.0)
    assert not touched
    assert not deferred
    assert settler.next_due() is None


def test_a_closed_file_is_due_at_once_and_stays_in_the_batch() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.touch("open", 10.0)
    settler.touch("closed", 10.0, at_once=True)
    assert settler.next_due() == 0.0
    assert settler.closed(10.0) == {"closed"}
    assert settler.closed(10.0) == frozenset()
    assert settler.next_due() == 10.1
    assert settler.ready(10.1) == Batch(frozenset({"open", "closed"}), False, 10.0)


def test_after_slow_work_closed_files_wait() -> None:
    settler = Settler(quiet_s=10.0, cap_s=20.0)
    settler.note_closed_duration(5.0, 0.5)
    settler.touch("a", 5.0, at_once=True)
    settler.touch("b", 6.0, at_once=True)
    assert settler.next_due() == 7.0
    assert settler.closed(6.9) == frozenset()
    assert settler.closed(7.0) == {"a", "b"}


def test_a_batch_covers_the_closed_files() -> None:
    settler = Settler(quiet_s=0.1, cap_s=1.0)
    settler.note_closed_duration(10.0, 1.0)
    settler.touch("a", 10.0, at_once=True)
    assert settler.ready(10.1) == Batch(frozenset({"a"}), False, 10.0)
    assert settler.closed(99.0) == frozenset()


def test_a_scan_covers_the_closed_files() -> None:
    settler = Settler(max_paths=3)
    for path in "abcd":
        settler.touch(path, 1.0, at_once=True)
    assert settler.closed(9.0) == frozenset()
    settler.touch("e", 1.0, at_once=True)
    assert settler.closed(9.0) == frozenset()
    assert settler.ready(9.0) == Batch(frozenset(), True, 1.0)
