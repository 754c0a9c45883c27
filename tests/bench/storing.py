"""How long until a memory is stored for good, beside what the disk itself needs for as much.

    python -m tests.bench.storing [--sizes 1000] [--layouts ...] [--rounds 40] [--pause 0.3] [--slower MS] [--strace]

A real daemon over a generated store, limits lifted. One client stores, changes and forgets one memory after the other;
a reply means that the change is on the disk. Between two rounds it rests (`--pause` seconds, and until the daemon's own
index has followed), so each is measured alone; `--pause 0` measures a client that never rests, whose changes meet the
daemon at its index. In each round, on the same disk: an append with fsync to a file that stays open, a new file (fsync
of file and folder), and a rewrite of as many bytes as the rewritten file has (fsync, rename, fsync of the folder).
At the end come as many memories again one right after the other (`add in a row`), each beside a raw append.

The first tenth of the rounds, three at least, is for warming up and does not count. `ratio` is a p50 to that of the raw
append, `syncs` (with --strace, which makes everything slower: no times then) the calls of fsync and fdatasync until the
reply. With `--slower MS` each sync of the daemon and each raw one takes so much longer, as on a slower disk (by strace,
which then stops nothing else). Times in milliseconds. Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.changes import FORMS, Changes
from tests.bench.corpora import WRITTEN, generate
from tests.bench.latency import percentile
from tests.bench.needles import table
from tests.bench.raw import RawDisk
from tests.bench.rig import Rig, running, timed
from tests.daemon import until

TARGETS = {"append": 3.0, "create": 5.0, "rewrite": 8.0}  # of one raw append with fsync
WARM = 3
IN_A_ROW = "add in a row"


@dataclass(frozen=True)
class Row:
    """`form` says which target counts. `file_kb` is the size of the file that was changed, as it was at the end."""

    layout: str
    memories: int
    what: str
    form: str
    measured: int
    file_kb: float | None
    p50: float
    p99: float
    ratio: float
    target: float | None
    syncs: float | None = None

    @property
    def missed(self) -> bool:
        return self.syncs is None and self.target is not None and self.ratio > self.target


TRACED = ("strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o")


def slowed(slower_ms: float) -> tuple[str, ...]:
    """The daemon under strace, where each sync takes so much longer."""
    delay = f"inject=fsync,fdatasync:delay_exit={round(slower_ms * 1000)}"
    return (*TRACED, os.devnull, "--seccomp-bpf", "-e", delay) if slower_ms else ()


class Syncs:
    """Calls of fsync and fdatasync, counted in what strace writes down."""

    def __init__(self, place: Path) -> None:
        self._file = place / "strace"
        self.prefix = (*TRACED, str(self._file))

    @property
    def count(self) -> int:
        return self._file.read_bytes().count(b"sync(") if self._file.exists() else 0


class Storing:
    """One store under measurement."""

    def __init__(self, rig: Rig, changes: Changes, raw: RawDisk, syncs: Syncs | None, pause_s: float) -> None:
        self._rig, self._changes, self._raw = rig, changes, raw
        self._syncs, self._pause_s = syncs, pause_s
        self.took: dict[str, list[float]] = {}
        self.synced: dict[str, list[int]] = {}
        self.size: dict[str, int] = {}

    def round(self, number: int) -> None:
        line = b"x" * 600 + b"\n"
        self._timed("raw append", lambda: self._raw.append(line))
        self._timed("raw create", lambda: self._raw.create(line))
        self._timed("raw rewrite", lambda: self._raw.rewrite(self.size.get("add", len(line))))
        made = self._changed("add", lambda: self._changes.add(number))
        changed = self._changed("update", lambda: self._changes.update(made["id"], number))
        self._changed("forget", lambda: self._changes.forget(changed["id"]))

    def row(self, number: int) -> None:
        """One of many that are stored in a row."""
        self._timed("raw append", lambda: self._raw.append(b"x" * 600 + b"\n"))
        self._timed(IN_A_ROW, lambda: self._changes.add(number))

    def _changed(self, what: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        before = self._syncs.count if self._syncs else 0
        self._timed(what, lambda: told.update(act()))
        if self._syncs:
            self.synced.setdefault(what, []).append(self._syncs.count - before)
        changed = self._changes.root / told["path"]
        if changed.exists():
            self.size[what] = changed.stat().st_size
        self._rest()
        return told

    def _timed(self, what: str, act: Callable[[], object]) -> None:
        self.took.setdefault(what, []).append(timed(act))

    def _rest(self) -> None:
        if self._pause_s:
            time.sleep(self._pause_s)
            until(lambda: self._rig.daemon.root()["lag_ms"] == 0, "the index has followed")


def rows_of(layout: str, size: int, storing: Storing, warm: int) -> list[Row]:
    base = percentile(storing.took["raw append"][warm:], 50)
    forms = FORMS[layout]
    rows = []
    for what, all_ in storing.took.items():
        times, synced = all_[warm:], storing.synced.get(what, [])[warm:]
        form = forms.get("add" if what == IN_A_ROW else what, what.removeprefix("raw "))
        kilobytes = storing.size.get("add" if what == "raw rewrite" else what)
        rows.append(
            Row(
                layout,
                size,
                what,
                form,
                len(times),
                round(kilobytes / 1024, 1) if kilobytes is not None else None,
                round(percentile(times, 50), 2),
                round(percentile(times, 99), 2),
                round(percentile(times, 50) / base, 2),
                None if what.startswith("raw ") else TARGETS[form],
                percentile(synced, 50) if synced else None,
            )
        )
    return rows


def measured(layout: str, size: int, rounds: int, pause_s: float, *, strace: bool, slower_ms: float) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="memoryd-storing-") as place:
        base = Path(place)
        corpus = generate(layout, base / "root", size)
        syncs = Syncs(base) if strace else None
        raw = RawDisk(base / "raw", grown=b"y" * 400_000, slower_s=slower_ms / 1000)
        with running(base / "daemon", corpus, prefix=syncs.prefix if syncs else slowed(slower_ms)) as rig:
            storing = Storing(rig, Changes(rig, corpus), raw, syncs, pause_s)
            warm = max(WARM, rounds // 10)
            for number in range(warm + rounds):
                storing.round(number)
            for number in range(warm + rounds, 2 * (warm + rounds)):
                storing.row(number)
        raw.close()
        return rows_of(layout, size, storing, warm)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", default="1000", help="memories in the store, separated by commas")
    parser.add_argument("--layouts", default=",".join(sorted(WRITTEN)), help="separated by commas")
    parser.add_argument("--rounds", type=int, default=40, help="times each thing is done")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds of rest between two changes")
    parser.add_argument("--slower", type=float, default=0.0, help="milliseconds that each sync takes longer")
    parser.add_argument("--strace", action="store_true", help="count calls of fsync and fdatasync")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    wanted = parser.parse_args(argv)
    rows = [
        row
        for size in map(int, wanted.sizes.split(","))
        for layout in wanted.layouts.split(",")
        for row in measured(layout, size, wanted.rounds, wanted.pause, strace=wanted.strace, slower_ms=wanted.slower)
    ]
    print(json.dumps([asdict(row) for row in rows]) if wanted.json else table(rows))
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
