"""The settings that decide which memories are due."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from memoryd.core.defaults import Limit, LimitKind, Mode, Policy

LIMIT = {"a": Limit(LimitKind.SOFT, 1, 1)}


@pytest.mark.parametrize(
    "change",
    [{"archive_flag": True}, {"archive_tasks_after_days": 1}, {"mode": Mode.OBSERVE}, {"limits": LIMIT}],
    ids=lambda change: next(iter(change)),
)
def test_a_rule_changes_the_digest(change: dict[str, Any]) -> None:
    assert replace(Policy(), **change).digest() != Policy().digest()


@pytest.mark.parametrize(
    "change",
    [{"schedule": {}}, {"timezone": "UTC"}, {"score_tag": 5}, {"lock_wait_s": 1}, {"backups": 7}, {"secrets": "off"}],
    ids=lambda change: next(iter(change)),
)
def test_what_makes_no_memory_due_does_not(change: dict[str, Any]) -> None:
    assert replace(Policy(), **change).digest() == Policy().digest()
