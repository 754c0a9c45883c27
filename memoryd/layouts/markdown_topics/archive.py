"""Pruning, and moving entries to the archive and back. Pure: returns plans.

Above ten entries or 5,120 bytes the oldest entries of a file move to the archive of its topic, by date, equal dates by
position: down to ten entries, then further until the file is small enough, but at least five stay. Moving is not
storing: entries that look like secrets move like all others.

An entry that the archive already holds is not repeated, so a crash between the two writes does no harm. Forgotten
documents are removed whole; the caller saves their bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from msgspec.structs import replace

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import FileStats, Record
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.errors import ConflictError, UsageError
from memoryd.layouts.markdown_topics.archive_file import (
    ArchivedEntry,
    archive_insertions,
    escape_source,
    missing_entries,
    section_text,
    unescape_source,
    without_newline,
)
from memoryd.layouts.markdown_topics.lint import MAX_BYTES, MAX_ENTRIES, MIN_ENTRIES
from memoryd.layouts.markdown_topics.names import archive_of, check_source, topic_of_archive
from memoryd.layouts.markdown_topics.outline import Outline, Section, newline_of, outline
from memoryd.layouts.markdown_topics.parser import DOCUMENT, ENTRY, id_at
from memoryd.layouts.protocol import LoadedFile, Located, UpkeepView, WritePlan, WriteView


class PrunedFile(NamedTuple):
    """The entries to move out of one file, in file order."""

    path: str
    loaded: LoadedFile
    records: list[Record]
    why: str


def may_be_due(file: FileStats) -> bool:
    """Return True where the file exceeds the limits for pruning."""
    return _too_long(file.facts.get("entries", 0), file.size)


def prune(view: UpkeepView) -> Plan:
    """Plan the archiving of surplus entries of all live files."""
    pruned = []
    for path, loaded in view.live.items():
        records = _surplus(loaded, view)
        why = f"the file has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes"
        pruned.append(PrunedFile(path, loaded, records, why))
    return _plan(pruned, view)


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    """Plan the archiving of the named entries; this layout has no age at which memories are archived."""
    pruned = [
        PrunedFile(path, loaded, [each for each in _entries(loaded) if each.id in (ids or ())], "named in the command")
        for path, loaded in view.live.items()
    ]
    return _plan(pruned, view)


def _too_long(count: int, size: int) -> bool:
    return count > MAX_ENTRIES or (size > MAX_BYTES and count > MIN_ENTRIES)


def _entries(loaded: LoadedFile) -> list[Record]:
    return [each for each in loaded.document.records if each.type == ENTRY]


def _surplus(loaded: LoadedFile, view: UpkeepView) -> list[Record]:
    """Return the entries to move, in file order. Pinned entries do not count, or others would move in their place."""
    entries = [each for each in _entries(loaded) if not _stays(each, loaded, view)]
    pinned_size = sum(_size(each) for each in _entries(loaded)) - sum(map(_size, entries))
    count, size = len(entries), len(loaded.data) - pinned_size
    newest_first = sorted(entries, key=lambda each: each.facts["date"], reverse=True)  # stable: equal dates by place
    surplus: list[Record] = []
    while _too_long(count, size):
        record = newest_first[count - 1]
        surplus.append(record)
        count, size = count - 1, size - _size(record)
    return sorted(surplus, key=lambda each: each.span)


def _size(record: Record) -> int:
    return record.span.end - record.span.start


def _stays(record: Record, loaded: LoadedFile, view: UpkeepView) -> bool:
    """Return True for an entry that an undo restored, and for one with an unclosed code fence, which may hide other
    text."""
    return "open_fence" in record.facts or view.is_pinned(record.span.of(loaded.data))


def _plan(pruned: list[PrunedFile], view: UpkeepView) -> Plan:
    """Return one group of actions per file, its copies first. Files of a topic share archives: a plan writes each
    archive once, with the first group that needs it, since a second change would depend on the result of the first."""
    notes: list[Action] = []
    copies = _copies(pruned, view)
    while refused := {target: copy.why for target, copy in copies.items() if copy and copy.kind is Kind.NOTE}:
        for each in pruned:
            notes += [Action(Kind.NOTE, each.path, refused[t]) for t in _targets(each) if t in refused][:1]
        pruned = [each for each in pruned if not refused.keys() & _targets(each)]
        copies = _copies(pruned, view)
    actions: list[Action] = []
    for each in pruned:
        needed = [copies.pop(target, None) for target in sorted(_targets(each))]
        actions += [copy for copy in needed if copy is not None]
        actions += [_removal(each)] if each.records else []
    return Plan(tuple(actions), tuple(notes))


def _copies(pruned: list[PrunedFile], view: UpkeepView) -> dict[str, Action | None]:
    archives: dict[str, list[ArchivedEntry]] = {}
    for each in pruned:
        for move in _moves(each):
            archives.setdefault(archive_of(each.path, move.day), []).append(move)
    return {target: _copy_action(target, moves, view.archive(target)) for target, moves in archives.items()}


def _targets(pruned: PrunedFile) -> set[str]:
    return {archive_of(pruned.path, move.day) for move in _moves(pruned)}


def _moves(pruned: PrunedFile) -> list[ArchivedEntry]:
    name = pruned.path.rpartition("/")[2]
    return [
        ArchivedEntry(each.id, date.fromisoformat(each.facts["date"]), name, each.span.of(pruned.loaded.data))
        for each in pruned.records
    ]


def _copy_action(target: str, moves: list[ArchivedEntry], existing: bytes | None) -> Action | None:
    """Return the change of an archive; None if it holds all entries, a note if it cannot be changed."""
    structure = outline(existing or b"", archived=True)
    new = missing_entries(structure, moves)
    if not new:
        return None
    edits = archive_insertions(structure, new)
    if edits is None:
        return Action(Kind.NOTE, target, f"not archived: its oldest entries could not be read back from {target}")
    why, ids = f"copy {len(new)} of {len(moves)} entries", tuple(move.id for move in new)
    if existing is None:
        return Action(Kind.CREATE, target, why, ids, data=b"".join(edit.new for edit in edits), copy=True)
    return Action(Kind.REWRITE, target, why, ids, edits, base=sha256(existing), copy=True)


def _removal(pruned: PrunedFile) -> Action:
    records, data = pruned.records, pruned.loaded.data
    edits = tuple(Edit(each.span, b"") for each in records)
    ids = tuple(each.id for each in records)
    whys = (pruned.why,) * len(ids)
    return Action(Kind.REWRITE, pruned.path, pruned.why, ids, edits, base=sha256(data), reasons=whys)


def forget(view: WriteView, located: Located) -> WritePlan:
    """Plan the archiving of an entry, or the removal of a document."""
    path, record, data = located.path, located.record, located.loaded.data
    if record.archived:
        raise UsageError(f"{record.id} is already archived", hint="forgetting an entry moves it to the archive")
    if record.type == DOCUMENT:
        whole = Span(0, len(data))
        action = Action(Kind.REMOVE, path, "forget a document", (record.id,), base=sha256(data), quarantine=(whole,))
        return WritePlan(Plan((action,)), record.id, path, removed=data)
    plan = archive(UpkeepView({path: located.loaded}, view.content, view.policy, view.now), {record.id})
    if not plan:
        raise ConflictError(f"{path}: {plan.notes[0].why}", hint="correct the archive by hand, then try again")
    target = archive_of(path, date.fromisoformat(record.facts["date"]))
    archived = view.content(target) or b""
    for action in plan.actions:
        if action.path == target:
            archived = action.data if action.kind is Kind.CREATE else splice(archived, action.edits)
    return WritePlan(plan, _archived_id(target, archived, path.rpartition("/")[2], record.span.of(data)), target)


def _archived_id(target: str, archived: bytes, source: str, text: bytes) -> str:
    """Return the id of the entry in the archive; among equal texts, that of the one from the same source file."""
    same = [
        each
        for each in outline(archived, archived=True).sections
        if section_text(archived, each) == without_newline(text)
    ]
    preferred = [each for each in same if each.source == escape_source(source)] or same
    return id_at(target, archived, preferred[0].start)


def unarchive(view: WriteView, located: Located) -> WritePlan:
    """Plan the move of an archived entry above the first older entry of its file."""
    record, archived = located.record, located.loaded.data
    section = next((s for s in outline(archived, archived=True).sections if s.start == record.span.start), None)
    if not record.archived or record.type == DOCUMENT or section is None:
        raise UsageError(f"{record.id} is not an archived entry", hint="only archived entries can be unarchived")
    text = record.span.of(archived)
    path = _source_path(view, located.path, section)
    before = view.content(path)
    insertion = _insert_action(path, before, [(section, text)], copy=True)
    after = b"" if before is None else before
    if insertion is not None:
        after = insertion.data if insertion.kind is Kind.CREATE else splice(after, insertion.edits)
    same = [each for each in outline(after).sections if section_text(after, each) == without_newline(text)]
    identity = id_at(path, after, same[0].start)
    removal = _removal_from_archive(located.path, archived, section, identity)
    return WritePlan(Plan((insertion, removal) if insertion is not None else (removal,)), identity, path)


def _source_path(view: WriteView, archive: str, section: Section) -> str:
    """Return the file that the line above an archived entry names."""
    if section.source is None:
        raise UsageError(
            f"{archive}: the source file of the entry is unknown",
            hint="add a line `<!-- from: file.md -->` above it",
        )
    topic = topic_of_archive(archive)
    paths = ["/".join(filter(None, (topic, name))) for name in unescape_source(section.source)]
    for path in paths:
        check_source(path, archive)
    return next((path for path in paths if view.content(path) is not None), paths[-1])


_Entry = tuple[Section, bytes]


def _insert_action(path: str, before: bytes | None, entries: Sequence[_Entry], *, copy: bool) -> Action | None:
    """Return the action that inserts the entries, or None where the file already holds all of them after an interrupted
    run."""
    present = [section_text(before, each) for each in outline(before).sections] if before is not None else []
    missing = [each for each in entries if without_newline(each[1]) not in present]
    if not missing:
        return None
    why = "restore an entry" if len(missing) == 1 else "restore entries"
    edits = tuple(_insertions(before or b"", missing))
    after = splice(before or b"", edits)
    expected = [*present, *(without_newline(text) for _, text in missing)]
    if sorted(section_text(after, each) for each in outline(after).sections) != sorted(expected):
        why = "an unclosed code fence would hide the entry or another one"
        raise ConflictError(f"{path}: {why}", hint="close the fence by hand, then try again")
    if before is None:
        return Action(Kind.CREATE, path, why, data=after, copy=copy)
    return Action(Kind.REWRITE, path, why, edits=edits, base=sha256(before), copy=copy)


def _insertions(before: bytes, entries: Sequence[_Entry]) -> Iterator[Edit]:
    """Yield the edits that insert each entry above the first older one. Only missing newlines are added."""
    structure, newline = outline(before), newline_of(before)
    places: dict[int, list[bytes]] = {}
    for section, text in entries:
        places.setdefault(_place(structure, section.day), []).append(text)
    for at, texts in sorted(places.items()):
        lead = newline if at and not before[:at].endswith(b"\n") else b""
        ended = [text if text.endswith(b"\n") else text + newline for text in texts]
        yield Edit(Span(at, at), lead + b"".join([*ended[:-1], texts[-1] if at == len(before) else ended[-1]]))


def _place(structure: Outline, day: date) -> int:
    """Return where an entry of this day belongs: above the first older one, else at the end."""
    older = [each.start for each in structure.sections if each.day < day]
    if older or structure.open_fence is None or not structure.sections:
        return older[0] if older else len(structure.data)
    return structure.sections[-1].start  # text below a fence that is never closed would be part of it


def _removal_from_archive(archive: str, archived: bytes, section: Section, identity: str) -> Action:
    """Return the action that removes the entry with its source line, or the whole archive file if nothing else is in
    it."""
    end = section.end
    rest = archived[: section.block] + archived[end:]
    why = "moved back to its topic file"
    if not rest.strip():
        return Action(Kind.REMOVE, archive, why, (identity,), base=sha256(archived))
    edit = Edit(Span(section.block, end), b"")
    return Action(Kind.REWRITE, archive, why, (identity,), (edit,), base=sha256(archived))


def restore(view: WriteView, path: str, removed: Sequence[bytes]) -> WritePlan:
    """Plan the insertion of entries, each above the first older one, or the re-creation of a document."""
    before = view.content(path)
    entries = [(section, text) for text in removed for section in outline(text).sections]
    if entries:
        action = _insert_action(path, before, entries, copy=False)
        ids = tuple(id_at(path, text, 0) for text in removed)
        return WritePlan(Plan(() if action is None else (replace(action, ids=ids),)), ids[0], path)
    if before is not None:
        raise ConflictError(f"{path} exists again", hint="rename or forget the present file")
    [document] = removed
    identity = id_at(path, document, 0)
    created = Action(Kind.CREATE, path, "restore a document", (identity,), data=document)
    return WritePlan(Plan((created,)), identity, path)
