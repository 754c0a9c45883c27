"""A secret that was found: its range in the text, the name of its pattern and how certain it is."""

from __future__ import annotations

from typing import NamedTuple

BLOCK, WARN = "block", "warn"


class Secret(NamedTuple):
    """The range of a likely secret, in characters; its text is not kept.

    `pattern` names the rule that found it. `level`: `block` if its own form proves it, `warn` if only its context does.
    """

    pattern: str
    start: int
    end: int
    level: str = BLOCK


def merge_overlaps(found: list[Secret]) -> list[Secret]:
    """Sort secrets and merge those that overlap, under the name of the first, so that nothing of them remains."""
    merged: list[Secret] = []
    for each in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if merged and each.start < merged[-1].end:
            last = merged[-1]
            level = BLOCK if BLOCK in (last.level, each.level) else WARN
            merged[-1] = last._replace(end=max(last.end, each.end), level=level)
        else:
            merged.append(each)
    return merged
