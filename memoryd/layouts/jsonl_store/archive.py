"""Archiving by age, by soft limits and on request. Pure: returns plans.

Learnings are archived 90 days after their last use (the latest of accessed_at, updated_at and created_at, since reading
a file leaves no trace), tasks 30 days after completion, core memories only on request, and lines marked `archived:
true` at the next run. The archive file is named by the quarter of created_at in UTC, which never changes, so a late or
repeated run chooses the same file. The copy equals the line except for its `archived: true`. A soft limit archives the
least used learnings, or the tasks completed longest ago, until the limit holds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from memoryd.core.dates import quarter
from memoryd.core.defaults import DAY, Limit, LimitKind
from memoryd.core.json_spans import with_member
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.spans import Edit, Span, sha256
from memoryd.layouts.protocol import LoadedFile, UpkeepView

_ARCHIVE = re.compile(r"archive/\d{4}/[^/]+\.jsonl")
_ARCHIVE_PREFIXES = (("learning", "learning"), ("task", "task"), ("core", "core"))


class Move(NamedTuple):
    """A record to archive, and the reason; `rule` is the part of the reason that all memories of a rule share."""

    record: Record
    why: str
    rule: str


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    """Plan the archiving of memories that are due, or of exactly those named by `ids`."""
    due: list[tuple[str, LoadedFile, Move]] = [
        (path, loaded, move)
        for path, loaded in view.live.items()
        for record in loaded.document.records
        if (move := _due_move(record, loaded, view) if ids is None else _named_move(record, ids))
    ]
    oldest = sorted(range(len(due)), key=lambda at: _last_use(due[at][2].record))[: view.max_moves]
    by_file: dict[str, tuple[LoadedFile, list[Move]]] = {}
    for at in sorted(oldest):
        path, loaded, move = due[at]
        by_file.setdefault(path, (loaded, []))[1].append(move)
    actions = [
        action for path, (loaded, moves) in by_file.items() for action in _move_actions(path, loaded, moves, view)
    ]
    return Plan(tuple(actions), waiting=len(due) - len(oldest))


def _last_use(record: Record) -> float:
    """Return the time that the age counts from; lines marked as archived come first."""
    facts = record.facts
    if facts["archived"]:
        return -math.inf
    if record.type == "task" and facts.get("status") == "completed":
        return float(facts["completed"])
    return float(max(facts["accessed"], facts["updated"], facts["created"]))


def _named_move(record: Record, ids: Collection[str]) -> Move | None:
    return Move(record, "named in the command", "named in the command") if record.id in ids else None


def _due_move(record: Record, loaded: LoadedFile, view: UpkeepView) -> Move | None:
    facts, policy = record.facts, view.policy
    if view.is_pinned(record.span.of(loaded.data)):
        return None
    if facts["archived"]:
        return Move(record, "marked as archived", "marked as archived")
    if facts["future"]:
        return None
    if record.type == "learning":
        if facts["importance"] in policy.keep_importance:
            return None
        age, least = view.now - _last_use(record), policy.archive_learnings_after_days
        if age >= least * DAY:
            return Move(record, f"learning not used for {int(age // DAY)} days", f"not used for {least:g} days")
    if record.type == "task" and facts.get("status") == "completed":
        age, least = view.now - _last_use(record), policy.archive_tasks_after_days
        if age >= least * DAY:
            rule = f"completed at least {least:g} days ago"
            return Move(record, f"task completed {int(age // DAY)} days ago", rule)
    return None


def enforce(view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
    """Plan moves that bring each file back to its soft limit; a limit that cannot be met becomes a note."""
    actions: list[Action] = []
    notes: list[Action] = []
    for path, limit in limits.items():
        loaded = view.live.get(path)
        if loaded is None or limit.kind is not LimitKind.SOFT:
            continue
        moves, short = _overflow(loaded, limit, view)
        actions += _move_actions(path, loaded, moves, view)
        if short:
            notes.append(Action(Kind.NOTE, path, short))
    return Plan(tuple(actions), tuple(notes))


def _overflow(loaded: LoadedFile, limit: Limit, view: UpkeepView) -> tuple[list[Move], str | None]:
    """Return the moves that bring count and size below the limit, least used first, and a sentence if that is not
    enough."""
    groups = _by_id(loaded.document.records)
    count, size = len(groups), len(loaded.data)
    moves: list[Move] = []
    movable = _movable(view, loaded)
    for group in sorted((each for each in groups if all(map(movable, each))), key=_least_used_first):
        bound = _exceeded(limit, count, size)
        if bound is None:
            break
        why = f"the file is above its soft limit of {bound}"
        moves += [Move(record, why, f"above the soft limit of {bound}") for record in group]
        spans = [line_span(loaded.data, record.span) for record in group]
        count, size = count - 1, size - sum(span.end - span.start for span in spans)
    if _exceeded(limit, count, size):
        which = "no more" if moves else "none"
        return moves, f"{_excess(limit, count, size)}; {which} can be archived automatically: `memoryd archive ID`"
    return moves, None


def _exceeded(limit: Limit, count: int, size: int) -> str | None:
    if limit.max_count is not None and count > limit.max_count:
        return f"{limit.max_count} memories"
    if limit.max_bytes is not None and size > limit.max_bytes:
        return f"{limit.max_bytes} bytes"
    return None


def _excess(limit: Limit, count: int, size: int) -> str:
    bounds = ((count, limit.max_count, "memories"), (size, limit.max_bytes, "bytes"))
    over = [(used, unit, most) for used, most, unit in bounds if most is not None and used > most]
    return " and ".join(f"{used} {unit} (limit {most})" for used, unit, most in over)


def _by_id(records: Collection[Record]) -> list[list[Record]]:
    """Group records by id: duplicates move with the first one, or the index would count one of them instead."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if not record.archived:
            groups.setdefault(record.id, []).append(record)
    return list(groups.values())


def _movable(view: UpkeepView, loaded: LoadedFile) -> Callable[[Record], bool]:
    def movable(record: Record) -> bool:
        if record.facts["future"] or view.is_pinned(record.span.of(loaded.data)):
            return False
        if record.type == "task":
            return record.facts.get("status") == "completed"
        return record.type == "learning" and record.facts["importance"] not in view.policy.keep_importance

    return movable


def _least_used_first(group: Sequence[Record]) -> tuple[float, float, float]:
    facts = group[0].facts
    if group[0].type == "task":
        return facts["completed"], facts["created"], 0.0
    return facts["accessed"], facts["access_count"], facts["created"]


def _move_actions(path: str, loaded: LoadedFile, moves: list[Move], view: UpkeepView) -> list[Action]:
    """Return the copies into the archives, then one rewrite of the live file."""
    if not moves:
        return []
    by_archive: dict[str, list[Move]] = {}
    for move in moves:
        by_archive.setdefault(archive_path(path, move.record), []).append(move)
    actions = [
        action
        for target, group in sorted(by_archive.items())
        if (action := _copy_action(target, group, loaded, view.archive(target), view.policy.final_newline))
    ]
    edits = tuple(remove_lines(loaded, [move.record.span for move in moves], view.policy.final_newline))
    ids = tuple(move.record.id for move in moves)
    base = loaded.digest
    reasons = tuple(move.why for move in moves)
    actions.append(Action(Kind.REWRITE, path, _summary(moves), ids, edits, base=base, reasons=reasons))
    return actions


def _summary(moves: Sequence[Move]) -> str:
    """Return what is archived and by which rule: `archive 333 learnings not used for 90 days`."""
    counts = Counter((move.record.type, move.rule) for move in moves)
    return "archive " + ", ".join(f"{_counted(number, kind)} {rule}" for (kind, rule), number in counts.items())


def _counted(number: int, kind: str) -> str:
    one, several = (kind, f"{kind}s") if kind in ("learning", "task") else (f"{kind} memory", f"{kind} memories")
    return f"{number} {one if number == 1 else several}"


def archive_path(path: str, record: Record) -> str:
    """Return the archive file of a record, named as in the seed's tree: `archive/2025/learnings_2025_Q4.jsonl`."""
    year, number = quarter(record.facts["created"])
    stem = path.removesuffix(".jsonl")
    return f"archive/{year:04}/{stem}_{year:04}_Q{number}.jsonl"


def is_archive(path: str) -> bool:
    """Return True for the path of an archive file."""
    return _ARCHIVE.fullmatch(path) is not None


def archived_type(path: str) -> str:
    """Return the type of an archive in either form: `learnings_2025_Q4.jsonl`, `learning_memories_2025_Q4.jsonl`."""
    name = path.rpartition("/")[2]
    return next((kind for prefix, kind in _ARCHIVE_PREFIXES if name.startswith(prefix)), "core")


def _copy_action(
    target: str, moves: list[Move], loaded: LoadedFile, existing: bytes | None, final_newline: str
) -> Action | None:
    """Return the append to an archive, without the lines that it holds already after a crash between two writes."""
    present = set((existing or b"").split(b"\n"))
    by_id: dict[str, dict[bytes, None]] = {}
    for move in moves:
        line = mark_archived(move.record.span.of(loaded.data))
        if line not in present:
            by_id.setdefault(move.record.id, {})[line] = None
    # Of duplicate ids the first is used. It is copied last, since unarchive takes the last copy.
    copies = [(identity, line) for identity, lines in by_id.items() for line in reversed(lines)]
    if not copies:
        return None
    content = appended_lines(existing, [line for _, line in copies], final_newline)
    base = sha256(existing) if existing is not None else None
    ids, why = tuple(identity for identity, _ in copies), f"copy {_counted(len(copies), moves[0].record.type)}"
    return Action(Kind.APPEND, target, why, ids, (), content, base=base)


def mark_archived(line: bytes) -> bytes:
    """Return the bytes of the memory with `archived` set to true and nothing else changed."""
    return with_member(line.strip(), "archived", b"true")


def remove_lines(loaded: LoadedFile, spans: Collection[Span], final_newline: str) -> list[Edit]:
    """Return the edits that remove memories with their lines."""
    data = loaded.data
    edits = [Edit(span, b"") for span in _merge_spans([line_span(data, span) for span in sorted(set(spans))])]
    return with_file_end(loaded, edits, final_newline)


def with_file_end(loaded: LoadedFile, edits: Sequence[Edit], final_newline: str) -> list[Edit]:
    """Return the edits, and one that gives the file the final newline of the policy, or takes it away; none of its own
    while a program is writing a line."""
    data = loaded.data
    if loaded.document.pending:
        return list(edits)
    if not ends_in_newline(data, final_newline):
        return _without_final_newlines(data, edits)
    last = edits[-1].span.start if edits and not edits[-1].new and edits[-1].span.end == len(data) else len(data)
    is_missing = last > 0 and data[last - 1 : last] != b"\n"
    return [*edits, Edit(Span(len(data), len(data)), b"\n")] if is_missing else list(edits)


def _without_final_newlines(data: bytes, edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits, where the last one also removes the newlines that the file would end with."""
    left, end = list(edits), len(data)
    while True:
        changed = left[-1].span.end if left else 0
        start = max(changed, len(data[:end].rstrip(b"\n")))
        if start == end and left and changed == end and not left[-1].new:
            start = left.pop().span.start
        if start == end:
            return [*left, Edit(Span(end, len(data)), b"")] if end < len(data) else left
        end = start


def appended_lines(existing: bytes | None, lines: Sequence[bytes], final_newline: str) -> bytes:
    """Return what to append to a file with the content `existing` (None: a new file) to add these lines."""
    lead = b"\n" if existing and not existing.endswith(b"\n") else b""
    return lead + b"\n".join(lines) + (b"\n" if ends_in_newline(existing, final_newline) else b"")


def ends_in_newline(existing: bytes | None, final_newline: str) -> bool:
    """Return True if memoryd ends a file with a newline, by the policy and the content that the file has."""
    return final_newline == "always" or (final_newline == "keep" and (not existing or existing.endswith(b"\n")))


def line_span(data: bytes, span: Span) -> Span:
    """Return the whole line with its newline if the memory is alone on it, else the span of the memory."""
    start = data.rfind(b"\n", 0, span.start) + 1
    newline = data.find(b"\n", span.end)
    end = len(data) if newline < 0 else newline + 1
    alone = not data[start : span.start].strip() and not data[span.end : end].strip()
    return Span(start, end) if alone else span


def _merge_spans(spans: list[Span]) -> list[Span]:
    """Join adjacent spans, so that a large move needs few edits."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].end == span.start:
            merged[-1] = Span(merged[-1].start, span.end)
        else:
            merged.append(span)
    return merged
