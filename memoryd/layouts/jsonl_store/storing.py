"""Storing in the JSONL store: one appended line a memory, exact edits of one line, the quarterly archive.

A new memory is appended without a look at the file, so its price does not grow with the store. An update writes
nothing anew but the values that change. To forget is to archive. See `memoryd.layouts.storing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.core.dates import iso
from memoryd.core.json_elements import revision, skip_space
from memoryd.core.json_text import with_member
from memoryd.core.plan import WHATEVER, Action, Kind, Plan
from memoryd.core.records import Base, Record, Role
from memoryd.core.text import Edit
from memoryd.errors import ConflictError, UsageError
from memoryd.layouts.asked import Breach, compact, differing, place, refuse, unwritable, written
from memoryd.layouts.base import Loaded, UpkeepView
from memoryd.layouts.jsonl_store import upkeep
from memoryd.layouts.jsonl_store.asking import changed_breaches, completed, new_breaches, too_long
from memoryd.layouts.jsonl_store.lines import parse_line, parse_lines
from memoryd.layouts.jsonl_store.room import make_sure
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, MOST_USES
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch

_FILES = {kind: path for path, kind in FILE_TYPES.items()}


def add(view: StoringView, asked: Asked) -> Stored:
    place(asked.where, "jsonl-store")
    native = completed(asked.memory, view.now, view.number)
    line = written(native)
    refuse((*(unwritable(asked.memory) if line is None else ()), *new_breaches(native, asked.memory)))
    assert line is not None
    identity, path = str(native["id"]), _FILES[native["type"]]
    refuse((*too_long(len(line)), *(_taken(view, identity) if asked.memory.get("id") else ())))
    make_sure(view, path, len(line) + 1)
    why = f"store a memory of type {native['type']}"
    return Stored(Plan((_append(path, line, identity, why),)), identity, path)


def _taken(view: StoringView, identity: str) -> Iterator[Breach]:
    """An id somebody chose must be new. The catalogue's files are searched as bytes, which costs next to nothing."""
    told = identity.encode()
    for path, known in view.files.items():
        if known.role in (Role.SOURCE, Role.ARCHIVE) and told in (view.content(path) or b""):
            yield Breach("id", f"is new; this one stands already in {path}")
            return


def _append(path: str, line: bytes, identity: str, why: str) -> Action:
    """A newline always ends it, or the next program's append would join two memories on one line."""
    return Action(Kind.APPEND, path, why, (identity,), data=line + b"\n", base=WHATEVER)


def update(view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
    _demand_live(found, "changed")
    refuse(unwritable(changes))
    record, data = found.record, found.loaded.data
    wanted = differing(record.native, changes)
    if not wanted:
        return _unchanged(found)
    refuse(changed_breaches(found.path, record.native, wanted))
    wanted.setdefault("updated_at", iso(view.now))
    values = {key: None if value is None else compact(value) for key, value in wanted.items()}
    edits = revision(data, skip_space(data, record.span.start), values)
    before = record.span.end - record.span.start
    after = before + sum(len(edit.new) - (edit.span.end - edit.span.start) for edit in edits)
    refuse(too_long(after, before))
    return _rewritten(view, found, edits, f"set {', '.join(wanted)}")


def _unchanged(found: Found) -> Stored:
    return Stored(Plan(), found.record.id, found.path)


def _rewritten(view: StoringView, found: Found, edits: list[Edit], why: str) -> Stored:
    edits = [*edits, *upkeep.ended(found.loaded, edits, view.policy.final_newline)]
    action = Action(Kind.REWRITE, found.path, why, (found.record.id,), tuple(edits), base=found.loaded.digest)
    return Stored(Plan((action,)), found.record.id, found.path)


def _demand_live(found: Found, what: str) -> None:
    if upkeep.is_archive(found.path):
        raise UsageError(
            f"{found.record.id}: is archived; only live memories can be {what}",
            hint=f"bring it back first: memoryd unarchive {found.record.id}",
        )
    _demand_lines(found)


def _demand_lines(found: Found) -> None:
    if found.path not in FILE_TYPES and not upkeep.is_archive(found.path):
        raise UsageError(f"{found.path}: is of the shipped server's form, which memoryd reads and never writes")


def forget(view: StoringView, found: Found) -> Stored:
    """Into the quarter's archive, as the archive command does; what is there already stays there."""
    _demand_lines(found)
    if upkeep.is_archive(found.path):
        return _unchanged(found)
    live = UpkeepView({found.path: found.loaded}, view.content, view.policy, view.now)
    plan = upkeep.archive(live, {found.record.id})
    return Stored(plan, found.record.id, upkeep.archive_path(found.path, found.record))


def unarchive(view: StoringView, found: Found) -> Stored:
    """The archived line goes to the end of its live file with `archived` false, then out of the archive. A live line
    that is only marked loses its mark."""
    _demand_lines(found)
    record, data = found.record, found.loaded.data
    if not upkeep.is_archive(found.path):
        if not record.archived:
            return _unchanged(found)
        edits = revision(data, skip_space(data, record.span.start), {"archived": b"false"})
        return _rewritten(view, found, edits, "no longer marked as archived")
    path = _FILES[upkeep.archived_type(found.path)]
    text = record.span.of(data)
    line = with_member(text.strip().decode("utf-8"), "archived", "false").encode("utf-8")
    spans = [each.span for each in found.loaded.document.records if each.span.of(data) == text]
    edits = upkeep.removals(found.loaded, spans, view.policy.final_newline)
    why = "brought back to the live memories"
    removal = Action(Kind.REWRITE, found.path, why, (record.id,), tuple(edits), base=found.loaded.digest)
    if _stands(view, path, record.id, line):
        return Stored(Plan((removal,)), record.id, path)
    make_sure(view, path, len(line) + 1)
    return Stored(Plan((_append(path, line, record.id, why), removal)), record.id, path)


def _stands(view: StoringView, path: str, identity: str, line: bytes) -> bool:
    """Is the line there already (a crash between the two writes)? ConflictError where another memory has its id."""
    loaded = view.load(path, [identity])
    there = [each for each in loaded.document.records if each.id == identity] if loaded is not None else []
    if not there or loaded is None:
        return False
    if any(each.span.of(loaded.data).strip() == line for each in there):
        return True
    raise ConflictError(
        f"{identity}: another memory with this id stands in {path}",
        hint="archive or remove that one first",
        data={"changed": [path]},
    )


def put_back(view: StoringView, path: str, kept: bytes) -> Stored:
    """Nothing leaves this layout but for its archive; a line kept elsewhere goes to the end of its file."""
    line = kept.strip()
    read = parse_lines(path, line, FILE_TYPES[path], now=view.now, mtime=0.0, base=Base())
    if len(read.records) != 1 or b"\n" in line:
        raise UsageError(f"{path}: what was kept is not one memory on one line")
    identity = read.records[0].id
    if _stands(view, path, identity, line):
        return Stored(Plan(), identity, path)
    return Stored(Plan((_append(path, line, identity, "put back"),)), identity, path)


def touch(path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
    """`access_count` grows and `accessed_at` moves on, never back; of equal ids the first one counts."""
    if path not in FILE_TYPES:
        return ()
    edits: list[Edit] = []
    left = dict(touches)
    for record in loaded.document.records:
        touched = left.pop(record.id, None)
        if touched is not None:
            edits += _touched(record, loaded.data, touched)
    return tuple(edits)


def _touched(record: Record, data: bytes, touched: Touch) -> list[Edit]:
    values: dict[str, bytes | None] = {}
    if record.facts["access_count"] < MOST_USES:
        values["access_count"] = compact(record.facts["access_count"] + touched.times)
    if touched.at > record.facts["accessed"]:
        values["accessed_at"] = compact(iso(touched.at))
    return revision(data, skip_space(data, record.span.start), values)


def native(text: bytes) -> Mapping[str, Any]:
    parts = parse_line(text.strip()).parts
    return parts[0].native if parts else {"text": text.decode("utf-8", "replace")}
