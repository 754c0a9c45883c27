"""`memoryd top`: what it draws at any size, and its life on a real terminal beside a real daemon."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from memoryd.cli import top
from memoryd.cli.main import run
from memoryd.cli.tables import cell_width
from memoryd.errors import NoDaemonError
from tests.agents import line, memory
from tests.daemon import Daemon, until

STYLES = re.compile(r"\x1b\[[\d;]*m")
LEAVE, SHOW_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"
LIMIT = {
    "file": "l.jsonl",
    "count": 490,
    "max_count": 500,
    "bytes": 1,
    "max_bytes": None,
    "kind": "soft",
    "level": "near",
}


def root(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "ok",
        "memories": 3,
        "lag_ms": 1500,
        "last_scan": "2026-01-02T03:04:05Z",
        "limits": [LIMIT],
        "locks": [{"path": ".lock", "state": "held"}],
        "findings": {"error": 2},
        **more,
    }


def job(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "root": "a", "schedule": "every 1d", "next_run": None, **more}


def feed(*roots: dict[str, Any], jobs: tuple[dict[str, Any], ...] = (), events: int = 0) -> top.Feed:
    made = top.Feed("nowhere")
    made.status = {"version": "1", "state": "ok", "pid": 5, "uptime_s": 7, "roots": [*roots], "jobs": [*jobs]}
    made.events += [{"topic": "change", "at": 1e9, "root": "a", "n": n} for n in range(events)]
    return made


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (40, 12), (20, 4), (1, 1)])
def test_the_screen_is_filled_and_never_exceeded(size: tuple[int, int]) -> None:
    width, height = size
    made = feed(
        *(root(f"root-{n}") for n in range(3)), jobs=(job("backup", next_run="2033-05-18T03:33:20Z"),), events=90
    )
    lines = top.draw(made, width, height, colour=False)
    assert len(lines) == max(height, 2), "rich cuts what is too much"
    if width >= 80:
        assert all(cell_width(each) <= width for each in lines)


def test_a_root_in_trouble_comes_first_with_its_figures() -> None:
    made = feed(root("fine"), root("poor", state="degraded", reasons=["no more watches"], locks=[], last_scan=None))
    lines = top.draw(made, 120, 30, colour=False)
    at = next(number for number, text in enumerate(lines) if text.startswith("poor"))
    assert lines[at].split() == ["poor", "degraded", "3", "-", "near", "98", "%", "-", "2", "errors"]
    assert lines[at + 1].split() == ["fine", "ok", "3", "1.5", "s", "near", "98", "%", "1", "held", "2", "errors"]
    assert "! poor: no more watches" in lines


def test_what_does_not_fit_is_counted() -> None:
    lines = top.draw(feed(*(root(f"root-{n}") for n in range(90))), 80, 24, colour=False)
    assert lines[-2].startswith("… ")
    shown = sum(each.startswith("root-") for each in lines)
    assert int(lines[-2].split()[1]) > 90 - shown  # the reasons of the roots come after them


def test_the_jobs_that_wait_and_the_soonest_are_shown_if_there_is_room_for_events_too() -> None:
    jobs = (
        job("verify"),
        job("backup", next_run="2033-05-18T03:33:20Z"),
        job("archive", next_run="2030-03-17T17:46:40Z"),
        job("prune", waits="paused"),
    )
    tall = "\n".join(top.draw(feed(root("a"), jobs=jobs, events=3), 100, 30, colour=False))
    assert re.findall(r"^(\w+) +a +every", tall, re.MULTILINE) == ["prune", "archive", "backup"]
    low = top.draw(feed(root("a"), jobs=jobs, events=30), 100, 14, colour=False)
    assert not [each for each in low if "archive" in each]
    assert [each[-4:] for each in low[-3:-1]] == ["n=28", "n=29"], "the latest events"


def test_text_of_files_does_not_control_the_terminal() -> None:
    evil = "\x1b]0;OWNED\x07\u202e"
    made = feed(root(evil, reasons=[evil]), jobs=(job(evil, next_run="2033-05-18T03:33:20Z", last_error=evil),))
    made.status["notice"] = evil
    made.events.append({"topic": "change", "at": 1e9, "root": evil, "paths": [evil]})
    text = "\n".join(top.draw(made, 150, 40, colour=True))
    assert text.count("OWNED") >= 5
    assert STYLES.sub("", text).replace("\n", "").isprintable()


def test_a_daemon_that_does_not_answer_is_named() -> None:
    made = feed(root("a"))
    made.error = NoDaemonError("no daemon answers at /x")
    assert top.draw(made, 80, 24, colour=False)[:2] == ["no answer", "  no daemon answers at /x; trying again"]


def test_without_a_terminal_it_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--socket", str(tmp_path / "none"), "top"]) == 2
    assert "memoryd status" in capsys.readouterr().err


class Terminal:
    """The program on a terminal of its own, whose session it leads: keys, size and signals reach it as they would from
    a window."""

    def __init__(self, argv: list[str], env: Mapping[str, str], columns: int, lines: int) -> None:
        self.window, side = pty.openpty()
        os.set_blocking(self.window, False)
        self.resize(columns, lines)
        self.attributes = termios.tcgetattr(self.window)
        self.output = b""
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(side), *argv],  # the first one opened controls it
            env={**{k: v for k, v in env.items() if k not in ("COLUMNS", "LINES")}, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self._side = side  # while it is open, what was printed last can still be read

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.window, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.window, keys)

    def read(self) -> bytes:
        with suppress(BlockingIOError):
            self.output += os.read(self.window, 1 << 20)
        return self.output

    def frame(self) -> list[str]:
        """The lines of the last complete drawing."""
        for text in reversed(self.read().decode(errors="replace").split("\x1b[H")):
            if "q: quit" in text:
                return [each.rstrip() for each in STYLES.sub("", text).replace("\r", "").split("\n")]
        return []

    def shows(self, words: str) -> list[str]:
        def look() -> list[str] | None:
            lines = self.frame()
            return lines if any(words in each for each in lines) else None

        return until(look, words)

    def ends(self) -> int:
        """Its exit code; the terminal must be as it was."""
        code = self.process.wait(60)
        self.read()
        assert self.output.rindex(SHOW_CURSOR) > 0
        assert self.output.rindex(LEAVE) > self.output.rindex(b"\x1b[?1049h")
        assert termios.tcgetattr(self.window) == self.attributes
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.window)
        os.close(self._side)


@contextmanager
def shown(daemon: Daemon, columns: int = 100, lines: int = 30, **env: str) -> Iterator[Terminal]:
    terminal = Terminal(daemon.command("top"), {**daemon.env, **env}, columns, lines)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.slow
def test_its_life_beside_a_real_daemon(tmp_path: Path) -> None:
    store = tmp_path / "memories"
    store.mkdir(mode=0o700)
    (store / "learnings.jsonl").write_text(line(memory()) + "{broken}\n")
    with Daemon(tmp_path / "d", store) as daemon:
        with shown(daemon) as early:
            assert early.process.wait(60) == 69
            assert LEAVE not in early.read(), "without a daemon there is nothing to show"
        daemon.start()
        with shown(daemon) as terminal:
            assert "1 error" in next(each for each in terminal.shows("1 error") if each.startswith("memories  "))
            with (store / "learnings.jsonl").open("a") as file:
                file.write(line(memory(id="heron-1")))
            terminal.shows("change memories paths=index.json")
            assert len(terminal.shows("memories")) == 30
            terminal.resize(60, 12)
            until(lambda: len(terminal.frame()) == 12, "the new size")
            assert max(map(len, terminal.frame())) <= 60
            terminal.type(b"\x1a")  # Ctrl-Z: the shell gets the terminal back
            until(lambda: psutil.Process(terminal.process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
            assert terminal.read().endswith(SHOW_CURSOR + LEAVE)
            assert termios.tcgetattr(terminal.window) == terminal.attributes
            terminal.process.send_signal(signal.SIGCONT)
            until(lambda: terminal.read().count(b"\x1b[?1049h") == 2, "it is back")
            daemon.kill()
            assert terminal.shows("trying again")[0] == "no answer"
            daemon.start()
            terminal.shows(f"pid {daemon.pid}")
            terminal.type(b"x\x1b[A")
            time.sleep(top.EVERY_S)
            assert terminal.process.poll() is None, "no other key ends it"
            terminal.type(b"q")
            assert terminal.ends() == 0
        for end in (b"\x03", signal.SIGTERM):
            with shown(daemon, NO_COLOR="1") as terminal:
                terminal.shows("memories")
                assert not re.search(rb"\x1b\[[\d;]+m", terminal.output)
                if isinstance(end, bytes):
                    terminal.type(end)
                else:
                    terminal.process.send_signal(end)
                assert terminal.ends() == 0
        assert daemon.stop() == 0
        assert daemon.bugs() == []
