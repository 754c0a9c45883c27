"""What was stored through memoryd a moment ago, as long as somebody may still write an older state over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any


@dataclass(frozen=True, slots=True)
class Recent:
    """An add (`memory` and `where` as they were asked for) or an update (`changes`, and `before`, the SHA-256 of the
    record it replaced). `at` in seconds; `rewrites` counts writes of others that left it alone."""

    at: float
    memory: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, Any] | None = None
    before: str | None = None
    rewrites: int = 0
    zone: tzinfo = UTC
    allow_words: bool = False
