"""Time stamps as agents write them."""

from __future__ import annotations

import pytest

from memoryd.core.dates import parse_stamp


def test_a_leap_second_is_the_second_after() -> None:
    leap, before = parse_stamp("2016-12-31T23:59:60Z"), parse_stamp("2016-12-31T23:59:59Z")
    assert leap is not None
    assert before is not None
    assert (leap.seconds - before.seconds, leap.zoned) == (1, True)


@pytest.mark.parametrize("text", ["2016-12-31T23:58:60Z", "2016-12-31T23:59:61Z", "2016-13-31T23:59:60Z"])
def test_what_no_clock_shows_is_no_stamp(text: str) -> None:
    assert parse_stamp(text) is None
