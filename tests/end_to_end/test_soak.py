"""Agents that follow the seed's published steps, and a daemon that backs up and archives among them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import TimeoutExpiredError
from tests.agents import Agents, Told
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import SOAK_S, MakeAgents, MakeDaemon

pytestmark = pytest.mark.slow

# Quiet times above the settle time, and short: with agents at work there is never a pause, so that upkeep runs
# because it has been due for long enough.
BUSY = """
[daemon]
quiet_s = 1.5
quiet_cap_s = 2
[defaults.schedule]
archive = "every 1s"
backup = "every 2s"
"""


def committed(daemon: Daemon, operation: str) -> list[dict[str, object]]:
    entries = daemon.rpc("history.list", limit=1000)["entries"]
    return [each for each in entries if each["operation"] == operation and each["state"] == "done"]


def work(daemon: Daemon, seconds: float) -> Iterator[dict[str, object]]:
    """Looks at the root until the time is up and both kinds of upkeep were really done."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield daemon.root()
        time.sleep(0.2)
    until(lambda: len(committed(daemon, "archive")) >= 2, "archives are committed")
    until(lambda: daemon.root()["backups"]["count"] >= 1, "backups are made")


def until_index_is_current(root: Path) -> None:
    # Upkeep that came due meanwhile may still move memories after `sync` has answered.
    until(lambda: checks.is_indexed(root), "the index equals a rebuild")


def assert_conserved(root: Path, told: Told) -> None:
    assert checks.missing(root, told.ids) - told.dropped == set()
    assert told.intrusions() == []


@pytest.mark.parametrize("writers", [2, 4])
def test_upkeep_among_agents_loses_nothing(writers: int, root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    tending = daemon(root, config=BUSY).start()
    team = agents(root)
    team.start(writers, old=0.3)
    slowest = max(int(str(row["lag_ms"])) for row in work(tending, SOAK_S))
    told = team.stop()
    tending.rpc("sync")
    assert len(told.ids) > 5 * SOAK_S
    assert told.dropped == frozenset()
    assert_conserved(root, told)
    until_index_is_current(root)
    assert slowest < 15_000  # a root whose index waits for the end of the writers has twice that
    archived = checks.archived_ids(root)
    assert len(archived) == len(set(archived))
    until(lambda: not checks.temporary_files(root), "replaced inodes are let go")
    assert tending.stop() == 0


def test_upkeep_among_agents_that_rewrite_loses_nothing(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    tending = daemon(root, config=BUSY).start()
    team = agents(root)
    team.start(3, old=0.3, update=0.1)
    for _ in work(tending, SOAK_S * 2 / 3):
        pass
    told = team.stop()
    tending.rpc("sync")
    assert any(each.renamed for each in told.sections)
    assert_conserved(root, told)
    until_index_is_current(root)


def test_canary_an_archiver_without_a_lock_is_caught(root: Path, agents: MakeAgents) -> None:
    team = agents(root)
    team.start(2, old=0.3, linger_ms=2)
    team.naive()

    def caught() -> bool:
        told = team.told()
        return bool(told.intrusions() and checks.missing(root, told.ids))

    until(caught, "the naive archiver is caught")


def crowd(team: Agents) -> None:
    """Four agents that never pause: whoever waits in the queue of the lock gets it at once."""
    team.start(4, think_ms=(0, 0), linger_ms=2, old=0.3)


def test_starvation_is_told_and_nothing_is_forced(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    config = (
        BUSY + '[[root]]\nname = "m"\npath = ' + f'"{root}"\nlayout = "jsonl-store"\nlock_wait_s = 0.5\n[root.limits]\n'
    )
    config += '"learnings.jsonl" = "off"\n'
    tending = daemon(config=config).start()
    team = agents(root)
    crowd(team)

    def starved() -> str | None:
        job = tending.job("archive")
        return str(job["last_error"]) if job["last_result"] == "busy" else None

    assert "`.lock`" in until(starved, "the starved archive is told")
    row = tending.until_root(lambda row: row["state"] == "degraded", "the starved index is told")
    assert "the index waits" in row["reasons"][0]
    assert ".lock" in row["reasons"][0]

    def expired() -> TimeoutExpiredError | None:
        """What a sync ends with, unless the agents were all stopped for a moment."""
        try:
            tending.rpc("sync", timeout_ms=300)
        except TimeoutExpiredError as error:
            return error
        return None

    assert until(expired, "a sync is told").hint
    told = team.stop()
    tending.rpc("sync")
    assert_conserved(root, told)
    until_index_is_current(root)
    tending.until_root(lambda row: row["state"] == "ok", "all is well again")
    until(lambda: tending.job("archive")["last_result"] == "ok", "the archive is made up for", 60)
    assert checks.archived_ids(root)
    assert_conserved(root, told)
