"""The store under measurement: generated files of one layout, and a daemon over them that starts when it is needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from memoryd.control.client import Client
from memoryd.errors import BusyError, MemorydError, NoDaemonError
from tests.bench.agent_writes import Agent, put_large_document
from tests.bench.corpora import Corpus, generate
from tests.bench.process import await_quiet, resident_mb
from tests.bench.rig import READ_IN_S, Rig, config, installed_env
from tests.daemon import UNSETTLED, Daemon

POLL_S = 0.02  # a question more often would slow down what is measured
QUIET_S = 300.0  # how long vectors and upkeep may take after a start
AGENT_CHANGES = 10_000  # numbers reserved for each agent


class Effort(NamedTuple):
    """How often each thing is measured."""

    writes: int = 100
    questions: int = 400
    starts: int = 3
    commands: int = 40
    rounds: int = 5
    burst: int = 20_000
    idle_s: float = 60.0


FULL = Effort()
QUICK = Effort(writes=5, questions=20, starts=1, commands=3, rounds=1, burst=200, idle_s=2.0)
SMALL = 100  # memories below which there is one needle of each kind
SINGLE_START = 20_000  # memories from which a store is indexed once only


class Place(NamedTuple):
    """Where a case works, at which size, with how much effort. `base` is a new directory."""

    base: Path
    size: int
    effort: Effort


class Start(NamedTuple):
    """Seconds from the start of the process to `searchable`, when each of the questions finds its memory, and to
    `ready`, when every root has been scanned; megabytes resident once it is quiet, and the highest until then."""

    searchable_s: float
    ready_s: float
    resident_mb: float
    peak_mb: float


class Store:
    """Files of one layout, and a daemon with a new state directory. A case may change the files by `agent`, and stop
    the daemon; the next use of `rig` starts it again."""

    def __init__(self, place: Path, layout: str, size: int, effort: Effort) -> None:
        place.mkdir()
        self.place, self.layout, self.size, self.effort = place, layout, size, effort
        self.corpus: Corpus = generate(layout, place / "root", size, each=1 if size < SMALL else None)
        if layout == "user-document":
            put_large_document(self.corpus.root)
        self.first: list[Start] = []
        self._states = count()
        self._agents = count()
        self._daemon: Daemon | None = None
        self._client: Client | None = None

    @property
    def rig(self) -> Rig:
        """The running daemon, everything indexed and quiet."""
        if self._client is None:
            self.start(new=self._daemon is None)
        assert self._daemon is not None
        assert self._client is not None
        return Rig(self._daemon, self._client, self.first[-1].ready_s)

    def start(self, *, new: bool) -> Start:
        """Start the daemon and measure it; `new` with an empty state directory, else with that of the last run."""
        self.stop()
        if new or self._daemon is None:
            self._leave_daemon()
            base = self.place / f"daemon-{next(self._states)}"
            self._daemon = Daemon(base, config=config(self.corpus), env=installed_env(), patient=False)
        self._daemon.spawn()
        began = time.monotonic()
        searchable, ready = self._await_answers(self._daemon, began)
        self._daemon.rpc("sync", timeout=READ_IN_S, timeout_ms=600_000)
        if not await_quiet(self._daemon.pid, QUIET_S):
            print(f"{self.layout} {self.size}: the daemon is still busy after {QUIET_S:g} s", file=sys.stderr)
        self._client = Client(self._daemon.socket, timeout=60.0)
        resident, peak = resident_mb(self._daemon.pid)
        found = Start(searchable - began, ready - began, resident, peak)
        if new:
            self.first.append(found)
        return found

    def _await_answers(self, daemon: Daemon, began: float) -> tuple[float, float]:
        """Ask for the state until every root is ready, and from when it counts all memories on for needles, one after
        the other until each is found: to ask for what is not there yet takes much longer than to ask for the state."""
        waiting = [each for each in self.corpus.planted if each.needle.kind.startswith("rare word in body")]
        searchable = ready = 0.0
        while not searchable or not ready:
            if time.monotonic() - began > READ_IN_S:
                raise AssertionError(f"not ready within {READ_IN_S:g} s: {daemon.said()[-2000:]}")
            try:
                with Client(daemon.socket, timeout=READ_IN_S) as client:
                    roots = client.call("status")["roots"]
                    if not ready and all(each["state"] not in UNSETTLED for each in roots):
                        ready = time.monotonic()
                    if ready or sum(each["memories"] + each["archived"] for each in roots) >= self.size:
                        while waiting and self._finds(client, waiting[-1].needle.query, waiting[-1].user):
                            waiting.pop()
                        searchable = searchable or (0.0 if waiting else time.monotonic())
            except (NoDaemonError, BusyError):
                if daemon.process is not None and daemon.process.poll() is not None:
                    raise
            time.sleep(POLL_S)
        return searchable, ready

    def _finds(self, client: Client, query: str, user: str | None) -> bool:
        whose = {"user": user} if user else {}
        try:
            return bool(
                client.call("memory.search", {"query": query, "root": self.layout, "mode": "text", **whose})["hits"]
            )
        except (NoDaemonError, BusyError):
            raise
        except MemorydError:
            return False  # the user, or the root itself, is not known yet

    def agent(self, *, new_files: bool = False) -> Agent:
        """Return an agent whose changes differ from those of all others."""
        number = next(self._agents)
        return Agent(self.corpus, f"agent {number}", new_files=new_files, first=number * AGENT_CHANGES)

    def stop(self) -> None:
        """Stop the daemon, if it runs."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._daemon is not None and self._daemon.process is not None and self._daemon.process.poll() is None:
            self._daemon.stop(60.0)

    def _leave_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.__exit__()

    def last_words(self) -> str:
        """The end of the daemon's log."""
        return self._daemon.said()[-4000:] if self._daemon else ""

    def close(self) -> None:
        """Stop the daemon and give its socket's directory back."""
        try:
            self.stop()
        finally:
            self._leave_daemon()


@contextmanager
def store(place: Path, layout: str, size: int, effort: Effort) -> Iterator[Store]:
    """Open a store; the daemon's last words are printed where a case fails, those of the other sizes as well."""
    made = Store(place, layout, size, effort)
    try:
        yield made
    except BaseException:
        print(f"{layout}, {size:,} memories, the daemon's last words:\n{made.last_words()}", file=sys.stderr)
        raise
    finally:
        made.close()
