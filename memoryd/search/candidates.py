"""What an engine answers: memories by their key, best first, each with what makes up its score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Candidate(NamedTuple):
    """`score` lies in 0..1 and means the same in every root; `why` names its parts (plain JSON)."""

    key: int
    score: float
    why: Mapping[str, Any]
