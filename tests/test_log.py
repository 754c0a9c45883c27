"""Logging: repeated messages, and what is imported with it."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_logger_that_is_awaited_finds_asyncio() -> None:
    """structlog is imported without it."""
    script = (
        "import sys\nfrom memoryd.log import get_logger\nassert 'asyncio' not in sys.modules\n"
        "import asyncio\nasyncio.run(get_logger('here').ainfo('awaited'))"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert "awaited" in shown.stdout
