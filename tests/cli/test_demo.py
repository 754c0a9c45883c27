"""`memoryd demo` as a person runs it, and a second, independent look at everything it said."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.demo.interrupts import InterruptedDemoError, Interrupts
from memoryd.cli.demo.voice import Voice
from tests.daemon import until
from tests.demo_claims import Checker, problems

LONGEST_S = 60


def _env(tmp: Path) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORYD_", "XDG_"))}
    return clean | {"TMPDIR": str(tmp), "PYTHONUNBUFFERED": "1"}


def _demo(tmp: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    tmp.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "memoryd", "demo", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=_env(tmp) | env,
    )


def _processes_in(directory: Path) -> list[str]:
    """The command lines of all processes that name a place in the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
        except OSError:
            continue
        if os.fsencode(directory) in words:
            found.append(f"{entry.name} {words!r}")
    return found


class Kept:
    def __init__(self, directory: Path, out: str, seconds: float) -> None:
        self.directory = directory
        self.out = out
        self.seconds = seconds


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    tmp = tmp_path_factory.mktemp("demo")
    began = time.monotonic()
    process = _demo(tmp, "--keep")
    out, err = process.communicate(timeout=2 * LONGEST_S)
    assert process.returncode == 0, out + err
    assert err == ""
    (directory,) = tmp.iterdir()
    yield Kept(directory, out, time.monotonic() - began)
    assert _processes_in(directory) == []


def test_it_ends_well_and_soon(kept: Kept) -> None:
    assert kept.seconds < LONGEST_S
    assert json.loads((kept.directory / "demo.json").read_bytes())["ok"] is True


def test_every_claim_holds(kept: Kept) -> None:
    assert problems(kept.directory) == []


def test_what_was_to_be_shown_was_shown(kept: Kept) -> None:
    document = json.loads((kept.directory / "demo.json").read_bytes())
    names = {claim["claim"] for claim in document["claims"]}
    assert names == {name.removeprefix("check_").replace("_", "-") for name in dir(Checker) if name[:6] == "check_"}
    codes = {claim["code"] for claim in document["claims"] if claim["claim"] == "found"}
    assert codes == {"torn-tail", "joined-lines", "invalid-encoding", "invalid-json", "duplicate-id"}


def test_every_claim_stands_in_what_was_printed(kept: Kept) -> None:
    document = json.loads((kept.directory / "demo.json").read_bytes())
    assert [claim["said"] for claim in document["claims"] if claim["said"] not in kept.out] == []
    assert "\x1b" not in kept.out


def test_what_it_says_to_type_next_can_be_typed(kept: Kept) -> None:
    (line,) = [line for line in kept.out.splitlines() if "check --offline" in line]
    words = line.split()[1:4]
    done = subprocess.run([sys.executable, "-m", "memoryd", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr  # the broken lines are still there
    assert "torn-tail" in done.stdout


def _tampered(value: Any) -> Any:
    """The same kind of value, but not true."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "0"
        case list():
            return value[:-1]
        case dict():
            return {key: _tampered(each) for key, each in value.items()}
    raise AssertionError(value)


def test_the_checker_catches_every_claim_that_is_tampered_with(kept: Kept) -> None:
    """The canary: each fact of each claim, changed alone, must be noticed."""
    checker = Checker(kept.directory)
    true = [dict(claim) for claim in checker.claims]
    missed = []
    for position, claim in enumerate(true):
        for key in claim.keys() - {"claim", "at_s", "said"}:
            checker.claims = [dict(each) for each in true]
            checker.claims[position][key] = _tampered(claim[key])
            if not checker.problems():
                missed.append((claim["claim"], key, claim[key]))
    assert missed == []


@pytest.mark.parametrize(
    "change", ["memory", "index", "backup", "archive", "files", "stats", "topics", "shelf", "session", "document"]
)
def test_the_checker_catches_files_that_are_not_as_claimed(kept: Kept, tmp_path: Path, change: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(kept.directory, copy, ignore=shutil.ignore_patterns("*.sock"))
    store = copy / "memories"
    paths = {
        "memory": store / "learnings.jsonl",
        "index": store / "index.json",
        "backup": next(store.glob(".backup/*")),
        "archive": next(store.glob("archive/*/*")),
        "files": next((copy / "json-files").glob("memory_*.json")),
        "stats": copy / "json-files" / "_stats.json",
        "topics": copy / "markdown-topics" / "index.md",
        "shelf": next((copy / "markdown-topics").glob("archive/*/*.md")),
        "session": next((copy / "session-files").glob("*/*-pool-errors.json")),
        "document": next((copy / "user-document").glob("**/data.json")),
    }
    content = paths[change].read_bytes()
    paths[change].write_bytes(content.replace(b"e", b"a", 1) if change != "index" else content.replace(b"1", b"2"))
    assert len(problems(copy)) > len(problems(kept.directory))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", ["2  memoryd may act", "was killed", "receipt of this change"])
def test_an_interrupted_demo_leaves_no_process_and_no_directory(tmp_path: Path, number: int, after: str) -> None:
    tmp = tmp_path / "tmp"
    process = _demo(tmp)
    assert process.stdout is not None
    for line in process.stdout:
        if after in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, out + err
    assert "stopped by" in out
    assert list(tmp.iterdir()) == []
    until(lambda: _processes_in(tmp) == [], "no process is left")


def test_a_demo_nobody_reads_on_leaves_nothing(tmp_path: Path) -> None:
    """As under `memoryd demo | head`."""
    tmp = tmp_path / "tmp"
    with _demo(tmp) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
    assert list(tmp.iterdir()) == []
    until(lambda: _processes_in(tmp) == [], "no process is left")


def test_what_does_not_happen_is_said(tmp_path: Path) -> None:
    """A daemon that cannot start, because something it needs is broken."""
    tmp = tmp_path / "tmp"
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "watchdog.py").write_text("raise ImportError('no watchdog here')\n")
    process = _demo(tmp, PYTHONPATH=str(broken))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    assert "this did not happen: the daemon ended with 70 when it was to start" in out
    assert list(tmp.iterdir()) == []


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "env", "coloured"),
    [(Terminal(), {}, True), (Terminal(), {"NO_COLOR": "1"}, False), (io.StringIO(), {}, False)],
    ids=["terminal", "NO_COLOR", "file"],
)
def test_colour_is_for_terminals_only(
    monkeypatch: pytest.MonkeyPatch, out: io.StringIO, env: dict[str, str], coloured: bool
) -> None:
    monkeypatch.setattr("os.environ", {"TERM": "xterm", "COLUMNS": "60", **env})
    voice = Voice(out)
    voice.title("A scene")
    voice.say("did", "something that is rather longer than the sixty columns of this terminal", "made", path="x")
    voice.say("found", "a\x1b[31m trap")
    assert ("\x1b[" in out.getvalue()) is coloured
    assert "a\x1b[31m" not in out.getvalue()
    assert [{key: claim[key] for key in ("claim", "path")} for claim in voice.claims] == [
        {"claim": "made", "path": "x"}
    ]


def test_a_signal_is_let_in_only_where_it_may() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(InterruptedDemoError), interrupts.allowed():
            pass
        assert signal.getsignal(signal.SIGTERM) == interrupts._take
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
