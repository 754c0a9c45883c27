"""An agent that dies inside its lock section must not stop the others, and one that lives is never robbed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import BusyError
from tests.agents import line, memory
from tests.daemon import Daemon, refused, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeAgents, MakeDaemon

pytestmark = pytest.mark.slow

GRACE_S = 2
QUICK = f"""
[defaults]
lock_stale_after_s = {GRACE_S}
lock_wait_s = 0.5
[defaults.schedule]
locks = "every 1s"
"""


def cleared(daemon: Daemon) -> list[dict[str, Any]]:
    """The entries about cleared locks. An agent can run on before there is one: it is written when the lock is gone."""
    entries = daemon.rpc("history.list")["entries"]
    return [each for each in entries if each["operation"] == "lock-clear"]


@pytest.mark.parametrize("style", ["flock", "exists"])
def test_the_lock_of_a_dead_agent_goes_and_history_says_why(
    style: str, root: Path, daemon: MakeDaemon, agents: MakeAgents
) -> None:
    tending = daemon(root, config=QUICK).start()
    holder = agents(root, "dead").holder(style=style)
    assert (root / ".lock").exists()
    holder.kill()
    holder.wait()
    entry = until(lambda: cleared(tending), "the dead lock is cleared")[0]
    assert not (root / ".lock").exists()
    assert str(holder.pid) in entry["summary"]
    assert "is gone" in entry["summary"]
    assert entry["by"] == "schedule"
    assert len(cleared(tending)) == 1


def test_agents_that_go_by_existence_go_on(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    tending = daemon(root, config=QUICK).start()
    holder = agents(root, "dead").holder(style="exists")
    taken = (root / ".lock").stat().st_mtime
    holder.kill()
    holder.wait()
    team = agents(root)
    team.start(2, style="exists")
    until(lambda: team.told().ids, "the others write on")
    assert time.time() - taken >= GRACE_S
    told = team.stop()
    until(lambda: cleared(tending), "history has it")
    tending.rpc("sync")
    assert checks.missing(root, told.ids) == set()
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


def test_agents_that_go_by_flock_never_even_wait(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    tending = daemon(root, config=QUICK).start()
    holder = agents(root, "dead").holder(style="flock")
    team = agents(root)
    team.start(2)
    assert team.told().ids == frozenset()
    holder.kill()
    holder.wait()
    until(lambda: len(team.told().ids) > 50, "the others write on")
    told = team.stop()
    tending.rpc("sync")
    assert checks.missing(root, told.ids) == set()
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


@pytest.mark.parametrize("style", ["flock", "exists"])
def test_a_living_holder_keeps_its_lock_however_old(
    style: str, root: Path, daemon: MakeDaemon, agents: MakeAgents
) -> None:
    old = memory(days=200)
    (root / "learnings.jsonl").write_text(line(old))
    tending = daemon(root, config=QUICK + 'archive = "off"\n').start()
    holder = agents(root).holder(style=style)
    os.utime(root / ".lock", (time.time() - 3600, time.time() - 3600))
    before = (root / ".lock").stat().st_ino
    runs = tending.job("locks")["runs"]
    until(lambda: tending.job("locks")["runs"] >= runs + 4, "the sweep has looked several times")
    assert (root / ".lock").stat().st_ino == before
    assert cleared(tending) == []
    error = refused(lambda: tending.rpc("archive"))
    assert isinstance(error, BusyError)
    assert str(holder.pid) in error.message
    done = tending.run("archive")
    assert done.returncode == 75
    assert str(holder.pid) in done.stderr
    assert "hint:" in done.stderr
    assert checks.live_ids(root) == [old["id"]]
    holder.kill()
    holder.wait()
    assert tending.rpc("archive")["receipt"]
    assert checks.archived_ids(root) == [old["id"]]


def test_memoryd_itself_is_not_stopped_by_a_left_over_lock(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    """The sweep is off: what is left over must not matter to indexing and archiving."""
    tending = daemon(root, config='[defaults]\nlock_wait_s = 1\n[defaults.schedule]\nlocks = "off"\n').start()
    holder = agents(root).holder(style="exists")
    holder.kill()
    holder.wait()
    left = (root / ".lock").read_bytes()
    native = memory(days=200)
    with open(root / "learnings.jsonl", "a") as file:
        file.write(line(native))
    assert tending.rpc("sync")["roots"]["memories"]["written"]
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)
    assert tending.rpc("archive")["receipt"]
    assert (root / ".lock").read_bytes() == left
    shown = json.loads(tending.run("lock", "list", "--json").stdout)["locks"]
    assert [each["pid"] for each in shown] == [holder.pid]
    assert shown[0]["evidence"]


def test_in_real_time_a_dead_lock_blocks_for_thirty_seconds_and_one_sweep(
    root: Path, daemon: MakeDaemon, agents: MakeAgents
) -> None:
    tending = daemon(root).start()
    holder = agents(root, "dead").holder(style="exists")
    taken = (root / ".lock").stat().st_mtime
    holder.kill()
    holder.wait()
    team = agents(root)
    team.start(1, style="exists")
    until(lambda: team.told().ids, "the other agent writes on", 120)  # 30 + 10 s, and room for a loaded machine
    assert time.time() - taken >= 30
    assert str(holder.pid) in until(lambda: cleared(tending), "history has it")[0]["summary"]
