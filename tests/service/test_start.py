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


def test_threads_share_one_heap_and_take_turns_sooner_than_by_default(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    heap, seconds = ran.stdout.splitlines()
    assert heap == "one heap"
    assert float(seconds) == pytest.approx(SWITCH_S, rel=0.01)
    assert SWITCH_S * 5 < 0.005, "a search is interrupted by several waits, which together must stay below 5 ms"
