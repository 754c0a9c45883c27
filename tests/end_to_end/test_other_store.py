"""A link to a store that is switched to another store: what is there has the known names and is still not the root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.errors import GuardError
from tests.agents import line, memory
from tests.daemon import refused
from tests.end_to_end import checks
from tests.end_to_end.conftest import UPKEEP_AT_ONCE, MakeDaemon

pytestmark = pytest.mark.slow

MORE = UPKEEP_AT_ONCE + 'dedupe = "every 1s"\nlimits = "every 1s"\npermissions = "every 1s"\n'
USER = "bucket/__long-memories/data.json"


def jsonl_store(root: Path, count: int, days: float) -> None:
    root.mkdir(mode=0o755)
    for name, kind in checks.LIVE.items():
        (root / name).write_text("".join(line(memory(days=days, kind=kind)) for _ in range(count)))


def user_document(root: Path, count: int, days: float) -> None:
    """Equal memories, if they are old: the deduplication merges them."""
    text = "the same" if days else "number {n} of {root}"
    memories = [
        {"data": {"id": n, "content": text.format(n=n, root=root.name), "importance": 0.5}, "embedding": [1.0, n % 2]}
        for n in range(count)
    ]
    (root / USER).parent.mkdir(parents=True)
    (root / USER).write_text(json.dumps({"memories": memories, "updated_at": None, "last_deduplicated_at": None}))


def switch(link: Path, target: Path) -> None:
    new = link.with_name("new-link")
    new.symlink_to(target)
    new.rename(link)


@pytest.mark.parametrize(
    ("layout", "make", "job"), [("jsonl-store", jsonl_store, "archive"), ("user-document", user_document, "dedupe")]
)
def test_another_store_with_the_same_names_is_left_alone(
    layout: str, make: object, job: str, tmp_path: Path, daemon: MakeDaemon
) -> None:
    assert callable(make)
    known, other, link = tmp_path / "known", tmp_path / "other", tmp_path / "link"
    make(known, 30, 0)
    make(other, 4, 200)
    before = checks.snapshot(other)
    link.symlink_to(known)
    tending = daemon(link, config=MORE, layout=layout).start()
    tending.rpc("sync")
    expected = tending.root()["memories"]
    switch(link, other)
    row = tending.until_root(lambda row: row["state"] == "suspect", "another store is noticed")
    assert row["memories"] == expected, "nothing is forgotten"
    assert "root resume" in row["reasons"][0]
    assert isinstance(refused(lambda: tending.rpc("jobs.run", name=job)), GuardError)
    assert checks.snapshot(other) == before
    switch(link, known)
    tending.until_root(lambda row: row["state"] == "ok", "the store is back")
    assert checks.snapshot(other) == before
