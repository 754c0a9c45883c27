"""How many modules one piece of work passes in a real daemon: a change is found where its idea lies.

What a clock does meanwhile is no part of the work: counted is what every one of several runs passes. On a loaded
machine a run takes longer, and more falls into it by the clock: then there are more runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import until
from tests.layouts.samples import learning, lines
from tests.tracing import TracedDaemon

LEARNINGS, INDEX = "learnings.jsonl", "index.json"
# Of an indexed line that an agent appended, and of a memory stored through the control socket until it is acknowledged:
# 62 and 56 at rest, some more where a timer falls into every run. Raised only where one module became two (the text of
# an index file, which two layouts share; the due times, the settling and the queue of a root, which were one module of
# 500 lines; the watch of a root and its condition; the events of Linux and their router; a refresh and the indexing of
# whole files; a commit and its preparation; the places of memories and the port of the index) or an idea of its own
# came (the spare file of an index, SHA-256).
APPENDED, ADDED = 65, 60
MAX_RUNS = 40


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[TracedDaemon]:
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    (root / LEARNINGS).write_bytes(lines(learning(1)))
    with TracedDaemon(tmp_path / "daemon", root, patient=False) as made:
        yield made.start()


def append(daemon: TracedDaemon) -> None:
    """An agent's line, until it is in the index on disk: no question of ours is among what is passed."""
    [root] = daemon.roots
    number = (root / LEARNINGS).read_bytes().count(b"\n") + 1
    with open(root / LEARNINGS, "ab") as file:
        file.write(lines(learning(number)))
    until(lambda: f'"total_memories": {number},' in (root / INDEX).read_text(), "the line is indexed")


def add(daemon: TracedDaemon) -> None:
    """A memory stored by command, until it is acknowledged."""
    daemon.rpc("memory.add", memory={"type": "learning", "content": "zebra"})


def always_passed(daemon: TracedDaemon, act: Callable[[TracedDaemon], None], most: int) -> frozenset[str]:
    """What all runs pass, of so many that it is not above `most` if `MAX_RUNS` are enough for that. The first time
    is left out: what is made once and kept is made then."""
    act(daemon)
    passed = daemon.passed(lambda: act(daemon))
    for _ in range(MAX_RUNS):
        if len(passed) <= most:
            break
        passed &= daemon.passed(lambda: act(daemon))
    return passed


def test_an_appended_line_passes_few_modules(daemon: TracedDaemon) -> None:
    passed = always_passed(daemon, append, APPENDED)
    assert len(passed) <= APPENDED, sorted(passed)


def test_a_memory_stored_by_command_passes_few_modules(daemon: TracedDaemon) -> None:
    passed = always_passed(daemon, add, ADDED)
    assert len(passed) <= ADDED, sorted(passed)
