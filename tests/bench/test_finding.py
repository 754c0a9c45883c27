"""The benchmark of finding: its memories and questions fit together, and its figures mean what they say."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.finding.__main__ import by_kind, main, mean_of, told_apart, trusted, worth, worth_of_first
from tests.bench.finding.arms import Found, PlainBm25, fused
from tests.bench.finding.material import (
    HELD_OUT,
    HERE,
    LONGEST,
    OLDEST,
    SHORTEST,
    Asked,
    Written,
    memories,
    others,
    questions,
    tagged,
)


def found(*names: str, score: float = 1.0) -> list[Found]:
    return [Found(name, score - number / 100, {}) for number, name in enumerate(names)]


def asked(*answers: str, kind: str = "mixed") -> Asked:
    return Asked(kind, "?", answers, "report")


@pytest.mark.parametrize("place", [HERE, *HELD_OUT], ids=lambda place: place.name)
def test_every_answer_is_a_memory(place: Path) -> None:
    names, asked = [each.name for each in memories(place)], questions(place=place)
    assert len(names) == len(set(names)) >= 70
    assert {answer for each in asked for answer in each.answers} <= set(names)
    assert all(bool(each.answers) == (each.kind != "none") for each in asked)
    assert all(len(each.answers) > 1 for each in asked if each.kind == "multi")
    assert len({each.text for each in asked}) == len(asked)


def test_there_are_questions_of_every_kind_in_both_halves() -> None:
    kinds = {"paraphrase", "keyword", "mixed", "forms", "multi", "time", "none", "language", "inflected"}
    halves = Counter((each.kind, each.half) for each in questions())
    assert set(halves) == {(kind, half) for kind in kinds for half in ("tune", "report")}
    assert min(halves.values()) >= 8
    assert len(questions()) >= 160


@pytest.mark.parametrize("place", HELD_OUT, ids=lambda place: place.name)
def test_the_held_out_sets_are_about_other_subjects(place: Path) -> None:
    kinds = Counter(each.kind for each in questions(place=place))
    assert min(kinds[kind] for kind in ("paraphrase", "mixed", "multi", "time", "none")) >= 8
    for other in {HERE, *HELD_OUT} - {place}:
        assert {each.text for each in questions(place=place)}.isdisjoint(each.text for each in questions(place=other))
        assert {each.text for each in memories(place)}.isdisjoint(each.text for each in memories(other))


def test_the_other_memories_are_short_and_long_old_and_new() -> None:
    made = others(1_000)
    lengths = [len(each.text.split()) for each in made]
    assert len({each.text for each in made}) == 1_000
    assert (min(lengths), max(lengths)) >= (SHORTEST, LONGEST - 10)
    assert max(lengths) <= LONGEST
    assert sum(length > 30 for length in lengths) > 300
    assert max(each.age for each in made) - min(each.age for each in made) > OLDEST * 0.9
    assert len({each.importance for each in made}) > 5
    assert made == others(1_000)


def test_worth_is_the_reciprocal_rank_and_of_several_the_average_precision() -> None:
    assert worth(asked("b"), found("a", "b")) == 0.5
    assert worth(asked("x"), found("a", "b")) == 0
    assert worth(asked("a", "c"), found("a", "b", "c")) == pytest.approx((1 + 2 / 3) / 2)
    assert worth(asked("a", "x"), found("a")) == 0.5


def test_of_several_answers_the_rank_of_the_first_is_shown_beside() -> None:
    several, hits = Asked("multi", "?", ("a", "c"), "report"), found("x", "c", "y", "a")
    assert worth_of_first(several, hits) == 0.5
    assert worth_of_first(several, found("x")) == 0.0
    figures = by_kind([(several, hits), (asked("x"), hits), (asked(kind="none"), hits)])
    assert figures["multi, first"].value == figures["multi"].value == 0.5
    assert figures["all"].value == 0.75, "it does not count twice"


def test_tags_are_the_same_in_each_run_and_every_memory_has_three() -> None:
    written = memories()
    made = tagged(written)
    assert made == tagged(written)
    assert [each.text for each in made] == [each.text for each in written]
    assert {(len(each.labels), len(each.tags)) for each in made} == {(1, 3)}
    assert any(tag in each.text.lower() for each in made for tag in each.tags)


def test_questions_without_an_answer_are_told_apart_by_the_score_of_right_hits() -> None:
    answers = [(asked("a"), found("a", score=score / 10)) for score in range(1, 11)]
    answers += [(asked(kind="none"), found("z", score=0.15)), (asked(kind="none"), found("z", score=0.25))]
    answers += [(asked(kind="none"), [])]
    assert told_apart(answers) == [1.0, 0.0, 1.0]
    assert set(by_kind(answers)) == {"mixed", "all", "none", "trusted"}


def test_questions_without_an_answer_are_told_apart_by_confidence() -> None:
    weak, sure = ([Found("a", 0.5, {"confidence": each})] for each in ("weak", "sure"))
    answers = [(asked("a"), weak), (asked("a"), sure), (asked("b"), weak), (asked(kind="none"), weak)]
    assert trusted(answers) == [0.0, 1.0]
    assert told_apart([*answers, (asked(kind="none"), sure)]) == [1.0, 0.0]


def test_the_interval_surrounds_the_mean() -> None:
    some = mean_of([0.0, 1.0] * 20)
    assert some.low < some.value == 0.5 < some.high
    assert mean_of([1.0] * 5) == (1.0, 1.0, 1.0)


def test_plain_bm25_and_fusion() -> None:
    plain = PlainBm25([Written(name, text, 1, None, 0) for name, text in (("a", "red cars"), ("b", "a blue boat"))])
    assert [each.name for each in plain.ask("which car?")] == ["a"]
    both = fused(plain.ask, lambda _: found("b", "a"))
    assert [each.name for each in both("boats")] == ["b", "a"]
    plain.close()


def test_nothing_is_measured_without_the_library_that_compares_vectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["finding"])
    monkeypatch.setitem(sys.modules, "simsimd", None)  # as if it were not installed
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "cannot be compared" in capsys.readouterr().err
