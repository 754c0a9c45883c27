"""Storing, changing and repairing entries. Pure: returns plans (see `memoryd.layouts.protocol`).
Which values are accepted is decided in `fields`.

A new entry goes above all others whatever its date, as the seed says. Entries that then exceed the limits move to the
archive in the same plan, oldest first. `index.md` is updated afterwards by its own renderer.

An update changes named fields, a whole entry, or the text of a document. The entry keeps its position even when its
date changes, so that nothing else moves in a version-controlled file.

Repair makes one exact edit: an entry glued to the `---` (or the italic last line) above it, as happens when somebody
appends to a file without a final newline, gets that newline. Nothing is reordered, reworded or removed.
"""

from __future__ import annotations

from datetime import date, datetime

from memoryd.core.dates import zone_of
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import NativeMemory, Record
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.errors import UsageError
from memoryd.layouts.markdown_topics import archive
from memoryd.layouts.markdown_topics.fields import (
    DATE,
    TEXT,
    TITLE,
    build_entry,
    entry_from_text,
    field_edits,
    field_texts,
    heading_edits,
    insert_on_top,
    newline_style,
    parse_day,
    parse_title,
    valid_text,
)
from memoryd.layouts.markdown_topics.lint import glued_headings, missing_labels
from memoryd.layouts.markdown_topics.names import ARCHIVE, ID_SUFFIX, path_for
from memoryd.layouts.markdown_topics.outline import Outline, newline_of, outline
from memoryd.layouts.markdown_topics.parser import (
    DOCUMENT,
    ENTRY,
    has_content,
    id_at,
    id_in_outline,
    read_document,
    read_outline,
)
from memoryd.layouts.protocol import Fix, LoadedFile, Located, NewMemory, UpkeepView, WritePlan, WriteView
from memoryd.layouts.validation import Violation, reject


def add(view: WriteView, new: NewMemory) -> WritePlan:
    """Plan a new entry at the top of its topic file, with the prune that it makes necessary."""
    path = path_for(new.location)
    entry = build_entry(new.memory, _today(view))
    before = view.content(path)
    if before is None:
        identity = id_at(path, entry, 0)
        plan = Plan((Action(Kind.CREATE, path, "create a topic file", (identity,), data=entry),))
        return WritePlan(plan, identity, path, warnings=_warnings(entry))
    structure = outline(before)
    _reject_document(path, structure)
    try:
        edit = insert_on_top(structure, entry)
    except ValueError as error:
        reject([Violation("subtopic", str(error))])
        raise  # never reached: `reject` always raises
    return _with_prune(view, path, before, edit)._replace(warnings=_warnings(entry))


def _warnings(entry: bytes) -> tuple[str, ...]:
    """Return the findings that `check` will report about a new entry, for the receipt of `add`."""
    structure = outline(entry)
    missing = (missing_labels(structure, section) for section in structure.sections)
    return tuple(f"{each}; `check` reports it as missing-labels" for each in missing if each)


def _today(view: WriteView) -> date:
    """Return the local date, which is what people and agents write."""
    zone = zone_of(view.policy.timezone) if view.policy.timezone else view.zone
    return datetime.fromtimestamp(view.now, zone).date()


def _reject_document(path: str, structure: Outline) -> None:
    """Raise UsageError for a document with front matter and no entries: a new entry would turn its text into an
    introduction, and the memory that it is could no longer be found."""
    if structure.front and not structure.sections and has_content(structure, after=structure.front):
        raise UsageError(
            f"subtopic: {path} is a document without dated entries, so none can be added",
            hint="choose another subtopic, or update the document",
        )


def _with_prune(view: WriteView, path: str, before: bytes, edit: Edit) -> WritePlan:
    """Plan one rewrite that inserts the entry and removes surplus ones, after their copies to the archive.

    An entry older than all that a full file may keep is only inserted; the next prune moves it like any other.
    """
    after = outline(splice(before, [edit]))
    document = read_outline(path, after)
    identity = next(each.id for each in document.records if each.span.start >= edit.span.start)
    live = {path: LoadedFile(after.data, document)}
    due = archive.prune(UpkeepView(live, view.content, view.policy, view.now, view.pinned))
    removal = next((action for action in due.actions if not action.copy), None)
    if removal is None or identity in removal.ids:
        action = Action(Kind.REWRITE, path, "store an entry", (identity,), (edit,), base=sha256(before))
        return WritePlan(Plan((action,), due.notes), identity, path)
    edits = (edit, *(_original_offsets(each, edit) for each in removal.edits))
    if ID_SUFFIX in identity:  # its duplicate may be pruned now
        identity = id_in_outline(path, after, edit.span.start, without=[each.span.start for each in removal.edits])
    why = f"store an entry; archive {len(removal.ids)}: {removal.why}"
    ids, whys = (identity, *removal.ids), ("stored", *removal.reasons)
    action = Action(Kind.REWRITE, path, why, ids, edits, base=sha256(before), reasons=whys)
    copies = (action for action in due.actions if action.copy)
    return WritePlan(Plan((*copies, action), due.notes), identity, path)


def _original_offsets(edit: Edit, insertion: Edit) -> Edit:
    """Return an edit after an insertion, in offsets of the text without that insertion."""
    shift = len(insertion.new)
    return Edit(Span(edit.span.start - shift, edit.span.end - shift), edit.new)


def update(located: Located, changes: NativeMemory) -> WritePlan:
    """Plan the change of an entry (by fields or whole) or of a document (by `text`)."""
    data, record = located.loaded.data, located.record
    if record.archived:
        raise UsageError(f"{record.id} is archived", hint="unarchive it first")
    if not changes:
        raise UsageError("changes: none given", hint="name the fields to change, or `text` to replace all of it")
    if record.type == DOCUMENT:
        edits = _document_edits(located, changes)
    elif TEXT in changes:
        edits = [_entry_replacement(record, data, changes)]
    else:
        edits = _field_changes(record, data, changes)
    edits = [edit for edit in edits if edit.span.of(data) != edit.new]
    after = splice(data, edits)
    identity = id_at(located.path, after, record.span.start)
    if not edits:
        return WritePlan(Plan(), identity, located.path)
    action = Action(Kind.REWRITE, located.path, "change a memory", (identity,), tuple(edits), base=sha256(data))
    return WritePlan(Plan((action,)), identity, located.path)


def _entry_replacement(record: Record, data: bytes, changes: NativeMemory) -> Edit:
    """Return the edit that replaces a whole entry; white space before the next entry stays."""
    old = record.span.of(data)
    text = entry_from_text(changes).rstrip().replace(b"\n", newline_style(old, data))
    return Edit(Span(record.span.start, record.span.start + len(old.rstrip())), text)


def _field_changes(record: Record, data: bytes, changes: NativeMemory) -> list[Edit]:
    violations: list[Violation] = []
    title = parse_title(changes[TITLE], violations) if TITLE in changes else None
    day = parse_day(changes[DATE], violations) if DATE in changes else None
    texts = field_texts({key: value for key, value in changes.items() if key not in (TITLE, DATE)}, violations)
    reject(violations)
    entry = record.span.of(data)
    edits = [*heading_edits(entry, title, day), *field_edits(entry, texts, newline_style(entry, data))]
    if len(outline(splice(entry, edits)).sections) != 1:
        reject([Violation(next(iter(texts), TITLE), "would split the entry; replace the whole entry with `text`")])
    shift = record.span.start
    return [Edit(Span(edit.span.start + shift, edit.span.end + shift), edit.new) for edit in edits]


def _document_edits(located: Located, changes: NativeMemory) -> list[Edit]:
    """Return the edit that replaces the text of a document, front matter included; it has no fields. A byte order mark
    stays."""
    data, span = located.loaded.data, located.record.span
    violations = [Violation(key, "a document without dated entries has no fields; set `text`") for key in changes]
    violations = [each for each in violations if each.field != TEXT]
    text = valid_text(TEXT, changes[TEXT], violations) if TEXT in changes else None
    new = (text or "").replace("\r\n", "\n").rstrip("\n").replace("\n", newline_of(data).decode()).encode()
    if text is not None:
        after = read_document(located.path, data[: span.start] + new, now=0.0, mtime=-1e9).records
        if [each.type for each in after] != [DOCUMENT]:
            rule = "must not contain dated entries: the document is one memory" if after else "must not be empty"
            violations.append(Violation(TEXT, rule))
    reject(violations)
    old = span.of(data)
    return [Edit(Span(span.start, span.start + len(old.rstrip(b"\r\n"))), new)]


def fixes(path: str, loaded: LoadedFile) -> tuple[Fix, ...]:
    """Return a fix for each entry that is glued to the line above it."""
    data = loaded.data
    all_fixes: list[Fix] = []
    for line, at in glued_headings(outline(data, archived=path.startswith(ARCHIVE))):
        position = Span(line.start + at, line.start + at)
        why = f"line {line.number}: insert a newline before the glued entry"
        all_fixes.append(Fix("glued-heading", (Edit(position, newline_of(data) * 2),), why))
    return tuple(all_fixes)


def recover(path: str, loaded: LoadedFile, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
    """Return the fix that restores an emptied file from its newest good backup, without entries archived since. A file
    that holds anything is left to a person, since markdown is never too corrupt to read."""
    if loaded.data.strip():
        return None
    document = read_document(path, backup, now=now, mtime=0.0)
    restored, at = b"", 0
    for record in document.records:
        if record.type == ENTRY and record.id in archived:
            restored += backup[at : record.span.start]
            at = record.span.end
    restored += backup[at:]
    ids = tuple(record.id for record in document.records if record.id not in archived)
    if not ids:
        return None
    everything = Span(0, len(loaded.data))
    return Fix(
        "emptied-file", (Edit(everything, restored),), f"restore {len(ids)} memories from the backup", ids, safe=False
    )
