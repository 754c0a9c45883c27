"""What `status` is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from memoryd.core.progress import Progress
from memoryd.engine.interfaces import Clock
from memoryd.engine.status import RootStatus
from memoryd.engine.worker import Worker
from memoryd.service.daemon import Daemon
from memoryd.service.report import root_row


def test_no_row_shows_progress_beside_the_state_before_it() -> None:
    """A first scan begins while the row is made."""
    worker: Any = SimpleNamespace(status=RootStatus("m", "/m", None, "maintain"), step="", lag_ms=lambda _: 0)

    def begin() -> Progress:
        if worker.status.state == "starting":
            worker.status = RootStatus("m", "/m", None, "maintain", "scanning")
        return Progress("reading", "bytes", 10, 5)

    worker.store = SimpleNamespace(progress=SimpleNamespace(current=begin))
    row = root_row(cast("Daemon", SimpleNamespace(clock=Clock())), cast("Worker", worker))
    assert (row.state, row.progress is None) == ("scanning", False)
