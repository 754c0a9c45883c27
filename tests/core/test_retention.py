"""Names, order and rotation of backups as pure decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.retention import Backup, backup_name, drop, keep, order, parse_backup_name

FILES = ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")
NOON = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp()


DAY = 86_400.0


def backup(
    name: str,
    taken: float | None = None,
    seq: int | None = None,
    *,
    valid: bool = True,
    pinned: bool = False,
    records: int | None = None,
) -> Backup:
    return Backup(name, "learnings.jsonl", taken, seq, 10, None, valid, pinned, records)


def names(backups: list[Backup]) -> list[str]:
    return [each.name for each in backups]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("core_memories.jsonl.backup", ("core_memories.jsonl", None, 0)),
        ("core_memories.jsonl.backup.20260101_100000", ("core_memories.jsonl", NOON, 0)),
        ("core_memories.jsonl.backup.20260101_100000_001", ("core_memories.jsonl", NOON, 1)),
        ("learnings.jsonl.backup.20260101_100000", ("learnings.jsonl", NOON, 0)),
        ("learning_memories.jsonl.backup.20260101_100000", ("learnings.jsonl", NOON, 0)),
        ("learnings_memories.jsonl.backup", ("learnings.jsonl", None, 0)),
        ("task_memories.jsonl.backup.20260101_100000", ("tasks.jsonl", NOON, 0)),
        ("tasks_memories.jsonl.backup.20260101_100000_012", ("tasks.jsonl", NOON, 12)),
    ],
)
def test_every_form_of_a_backups_name_is_known(name: str, expected: tuple[str, float | None, int]) -> None:
    assert parse_backup_name(name, FILES) == expected


@pytest.mark.parametrize(
    "name",
    [
        "learnings.jsonl",
        ".backup",
        "learnings.jsonl.backup~",
        "learnings.jsonl.backup.20260230_100000",
        "learnings.jsonl.backup.00000101_000000",
        "learnings.jsonl.backup.20260101_100000_1",
        "learnings.jsonl.backup.20260101_100000.tmp",
        "learnings.jsonl.backup.20260101_100000\n",
        "learnings.jsonl.backup.２０２６0101_100000",
        "notes.jsonl.backup.20260101_100000",
        "learnings.jsonl.backup.20260101_100000.memoryd-1-1.tmp",
    ],
)
def test_other_names_are_nobodys_backup(name: str) -> None:
    assert parse_backup_name(name, FILES) is None


@given(st.text(max_size=60))
def test_no_name_makes_the_parser_raise(name: str) -> None:
    assert parse_backup_name(name, FILES) is None or ".backup" in name


def test_a_name_used_in_one_second_gets_a_counter_that_only_grows() -> None:
    first = backup_name("learnings.jsonl", NOON + 0.9, set())
    second = backup_name("learnings.jsonl", NOON + 0.95, {first})
    assert (first, second) == (
        "learnings.jsonl.backup.20260101_100000",
        "learnings.jsonl.backup.20260101_100000_001",
    )
    # the lower names are free again after rotation, and still the next one must sort last
    assert backup_name("learnings.jsonl", NOON, {f"{first}_007"}) == f"{first}_008"


@given(st.text(alphabet="ab/%. é", min_size=1, max_size=20), st.integers(0, 4_000_000_000))
def test_a_made_name_is_read_back_as_the_file_and_second_it_was_made_for(file: str, now: int) -> None:
    name = backup_name(file, float(now), set())
    assert "/" not in name
    assert parse_backup_name(name, (file,)) == (file, float(now), 0)


def test_of_seven_with_three_old_style_names_those_in_the_middle_go() -> None:
    held = [
        backup("learnings.jsonl.backup", NOON - 50),
        backup("learning_memories.jsonl.backup.20260101_095920", NOON - 40),
        backup("learnings_memories.jsonl.backup.20260101_095930", NOON - 30),
        *(backup(f"learnings.jsonl.backup.{n}", NOON + n, seq=n) for n in range(1, 5)),
    ]
    assert drop(held, 5, NOON + 5) == names(held[1:3])


def test_six_edits_in_a_minute_leave_what_was_there_before() -> None:
    old = [
        backup("last month", NOON - 30 * DAY, 1),
        backup("week", NOON - 3 * DAY, 2),
        backup("morning", NOON - 3600, 3),
    ]
    edits = [backup(f"edit{n}", NOON + 10 * n, 4 + n) for n in range(6)]
    assert set(keep([*old, *edits], 5, NOON + 60)) == {"edit5", "edit4", "morning", "week", "last month"}


def test_a_month_of_edits_each_hour_leaves_one_backup_for_each_age() -> None:
    held: list[Backup] = []
    for hour in range(30 * 24):
        now = NOON + 3600 * hour
        held.append(backup(str(hour), now, hour + 1))
        gone = set(drop(held, 5, now))
        held = [each for each in held if each.name not in gone]
    ages = [(now - (each.taken or 0)) / DAY for each in order(held)[::-1]]
    assert len(ages) == 5
    assert ages[:2] == [0, 1 / 24]
    assert 0.5 < ages[2] <= 1 < ages[3] <= 7 < ages[4] <= 14


def test_no_run_of_poorer_copies_pushes_out_the_one_with_the_most_memories() -> None:
    rich = [backup("old", NOON, 1, records=304), backup("newer", NOON + 1, 2, records=304)]
    poor = [backup(f"poor{n}", NOON + n, n, records=4 + n) for n in range(3, 12)]
    kept = keep([*rich, *poor], 5, NOON + 20)
    assert kept["newer"] == "contains the most memories"
    assert len(kept) == 6
    grown = backup("grown", NOON + 13, 13, records=304)
    assert "newer" not in keep([*rich, *poor, grown], 5, NOON + 20)


def test_old_style_ones_that_are_newer_than_ours_count_as_newer() -> None:
    ours = [backup(f"ours{n}", NOON + n, seq=n) for n in range(1, 5)]
    theirs = [backup(f"theirs{n}", NOON + 100 + n) for n in range(3)]
    assert drop([*ours, *theirs], 5, NOON + 200) == ["ours2", "ours3"]


def test_backups_of_one_second_keep_their_order() -> None:
    base = "learnings.jsonl.backup.20260101_100000"
    held = [backup(f"{base}{end}", NOON) for end in ("", "_001", "_002", "_010", "_999", "_1000")]
    assert order(reversed(held)) == held


def test_the_clock_jumping_back_keeps_the_order() -> None:
    held = [
        backup("a", NOON, 1),
        backup("b", NOON + 400 * 86_400, 2),
        backup("c", 0.0, 3),
        backup("d", NOON, 4),
    ]
    assert order(reversed(held)) == held
    assert drop(held, 2, NOON) == ["a", "b"]


def test_foreign_stamps_of_the_future_never_push_out_our_own() -> None:
    ours = [backup(f"ours{n}", NOON + n, seq=n) for n in range(1, 4)]
    theirs = [backup(f"theirs{n}", NOON + 10**9 + n) for n in range(5)]
    kept = keep([*ours, *theirs], 5, NOON + 60)
    assert {"ours1", "ours2", "ours3"} <= set(kept)
    assert len(kept) == 5


def test_a_foreign_one_in_doubt_counts_as_older() -> None:
    # our clock was wrong for number 1: nothing tells when the foreign one was really made
    held = [backup("ours1", NOON + 10**8, 1), backup("ours2", NOON, 2), backup("theirs", NOON + 5)]
    assert names(order(held)) == ["theirs", "ours1", "ours2"]
    assert names(order([*held[:2], backup("timeless")])) == ["timeless", "ours1", "ours2"]


def test_the_newest_valid_one_outlives_any_number_of_invalid_ones() -> None:
    good = backup("good", NOON, 1)
    bad = [backup(f"bad{n}", NOON + n, n, valid=False) for n in range(2, 9)]
    assert drop([good, *bad], 5, NOON + 10) == ["bad2", "bad3", "bad4"]
    assert set(keep([good, *bad], 0, NOON + 10)) == {"good"}


def test_an_invalid_one_goes_before_a_valid_one() -> None:
    held = [backup(f"b{n}", NOON + n, n, valid=n not in (4, 6)) for n in range(1, 7)]
    assert drop(held, 4, NOON + 10) == ["b4", "b6"]
    assert drop(held, 5, NOON + 10) == ["b4"]


def test_a_pinned_one_stays_besides_the_five() -> None:
    held = [backup(f"b{n}", NOON + n, n, pinned=n == 1) for n in range(1, 8)]
    kept = keep(held, 2, NOON + 10)
    assert set(kept) == {"b1", "b6", "b7"}
    assert kept["b1"] == "pinned"
    pinned = [replace(each, pinned=True) for each in held[:6]]
    assert drop([*pinned, held[6]], 5, NOON + 10) == []


def test_each_file_has_its_own_five() -> None:
    tasks = [replace(backup(f"t{n}", NOON + n, n), file="tasks.jsonl") for n in range(6)]
    assert drop([*tasks, *(backup(f"l{n}", NOON + n, n) for n in range(5))], 5, NOON + 10) == ["t1"]


def _backup(name: int, taken: float | None, seq: int | None, valid: bool, pinned: bool, records: int | None) -> Backup:
    """Make a backup: one of memoryd has a number and a time, and only such a one can be pinned."""
    own = seq is not None
    when = 0.0 if own and taken is None else taken
    return Backup(str(name), "learnings.jsonl", when, seq, 1, None, valid, pinned and own, records)


_BACKUPS = st.lists(
    st.builds(
        _backup,
        st.integers(0, 10**6),
        st.none() | st.floats(0, 4e9),
        st.none() | st.integers(1, 50),
        st.booleans(),
        st.booleans(),
        st.none() | st.integers(0, 9),
    ),
    max_size=12,
    unique_by=(lambda b: b.name, lambda b: b.seq if b.seq is not None else -int(b.name) - 1),
)


@given(_BACKUPS, st.integers(1, 6), st.floats(0, 4e9))
def test_rotation_is_safe_whatever_is_there(held: list[Backup], limit: int, now: float) -> None:
    gone = set(drop(held, limit, now))
    stay = [each for each in order(held, now) if each.name not in gone]
    valid = [each for each in order(held, now) if each.valid]
    assert not valid or valid[-1] in stay
    assert all(each in stay for each in held if each.pinned)
    assert len(stay) <= limit + sum(each.pinned for each in held) + 1
    assert max((b.records or 0 for b in valid), default=0) == max((b.records or 0 for b in stay if b.valid), default=0)
    assert len(stay) >= min(limit, len(held))
    numbered = [each for each in order(held, now) if each.seq is not None]
    if all((a.taken or 0.0) <= (b.taken or 0.0) for a, b in pairwise(numbered)):  # by a clock that never went back
        assert drop(stay, limit, now) == []
    numbers = [each.seq for each in numbered]
    assert all((a or 0) < (b or 0) for a, b in pairwise(numbers))
