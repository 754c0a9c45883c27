"""Whoever removes a directory that is looked after succeeds."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from memoryd.store.index_state import DELETION_QUIET_S
from tests.agents import line, memory
from tests.daemon import until
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.faults import needs_strace
from tests.layouts.json_samples import file, name

pytestmark = pytest.mark.slow

SLOWED = "inject=unlinkat:delay_exit=12000"  # microseconds
MANY = 120


def topic(number: int) -> bytes:
    return f"# Topic {number}\n\n## Entry {number}\n\n**Date:** 2025-06-09\n\nText {number}\n".encode()


STORES = {
    "json-files": {name(number): file(number) for number in range(MANY)},
    "markdown-topics": {f"area-{number % 4}/topic-{number}.md": topic(number) for number in range(MANY)},
}
INDEX = {"json-files": "_index.json", "markdown-topics": "index.md"}


@needs_strace
@pytest.mark.parametrize("layout", STORES)
def test_a_removal_that_takes_longer_than_a_second(layout: str, tmp_path: Path, daemon: MakeDaemon) -> None:
    """The index is not written into a directory that is being emptied, where it would stand in the way."""
    root = tmp_path / "memories"
    for path, content in STORES[layout].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    tending = daemon(root, layout=layout).start()
    until(lambda: (root / INDEX[layout]).exists(), "the index is there")
    times = tmp_path / "times"
    slowly = ["strace", "-ttt", "-o", str(times), "-e", "trace=unlinkat", "-e", SLOWED, "rm", "-rf", str(root)]
    done = subprocess.run(slowly, capture_output=True, text=True, check=False)
    began = [float(line.split()[0]) for line in times.read_text().splitlines() if "unlinkat" in line]
    if max(later - earlier for earlier, later in itertools.pairwise(began)) < DELETION_QUIET_S / 2:
        assert (done.returncode, done.stderr) == (0, "")
    else:  # this machine stopped for so long that an index may be written
        shutil.rmtree(root)
    tending.until_root(lambda row: row["state"] == "missing", "it is told to be gone")
    assert not root.exists()


def test_a_directory_without_a_source_file_gets_no_new_index(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "memories"
    for path in ("learnings.jsonl", "archive/2024/learnings_2024_Q1.jsonl"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(line(memory()))
    tending = daemon(root).start()
    until(lambda: (root / "index.json").exists(), "the index is there")
    (root / "index.json").unlink()
    (root / "learnings.jsonl").unlink()
    tending.rpc("sync")
    assert tending.root()["memories"] == 0
    assert not (root / "index.json").exists()
