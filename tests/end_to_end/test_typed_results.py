"""What a running daemon answers is what the types of the method table say: nothing is missing, and nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memoryd.control.client import Client
from memoryd.control.methods import METHODS, TABLE
from memoryd.core.defaults import JOBS
from memoryd.layouts.registry import LAYOUTS
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow

MEMORY = {"type": "learning", "content": "The pool needs 20 connections", "tags": ["db"]}


class Caller:
    """Calls methods of one daemon, and holds each answer against its type."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.called: set[str] = set()

    def __call__(self, method: str, **params: Any) -> Any:
        result = self._client.call(method, params)
        self.called.add(method)
        typed = msgspec.convert(result, TABLE[method].answer)
        assert msgspec.to_builtins(typed) == result, method
        return typed


def test_every_answer_has_its_type(daemon: MakeDaemon, root: Path, tmp_path: Path) -> None:
    made = daemon(root, layout="jsonl-store").start()
    with Client(made.socket) as client:
        call = Caller(client)
        name = call("root.list").roots[0].name
        added = [call("memory.add", root=name, memory=MEMORY)]
        call("memory.add", root=name, memories=[MEMORY | {"content": f"{number}"} for number in range(3)])
        call("sync", root=name)
        assert call("memory.search", query="pool").hits[0].id == added[0].id
        call("memory.search", query="pool", max_tokens=100)
        assert len(call("memory.list", limit=2).memories) == 2
        call("memory.get", id=added[0].id)
        call("memory.get", id=added[0].id, offset=0)
        call("memory.update", id=added[0].id, changes={"importance": "low"})
        forgotten = call("memory.forget", id=added[0].id)
        call("memory.unarchive", id=added[0].id)
        for method in ("ping", "status", "check", "plan", "jobs.list", "lock.list", "metrics", "rpc.discover"):
            call(method)
        for method in ("archive", "repair", "dedupe"):
            call(method, root=name, dry_run=True)
        call("reindex", root=name)
        call("backup.create", root=name)
        call("backup.list", root=name)
        call("backup.verify", root=name)
        call("backup.restore", root=name, file="learnings.jsonl", dry_run=True)
        call("file.restore", file=str(root / "learnings.jsonl"), dry_run=True)
        call("lock.clear", root=name)
        for job in set(JOBS) & set(LAYOUTS["jsonl-store"].jobs):
            call("jobs.run", name=job, root=name)
        assert call("history.list", limit=1).entries
        call("undo", receipt=forgotten.receipt, dry_run=True)
        for method in ("root.pause", "root.resume", "root.confirm"):
            call(method, name=name)
        (tmp_path / "more").mkdir()
        call("root.add", path=str(tmp_path / "more"), layout="json-files", name="more")
        call("root.remove", name="more")
        for method in ("config.show", "config.validate", "log.level"):
            call(method)
        assert [call("config.reload", dry_run=each).dry_run for each in (True, False)] == [True, False]
        call("subscribe", topics=["change"])
        call("unsubscribe")
        call("shutdown")
    assert call.called == {method.name for method in METHODS}
