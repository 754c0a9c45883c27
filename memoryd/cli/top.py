"""`memoryd top`: a live screen with the roots, the next jobs and the latest events.

One connection serves both: events arrive on it between the replies of `status`, which is asked for once a second, and
soon after an event. rich owns the screen; keys are read one by one, without echo.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import termios
import time
import tty
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import select

from rich.console import Console
from rich.live import Live
from rich.text import Text

from memoryd.cli.screen import MIN_WIDTH, Screen, format_duration, format_time, make_screen, wants_fancy
from memoryd.cli.tables import cut
from memoryd.cli.views import event_line
from memoryd.cli.views_status import (
    Result,
    format_counts,
    format_daemon,
    format_state,
    limit_share,
    show_job_errors,
    show_jobs,
    show_reasons,
)
from memoryd.control.client import Client
from memoryd.control.methods.method_types import TOPICS
from memoryd.errors import MemorydError, UsageError

PAUSE_S = 0.2  # between two drawings, however many events arrive
EVERY_S = 1.0
WAIT_S = 2.0  # for a reply
EVENTS = 200  # kept for a tall terminal
JOBS = 5
FEW_LINES = 5  # of events: with less room for them the jobs are left out
QUIT = b"qQ"
SPARE = ("lag", "limits", "locks")


class Feed:
    """What the daemon last reported, its latest events, and what is wrong with the connection, if anything. `cpu` is
    the share of a processor that it used between the last two reports."""

    def __init__(self, path: str) -> None:
        self.status: Result = {}
        self.events: deque[Result] = deque(maxlen=EVENTS)
        self.error: MemorydError | None = None
        self.cpu = 0.0
        self.client: Client | None = None
        self._path = path

    def update(self) -> None:
        """Ask for the status and take the events; connect if there is no connection."""
        try:
            self.read()
        except MemorydError as error:
            self.close()
            self.error, self.status = error, {}

    def read(self) -> None:
        """Update, and raise what goes wrong."""
        if self.client is None:
            self.client = Client(self._path, timeout=WAIT_S)
            self.client.call("subscribe", {"topics": [topic for topic in TOPICS if topic != "log"]})
        before, self.status = self.status, self.client.call("status")
        self.events += self.client.take_events()
        self.error = None
        if before.get("instance") == self.status.get("instance") and self.status["uptime_s"] > before["uptime_s"]:
            used = self.status["resources"]["cpu_s"] - before["resources"]["cpu_s"]
            self.cpu = used / (self.status["uptime_s"] - before["uptime_s"])

    def close(self) -> None:
        """Close the connection."""
        if self.client is not None:
            self.client.close()
            self.client = None


def run(path: str) -> None:
    """Show the screen until q or Ctrl-C. Raises UsageError without a terminal, and what the first call does: a daemon
    that stops later is waited for."""
    if not (make_screen(sys.stdout).fancy and sys.stdin.isatty()):
        hint = "`memoryd status` prints the state once, `memoryd events` what happens"
        raise UsageError("`memoryd top` needs a terminal", hint=hint)
    feed = Feed(path)
    try:
        feed.read()
        while _watch(feed):
            os.kill(os.getpid(), signal.SIGSTOP)  # until the shell continues the job
    except KeyboardInterrupt:
        return
    finally:
        feed.close()


def _watch(feed: Feed) -> bool:
    """Draw until a key ends it. Return True if Ctrl-Z interrupts it."""
    console = Console(markup=False, highlight=False, emoji=False)
    colour = wants_fancy(sys.stdout, os.environ)
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with _keys_and_signals() as (keys, signals):
        try:
            live.start()
            while True:
                lines = draw(feed, *console.size, colour=colour)
                text = Text.from_ansi("\n".join(lines), no_wrap=True, overflow="crop")
                live.update(text, refresh=True)
                ready = _wait(keys, signals, feed)
                if keys in ready and (not (typed := os.read(keys, 1024)) or any(key in QUIT for key in typed)):
                    return False
                if signals in ready and signal.SIGTSTP in os.read(signals, 1024):
                    return True
                feed.update()
        finally:
            live.stop()


def _wait(keys: int, signals: int, feed: Feed) -> list[int]:
    """Wait for a key or a signal, after a pause also for an event, and at most until the next report is due."""
    wanted = [keys, signals]
    connection = [] if feed.client is None else [feed.client.fileno()]
    return select(wanted, [], [], PAUSE_S)[0] or select(wanted + connection, [], [], EVERY_S - PAUSE_S)[0]


@contextmanager
def _keys_and_signals() -> Iterator[tuple[int, int]]:
    """Yield a descriptor with the keys as they are typed, and one with the numbers of the signals for a new size and
    for Ctrl-Z. SIGTERM ends the block as Ctrl-C does. Everything is as before afterwards."""
    keys = sys.stdin.fileno()
    attributes = termios.tcgetattr(keys)
    signals, written = os.pipe()
    os.set_blocking(written, False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGWINCH, signal.SIGTSTP)}
    handlers[signal.SIGTERM] = signal.signal(signal.SIGTERM, signal.default_int_handler)
    before = signal.set_wakeup_fd(written)
    try:
        tty.setcbreak(keys)
        yield keys, signals
    finally:
        termios.tcsetattr(keys, termios.TCSAFLUSH, attributes)
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(signals)
        os.close(written)


def draw(feed: Feed, width: int, height: int, *, colour: bool) -> list[str]:
    """Return the lines of the screen: the roots, the next jobs if there is room for them, the latest events, and the
    time with the key that ends it."""

    def lines(view: Callable[[Screen, Feed], None]) -> list[str]:
        out = io.StringIO()
        view(Screen(out, fancy=True, colour=colour, width=width), feed)
        return out.getvalue().split("\n")[:-1]

    width, room = max(MIN_WIDTH, width), max(1, height - 1)
    body, jobs, events = lines(_show_roots), lines(_show_jobs), lines(_show_events)
    if room - len(body) - len(jobs) >= FEW_LINES:
        body += jobs
    body += [*events[:2], *events[2:][-max(1, room - len(body) - 2) :]]
    if len(body) > room:
        body[room - 1 :] = [cut(f"… {len(body) - room + 1} more lines; `memoryd status` shows all", width)]
    body += [""] * (room - len(body))
    return [*body, cut(f"{format_time(time.time())[11:]} · q: quit", width)]


def _show_roots(screen: Screen, feed: Feed) -> None:
    if feed.error is not None:
        screen.heading("no answer")
        screen.paragraph(f"{feed.error.message}; trying again")
        return
    status, used = feed.status, feed.status.get("resources", {})
    screen.heading(
        cut(f"{format_daemon(status)} · {feed.cpu * 100:.1f} % CPU · {used.get('threads')} threads", screen.width)
    )
    if status.get("notice"):
        screen.note(f"! {status['notice']}")
    roots = sorted(status.get("roots", []), key=lambda root: root.get("state") == "ok")
    rows = [
        (
            root.get("name"),
            format_state(root),
            root.get("memories", 0),
            _lag(root),
            _limits(root.get("limits", [])),
            _locks(root.get("locks", [])),
            format_counts(root.get("findings", {})),
        )
        for root in roots
    ]
    headers = ("root", "state", "memories", "lag", "limits", "locks", "findings")
    screen.table(headers, rows, empty="no roots", one_line=("findings",), spare=SPARE)
    show_reasons(screen, roots)
    show_job_errors(screen, status)


def _lag(root: Result) -> str:
    """Return how old the oldest change is that is not in the index; before the first scan is complete, it says
    nothing."""
    lag_ms = root.get("lag_ms") or 0
    if root.get("last_scan") is None:
        return "-"
    return f"{lag_ms:.0f} ms" if lag_ms < 1000 else format_duration(lag_ms / 1000)


def _limits(limits: list[Result]) -> str:
    """Return how much of the limit is used that is closest to its end."""
    share, level = max(((limit_share(each), each.get("level")) for each in limits), default=(0, None))
    return f"{level} {share * 100:.0f} %" if level else "-"


def _locks(locks: list[Result]) -> str:
    return (
        ", ".join(f"{number} {state}" for state, number in Counter(each.get("state") for each in locks).items()) or "-"
    )


def _show_jobs(screen: Screen, feed: Feed) -> None:
    """Show the jobs that run next, those first that only wait until they may write."""
    jobs = [job for job in feed.status.get("jobs", []) if job.get("waits") or job.get("next_run")]
    jobs.sort(key=lambda job: "" if job.get("waits") else job["next_run"])
    if jobs:
        screen.line()
        show_jobs(screen, {"jobs": jobs[:JOBS]})


def _show_events(screen: Screen, feed: Feed) -> None:
    screen.line()
    screen.heading("events" if feed.events else "events: none yet")
    for event in feed.events:
        screen.note(event_line(event))
