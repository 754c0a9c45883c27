"""`memoryd demo` as a person runs it, and an independent check of the files it leaves."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from memoryd.cli.demo.sandbox import InterruptedDemoError, Interrupts, Narrator
from tests.daemon import until
from tests.demo_files import DAMAGES, STORES, Kept, problems

LONGEST_S = 120  # it takes some 15


def _env(tmp: Path) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORYD_", "XDG_"))}
    return clean | {"TMPDIR": str(tmp), "PYTHONUNBUFFERED": "1", "COLUMNS": "80"}


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
    """Return the command lines of all processes that name a path in the directory."""
    processes = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
        except OSError:
            continue
        if os.fsencode(directory) in words:
            processes.append(f"{entry.name} {words!r}")
    return processes


class Run:
    """A demo that ended: its directory, its output, the same with every wrapped line joined, and its seconds."""

    def __init__(self, directory: Path, out: str, seconds: float) -> None:
        self.directory = directory
        self.out = out
        self.text = " ".join(out.split())
        self.seconds = seconds


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    tmp = tmp_path_factory.mktemp("demo")
    began = time.monotonic()
    process = _demo(tmp, "--keep")
    out, err = process.communicate(timeout=2 * LONGEST_S)
    assert process.returncode == 0, out + err
    assert err == ""
    (directory,) = tmp.iterdir()
    yield Run(directory, out, time.monotonic() - began)
    assert _processes_in(directory) == []


def test_it_ends_well_and_soon(run: Run) -> None:
    assert run.seconds < LONGEST_S


def test_every_claim_is_true(run: Run) -> None:
    assert problems(run.directory) == []


def test_the_scenes_are_shown(run: Run) -> None:
    """Damages by code, changes with the receipts of the journal, and the memories of each store."""
    kept = Kept(run.directory)
    assert [code for code in DAMAGES if f" {code}: " not in run.text] == []
    receipts = [entry["receipt"] for entry in kept.entries if entry["operation"] not in ("undo", "add", "backup")]
    shown = [receipt for receipt in receipts if receipt in run.text]
    assert len(shown) >= 8
    for store, held in kept.held().items():
        assert f"{store}: {held} memories" in run.text
    for question in ("exporter is bounced again", "forked child processes"):
        assert question in run.text
    assert "5 stores, all of them up to date" in run.text
    assert "Security violation: Cannot store sensitive data" in run.text
    assert {store for store in STORES if f"recognised as {store}" in run.text} == {*STORES[1:]}


def test_the_answers_to_its_questions_share_few_words_with_them(run: Run) -> None:
    lines = run.text.partition("10 The end")[0].split(" · searched 5 stores, all of them up to date: ")[1:]
    assert len(lines) == 2
    for line in lines:
        question, _, answer = line.partition("? ")
        words = {word for word in question.lower().split() if len(word) > 4}
        title, place = answer.split("“")[1].split("” in ")
        assert len(words & set(title.lower().split())) <= 1
        text = (run.directory / place.split()[0]).read_text(encoding="utf-8", errors="replace")
        assert title.removesuffix("…") in text


def test_it_fits_on_80_columns_and_is_plain_text(run: Run) -> None:
    """Commands and paths are not wrapped: they are there to be copied."""
    lines = run.out.partition("Kept in")[0].splitlines()
    assert [line for line in lines if len(line) > 80 and " " in line[11:]] == []
    assert "\x1b" not in run.out


@pytest.mark.slow
def test_the_suggested_commands_work(run: Run) -> None:
    (line,) = [line for line in run.out.splitlines() if "check --offline" in line]
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)  # exactly as printed
    assert done.returncode == 1, done.stderr  # the broken lines are still there
    assert "torn-tail" in done.stdout


@pytest.mark.parametrize(
    "change", ["memory", "index", "backup", "archive", "files", "stats", "topics", "shelf", "session", "document"]
)
def test_the_check_catches_files_that_are_not_as_promised(run: Run, tmp_path: Path, change: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.directory, copy, ignore=shutil.ignore_patterns("*.sock"))
    store = copy / "jsonl-store"
    paths = {
        "memory": store / "learnings.jsonl",
        "index": store / "index.json",
        "backup": next(path for path in store.glob(".backup/*") if path.read_bytes() in _found(copy)),
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
    assert len(problems(copy)) > len(problems(run.directory))


def _found(directory: Path) -> list[bytes]:
    """Return the files of the first store as they were before memoryd ran."""
    return [path.read_bytes() for path in (directory / "found" / "jsonl-store").glob("*.jsonl")]


@pytest.mark.slow
def test_the_check_catches_a_journal_that_is_not_as_promised(run: Run) -> None:
    """The canary: a journal without any one of its changes fails the check, except for index updates."""
    all_entries = Kept(run.directory).entries
    missed = []
    for entry in all_entries:
        kept = Kept(run.directory)
        kept.entries = [each for each in all_entries if each is not entry]
        if entry["operation"] in ("permissions", "lock-clear", "archive", "undo", "add", "repair", "prune", "dedupe"):
            missed += [entry["operation"]] if _holds(kept) else []
    assert missed == []


def _holds(kept: Kept) -> bool:
    try:
        for name in dir(kept):
            if name.startswith("check_"):
                getattr(kept, name)()
    except (AssertionError, LookupError, ValueError):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", ["2  memoryd may write", "was killed", "backed up first"])
def test_an_interrupted_demo_leaves_no_process_and_no_directory(tmp_path: Path, number: int, after: str) -> None:
    tmp = tmp_path / "tmp"
    process = _demo(tmp)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if after in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 128 + number, "".join(lines) + out + err
    assert "stopped by" in out
    assert list(tmp.iterdir()) == []
    until(lambda: _processes_in(tmp) == [], "no process is left")


@pytest.mark.slow
def test_a_demo_whose_output_is_closed_leaves_nothing(tmp_path: Path) -> None:
    """As under `memoryd demo | head`."""
    tmp = tmp_path / "tmp"
    with _demo(tmp) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
    assert list(tmp.iterdir()) == []
    until(lambda: _processes_in(tmp) == [], "no process is left")


@pytest.mark.slow
def test_a_failure_is_reported(tmp_path: Path) -> None:
    """A daemon that cannot start, because something it needs is broken."""
    tmp = tmp_path / "tmp"
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "watchdog.py").write_text("raise ImportError('no watchdog here')\n")
    process = _demo(tmp, PYTHONPATH=str(broken))
    out, err = process.communicate(timeout=LONGEST_S)
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
    narrator = Narrator(out)
    narrator.title("A scene")
    narrator.say("done", "something that is rather longer than the sixty columns of this terminal")
    narrator.say("found", "a\x1b[31m trap")
    assert ("\x1b[" in out.getvalue()) is coloured
    assert "a\x1b[31m" not in out.getvalue()
    assert max(len(click.unstyle(line)) for line in out.getvalue().splitlines()) <= 60


def test_a_signal_is_raised_only_by_check() -> None:
    with Interrupts() as interrupts:
        interrupts.check()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(InterruptedDemoError) as caught:
            interrupts.check()
        assert caught.value.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
