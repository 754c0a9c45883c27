"""Storing one memory in a session: into a new file, or merged into the file that is there.

A merge compares with the most similar memory of the same type and title alone: if both say the same, the one with the
higher confidence stays (in a tie the one that is there); else the new one is added. It counts as an extraction. New
text is indented by two spaces, unescaped, with a final newline; everything that was there keeps its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from memoryd.core.dates import iso
from memoryd.core.json_elements import addition, setting
from memoryd.core.records import Record
from memoryd.core.similarity import tokens
from memoryd.core.text import Edit, Span
from memoryd.layouts.one_document import look, text_of
from memoryd.layouts.session_files.merging import THRESHOLD, Said, closest
from memoryd.layouts.session_files.naming import moment
from memoryd.layouts.session_files.reading import Session, key_of, take_apart
from memoryd.layouts.session_files.schema import confidence


class Merged(NamedTuple):
    """What happened to the new memory (`kept`: the one that is there stays), and where it, or the one that stands
    for it, is among the elements."""

    outcome: Literal["added", "replaced", "kept"]
    place: int
    edits: tuple[Edit, ...]


def new_session(session: str, memory: Mapping[str, Any] | None, now: float) -> bytes:
    """The text of a session file that holds this one memory, or none yet. The stamp is that of the session's id."""
    begun = moment(session[:19])
    content = {
        "session_id": session,
        "timestamp": iso(now if begun is None else begun),
        "last_updated": iso(now),
        "extraction_count": 1,
        "memories": [] if memory is None else [memory],
        "suggestions": [],
    }
    return _rendered(content, 0) + b"\n"


def merge_memory(data: bytes, memory: Mapping[str, Any], now: float, threshold: Fraction = THRESHOLD) -> Merged | None:
    """The edits that store `memory` in the session's text; None where the text is no session that can be edited."""
    whole = look(data)
    session = take_apart(data, whole.value) if whole.value is not None and whole.rest is None else None
    if session is None:
        return None
    match = _match(session, memory, threshold)
    extraction = _extraction(data, session, now)
    text = _rendered(memory, 4)
    if match is None:
        added = addition(data, session.array, session.elements, [text], b"    ")
        return Merged("added", len(session.elements), (added, *extraction))
    if confidence(memory) <= confidence(match.record.native):
        return Merged("kept", match.place, extraction)
    return Merged("replaced", match.place, (Edit(match.record.span, text), *extraction))


def _match(session: Session, memory: Mapping[str, Any], threshold: Fraction) -> Said | None:
    new = _said(-1, memory, Span(0, 0))
    there = [
        _said(place, native, session.elements[place])
        for place, native in enumerate(session.native["memories"])
        if isinstance(native, dict) and key_of(native) == key_of(memory)
    ]
    return closest(new, (said for said in there if new.says(said, threshold)))


def _said(place: int, native: Mapping[str, Any], span: Span) -> Said:
    content = text_of(native, "content")
    record = Record(span, 1, "", text_of(native, "type"), "", None, None, (), False, native)
    return Said(place, record, content, tokens(content))


def _extraction(data: bytes, session: Session, now: float) -> tuple[Edit, ...]:
    """`last_updated` and `extraction_count` of one more extraction."""
    count = session.native.get("extraction_count")
    known = count if isinstance(count, int) and not isinstance(count, bool) else 0
    brace = session.value.start
    return (
        setting(data, session.members, brace, "last_updated", json.dumps(iso(now)).encode()),
        setting(data, session.members, brace, "extraction_count", str(known + 1).encode()),
    )


def _rendered(value: Mapping[str, Any], depth: int) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.replace("\n", "\n" + " " * depth).encode("utf-8", "replace")
