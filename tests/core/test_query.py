"""The informative terms of a query."""

from __future__ import annotations

import pytest

from memoryd.core.query import Term, informative_terms

A, B, C = Term("a"), Term("b"), Term("c")


@pytest.mark.parametrize(
    ("frequencies", "size", "budget", "chosen"),
    [
        ((3, 1, 2), 100, 100, [B, C, A]),
        ((30, 1, 2), 100, 100, [B, C]),  # more than a tenth of all says too little
        ((50, 40, 60), 100, 100, [B]),  # the rarest in any case
        ((3, 1, 2), 100, 3, [B, C]),
        ((3, 4, 5), 100, 1, [A]),
        ((5, 4, 3), 10, 100, [C, B, A]),  # in a small index nothing is common
    ],
)
def test_the_rarest_first_within_a_budget(
    frequencies: tuple[int, ...], size: int, budget: int, chosen: list[Term]
) -> None:
    assert informative_terms((A, B, C), frequencies, size, budget) == chosen


def test_no_terms() -> None:
    assert informative_terms((), (), 10, 10) == []
