"""While a search runs, other work pauses between its parts, but not for ever."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memoryd.control.methods.memories import SearchRequest, SearchResult
from memoryd.engine.inbox import Pace
from memoryd.engine.interfaces import Clock
from memoryd.service.daemon import Daemon
from memoryd.service.handlers import memories
from memoryd.service.roots import Roots
from memoryd.store import priority
from memoryd.store.priority import SHARE, SearchPriority
from tests.daemon import PATIENCE_S
from tests.service.test_search_models import configured


def test_work_pauses_until_no_search_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "MAX_PAUSE_S", 2 * PATIENCE_S)
    began, readings = threading.Event(), count()

    def clock() -> float:
        began.set()
        return next(readings)

    searches = SearchPriority(clock)
    work = threading.Thread(target=searches.give_way)
    with searches.searching():
        with searches.searching():
            work.start()
            assert began.wait(PATIENCE_S)
        assert next(readings) == 1, "another search still runs"
    work.join(PATIENCE_S)
    assert not work.is_alive()


def test_searches_without_end_leave_work_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "MAX_PAUSE_S", 0.0)
    times = iter([10.0, 14.0, 14.0 + 3.9 * SHARE, 14.0 + 4.1 * SHARE, 16.0])
    searches = SearchPriority(lambda: next(times))
    searches.give_way()  # none runs: the clock is not read
    with searches.searching():
        searches.give_way()
        searches.give_way()  # too early
        searches.give_way()
    searches.give_way()
    assert next(times, None) is None


def test_workers_give_way_to_the_searches_of_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "MAX_PAUSE_S", 0.0)
    pauses = list[float]()

    def clock() -> float:
        pauses.append(0.0)
        return 0.0

    roots = Roots(str(tmp_path / "state"), Clock(), lambda: None)
    roots.searches = SearchPriority(clock)
    roots.start()
    try:
        roots.apply(configured(tmp_path, "off"), Pace(), ["memories"], ())
        [worker] = roots.all()

        def search(*_: Any, **__: Any) -> SearchResult:
            worker.store.check_stopping()
            return SearchResult(hits=[], took_ms=0.0, fresh={})

        monkeypatch.setattr(memories, "search", search)
        daemon = cast("Daemon", SimpleNamespace(roots=roots, clock=Clock()))
        worker.store.check_stopping()
        assert not pauses
        memories.MemoryHandlers(daemon).search(SearchRequest(query="x"))
        assert pauses
    finally:
        roots.stop()
