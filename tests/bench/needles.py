"""Is every needle the first hit? Generated stores, a real daemon, each question through the control socket.

    python -m tests.bench.needles [--sizes 1000,10000] [--layouts jsonl-store,...] [--modes text,hybrid] [--json]

A needle stands in one memory; others hold what looks like it (the same words in another order, a version with one more
digit ...), placed by chance. Limits are lifted and nothing is archived. Users of a user document are asked for by name,
since nothing is told of several at once. Exits with 1 when one needle is not at rank 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.corpora import WRITTEN, Corpus, Planted, generate
from tests.bench.results import percentile
from tests.bench.rig import Rig, running

MODES = ("text", "hybrid")
LIMIT = 10  # hits that are looked at; what stands behind them counts as not found


@dataclass(frozen=True)
class Miss:
    """`rank` is where it was found instead, None for nowhere among the hits."""

    layout: str
    memories: int
    mode: str
    kind: str
    query: str
    rank: int | None


@dataclass(frozen=True)
class Row:
    """One line of the table. `p50` and `p99`: milliseconds that the daemon says its answers took."""

    layout: str
    memories: int
    mode: str
    needles: int
    first: int
    worst: str
    p50: float
    p99: float


def rank_of(planted: Planted, rig: Rig, root: str, mode: str) -> tuple[int | None, float]:
    """Its place among the hits, and how long the daemon says it took (ms)."""
    whose = {"user": planted.user} if planted.user is not None else {}
    found = rig.call("memory.search", query=planted.needle.query, root=root, mode=mode, limit=LIMIT, **whose)
    ids = [(hit["id"], hit["path"]) for hit in found["hits"]]
    wanted = (planted.id, planted.path)
    return (ids.index(wanted) + 1 if wanted in ids else None), found["took_ms"]


def ask_all(corpus: Corpus, rig: Rig, mode: str) -> tuple[Row, list[Miss]]:
    told = [(planted, *rank_of(planted, rig, corpus.layout, mode)) for planted in corpus.planted]
    misses = [
        Miss(corpus.layout, corpus.size, mode, planted.needle.kind, planted.needle.query, rank)
        for planted, rank, _ in told
        if rank != 1
    ]
    worst = "nowhere" if any(miss.rank is None for miss in misses) else str(max(rank or 0 for _, rank, _ in told))
    took = [ms for *_, ms in told]
    p50, p99 = (round(percentile(took, each), 2) for each in (50, 99))
    return Row(corpus.layout, corpus.size, mode, len(told), len(told) - len(misses), worst, p50, p99), misses


def search_all(layout: str, size: int, seed: int, modes: Sequence[str]) -> Iterator[tuple[Row, list[Miss]]]:
    with tempfile.TemporaryDirectory(prefix="memoryd-needles-") as place:
        corpus = generate(layout, Path(place) / "root", size, seed)
        with running(Path(place) / "daemon", corpus) as rig:
            for mode in modes:
                yield ask_all(corpus, rig, mode)


def table(rows: Sequence[Any]) -> str:
    """Of dataclasses of one kind."""
    cells = [[*asdict(rows[0])], *([str(value) for value in asdict(row).values()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", default="1000,10000", help="memories in the store, separated by commas")
    parser.add_argument("--layouts", default=",".join(sorted(WRITTEN)), help="separated by commas")
    parser.add_argument("--modes", default=",".join(MODES), help="separated by commas")
    parser.add_argument("--seed", type=int, default=1, help="another store of the same kind")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    wanted = parser.parse_args(argv)
    found = [
        each
        for size in map(int, wanted.sizes.split(","))
        for layout in wanted.layouts.split(",")
        for each in search_all(layout, size, wanted.seed, wanted.modes.split(","))
    ]
    rows, misses = [row for row, _ in found], [miss for _, all_ in found for miss in all_]
    if wanted.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "misses": [asdict(miss) for miss in misses]}))
    else:
        print(table(rows))
        for miss in misses:
            where = "nowhere" if miss.rank is None else f"at rank {miss.rank}"
            print(f"missed: {miss.layout} {miss.memories} {miss.mode}: {miss.kind}: {miss.query!r} {where}")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
