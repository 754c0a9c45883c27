"""Limits that are too small for the roots: the daemon serves those that it can, and reports the rest."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from memoryd.cli import exits
from memoryd.disk.processes import file_limit, raise_file_limit
from memoryd.service.roots import FILES_PER_ROOT, FILES_RESERVED
from tests.agents import line, memory
from tests.daemon import Daemon

FEW = "ulimit -n {}"
NO_THREAD = "ulimit -s 4000000 && ulimit -v 2000000"  # KB: the stack of one thread exceeds the address space


def _daemon(tmp_path: Path, number: int, limits: str) -> Daemon:
    roots = [tmp_path / f"root{at}" for at in range(number)]
    for root in roots:
        root.mkdir()
        (root / "learnings.jsonl").write_text(line(memory()))
    return Daemon(tmp_path / "d", *roots, prefix=("sh", "-c", f'{limits} && exec "$@"', "sh"))


def test_roots_beyond_the_limit_on_open_files_are_reported_and_the_others_are_served(tmp_path: Path) -> None:
    """The start ended with the hint to free some space, or the socket answered nobody."""
    with _daemon(tmp_path, 4, FEW.format(FILES_RESERVED + 2 * FILES_PER_ROOT)) as daemon:
        daemon.start()
        rows = {row["name"]: row for row in daemon.rpc("status")["roots"]}
        assert [row["state"] for row in rows.values()] == ["ok", "ok", "failed", "failed"]
        assert (
            "the limit of 84 open files is enough for 2 roots; raise the limit on open files"
            in rows["root3"]["reasons"][0]
        )
        assert '"root failed"' in daemon.said()
        assert daemon.run("add", "--root", "root1", "type=learning", "content=Deploy on Fridays").returncode == 0
        assert daemon.run("search", "--root", "root1", "Fridays").returncode == 0
        assert daemon.bugs() == []


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY, reason="cannot ask for stacks of 4 GB"
)
def test_a_start_without_threads_names_their_limit(tmp_path: Path) -> None:
    with _daemon(tmp_path, 1, NO_THREAD) as daemon:
        daemon.spawn()
        assert daemon.wait() == exits.DISK
        assert (
            "memoryd: the daemon cannot start: can't start new thread\nhint: raise the limit on thre" in daemon.said()
        )


def test_a_start_without_open_files_names_their_limit(tmp_path: Path) -> None:
    with _daemon(tmp_path, 1, FEW.format(8)) as daemon:
        daemon.spawn()
        assert daemon.wait() == exits.DISK
        assert "Too many open files" in daemon.said()
        assert "hint: raise the limit on open files" in daemon.said()


def test_the_soft_limit_is_raised_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = (1024, 4096)
    monkeypatch.setattr("memoryd.disk.processes.getrlimit", lambda kind: now)

    def set_limit(kind: int, limits: tuple[int, int]) -> None:
        nonlocal now
        assert kind == resource.RLIMIT_NOFILE
        now = limits

    monkeypatch.setattr("memoryd.disk.processes.setrlimit", set_limit)
    raise_file_limit()
    assert (now, file_limit()) == ((4096, 4096), 4096)
    now = (1024, resource.RLIM_INFINITY)
    raise_file_limit()
    assert now == (8192, resource.RLIM_INFINITY)
    now = (20_000, 30_000)  # higher than needed
    raise_file_limit()
    assert now == (20_000, 30_000)
