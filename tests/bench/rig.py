"""A daemon over generated stores: limits lifted, upkeep by schedule off, everything read in."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import memoryd
from memoryd.control.client import Client
from memoryd.engine.backfill import SYNC_S
from memoryd.layouts.registry import LAYOUTS
from tests.bench.corpora import Corpus
from tests.daemon import Daemon

JOBS = ("archive", "limits", "prune", "dedupe", "backup", "permissions", "verify")
READ_IN_S = 1800.0  # a large store may take that long at first


class Rig(NamedTuple):
    """`read_in_s`: from the start of the process to the first whole index on disk."""

    daemon: Daemon
    client: Client
    read_in_s: float

    def call(self, method: str, **params: Any) -> Any:
        return self.client.call(method, params)


def config(*corpora: Corpus, off: Sequence[str] = JOBS) -> str:
    """Each is a root that is called like its layout; `off` are the jobs that never run."""
    jobs = "\n".join(f'{job} = "off"' for job in off)
    return "\n".join([f"[defaults.schedule]\n{jobs}", *map(_root, corpora)])


def _root(corpus: Corpus) -> str:
    lifted = "\n".join(f'"{name}" = "off"' for name in LAYOUTS[corpus.layout].files.limits)
    name = corpus.layout
    return f'[[root]]\nname = "{name}"\npath = "{corpus.root}"\nlayout = "{name}"\n[root.limits]\n{lifted}\n'


@cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="md-bytecode-")  # removed with the last reference, at the end


@cache
def installed_env() -> Mapping[str, str]:
    """An environment in which the program is compiled before it is measured, as after an installation. Where Python may
    not write bytecode (`PYTHONDONTWRITEBYTECODE`), every start of a process would compile all of it again."""
    env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": _bytecode().name}
    words = [sys.executable, "-c", "import memoryd.cli.program, memoryd.service.daemon"]
    paths = {"PYTHONPATH": str(Path(memoryd.__file__).parents[1])}
    subprocess.run(words, env={**os.environ, **paths, **env}, check=True)
    return env


@contextmanager
def running(base: Path, *corpora: Corpus, off: Sequence[str] = JOBS) -> Iterator[Rig]:
    with Daemon(base, config=config(*corpora, off=off), env=installed_env(), patient=False) as daemon:
        try:
            daemon.spawn()
            began = time.monotonic()
            daemon.await_ready(READ_IN_S)
            _sync(daemon)
            took = time.monotonic() - began
            while timed(partial(_sync, daemon)) >= 1000 * SYNC_S:
                pass  # it makes a part of the vectors each time
            with Client(daemon.socket, timeout=60.0) as client:
                yield Rig(daemon, client, took)
            daemon.stop(60.0)
        except BaseException:
            print(f"the daemon's last words:\n{daemon.said()[-4000:]}", file=sys.stderr)
            raise


def _sync(daemon: Daemon) -> None:
    daemon.rpc("sync", timeout=READ_IN_S, timeout_ms=600_000)


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000
