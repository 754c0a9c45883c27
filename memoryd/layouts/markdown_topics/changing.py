"""Changing a memory in place: the named fields of an entry, an entry as a whole, or the text of a document.

The entry keeps its place also when its date changes, so that nothing else of a version-controlled file moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.text import Edit, Span, splice
from memoryd.errors import UsageError
from memoryd.layouts.asked import Breach, refuse
from memoryd.layouts.markdown_topics.blocks import newline_of, outline
from memoryd.layouts.markdown_topics.editing import field_edits, heading_edits, style_of
from memoryd.layouts.markdown_topics.reading import DOCUMENT, id_at, read_document
from memoryd.layouts.markdown_topics.wording import (
    DATE,
    TEXT,
    TITLE,
    day_of,
    texts_of,
    title_of,
    unspoiled,
    whole_entry,
)
from memoryd.layouts.storing import Found, Stored


def update(found: Found, changes: Mapping[str, Any]) -> Stored:
    data, record = found.loaded.data, found.record
    if record.archived:
        raise UsageError(f"{record.id} is archived", hint="unarchive it before it is changed")
    if not changes:
        raise UsageError("changes: none are given", hint="name the fields to change, or `text` for all of it")
    if record.type == DOCUMENT:
        edits = _document_edits(found, changes)
    elif TEXT in changes:
        edits = [_whole(record, data, changes)]
    else:
        edits = _named(record, data, changes)
    edits = [edit for edit in edits if edit.span.of(data) != edit.new]
    after = splice(data, edits)
    identity = id_at(found.path, after, record.span.start)
    if not edits:
        return Stored(Plan(), identity, found.path)
    action = Action(Kind.REWRITE, found.path, "change a memory", (identity,), tuple(edits), base=sha256(data))
    return Stored(Plan((action,)), identity, found.path)


def _whole(record: Record, data: bytes, changes: Mapping[str, Any]) -> Edit:
    """The white space that parts the entry from the next one stays."""
    old = record.span.of(data)
    text = whole_entry(changes).rstrip().replace(b"\n", style_of(old, data))
    return Edit(Span(record.span.start, record.span.start + len(old.rstrip())), text)


def _named(record: Record, data: bytes, changes: Mapping[str, Any]) -> list[Edit]:
    broken: list[Breach] = []
    title = title_of(changes[TITLE], broken) if TITLE in changes else None
    day = day_of(changes[DATE], broken) if DATE in changes else None
    texts = texts_of({key: value for key, value in changes.items() if key not in (TITLE, DATE)}, broken)
    refuse(broken)
    entry = record.span.of(data)
    edits = [*heading_edits(entry, title, day), *field_edits(entry, texts, style_of(entry, data))]
    if len(outline(splice(entry, edits)).sections) != 1:
        refuse([Breach(next(iter(texts), TITLE), "would not stay one entry; replace it whole with `text`")])
    by = record.span.start
    return [Edit(Span(edit.span.start + by, edit.span.end + by), edit.new) for edit in edits]


def _document_edits(found: Found, changes: Mapping[str, Any]) -> list[Edit]:
    """A document has no fields: its text is replaced whole, front matter and all; a byte order mark stays."""
    data, span = found.loaded.data, found.record.span
    broken = [Breach(key, "a document without dated entries has no fields; replace `text`") for key in changes]
    broken = [each for each in broken if each.field != TEXT]
    text = unspoiled(TEXT, changes[TEXT], broken) if TEXT in changes else None
    new = (text or "").replace("\r\n", "\n").rstrip("\n").replace("\n", newline_of(data).decode()).encode()
    if text is not None:
        after = read_document(found.path, data[: span.start] + new, now=0.0, mtime=-1e9).records
        if [each.type for each in after] != [DOCUMENT]:
            rule = (
                "must hold no dated entries, or the document is no memory any more" if after else "must say something"
            )
            broken.append(Breach(TEXT, rule))
    refuse(broken)
    old = span.of(data)
    return [Edit(Span(span.start, span.start + len(old.rstrip(b"\r\n"))), new)]
