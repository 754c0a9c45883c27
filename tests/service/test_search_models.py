"""A model that the configuration selects and that cannot be had is a finding, an event and a line in `status`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.config.load import load
from memoryd.config.places import Places
from memoryd.config.settings import Config, SearchConfig
from memoryd.core.query import Rerank
from memoryd.engine.inbox import Pace
from memoryd.engine.interfaces import Clock
from memoryd.engine.worker import Worker
from memoryd.service.roots import Roots
from memoryd.service.search_models import SearchModels, search_findings
from tests.daemon import until
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS

NEEDED = 'rerank = "minilm" needs the package onnxruntime; install the extra `minilm`, or change [search]'


@pytest.fixture
def events() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def roots(tmp_path: Path, events: list[dict[str, Any]]) -> Iterator[Roots]:
    made = Roots(str(tmp_path / "state"), Clock(), lambda: None)
    made.tell = lambda topic, event: events.append({"topic": topic, **event})
    made.start()
    yield made
    made.stop()


def configured(tmp_path: Path, rerank: str) -> Config:
    root = tmp_path / "memories"
    root.mkdir(exist_ok=True)
    (root / LEARNINGS).write_bytes(lines(learning(1)))
    path = tmp_path / "config.toml"
    path.write_text(f'[search]\nrerank = "{rerank}"\n[[root]]\npath = "{root}"\nlayout = "jsonl-store"\n')
    return load(Places(str(path), str(tmp_path / "state"), str(tmp_path / "socket"), str(path)))


def said(worker: Worker) -> tuple[str, tuple[str, ...], int]:
    """The state of the root, the reasons, and the number of warnings, as of one moment."""
    status = worker.status
    return status.state, status.reasons, status.findings.warning


def test_rerank_without_its_package_is_said_until_the_configuration_changes(
    tmp_path: Path, roots: Roots, events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    roots.apply(configured(tmp_path, "minilm"), Pace(), ["memories"], ())
    [worker] = roots.all()
    until(lambda: said(worker) == ("degraded", (NEEDED,), 1), "status says it")
    until(lambda: [each for each in events if each.get("code") == "package-missing"], "an event says it")
    roots.apply(configured(tmp_path, "off"), Pace(), ["memories"], ())
    [worker] = roots.all()
    until(lambda: said(worker) == ("ok", (), 0), "it is no longer needed")


@pytest.mark.parametrize(
    ("search", "wanted", "both", "model"),
    [
        (SearchConfig(), None, True, None),
        (SearchConfig(), "minilm", True, "minilm-l6-v2-int8"),
        (SearchConfig(rerank="minilm"), None, False, "minilm-l6-v2-int8"),
        (SearchConfig(rerank="minilm"), "off", True, None),
        (SearchConfig(embedder="minilm"), None, True, "static-128-3"),
        (SearchConfig(embedder="minilm"), None, False, None),
        (SearchConfig(embedder="minilm"), "off", True, None),
        (SearchConfig(embedder="minilm"), "minilm", False, "static-128-3"),
        (SearchConfig(embedder="minilm", rerank="off"), None, True, None),
        (SearchConfig(embedder="minilm", rerank="off"), "minilm", True, "static-128-3"),
        (SearchConfig(embedder="minilm", rerank="auto"), None, True, "static-128-3"),
        (SearchConfig(embedder="minilm", rerank="minilm"), None, False, "static-128-3"),
        (SearchConfig(rerank="off"), "minilm", True, "minilm-l6-v2-int8"),
        (SearchConfig(embedder="off", rerank="minilm"), None, True, "minilm-l6-v2-int8"),
    ],
)
def test_results_are_ranked_again_by_the_embedder_that_did_not_search(
    search: SearchConfig, wanted: Rerank | None, both: bool, model: str | None
) -> None:
    models = SearchModels()
    models.configure(search)
    found = models.reranker(wanted, both=both)
    assert (found.model if found is not None else None) == model


def test_a_package_of_memoryd_itself_that_is_missing_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search_findings(SearchConfig()) == ()
    monkeypatch.setitem(sys.modules, "simsimd", None)  # as if it were not installed
    [finding] = search_findings(SearchConfig())
    assert finding.code == "package-missing"
    assert "simsimd" in finding.message
    assert search_findings(SearchConfig(embedder="off")) == ()


def test_a_package_that_cannot_be_loaded_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "simsimd.py").write_text('raise ImportError("undefined symbol: cdist\\nand more")')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "simsimd", raising=False)
    [finding] = search_findings(SearchConfig())
    assert finding.code == "package-missing"
    assert finding.message == (
        "a search needs the package simsimd, which cannot be loaded: undefined symbol: cdist; reinstall memoryd"
    )
