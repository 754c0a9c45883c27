"""After an absence, or when a rule is switched on, what is due is done without anybody asking."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.dates import iso
from memoryd.disk.journal import Journal
from tests.daemon import Daemon, until
from tests.end_to_end.checks import archives, natives
from tests.end_to_end.conftest import MakeDaemon
from tests.layouts import json_samples
from tests.layouts.samples import DAY, learning, lines

pytestmark = pytest.mark.slow

QUIET = "[daemon]\nquiet_s = 0.5\nquiet_cap_s = 2\n"
LEARNINGS = "learnings.jsonl"
SOON_S = 60.0  # the promise is five minutes


def aged(days: float, *numbers: int) -> bytes:
    return lines(*(learning(number, iso(time.time() - days * DAY)) for number in numbers))


@contextmanager
def state_of(daemon: Daemon) -> Iterator[Journal]:
    """The journal of the one root of a stopped daemon: times in it are set back as if they had passed."""
    [path] = daemon.state.glob("roots/*/journal.sqlite")
    journal = Journal(str(path))
    yield journal
    journal.close()


def archived(root: Path) -> int:
    return sum(len(natives(path)) for path in archives(root))


def test_two_weeks_powered_off(root: Path, daemon: MakeDaemon) -> None:
    (root / LEARNINGS).write_bytes(aged(89, *range(30)) + aged(1, *range(30, 40)))
    held = daemon(root, config=QUIET).start()
    held.rpc("sync")
    held.stop()
    assert archived(root) == 0
    (root / LEARNINGS).write_bytes(aged(103, *range(30)) + aged(15, *range(30, 40)))
    with state_of(held) as journal:
        ran = time.time() - 14 * DAY
        journal.jobs.record_start("archive", ran)
        journal.jobs.record_end("archive", "ok", ran)
    held.start()
    done = "what fell due while the machine was off is archived"
    until(lambda: (archived(root), len(natives(root / LEARNINGS))) == (30, 10), done, SOON_S)


def test_a_rule_switched_on_later(root: Path, daemon: MakeDaemon) -> None:
    for number in range(30):
        old: dict[str, Any] = json.loads(json_samples.file(number))
        old |= {"created": iso(time.time() - 400 * DAY), "lastAccessed": iso(time.time() - 400 * DAY)}
        old |= {"relevanceScore": 0.0, "accessCount": 0}
        (root / json_samples.name(number)).write_text(json.dumps(old))
    held = daemon(root, config=QUIET, layout="json-files").start()
    held.rpc("jobs.run", name="archive")
    held.stop()
    held.configure(f"{QUIET}[defaults]\narchive_flag = true\n")
    held.start()

    def flagged() -> bool:
        files = [json.loads((root / json_samples.name(number)).read_text()) for number in range(30)]
        return all(each.get("archived") for each in files)

    until(flagged, "the rule is applied to what was there before", SOON_S)


def test_a_bulk_import(root: Path, daemon: MakeDaemon) -> None:
    held = daemon(root, config=QUIET).start()
    held.rpc("jobs.run", name="limits")
    (root / LEARNINGS).write_bytes(aged(2, *range(1500)))
    until(lambda: (archived(root), len(natives(root / LEARNINGS))) == (1000, 500), "the soft limit holds again", SOON_S)


def test_five_nights_asleep_at_the_time_of_the_cron_line(root: Path, daemon: MakeDaemon) -> None:
    hour = (time.gmtime().tm_hour + 12) % 24
    config = f'{QUIET}[defaults.schedule]\narchive = "0 {hour} * * *"\n'
    (root / LEARNINGS).write_bytes(aged(100, *range(30)) + aged(1, 40))
    held = daemon(root, config=config).start()
    held.rpc("sync")
    held.stop()
    assert archived(root) == 0, "the cron line is not due for hours"
    with state_of(held) as journal:
        [(line, armed)] = journal.facts.get("armed").values()
        journal.facts.set("armed", {"archive": [line, armed - 5 * DAY]})
    held.start()
    until(lambda: archived(root) == 30, "the line that was slept through is caught up", SOON_S)
