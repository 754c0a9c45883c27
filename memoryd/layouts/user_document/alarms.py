"""What only two versions of a document show: that it shrank, and that an agent wrote an older state over a change.

The program keeps each document in memory and never reads it again, and begins an empty one where it cannot read it:
so the backup before the next store is the only rescue, and a change made on disk may silently be undone.
"""

from __future__ import annotations

from collections.abc import Collection

from memoryd.core.findings import Finding
from memoryd.core.records import Document
from memoryd.layouts.base import FileSummary


def shrink_alarm(before: FileSummary | None, after: FileSummary) -> Finding | None:
    """More than half of the memories, or all, went between two versions that could both be read."""
    if before is None or before.records == 0 or "damaged" not in after.facts:
        return None
    lost = before.records - after.records
    if lost * 2 <= before.records:
        return None
    message = (
        f"{before.records} memories became {after.records} between two versions; "
        "compare `memoryd backup list` and restore if this was not meant"
    )
    return Finding("shrunk", after.path, message)


def change_was_undone(removed: Collection[str], document: Document) -> Finding | None:
    """Memories that a dedupe took out (by their ids) stand in the file again at its next change."""
    back = sorted(set(removed) & {record.id for record in document.records})
    if not back:
        return None
    message = (
        f"{len(back)} of {len(removed)} memories taken out by memoryd are back: the agent wrote its own older "
        "state; restart it before the next dedupe"
    )
    return Finding("change-was-undone", document.path, message, id=back[0])
