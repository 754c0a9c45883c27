"""What is found: where it stands and how sure it is."""

from __future__ import annotations

from typing import NamedTuple

BLOCK, WARN = "block", "warn"


class Secret(NamedTuple):
    """Where something shaped like a secret stands, in characters; the text itself is not kept. `level`: `block` for
    what is recognised by its own form and by nothing else, `warn` for what only its surroundings tell."""

    pattern: str
    start: int
    end: int
    level: str = BLOCK


def without_overlap(found: list[Secret]) -> list[Secret]:
    """In order. What overlaps becomes one, under the name of the one that begins first, so that no rest stays."""
    apart: list[Secret] = []
    for each in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if apart and each.start < apart[-1].end:
            last = apart[-1]
            level = BLOCK if BLOCK in (last.level, each.level) else WARN
            apart[-1] = last._replace(end=max(last.end, each.end), level=level)
        else:
            apart.append(each)
    return apart
