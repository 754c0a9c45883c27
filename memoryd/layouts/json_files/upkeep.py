"""What upkeep may do here: set the flag `archived`, and heal torn files. No file is ever moved or deleted.

The server's own rule for the flag (which its code never carries out): created more than 90 days ago, relevance
below 0.3, fewer than five accesses. Only that one value changes: version and stamps are the server's.
"""

from __future__ import annotations

from collections.abc import Collection

from memoryd.core.digest import sha256
from memoryd.core.json_text import with_member
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.policy import DAY
from memoryd.core.records import Record
from memoryd.core.text import Edit, Span
from memoryd.layouts.base import Fix, Loaded, UpkeepView
from memoryd.layouts.json_files.reading import First, first_value, is_memory_object, is_torn
from memoryd.layouts.json_files.schema import clean, read_memory

ARCHIVE_AFTER_DAYS = 90


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    """The flag for what is due (where the policy turns that on), or for exactly the memories named."""
    if ids is None and not view.policy.archive_flag:
        return Plan()
    due: list[tuple[float, Action]] = []
    notes: list[Action] = []
    for path, loaded in view.live.items():
        for record in loaded.document.records:
            why = _due(record, loaded, view) if ids is None else _named(record, ids)
            if why:
                action = _flag(path, loaded, record, why)
                if action.kind is Kind.NOTE:
                    notes.append(action)
                else:
                    due.append((record.facts["created"], action))
    oldest = sorted(sorted(range(len(due)), key=lambda at: due[at][0])[: view.at_most])
    return Plan(tuple(due[at][1] for at in oldest), tuple(notes), waiting=len(due) - len(oldest))


def _named(record: Record, ids: Collection[str]) -> str | None:
    return "named in the command" if record.id in ids and not record.archived else None


def _due(record: Record, loaded: Loaded, view: UpkeepView) -> str | None:
    facts = record.facts
    if record.archived or loaded.document.pending or facts["relevance"] >= 0.3 or facts["access"] >= 5:
        return None
    age = view.now - facts["created"]
    if age <= ARCHIVE_AFTER_DAYS * DAY:
        return None
    if view.held and sha256(record.span.of(loaded.data)) in view.held:
        return None  # somebody took this very text back by an undo
    score = facts["relevance"]
    return f"created {int(age // DAY)} days ago, relevance {score}, used {facts['access']} times"


def _flag(path: str, loaded: Loaded, record: Record, why: str) -> Action:
    old = record.span.of(loaded.data)
    try:
        new = with_member(old.decode("utf-8"), "archived", "true").encode("utf-8")
    except (ValueError, RecursionError) as error:
        reason = f"{why}, but the flag cannot be set: {error}"
        return Action(Kind.NOTE, path, reason, (record.id,))
    edit = smallest(old, new, record.span.start)
    return Action(Kind.REWRITE, path, why, (record.id,), (edit,), base=sha256(loaded.data), whys=(why,))


def smallest(old: bytes, new: bytes, start: int) -> Edit:
    """The one edit that turns `old`, standing at `start`, into `new`, without what they have in common."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    return Edit(Span(start + head, start + len(old) - tail), new[head : len(new) - tail])


def fixes(path: str, loaded: Loaded) -> tuple[Fix, ...]:
    """A torn file becomes the exact bytes of its first value; the operation keeps the original in quarantine."""
    if not any(finding.code == "torn-file" for finding in loaded.document.findings):
        return ()
    found = first_value(loaded.data)
    if not isinstance(found, First) or not is_torn(found, read_memory(found.native, path, loaded.mtime)):
        return ()
    lead, tail = Span(0, found.span.start), Span(found.span.end, len(loaded.data))
    edits = tuple(Edit(span, b"") for span in (lead, tail) if span.start < span.end)
    why = f"{tail.end - tail.start} bytes of an older, longer text taken out"
    ids = tuple(record.id for record in loaded.document.records)
    return (Fix("torn-file", edits, why, ids),)


def recover(loaded: Loaded, backup: bytes) -> Fix | None:
    """The backup whole, where the file holds no memory any more and the backup does."""
    if loaded.document.records:
        return None
    old = first_value(backup)
    if not isinstance(old, First) or not is_memory_object(old.native) or old.tail:
        return None
    edit = Edit(Span(0, len(loaded.data)), backup)
    return Fix("corrupt-file", (edit,), "the memory back from the backup", (clean(old.native["id"]),), False)
