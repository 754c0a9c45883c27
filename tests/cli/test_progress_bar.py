"""The bars of long work: drawn on a terminal only, each with what its source says."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import redirect_stderr
from typing import Any
from unittest.mock import MagicMock

import pytest

from memoryd.cli import progress_bar
from memoryd.cli.progress_bar import daemon_bars, local_bar, show, wait_bars
from memoryd.core.progress import ProgressMeter
from tests.daemon import until


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(progress_bar, "FIRST_S", 0.0)
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.01)


def test_work_in_this_process_is_shown_while_it_lasts() -> None:
    with (
        redirect_stderr(Stream(terminal=True)) as terminal,
        local_bar("big") as meter,
        meter.measure("reading", "bytes", 2048),
    ):
        meter.reach(1024)
        until(lambda: "big: reading 50 % (1.0 KB of 2.0 KB)" in terminal.getvalue(), "the bar is drawn")


def test_work_of_the_daemon_is_shown_also_where_it_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = {"step": "reading", "unit": "bytes", "done": 1, "total": 4, "percent": 25}
    rows = [
        {"name": "one", "busy_with": "dedupe", "progress": None},
        {"name": "two", "busy_with": "sync", "progress": reading},
        {"name": "three", "busy_with": "idle", "progress": None},
    ]
    client = MagicMock()
    client.return_value.__enter__.return_value.call.return_value = {"roots": rows}
    monkeypatch.setattr(progress_bar, "Client", client)
    with redirect_stderr(Stream(terminal=True)) as terminal, show(daemon_bars("socket", None)):
        until(lambda: "two: reading 25 %" in terminal.getvalue(), "the bars are drawn")
    assert "one: dedupe" in terminal.getvalue()
    assert "three" not in terminal.getvalue()


def test_a_wait_shows_how_long_it_may_last() -> None:
    with redirect_stderr(Stream(terminal=True)) as terminal, show(wait_bars("memoryd is stopping", 9000)):
        until(lambda: "memoryd is stopping, 2 h left at most" in terminal.getvalue(), "the bar is drawn")


def test_a_bar_writes_to_the_stream_of_its_begin_only() -> None:
    """The thread may still load what it draws with when the work has ended."""
    with redirect_stderr(Stream(terminal=True)) as first, local_bar("big") as meter, meter.measure("reading", "", 9):
        with redirect_stderr(Stream(terminal=True)) as second:
            meter.reach(1)
            until(lambda: "big: reading" in first.getvalue(), "the bar is drawn")
            assert sys.stderr is second
        assert sys.stderr is first
    assert second.getvalue() == ""


def test_an_error_in_the_work_ends_the_bar() -> None:
    with redirect_stderr(Stream(terminal=True)), pytest.raises(ValueError, match="broken"), local_bar("big"):
        raise ValueError("broken")


def test_nothing_is_drawn_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(**_: Any) -> None:
        raise AssertionError("a bar is drawn")

    monkeypatch.setattr(threading, "Thread", no_thread)
    with redirect_stderr(Stream(terminal=False)) as stream, local_bar("big") as meter:
        assert isinstance(meter, ProgressMeter)
    assert stream.getvalue() == ""
