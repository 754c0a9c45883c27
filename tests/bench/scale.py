"""What large stores cost: many small files, and many large documents.

    python -m tests.bench.scale [--files 5000,20000] [--users 1000] [--json]

Each row is measured in a process of its own, on a real store without a daemon around it. Seconds are wall clock;
memory is what is resident over that of the process before the store was opened, and the peak likewise.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from memoryd.operations.check import check
from memoryd.store import Store
from tests.layouts.contract import NOW
from tests.layouts.json_samples import file
from tests.operations.test_scale import MEMORIES, document, name_of, opened, put, sync, user_path

MB = 2**20


def taken(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return round(time.perf_counter() - begun, 3)


def resident() -> float:
    return float(psutil.Process().memory_info().rss) / MB


def highest() -> float:
    """The most that was ever resident: in kilobytes, on macOS in bytes."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found / MB if sys.platform == "darwin" else found / 1024


def _restarted(base: Path, layout: str, store: Store) -> tuple[Store, float]:
    store.close()
    begun = time.perf_counter()
    again = opened(base, layout)
    sync(again)
    return again, round(time.perf_counter() - begun, 3)


def files(base: Path, count: int) -> dict[str, Any]:
    for number in range(count):
        put(base / "root" / name_of(number), file(number))
    before = resident()
    store = opened(base, "json-files")
    first = taken(lambda: sync(store))
    store, start = _restarted(base, "json-files", store)
    changed = name_of(count // 2)
    put(base / "root" / changed, file(count // 2, tags=["new"]))
    change = taken(lambda: sync(store, [changed]))
    rescan = taken(lambda: sync(store))
    looked = taken(lambda: check(store, NOW))
    row = {"files": count, "first": first, "start": start, "change": change, "rescan": rescan, "check": looked}
    store.close()
    return row | {"rss_mb": round(resident() - before, 1), "peak_mb": round(highest() - before, 1)}


def users(base: Path, count: int) -> dict[str, Any]:
    for number in range(count):
        put(base / "root" / user_path(number), document(number % 20))
    size = len(document(0)) / MB
    _trim()
    before = resident()
    store = opened(base, "user-document")
    first = taken(lambda: sync(store))
    after_first = resident() - before
    store, start = _restarted(base, "user-document", store)
    put(base / "root" / user_path(count // 2), document(21))
    change = taken(lambda: sync(store, [user_path(count // 2)]))
    looked = taken(lambda: check(store, NOW))
    row = {"users": count, "memories": count * MEMORIES, "each_mb": round(size, 2), "first": first, "start": start}
    row |= {"change": change, "check": looked, "rss_mb": round(after_first, 1)}
    store.close()
    return row | {"peak_mb": round(highest() - before, 1)}


def _trim() -> None:
    """Making the documents must not leave room in which reading them could hide."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _row(which: str, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="memoryd-scale-") as place:
        return {"files": files, "users": users}[which](Path(place), count)


def measured(which: str, count: int) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_row, (which, count))


def table(rows: Sequence[dict[str, Any]]) -> str:
    cells = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--files", default="5000,20000", help="files in a json-files store, separated by commas")
    parser.add_argument("--users", default="1000", help="user documents of 100 memories with 384 numbers each")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the tables")
    wanted = parser.parse_args(argv)
    sizes = {"files": wanted.files, "users": wanted.users}
    found = {which: [measured(which, int(n)) for n in told.split(",") if n] for which, told in sizes.items()}
    if wanted.json:
        print(json.dumps(found))
        return 0
    print("\n\n".join(table(rows) for rows in found.values() if rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
