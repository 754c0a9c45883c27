"""The archive files of a topic: which entries they lack, and edits that insert these.

There is one file per year: entries newest first, each under a line that names its source file. The bytes of an entry
are preserved. An archive holds an entry if it has its text from the same file, or without a source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import takewhile
from typing import NamedTuple

from memoryd.core.spans import Edit, Span, splice
from memoryd.layouts.markdown_topics.outline import Outline, Section, newline_of, outline


class ArchivedEntry(NamedTuple):
    """An entry to archive; `source` is the name of its topic file, `text` its bytes."""

    id: str
    day: date
    source: str
    text: bytes


def missing_entries(structure: Outline, moves: Sequence[ArchivedEntry]) -> list[ArchivedEntry]:
    """Return the entries that the archive does not hold yet, each once."""
    present: set[tuple[bytes | None, bytes]] = set()
    if any(without_newline(move.text) in structure.data for move in moves):  # otherwise skip the comparison
        present = {(section.source, section_text(structure.data, section)) for section in structure.sections}
    missing: list[ArchivedEntry] = []
    for move in moves:
        text = without_newline(move.text)
        key = (escape_source(move.source), text)
        if key not in present and (None, text) not in present:
            present.add(key)
            missing.append(move)
    return missing


def archive_insertions(structure: Outline, moves: Sequence[ArchivedEntry]) -> tuple[Edit, ...] | None:
    """Return the edits that insert each entry above the first one that is not newer, or None if the result would not
    parse back to all entries. `moves` come newest first, so later entries of a file stay above earlier ones."""
    existing = structure.data
    blocks: dict[int, list[ArchivedEntry]] = {}
    for move in sorted(moves, key=lambda each: each.day, reverse=True):
        blocks.setdefault(_insertion_offset(existing, structure, move.day), []).append(move)
    edits = tuple(Edit(Span(at, at), _blocks(existing, at, group)) for at, group in sorted(blocks.items()))
    return edits if round_trips(structure, moves, edits) else None


def _insertion_offset(existing: bytes, structure: Outline, day: date) -> int:
    older = next((section.block for section in structure.sections if section.day <= day), None)
    if older is not None:
        return older
    if structure.open_fence is None:
        return len(existing)
    # Text below a fence that is never closed would be part of it.
    enclosing = [section.block for section in structure.sections if section.block <= structure.open_fence]
    return enclosing[-1] if enclosing else structure.open_fence


def _blocks(existing: bytes, at: int, moves: Sequence[ArchivedEntry]) -> bytes:
    """Return the entries as inserted at that offset. Only missing newlines are added."""
    lead = at > 0 and existing[at - 1 : at] != b"\n"
    text = newline_of(existing) if lead else b""
    for move in moves:
        newline = newline_of(existing or move.text)
        text += b"<!-- from: " + escape_source(move.source) + b" -->" + newline + move.text
        text += b"" if move.text.endswith(b"\n") else newline
    return text


def round_trips(before: Outline, moves: Sequence[ArchivedEntry], edits: Sequence[Edit]) -> bool:
    """Return True if the archive parses back to its entries and the new ones. Text above the first edit and below the
    last is unchanged, so only its structure is compared."""
    after = outline(splice(before.data, edits), archived=True)
    first, last = edits[0].span.start, edits[-1].span.start
    by = len(after.data) - len(before.data)
    old, new = before.sections, after.sections
    above = _count(pair[0] == pair[1] and pair[0].end <= first for pair in zip(old, new, strict=False))
    old, new = old[above:], new[above:]
    below = _count(_is_shifted(*pair, by) and pair[0].start >= last for pair in zip(old[::-1], new[::-1], strict=False))
    expected = Counter(_section_key(before, each) for each in old[: len(old) - below])
    expected.update((escape_source(move.source), move.day, without_newline(move.text)) for move in moves)
    return expected == Counter(_section_key(after, each) for each in new[: len(new) - below])


def _count(alike: Iterable[bool]) -> int:
    """Return how many of the leading items are True."""
    return sum(1 for _ in takewhile(bool, alike))


def _is_shifted(old: Section, new: Section, by: int) -> bool:
    return (old.start + by, old.end + by, old.day, old.source) == (new.start, new.end, new.day, new.source)


def _section_key(structure: Outline, section: Section) -> tuple[bytes | None, date, bytes]:
    return section.source, section.day, section_text(structure.data, section)


def section_text(data: bytes, section: Section) -> bytes:
    """Return the text of an entry without trailing line breaks."""
    return without_newline(data[section.start : section.end])


def without_newline(text: bytes) -> bytes:
    """Return the text without trailing line breaks, which an entry at the end of a file may lack."""
    return text.rstrip(b"\r\n")


def escape_source(source: str) -> bytes:
    """Return a file name for use in a comment; text that would end the comment or the line is percent-encoded."""
    raw = source.encode("utf-8", "surrogateescape").replace(b"-->", b"--%3E")
    return re.sub(rb"[\x00-\x1f\x7f]", lambda match: b"%%%02X" % match.group()[0], raw)


def unescape_source(name: bytes) -> list[str]:
    """Return the names that a comment may stand for: decoded, and as written."""
    raw = name.replace(b"--%3E", b"-->")
    raw = re.sub(rb"%(0[0-9A-F]|1[0-9A-F]|7F)", lambda match: bytes([int(match[1], 16)]), raw)
    return [each.decode("utf-8", "surrogateescape") for each in dict.fromkeys((raw, name))]
