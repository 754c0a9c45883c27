"""Logging: repeated messages, and what is imported with it."""

from __future__ import annotations

import io
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from memoryd import log as module
from memoryd.log import RateLimit, configure, get_logger


@pytest.fixture
def _restored() -> Iterator[None]:
    """Logging as it was before."""
    before, handlers = structlog.get_config(), logging.getLogger().handlers[:]
    yield
    structlog.configure(**before)
    logging.getLogger().handlers[:] = handlers


@pytest.mark.usefixtures("_restored")
def test_people_see_local_times_and_no_modules(local_zone: Callable[[str], None]) -> None:
    out = io.StringIO()
    local_zone("Asia/Kathmandu")
    configure(style="console", stream=out)
    get_logger("a.module").info("started", roots=3)
    at, _, event = out.getvalue().partition(" [")
    age_s = time.time() - time.mktime(time.strptime(at, "%Y-%m-%d %H:%M:%S"))
    assert abs(age_s) < 3600, "the zone is six hours from UTC"
    assert event == "info] started roots=3\n"


@pytest.mark.usefixtures("_restored")
def test_a_log_that_cannot_be_copied_is_not_copied_again_at_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the next try is after a tenth more."""
    tries = []

    def full(source: str, target: str) -> None:
        tries.append(os.stat(source).st_size)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "MAX_LOG_BYTES", 10_000)
    path = tmp_path / "log"
    with open(path, "a", encoding="utf-8") as out:
        configure(style="json", stream=out, path=str(path))
        logger = get_logger("m")
        with monkeypatch.context() as context:
            context.setattr(shutil, "copyfile", full)
            while path.stat().st_size < 13_000:
                logger.info("x" * 100)
        assert len(tries) == 3
        while path.stat().st_size > 1000:
            logger.info("x" * 100)
    assert (tmp_path / "log.1").stat().st_size > 13_000


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
