"""Upkeep of memory files: setting the flag `archived`, and repairing torn files. No file is moved or deleted.

The flag follows the rule that the server documents but does not implement: created more than 90 days ago, relevance
below 0.3, fewer than five accesses. Only the flag changes: version and time stamps belong to the server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from memoryd.core.defaults import DAY
from memoryd.core.json_spans import with_member
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.spans import Edit, Span, replace_surrogates, sha256
from memoryd.layouts.json_files.parser import FirstValue, first_value, is_memory_object, is_torn
from memoryd.layouts.json_files.schema import read_memory
from memoryd.layouts.protocol import Fix, LoadedFile, UpkeepView, disabled_plan

ARCHIVE_AFTER_DAYS = 90


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    """Plan to set the flag on memories that are due (if the policy turns that on), or on exactly those named."""
    if ids is None and not view.policy.archive_flag:
        return disabled_plan(view, "archive_flag")
    found = list(_flags(view, ids))
    notes = tuple(action for _, action in found if action.kind is Kind.NOTE)
    due = [each for each in found if each[1].kind is not Kind.NOTE]
    oldest = sorted(sorted(range(len(due)), key=lambda number: due[number][0])[: view.max_moves])
    return Plan(tuple(due[number][1] for number in oldest), notes, waiting=len(due) - len(oldest))


def _flags(view: UpkeepView, ids: Collection[str] | None) -> Iterator[tuple[float, Action]]:
    """Yield (time of creation, action) for each memory to flag."""
    for path, loaded in view.live.items():
        for record in loaded.document.records:
            why = _due_reason(record, loaded, view) if ids is None else _named_reason(record, ids)
            if why:
                yield record.facts["created"], _flag(path, loaded, record, why)


def _named_reason(record: Record, ids: Collection[str]) -> str | None:
    return "named in the command" if record.id in ids and not record.archived else None


def _due_reason(record: Record, loaded: LoadedFile, view: UpkeepView) -> str | None:
    facts = record.facts
    if record.archived or loaded.document.pending or facts["relevance"] >= 0.3 or facts["access"] >= 5:
        return None
    age = view.now - facts["created"]
    if age <= ARCHIVE_AFTER_DAYS * DAY:
        return None
    if view.is_pinned(record.span.of(loaded.data)):
        return None
    score = facts["relevance"]
    return f"created {int(age // DAY)} days ago, relevance {score}, used {facts['access']} times"


def _flag(path: str, loaded: LoadedFile, record: Record, why: str) -> Action:
    old = record.span.of(loaded.data)
    try:
        new = with_member(old, "archived", b"true")
    except (ValueError, RecursionError) as error:
        reason = f"{why}; the flag cannot be set: {error}"
        return Action(Kind.NOTE, path, reason, (record.id,))
    edit = minimal_edit(old, new, record.span.start)
    return Action(Kind.REWRITE, path, why, (record.id,), (edit,), base=sha256(loaded.data), reasons=(why,))


def minimal_edit(old: bytes, new: bytes, start: int) -> Edit:
    """Return the one edit that turns `old`, which begins at offset `start`, into `new`, without their common prefix and
    suffix."""
    shorter = min(len(old), len(new))
    prefix = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    suffix = next((at for at in range(shorter - prefix) if old[-1 - at] != new[-1 - at]), shorter - prefix)
    return Edit(Span(start + prefix, start + len(old) - suffix), new[prefix : len(new) - suffix])


def fixes(path: str, loaded: LoadedFile) -> tuple[Fix, ...]:
    """Return the fix that reduces a torn file to its first value; the original goes to quarantine."""
    if not any(finding.code == "torn-file" for finding in loaded.document.findings):
        return ()
    first = first_value(loaded.data)
    if not isinstance(first, FirstValue) or not is_torn(first, read_memory(first.native, path, loaded.mtime)):
        return ()
    before, after = Span(0, first.span.start), Span(first.span.end, len(loaded.data))
    edits = tuple(Edit(span, b"") for span in (before, after) if span.start < span.end)
    why = f"remove {after.end - after.start} bytes of an older, longer text"
    ids = tuple(record.id for record in loaded.document.records)
    return (Fix("torn-file", edits, why, ids),)


def recover(loaded: LoadedFile, backup: bytes) -> Fix | None:
    """Return the fix that replaces a file without a memory by its backup, or None."""
    if loaded.document.records:
        return None
    value = first_value(backup)
    if not isinstance(value, FirstValue) or not is_memory_object(value.native) or value.tail:
        return None
    edit = Edit(Span(0, len(loaded.data)), backup)
    return Fix(
        "corrupt-file", (edit,), "restore the memory from the backup", (replace_surrogates(value.native["id"]),), False
    )
