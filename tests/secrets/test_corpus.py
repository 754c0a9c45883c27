"""The corpus is what it says: large enough, no line twice, halves of a size, nothing a scanner would take for real."""

from __future__ import annotations

import re

import pytest

from tests.secrets.corpus import HALVES, HARMLESS, HERE, SHAPES, harmless, shapes


def test_it_is_large_enough() -> None:
    assert len(SHAPES) >= 60
    assert len(HARMLESS) >= 200


def test_no_line_and_no_name_stands_twice() -> None:
    assert len({each.name for each in SHAPES}) == len({each.text for each in SHAPES}) == len(SHAPES)
    assert len(set(HARMLESS)) == len(HARMLESS)


@pytest.mark.parametrize("half", HALVES)
def test_the_halves_are_of_a_size(half: str) -> None:
    assert 0.4 < len(shapes(half)) / len(SHAPES) < 0.6
    assert 0.4 < len(harmless(half)) / len(HARMLESS) < 0.6


def test_every_shape_has_a_level_and_a_value() -> None:
    for each in SHAPES:
        assert each.level in {"block", "warn"}
        assert len(each.value) >= 6
        assert each.text.count(each.value) == 1
        assert not set("⟦⟧¦⏎") & set(each.text)


def test_no_value_stands_whole_in_the_file() -> None:
    text = (HERE / "shapes.txt").read_text(encoding="utf-8")
    assert not any(each.value in text for each in SHAPES)
    values = re.findall("⟦(.*?)⟧", text)
    assert max(len(part) for value in values for part in value.split("¦")) <= 10
