"""Healing JSONL files by exact edits, and merging equal duplicates. Untouched lines stay as they are."""

from __future__ import annotations

from memoryd.core.plan import Plan
from memoryd.layouts.base import Fix, Loaded, UpkeepView


def fixes(path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
    """None yet: what is fixable is reported and corrected in memory."""
    del path, loaded, now
    return ()


def dedupe(view: UpkeepView) -> Plan:
    """None yet: duplicate ids are reported, the first one counts."""
    del view
    return Plan()
