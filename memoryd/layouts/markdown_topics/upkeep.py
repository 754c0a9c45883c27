"""Pruning: what leaves a topic file that grew too long, and where it goes. Pure: the plan is all there is.

Above ten entries or 5,120 bytes of the whole file the oldest entries leave, by date, equal dates by their place in the
file: down to ten entries, then on until the file is small enough, but five always stay. Moving is not storing: what
looks like a secret moves like anything else.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from typing import NamedTuple

from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.text import Edit
from memoryd.layouts.base import FileSummary, Loaded, UpkeepView
from memoryd.layouts.markdown_topics.blocks import outline
from memoryd.layouts.markdown_topics.checking import FEWEST_ENTRIES, MOST_BYTES, MOST_ENTRIES
from memoryd.layouts.markdown_topics.naming import archive_of
from memoryd.layouts.markdown_topics.reading import ENTRY
from memoryd.layouts.markdown_topics.shelf import Moved, insertions, missing


class Leaving(NamedTuple):
    """The entries that leave one file, in file order."""

    path: str
    loaded: Loaded
    records: list[Record]
    why: str


def may_be_due(file: FileSummary) -> bool:
    return _too_long(file.facts.get("entries", 0), file.size)


def prune(view: UpkeepView) -> Plan:
    leaving = []
    for path, loaded in view.live.items():
        records = _surplus(loaded, view)
        why = f"the file has more than {MOST_ENTRIES} entries or {MOST_BYTES} bytes"
        leaving.append(Leaving(path, loaded, records, why))
    return _plan(leaving, view)


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    """Only named entries: this layout has no age at which memories leave."""
    leaving = [
        Leaving(path, loaded, [each for each in _entries(loaded) if each.id in (ids or ())], "named in the command")
        for path, loaded in view.live.items()
    ]
    return _plan(leaving, view)


def _too_long(count: int, size: int) -> bool:
    return count > MOST_ENTRIES or (size > MOST_BYTES and count > FEWEST_ENTRIES)


def _entries(loaded: Loaded) -> list[Record]:
    return [each for each in loaded.document.records if each.type == ENTRY]


def _surplus(loaded: Loaded, view: UpkeepView) -> list[Record]:
    """In file order. Entries that have to stay do not count, or others would leave in their place."""
    entries = [each for each in _entries(loaded) if not _stays(each, loaded, view)]
    staying = sum(_size(each) for each in _entries(loaded)) - sum(map(_size, entries))
    count, size = len(entries), len(loaded.data) - staying
    newest_first = sorted(entries, key=lambda each: each.facts["date"], reverse=True)  # stable: equal dates by place
    chosen: list[Record] = []
    while _too_long(count, size):
        record = newest_first[count - 1]
        chosen.append(record)
        count, size = count - 1, size - _size(record)
    return sorted(chosen, key=lambda each: each.span)


def _size(record: Record) -> int:
    return record.span.end - record.span.start


def _stays(record: Record, loaded: Loaded, view: UpkeepView) -> bool:
    """What an undo brought back, and an entry with a code fence that never ends: nobody knows what else is in it."""
    return "open_fence" in record.facts or (bool(view.held) and sha256(record.span.of(loaded.data)) in view.held)


def _plan(leaving: list[Leaving], view: UpkeepView) -> Plan:
    """One group a file, its copies first. Files of one topic share archives: a plan writes each of those once, with
    the first group that needs it, because a second change could not be decided on what the first one leaves."""
    notes: list[Action] = []
    copies = _copies(leaving, view)
    while refused := {target: why for target, why in copies.items() if isinstance(why, str)}:
        for each in leaving:
            notes += [Action(Kind.NOTE, each.path, refused[t]) for t in _targets(each) if t in refused][:1]
        leaving = [each for each in leaving if not refused.keys() & _targets(each)]
        copies = _copies(leaving, view)
    actions: list[Action] = []
    for each in leaving:
        taken = [copies.pop(target, None) for target in sorted(_targets(each))]
        actions += [copy for copy in taken if isinstance(copy, Action)]
        actions += [_removal(each)] if each.records else []
    return Plan(tuple(actions), tuple(notes))


def _copies(leaving: list[Leaving], view: UpkeepView) -> dict[str, Action | str | None]:
    shelves: dict[str, list[Moved]] = {}
    for each in leaving:
        for move in _moves(each):
            shelves.setdefault(archive_of(each.path, move.day), []).append(move)
    return {target: _copy(target, moves, view.archive(target)) for target, moves in shelves.items()}


def _targets(leaving: Leaving) -> set[str]:
    return {archive_of(leaving.path, move.day) for move in _moves(leaving)}


def _moves(leaving: Leaving) -> list[Moved]:
    name = leaving.path.rpartition("/")[2]
    return [
        Moved(each.id, date.fromisoformat(each.facts["date"]), name, each.span.of(leaving.loaded.data))
        for each in leaving.records
    ]


def _copy(target: str, moves: list[Moved], existing: bytes | None) -> Action | str | None:
    """The one change of an archive; None where all is there already, a sentence where it cannot be made."""
    found = outline(existing or b"", shelved=True)
    new = missing(found, moves)
    if not new:
        return None
    edits = insertions(found, new)
    if edits is None:
        return f"its oldest entries cannot be put into {target} so that they could be read there again"
    why, ids = f"copy {len(new)} of {len(moves)} entries", tuple(move.id for move in new)
    if existing is None:
        return Action(Kind.CREATE, target, why, ids, data=b"".join(edit.new for edit in edits), copy=True)
    return Action(Kind.REWRITE, target, why, ids, edits, base=sha256(existing), copy=True)


def _removal(leaving: Leaving) -> Action:
    records, data = leaving.records, leaving.loaded.data
    edits = tuple(Edit(each.span, b"") for each in records)
    ids = tuple(each.id for each in records)
    whys = (leaving.why,) * len(ids)
    return Action(Kind.REWRITE, leaving.path, leaving.why, ids, edits, base=sha256(data), whys=whys)
