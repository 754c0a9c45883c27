"""`_stats.json` in the server's shape and key order, with true numbers.

The server always writes an average of 0 and leaves unknown types out of the total; its reader only displays what
stands there. `lastUpdated` moves only when something else does, or every look would make an event.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from memoryd.core.records import Entry
from memoryd.layouts.json_files.derived import decoded, encoded, unknown
from memoryd.layouts.json_files.schema import iso_ms

_COUNTED = ("totalMemories", "byType", "byProject", "averageRelevanceScore")
KEYS = (*_COUNTED, "lastUpdated")


def count(entries: Collection[Entry], body: Mapping[str, Any]) -> dict[str, Any]:
    """All but the time; `body` is that of the index. Archived memories count: the flag moves nothing."""
    return {
        "totalMemories": len(entries),
        "byType": {kind: len(ids) for kind, ids in body["typeIndex"].items()},
        "byProject": {project: len(ids) for project, ids in body["projectIndex"].items()},
        "averageRelevanceScore": _mean([entry.facts["relevance"] for entry in entries]),
    }


def render(counted: Mapping[str, Any], content: bytes | None, now: float) -> bytes | None:
    """The wanted file, or None where the present one says the same."""
    previous = decoded(content)
    if previous is not None and _same(previous, counted):
        return None
    return encoded({**counted, "lastUpdated": iso_ms(now), **unknown(content, previous, KEYS)})


def _mean(scores: Collection[float]) -> float:
    mean = math.fsum(scores) / len(scores) if scores else 0.0
    return int(mean) if mean.is_integer() else mean  # the server writes 1, not 1.0


def _same(previous: Mapping[str, Any], counted: Mapping[str, Any]) -> bool:
    return (
        isinstance(previous.get("lastUpdated"), str)
        and all(previous.get(key) == counted[key] for key in ("totalMemories", "averageRelevanceScore"))
        and all(_filled(previous.get(key)) == _filled(counted[key]) for key in ("byType", "byProject"))
    )


def _filled(counts: object) -> dict[str, Any] | None:
    """Without zeros: a project of no memory says as much as none."""
    return {key: number for key, number in counts.items() if number != 0} if isinstance(counts, dict) else None
