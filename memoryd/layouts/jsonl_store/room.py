"""Is there room for one more memory? Only a hard limit says no; over a soft one the limits job makes room afterwards.

Count and size come from the catalogue, so that storing costs the same in a small file and in a large one. Only a file
that seems full is looked at, to tell duplicates and what is on its way to the archive from the rest, and to name the
memories that could go: those not used for longest, then the least used.
"""

from __future__ import annotations

from memoryd.core.policy import Limit, LimitKind
from memoryd.core.records import Record
from memoryd.errors import LimitExceededError
from memoryd.layouts.storing import StoringView

_SUGGESTED = 5


def make_sure(view: StoringView, path: str, added: int) -> None:
    """Raises LimitExceededError where a line of `added` bytes may not be stored in `path`."""
    limit = view.limits.get(path)
    if limit is None or limit.kind is not LimitKind.HARD:
        return
    known = view.files.get(path)
    count, size = (known.records, known.size) if known is not None else (0, 0)
    if not _is_full(limit, count, size, added):
        return
    live = _live(view, path)
    if not _is_full(limit, len(live), size, added):
        return
    live.sort(key=lambda each: (each.facts["accessed"], each.facts["access_count"], each.facts["created"]))
    ids = [each.id for each in live[:_SUGGESTED]]
    bound = f"{limit.max_count} memories" if _is_many(limit, len(live)) else f"{limit.max_bytes} bytes"
    raise LimitExceededError(
        f"{path} is at its hard limit of {bound}; nothing is stored in it until space is free",
        hint=f"archive the oldest and least used, for example: memoryd archive {' '.join(ids) or 'ID'}",
        data={"file": path, "count": len(live), "max_count": limit.max_count, "bytes": size}
        | {"max_bytes": limit.max_bytes, "suggested": ids},
    )


def _is_full(limit: Limit, count: int, size: int, added: int) -> bool:
    too_large = limit.max_bytes is not None and (size >= limit.max_bytes or size + added > limit.max_bytes)
    return too_large or _is_many(limit, count)


def _is_many(limit: Limit, count: int) -> bool:
    return limit.max_count is not None and count >= limit.max_count


def _live(view: StoringView, path: str) -> list[Record]:
    """As an index counts them: the first of equal ids, and not what is marked to be moved."""
    loaded = view.load(path)
    first: dict[str, Record] = {}
    for record in loaded.document.records if loaded is not None else ():
        if not record.archived:
            first.setdefault(record.id, record)
    return list(first.values())
