"""The times that the JSONL store's specification sets itself, row by row, measured at memoryd.

    python -m tests.bench.seed_table [--memories 1000] [--rounds 60] [--pause 0.15] [--json]

A real daemon over a generated store of so many memories, limits lifted; all through the control socket by one client
that rests between two requests, so that each is measured alone. Reading: three rounds in ten are for warming up and do
not count. "Start-up load" is what the daemon says between its beginning and the whole store being served, `known` with
a catalogue of an earlier run, `new` without one; "process" the same from outside, with interpreter and imports, for
which the seed has no number. Times in milliseconds; a row is beaten when its p50 is below the seed's number, and `p99`
stands beside it. Exits with 1 when one is not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from tests.bench.cases.search import questions
from tests.bench.changes import Changes
from tests.bench.corpora import Corpus, generate
from tests.bench.needles import table
from tests.bench.results import percentile
from tests.bench.rig import Rig, config, installed_env, running, timed
from tests.daemon import Daemon

LAYOUT = "jsonl-store"
STARTS = 5


@dataclass(frozen=True)
class Row:
    what: str
    seed_ms: float | None
    measured: int
    p50: float
    p99: float
    beaten: bool | None


def row(what: str, seed_ms: float | None, took: Sequence[float]) -> Row:
    p50, p99 = percentile(took, 50), percentile(took, 99)
    return Row(what, seed_ms, len(took), round(p50, 2), round(p99, 2), None if seed_ms is None else p50 < seed_ms)


class Measuring:
    """Requests one after the other, with a rest after each."""

    def __init__(self, rig: Rig, corpus: Corpus, rounds: int, pause_s: float) -> None:
        self._rig, self._corpus, self._rounds, self._pause_s = rig, corpus, rounds, pause_s

    def changing(self) -> Iterator[Row]:
        changes = Changes(self._rig, self._corpus)
        took: dict[str, list[float]] = {"append": [], "update": [], "delete": []}
        for number in range(self._rounds):
            made = self._timed(took["append"], lambda number=number: changes.add(number))  # type: ignore[misc]
            identity = made["id"]
            self._timed(took["update"], lambda i=identity, n=number: changes.update(i, n))  # type: ignore[misc]
            self._timed(took["delete"], lambda i=identity: changes.forget(i))  # type: ignore[misc]
        warm = self._rounds // 10
        for what, seed_ms in (("append", 5.0), ("update", 100.0), ("delete", 100.0)):
            yield row(what, seed_ms, took[what][warm:])

    def _timed(self, times: list[float], act: Callable[[], dict[str, str]]) -> dict[str, str]:
        told: dict[str, str] = {}
        times.append(timed(lambda: told.update(act())))
        time.sleep(self._pause_s)
        return told

    def reading(self) -> Iterator[Row]:
        asked = islice(questions(self._corpus, "seed"), self._rounds)
        search = [self._took("memory.search", query=each, mode="text") for each in asked]
        yield row("indexed query", 50.0, search[self._rounds * 3 // 10 :])
        # Every memory is looked at and told: there are no more than the limit.
        linear = [self._took("memory.list", limit=1000, since="2025-01-01") for _ in range(self._rounds)]
        yield row(f"linear query of {min(1000, self._corpus.size)}", 200.0, linear[self._rounds * 3 // 10 :])

    def _took(self, method: str, **params: object) -> float:
        return timed(lambda: self._rig.call(method, root=LAYOUT, **params))


def _started(base: Path, corpus: Corpus) -> tuple[float, float]:
    """Milliseconds: what the daemon says it took, and from outside."""
    with Daemon(base, config=config(corpus), env=installed_env(), patient=False) as daemon:
        outside = timed(daemon.start)
        told = [each["seconds"] for each in daemon.events() if each["event"] == "ready"]
        daemon.stop(60.0)
    return told[-1] * 1000, outside


def starts(base: Path, corpus: Corpus) -> Iterator[Row]:
    found: dict[str, list[tuple[float, float]]] = {"new": [], "known": []}
    for number in range(STARTS):
        for times in found.values():
            times.append(_started(base / f"started-{number}", corpus))
    for what, times in found.items():
        yield row(f"start-up load, {what}", 500.0, [load for load, _ in times])
        yield row(f"process, {what}", None, [outside for _, outside in times])


def measured(memories: int, rounds: int, pause_s: float) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="memoryd-seed-") as place:
        base = Path(place)
        corpus = generate(LAYOUT, base / "root", memories)
        with running(base / "daemon", corpus) as rig:
            measuring = Measuring(rig, corpus, rounds, pause_s)
            rows = [*measuring.reading(), *measuring.changing()]
        return [*rows, *starts(base, corpus)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--memories", type=int, default=1000, help="memories in the store")
    parser.add_argument("--rounds", type=int, default=60, help="times each thing is done")
    parser.add_argument("--pause", type=float, default=0.15, help="seconds of rest after each change")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    wanted = parser.parse_args(argv)
    rows = measured(wanted.memories, wanted.rounds, wanted.pause)
    print(json.dumps([asdict(row) for row in rows]) if wanted.json else table(rows))
    return 0 if all(row.beaten is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
