"""Repeated log messages go out once in a while, with the number suppressed."""

from __future__ import annotations

from memoryd.log import RateLimit


def test_a_repeated_message_goes_out_once_a_minute_with_the_number_suppressed() -> None:
    now = [0.0]
    limit = RateLimit(lambda: now[0])
    assert [limit.suppressed("a") for _ in range(5000)] == [0, *[None] * 4999]
    assert limit.suppressed("b") == 0
    now[0] += RateLimit.PAUSE_S
    assert limit.suppressed("a") == 4999
    assert limit.suppressed("a") is None


def test_many_different_messages_take_little_memory() -> None:
    limit = RateLimit(lambda: 0.0)
    for number in range(10 * RateLimit.MAX_MESSAGES):
        assert limit.suppressed(str(number)) == 0
    assert len(limit) <= RateLimit.MAX_MESSAGES
