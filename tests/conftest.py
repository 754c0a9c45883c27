"""The usual run leaves out the tests marked `slow` and tries few examples; CI runs all with the profile `full`.

Both try the same examples every time, so that a red run can be repeated. `--hypothesis-profile=deep` tries many more
and much longer histories, other ones each time.

No profile measures time: on a busy machine a slow example is no fault of the program.

Tests start many processes. Bytecode is written also where the environment says otherwise: without it every one of them
would compile the whole program, and every run all tests.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from memoryd.core.findings import Finding
from memoryd.disk.syscalls import take_lease
from memoryd.index.sqlite import SqliteIndex
from memoryd.layouts.codes import CODES

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["TZ"] = "UTC"  # days are those of the zone of the machine
time.tzset()

settings.register_profile(
    "full", max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("usual", settings.get_profile("full"), max_examples=20)
settings.register_profile(
    "deep", settings.get_profile("full"), derandomize=False, max_examples=300, stateful_step_count=60
)
settings.load_profile("usual")


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[SqliteIndex]:
    """An empty one."""
    made = SqliteIndex(str(tmp_path / "catalogue.sqlite"))
    yield made
    made.close()


@pytest.fixture
def leases(tmp_path: Path) -> None:
    """Skip a test of what needs leases of files where there are none."""
    with open(tmp_path / "lease", "w+b") as file:
        if take_lease(file.fileno()) is not True:
            pytest.skip("there are no leases here")


@pytest.fixture(scope="module")
def no_garbage_collection() -> Iterator[None]:
    """For tests that make a million objects without a circle, as syntax trees are: each search would visit them all."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of this process, as the environment variable TZ names it."""

    def choose(zone: str) -> None:
        patch.setenv("TZ", zone)
        time.tzset()

    with monkeypatch.context() as patch:
        yield choose
    time.tzset()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the tests and modules out of every later search for garbage: they live until the process ends.

    What the tests themselves make is collected as ever.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure() -> None:
    """Let no test make a finding with a code that is not declared."""
    made = Finding.__init__

    def make(self: Finding, code: str, *args: Any, **more: Any) -> None:
        assert code in CODES, f"{code} is not declared"
        made(self, code, *args, **more)

    pytest.MonkeyPatch().setattr(Finding, "__init__", make)
