"""Search over roots: what is found, where it stands, why it is there, and how fresh the answer is.

No memory file is opened: everything comes from the catalogues, through readers that are lent for the time of a
question. Nothing here waits for a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.catalogue import Catalogue
from memoryd.core.asking import Filters, Mode
from memoryd.core.policy import Policy

LIMIT = 10  # hits, where no number is asked for


@dataclass(frozen=True, slots=True)
class Place:
    """One root as it is asked. `state` is that of the root's status, `lag_ms` the worker's."""

    name: str
    catalogue: Catalogue
    layout: str | None
    state: str
    generation: int
    lag_ms: int
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question. `user` names whose memories are meant where a layout keeps users apart; `max_tokens` asks for whole
    memories ready to paste."""

    query: str
    filters: Filters = field(default_factory=Filters)
    mode: Mode = "hybrid"
    limit: int = LIMIT
    max_tokens: int | None = None
    user: str | None = None


def search(places: Sequence[Place], asked: Asked, *, now: float, clock: Callable[[], float]) -> dict[str, Any]:
    """The result of `memory.search`: hits[{root, id, path, line, title, snippet, score, why, type, tags, created,
    archived, layout, owner?}], took_ms, fresh{NAME: {state, generation, lag_ms, withheld?}}, and with `max_tokens`
    `embedding` (text) and `tokens`. `now` is wall clock seconds, `clock` monotonic seconds."""
    raise NotImplementedError
