"""What somebody asks of the memories, beside the words: which of them may be among the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["text", "semantic", "hybrid"]
MODES: tuple[Mode, ...] = ("text", "semantic", "hybrid")


@dataclass(frozen=True, slots=True)
class Filters:
    """Applied before anything is ranked. `tags` are exact (`test` is not `testing`) and must all be there; `since` is
    in seconds; `archived` lets archived memories in beside the live ones; `owner` lets in one user's memories alone,
    None everybody's."""

    type: str | None = None
    tags: tuple[str, ...] = ()
    since: float | None = None
    archived: bool = False
    owner: str | None = None
