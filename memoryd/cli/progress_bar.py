"""A progress bar on the terminal during long work for a command: what is done, the rate and the time left.

The progress of the daemon comes from `status`, over a second connection, because the command waits for a reply on the
first one; that of this process comes from its meter.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from memoryd.cli.screen import format_duration, printable
from memoryd.cli.views_status import format_progress
from memoryd.control.client import Client
from memoryd.core.progress import ProgressMeter
from memoryd.errors import MemorydError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

FIRST_S = 0.7  # before the bar appears: most commands are done by then
EVERY_S = 0.25
IDLE = "idle"  # what a root is busy with when it does nothing
MEMBERS = ("step", "unit", "done", "total", "percent", "rate", "left_s")  # fields of a progress, as `status` names them


class Bar(NamedTuple):
    """One bar at one moment: its text, and how much of the total is done. Without a total it only moves."""

    text: str
    done: float
    total: float | None


Bars = Mapping[str, Bar]
"""The bars on the terminal, by the name of a root, a directory or a wait."""


@contextmanager
def local_bar(name: str) -> Iterator[ProgressMeter]:
    """Yield a meter for work in this process, which is shown until the block ends."""
    meter = ProgressMeter(time.monotonic)
    with show(_meter_bars(name, meter)):
        yield meter


def daemon_bars(path: str, root: object) -> Iterator[Bars]:
    """Yield the long work of the daemon in this root, or in any."""
    with Client(path, timeout=2) as client:
        while True:
            rows = client.call("status", {"root": root} if root else {}).get("roots", [])
            bars = {}
            for row in rows:
                if row.get("progress"):
                    bars[row["name"]] = _bar_of(row["name"], row["progress"])
                elif row.get("busy_with") not in (None, IDLE):
                    bars[row["name"]] = Bar(f"{row['name']}: {row['busy_with']}", 0, None)
            yield bars


def _meter_bars(name: str, meter: ProgressMeter) -> Iterator[Bars]:
    while True:
        progress = meter.current()
        yield {} if progress is None else {name: _bar_of(name, {each: getattr(progress, each) for each in MEMBERS})}


def wait_bars(what: str, most_s: float) -> Iterator[Bars]:
    """Yield how much time of a limited wait has passed."""
    began = time.monotonic()
    while True:
        passed = time.monotonic() - began
        yield {what: Bar(f"{what}, {format_duration(max(0.0, most_s - passed))} left at most", passed, most_s)}


def _bar_of(name: object, progress: Mapping[str, Any]) -> Bar:
    return Bar(f"{name}: {format_progress(dict(progress))}", progress["done"], progress["total"])


@contextmanager
def show(states: Iterator[Bars]) -> Iterator[None]:
    """Draw bars on standard error, if it is a terminal, until the block ends. `states`: the bars at each update."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_draw, args=(states, ended, sys.stderr), name="progress bar", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(EVERY_S * 4)


def _draw(states: Iterator[Bars], ended: threading.Event, stream: TextIO) -> None:
    """Draw until the work has ended. A daemon that does not answer ends the bars, not the command. The streams of the
    process stay as they are: this thread may end after the command."""
    if ended.wait(FIRST_S):
        return
    from rich.console import Console  # noqa: PLC0415 - 60 ms, only for work that takes longer
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 - as above

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(bar_width=10))
    console = Console(file=stream)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as display:
        tasks: dict[str, TaskID] = {}
        try:
            while not ended.wait(EVERY_S):
                _update(display, tasks, next(states))
        except MemorydError:
            return  # the command itself reports what is wrong


def _update(display: Progress, tasks: dict[str, TaskID], bars: Bars) -> None:
    """Show these bars, and no others; `tasks` are those shown, by name."""
    for name in [each for each in tasks if each not in bars]:
        display.remove_task(tasks.pop(name))
    for name, bar in bars.items():
        line = printable(bar.text)
        if name not in tasks:
            tasks[name] = display.add_task(line, total=bar.total)
        display.update(tasks[name], total=bar.total, completed=bar.done, description=line)
