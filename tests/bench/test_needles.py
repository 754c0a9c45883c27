"""Every needle is the first hit, in stores small enough for each run; large ones are asked by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench import needles
from tests.bench.corpora import WRITTEN, Corpus, generate
from tests.bench.planting import Needle
from tests.bench.rig import Rig, running

pytestmark = pytest.mark.slow

COUNT = 300


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, dict[str, Corpus]]]:
    """One daemon over a store of each layout."""
    base = tmp_path_factory.mktemp("needles")
    made = {layout: generate(layout, base / layout, COUNT, each=2) for layout in sorted(WRITTEN)}
    with running(base / "daemon", *made.values()) as rig:
        yield rig, made
        assert rig.daemon.bugs() == []


@pytest.mark.parametrize("mode", needles.MODES)
@pytest.mark.parametrize("layout", sorted(WRITTEN))
def test_every_needle_is_the_first_hit(stores: tuple[Rig, dict[str, Corpus]], layout: str, mode: str) -> None:
    rig, made = stores
    row, misses = needles.ask_all(made[layout], rig, mode)
    assert misses == []
    assert row.first == row.needles == len(made[layout].planted)


def test_over_all_roots_the_same_needle_is_found_in_each(stores: tuple[Rig, dict[str, Corpus]]) -> None:
    """The same seed hides the same needles in each store; a store of one user keeps nobody apart."""
    rig, made = stores
    for planted in made["json-files"].planted[-9:]:
        hits = rig.call("memory.search", query=planted.needle.query, mode="text", limit=len(made))["hits"]
        same = [(layout, each.id) for layout in made for each in made[layout].planted if each.needle == planted.needle]
        assert sorted((hit["root"], hit["id"]) for hit in hits) == same, planted.needle


def test_a_needle_that_is_not_there_is_missed(stores: tuple[Rig, dict[str, Corpus]]) -> None:
    """The canary: what counts the misses sees one."""
    rig, made = stores
    corpus = made["jsonl-store"]
    hidden = corpus.planted[0]._replace(needle=Needle("none", "quaquaqua zyzyzy", ""))
    row, misses = needles.ask_all(corpus._replace(planted=(hidden,)), rig, "text")
    assert (row.first, row.worst, [miss.rank for miss in misses]) == (0, "nowhere", [None])
