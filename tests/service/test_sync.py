"""`sync`: a barrier for the index files, or for the search alone."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import TimeoutExpiredError
from tests.daemon import Daemon, until
from tests.layouts.samples import learning, lines

# A backup ten seconds after the start would make a directory, after which everything is read again.
OFF = '[defaults.schedule]\nbackup = "off"\n'


def found(daemon: Daemon, word: str) -> int:
    return len(daemon.rpc("memory.search", query=word, mode="text")["hits"])


def synced(daemon: Daemon, **how: Any) -> dict[str, Any]:
    [answer] = daemon.rpc("sync", **how)["roots"].values()
    return dict(answer)


def test_for_the_search_alone_it_does_not_wait_for_the_index_files(tmp_path: Path) -> None:
    """An agent holds the lock, without which no index file is written."""
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    file = root / "learnings.jsonl"
    file.write_bytes(lines(learning(1)))
    with Daemon(tmp_path / "daemon", root, config=OFF) as daemon:
        daemon.start()
        daemon.rpc("sync")
        with open(root / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f"{os.getpid()} {time.time()}")
            lock.flush()
            for number, word in enumerate(("zebra", "lynx", "otter"), start=2):
                with open(file, "ab") as writer:
                    writer.write(lines(learning(number, content=f"about the {word}")))
                answer = synced(daemon, search_only=True)
                assert (answer["written"], answer["scanned"]) == (False, False)
                assert "index files follow" in answer["reason"]
                assert found(daemon, word) == 1
            with pytest.raises(TimeoutExpiredError):
                synced(daemon, timeout_ms=100)
        (root / ".lock").unlink(missing_ok=True)  # the daemon removes it if it takes it first
        assert synced(daemon)["written"]
        assert '"total_memories": 4,' in (root / "index.json").read_text()


def test_the_index_files_follow_without_a_further_sync(tmp_path: Path) -> None:
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    (root / "learnings.jsonl").write_bytes(lines(learning(1)))
    with Daemon(tmp_path / "daemon", root) as daemon:
        daemon.start()
        daemon.rpc("sync")
        with open(root / "learnings.jsonl", "ab") as writer:
            writer.write(lines(learning(2)))
        synced(daemon, search_only=True)
        until(lambda: '"total_memories": 2,' in (root / "index.json").read_text(), "the index file followed")
