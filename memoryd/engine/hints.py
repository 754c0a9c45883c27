"""What the engine asks of the services above it, as protocols: it never imports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Tell = Callable[[str, dict[str, Any]], None]
"""(topic, event): publishes to whoever listens; must not block."""


class Hints(Protocol):
    """What the worker asks of the watcher and the timetable."""

    def watch(self, root: str, path: str) -> bool: ...
    def unwatch(self, root: str) -> None: ...
    def coverage(self, root: str, directories: list[tuple[int, int]]) -> tuple[int, int]: ...
    def limit_hint(self) -> str: ...
    def retry(self, root: str, job: str, after_s: float) -> None: ...
    def scheduled(self, root: str) -> None: ...
