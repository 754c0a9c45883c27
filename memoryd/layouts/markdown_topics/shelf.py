"""The archive of a topic, one file a year: pruned entries, newest first, each under a line naming where it came from.

The bytes of an entry are kept. An entry whose text stands there already (from the same file, or from nobody knows
where) is not repeated, so that a crash between archive and topic file costs nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import takewhile
from typing import NamedTuple

from memoryd.core.text import Edit, Span, splice
from memoryd.layouts.markdown_topics.blocks import Outline, Section, newline_of, outline


class Moved(NamedTuple):
    """An entry on its way into the archive; `source` is the name of its topic file, `text` its own bytes."""

    id: str
    day: date
    source: str
    text: bytes


def missing(found: Outline, moves: Sequence[Moved]) -> list[Moved]:
    """The entries that the archive `found` does not hold yet, each once."""
    known: set[tuple[bytes | None, bytes]] = set()
    if any(bare(move.text) in found.data for move in moves):  # else no look at each entry is needed
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
    return edits if reads_back(found, moves, edits) else None


def _place(existing: bytes, found: Outline, day: date) -> int:
    older = next((section.block for section in found.sections if section.day <= day), None)
    if older is not None:
        return older
    if found.open_fence is None:
        return len(existing)
    # Whatever stood below a fence that never ends would be part of it.
    swallowing = [section.block for section in found.sections if section.block <= found.open_fence]
    return swallowing[-1] if swallowing else found.open_fence


def _blocks(existing: bytes, at: int, moves: Sequence[Moved]) -> bytes:
    """The entries as they go in at that offset. Only a newline that is missing is added, never one inside."""
    lead = at > 0 and existing[at - 1 : at] != b"\n"
    text = newline_of(existing) if lead else b""
    for move in moves:
        newline = newline_of(existing or move.text)
        text += b"<!-- from: " + written_name(move.source) + b" -->" + newline + move.text
        text += b"" if move.text.endswith(b"\n") else newline
    return text


def reads_back(before: Outline, moves: Sequence[Moved], edits: Sequence[Edit]) -> bool:
    """Every entry of the archive and every new one is found again, whole. What stands above the first edit or below the
    last one is the same bytes: there it is enough that the same entries are seen, without a look at their texts."""
    after = outline(splice(before.data, edits), shelved=True)
    first, last = edits[0].span.start, edits[-1].span.start
    by = len(after.data) - len(before.data)
    old, new = before.sections, after.sections
    above = _count(pair[0] == pair[1] and pair[0].end <= first for pair in zip(old, new, strict=False))
    old, new = old[above:], new[above:]
    below = _count(_shifted(*pair, by) and pair[0].start >= last for pair in zip(old[::-1], new[::-1], strict=False))
    wanted = Counter(_told(before, each) for each in old[: len(old) - below])
    wanted.update((written_name(move.source), move.day, bare(move.text)) for move in moves)
    return wanted == Counter(_told(after, each) for each in new[: len(new) - below])


def _count(alike: Iterable[bool]) -> int:
    """How many are, until one is not."""
    return sum(1 for _ in takewhile(bool, alike))


def _shifted(old: Section, new: Section, by: int) -> bool:
    return (old.start + by, old.end + by, old.day, old.source) == (new.start, new.end, new.day, new.source)


def _told(found: Outline, section: Section) -> tuple[bytes | None, date, bytes]:
    return section.source, section.day, _text(found.data, section)


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
