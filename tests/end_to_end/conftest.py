"""Real daemons and agents for the tests of this folder; whatever a test leaves running is ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agents
from tests.daemon import Daemon

# For a daemon that never waits for a pause of the agents.
UPKEEP_AT_ONCE = """
[daemon]
quiet_s = 0
quiet_cap_s = 0
[defaults.schedule]
archive = "every 1s"
backup = "every 1s"
"""
SOAK_S = float(os.environ.get("MEMORYD_SOAK_S", "30"))

MakeDaemon = Callable[..., Daemon]
MakeAgents = Callable[..., Agents]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty JSONL store."""
    path = tmp_path / "memories"
    path.mkdir(mode=0o700)
    (path / "learnings.jsonl").touch(mode=0o600)
    return path


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MakeDaemon]:
    """Makes daemons; none of them may have said that it met a bug of its own."""
    made: list[Daemon] = []
    with ExitStack() as stack:

        def make(*roots: Path, base: str = "d", **more: Any) -> Daemon:
            new = stack.enter_context(Daemon(tmp_path / base, *roots, **more))
            made.append(new)
            return new

        yield make
    assert [bug for each in made for bug in each.bugs()] == []


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[MakeAgents]:
    with ExitStack() as stack:

        def make(root: Path, reports: str = "reports") -> Agents:
            return stack.enter_context(Agents(root, tmp_path / reports))

        yield make
