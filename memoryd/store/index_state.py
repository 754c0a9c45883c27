"""What is known of a store's index files between two looks. Kept in memory only."""

from __future__ import annotations

from dataclasses import dataclass, field

from memoryd.core.plan import Fingerprint
from memoryd.layouts.base import IndexResult


@dataclass(slots=True)
class IndexState:
    """What was last seen and written of each index file. `dirty`: something was read in since; `noticed`: a
    version that another program wrote, and when it was first seen."""

    dirty: bool = True
    seen: dict[str, Fingerprint | None] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    written_at: dict[str, float] = field(default_factory=dict)
    overturned: dict[str, int] = field(default_factory=dict)
    noticed: dict[str, tuple[Fingerprint, float]] = field(default_factory=dict)
    result: IndexResult = field(default_factory=IndexResult)
