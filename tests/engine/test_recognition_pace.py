"""A root without a layout costs next to nothing while things change in it that are no memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.disk.tree import Tree
from memoryd.engine.deadlines import MAX_DETECT_S
from memoryd.engine.interfaces import Clock
from memoryd.engine.root import Root
from memoryd.store import Store
from tests.engine.silent import SILENT, commands_of
from tests.layouts.samples import learning, lines


class Site:
    """A root that nobody named; `looks` counts the directories listed and the files opened."""

    def __init__(self, base: Path, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.looks = 0
        self.root = base / "root"
        self.root.mkdir()
        for number in range(50):
            (self.root / f"{number}.md").write_text("## 2026-01-02: release")
        self.store = Store("r", str(self.root), None, Policy(), str(base / "state"))
        for name in ("open_directory", "read_range"):
            patch.setattr(Tree, name, self._counting(getattr(Tree, name)))
        self.clock = Clock(wall=lambda: self.now, monotonic=lambda: self.now)
        self.tending = Root(self.store, self.clock, SILENT, SILENT, lambda *_: None)
        self.tending.begin()

    def _counting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.looks += 1
            return real(*args)

        return counted

    def change(self, path: str) -> None:
        if self.tending.cares_for(path):
            self.tending.process([path], self.now)
        self.tending.on_timer()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(tmp_path, monkeypatch)
    yield made
    made.tending.end()


def test_what_no_layout_has_is_not_even_looked_at(site: Site) -> None:
    assert site.store.layout is None
    for path in ("a.txt", "sub/b.py", "node_modules/x/c.md", ".git/index", "d.jsonl"):
        assert not site.tending.cares_for(path)
    for path in (
        "a/b.md",
        "learnings.jsonl",
        "_index.json",
        "2026-01-02/10-11-12-x.json",
        "u/__long-memories/data.json",
    ):
        assert site.tending.cares_for(path)


def test_looks_become_rare_while_changes_do_not_help(site: Site) -> None:
    one = site.looks
    assert one > 0
    site.looks = 0
    for _ in range(6000):  # ten minutes
        site.now += 0.1
        site.change("1.md")
    assert 0 < site.looks <= one * (10 + 600 / MAX_DETECT_S + 600 / 30)


def test_a_layout_that_comes_is_seen_soon_after_a_calm_time(site: Site) -> None:
    for _ in range(600):
        site.now += 0.1
        site.change("1.md")
    site.now += 10 * MAX_DETECT_S
    site.change("2.md")
    (site.root / "learnings.jsonl").write_bytes(lines(learning(1)))
    site.change("learnings.jsonl")
    for _ in range(5):
        site.now += 0.1
        site.tending.on_timer()
    assert site.store.layout is not None
    assert site.store.layout.name == "jsonl-store"


def test_an_explicit_sync_looks_at_once(site: Site) -> None:
    site.change("1.md")
    (site.root / "learnings.jsonl").write_bytes(lines(learning(1)))
    commands_of(site.tending, site.clock).sync_files(1.0, None)
    assert site.store.layout is not None
