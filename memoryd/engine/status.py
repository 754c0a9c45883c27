"""What a worker publishes of its root: an immutable value that anybody may read at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Watch:
    """`mode` is events or scan; wanted and held count directories."""

    mode: str = "scan"
    wanted: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class RootStatus:
    """One look at a root. `rescans` are the last scans made because events may have been lost: when, why."""

    name: str
    path: str
    layout: str | None
    mode: str
    state: str = "starting"
    reasons: tuple[str, ...] = ()
    memories: int = 0
    archived: int = 0
    files: int = 0
    bytes: int = 0
    findings: Mapping[str, int] = field(default_factory=lambda: {"error": 0, "warning": 0, "info": 0})
    watch: Watch = Watch()
    last_scan: float | None = None
    rescans: tuple[tuple[float, str], ...] = ()
    generation: int = 0
    locks: tuple[Mapping[str, Any], ...] = ()
    limits: tuple[Mapping[str, Any], ...] = ()
    backups: Mapping[str, Any] = field(default_factory=lambda: {"count": 0, "newest": None})
