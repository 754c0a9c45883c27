"""What the process sets for itself before it serves anybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memoryd.service.start import SWITCH_S

START = """
import sys
from memoryd.config.places import Places
from memoryd.errors import ConfigError
from memoryd.service import start
base = sys.argv[1]
start.use_one_heap = lambda: print("one heap")
try:
    start.run(Places(None, f"{base}/state", f"{base}/socket", f"{base}/config.toml"))
except ConfigError:
    print(sys.getswitchinterval())
"""


# SIGTERM when the named module is imported, or when the named function is called.
STOPPED = """
import os, signal, sys
place, base = sys.argv[1:]
def stop(): os.kill(os.getpid(), signal.SIGTERM)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == place: stop()
if place.endswith("()"):
    from memoryd.service import daemon
    called = getattr(daemon, place[:-2])
    setattr(daemon, place[:-2], lambda *given, **named: (stop(), called(*given, **named))[1])
sys.meta_path.insert(0, Finder())
from memoryd.cli.main import main
os.mkdir(f"{base}/root")
places = ["--state-dir", f"{base}/state", f"--socket={base}/socket"]
main([*places, "run", f"{base}/root", "--layout", "jsonl-store", "--log-format", "json"])
"""


# How many new objects there are between two collections of garbage.
COLLECTED = """
import gc, sys
from memoryd.cli import main
main.run = lambda words: print(gc.get_threshold()[0]) or 0
main.main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "place",
    ["memoryd.cli.program", "memoryd.config.places", "memoryd.service.start", "load()", "prepare_private()", "take()"],
)
def test_told_to_end_while_it_starts_it_ends_in_order(tmp_path: Path, place: str) -> None:
    """A script that waits for it takes an end by the signal for a failure."""
    ran = subprocess.run(
        [sys.executable, "-c", STOPPED, place, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "socket").exists()
    assert not (tmp_path / "state" / "instance.json").exists()


def test_threads_share_one_heap_and_take_turns_sooner_than_by_default(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    heap, seconds = ran.stdout.splitlines()
    assert heap == "one heap"
    assert float(seconds) == pytest.approx(SWITCH_S, rel=0.01)
    assert SWITCH_S * 5 < 0.005, "a search is interrupted by several waits, which together must stay below 5 ms"


def test_garbage_is_collected_seldom_from_before_the_imports() -> None:
    """The objects of the imports and of a first index are no garbage: to look for it takes a twentieth of the time."""

    def threshold(command: str) -> int:
        words = [sys.executable, "-c", COLLECTED, command]
        return int(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout)

    assert threshold("run") >= 10 * threshold("ping")  # of which the default depends on the version


def test_the_expressions_of_single_vendors_are_compiled_with_the_first_token() -> None:
    script = """
import re
compiled, compile = [], re.compile
re.compile = lambda *given, **named: (compiled.append(given), compile(*given, **named))[1]
import memoryd.service.start
from memoryd.core.secrets import redact
from memoryd.core.secrets.vendor_tokens import VENDOR_TOKENS
before = len(compiled)
print(redact("the token ghp_" + "a1B2" * 9))
print(len(compiled) - before >= len(VENDOR_TOKENS))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "the token [redacted:github-token]\nTrue\n"
