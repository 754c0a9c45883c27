"""The archive of a topic, one file a year: pruned entries, newest first, each under a line naming where it came from.

The bytes of an entry are kept. An entry whose text stands there already (from the same file, or from nobody knows
where) is not repeated, so that a crash between archive and topic file costs nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from memoryd.core.text import Edit, Span, splice
from memoryd.layouts.markdown_topics.blocks import Outline, Section, newline_of, outline


class Moved(NamedTuple):
    """An entry on its way into the archive; `source` is the name of its topic file, `text` its own bytes."""

    id: str
    day: date
    source: str
    text: bytes


def missing(found: Outline, moves: Iterable[Moved]) -> list[Moved]:
    """The entries that the archive `found` does not hold yet, each once."""
    known = {(section.source, _text(found.data, section)) for section in found.sections}
    left: list[Moved] = []
    for move in moves:
        text = bare(move.text)
        named = (written_name(move.source), text)
        if named not in known and (None, text) not in known:
            known.add(named)
            left.append(move)
    return left


def insertions(found: Outline, moves: Sequence[Moved]) -> tuple[Edit, ...] | None:
    """Put each entry above the first one that is not newer; `moves` come newest first, so that what left the same
    file later stands above what left it earlier. None where the archive could not be read back with all of them."""
    existing = found.data
    blocks: dict[int, list[Moved]] = {}
    for move in sorted(moves, key=lambda each: each.day, reverse=True):
        blocks.setdefault(_place(existing, found, move.day), []).append(move)
    edits = tuple(Edit(Span(at, at), _blocks(existing, at, group)) for at, group in sorted(blocks.items()))
    return edits if _reads_back(found, moves, splice(existing, edits)) else None


def _place(existing: bytes, found: Outline, day: date) -> int:
    older = [section.block for section in found.sections if section.day <= day]
    if older:
        return older[0]
    if found.open_fence is None:
        return len(existing)
    # Whatever stood below a fence that never ends would be part of it.
    swallowing = [section.block for section in found.sections if section.block <= found.open_fence]
    return swallowing[-1] if swallowing else found.open_fence


def _blocks(existing: bytes, at: int, moves: Sequence[Moved]) -> bytes:
    """The entries as they go in at that offset. Only a newline that is missing is added, never one inside."""
    lead = at > 0 and not existing[:at].endswith(b"\n")
    text = newline_of(existing) if lead else b""
    for move in moves:
        newline = newline_of(existing or move.text)
        text += b"<!-- from: " + written_name(move.source) + b" -->" + newline + move.text
        text += b"" if move.text.endswith(b"\n") else newline
    return text


def _reads_back(before: Outline, moves: Sequence[Moved], after: bytes) -> bool:
    """Every entry of the archive and every new one is found again, whole."""
    wanted = Counter((section.source, section.day, _text(before.data, section)) for section in before.sections)
    wanted.update((written_name(move.source), move.day, bare(move.text)) for move in moves)
    there = Counter(
        (section.source, section.day, _text(after, section)) for section in outline(after, shelved=True).sections
    )
    return wanted == there


def _text(data: bytes, section: Section) -> bytes:
    return bare(data[section.start : section.end])


def bare(text: bytes) -> bytes:
    """An entry at the end of a file may lack the newline it gets above another one."""
    return text.rstrip(b"\r\n")


def written_name(source: str) -> bytes:
    """The file's name as it stands in a comment: what would end the comment or its line is percent-encoded."""
    raw = source.encode("utf-8", "surrogateescape").replace(b"-->", b"--%3E")
    return re.sub(rb"[\x00-\x1f\x7f]", lambda match: b"%%%02X" % match.group()[0], raw)


def sources(name: bytes) -> list[str]:
    """The names that the one in a comment may stand for: with `%..` read back, and to the letter."""
    raw = name.replace(b"--%3E", b"-->")
    raw = re.sub(rb"%(0[0-9A-F]|1[0-9A-F]|7F)", lambda match: bytes([int(match[1], 16)]), raw)
    return [each.decode("utf-8", "surrogateescape") for each in dict.fromkeys((raw, name))]
