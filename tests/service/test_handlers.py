"""The handlers of the control methods."""

from __future__ import annotations

import inspect
from typing import get_type_hints
from unittest.mock import MagicMock

import pytest

from memoryd.control.methods import TABLE
from memoryd.service.handlers import handlers

HANDLERS = handlers(MagicMock())
CHANGES = {
    "archive", "backup.create", "backup.restore", "config.reload", "dedupe", "file.restore", "jobs.run", "lock.clear",
    "log.level", "memory.add", "memory.forget", "memory.unarchive", "memory.update", "reindex", "repair",
    "root.add", "root.confirm", "root.pause", "root.remove", "root.resume", "shutdown", "undo",
}  # fmt: skip


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_takes_the_request_of_its_method(name: str) -> None:
    handler = HANDLERS[name]
    [parameter] = inspect.signature(handler).parameters
    assert issubclass(TABLE[name].request, get_type_hints(handler)[parameter])


def test_the_methods_that_change_something_are_known() -> None:
    """Their callers are logged, and a daemon that is shutting down refuses them."""
    assert {name for name, method in TABLE.items() if method.mutates} == CHANGES
