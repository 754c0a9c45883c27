"""Healing topic files by exact edits: nothing is reordered, reworded or taken out.

Only one thing can be healed so: an entry glued to the `---` (or the italic last line) above it, as happens when
somebody appends to a file without a final newline. It gets its newline, and with it becomes an entry.
"""

from __future__ import annotations

from memoryd.core.text import Edit, Span
from memoryd.layouts.base import Fix, Loaded
from memoryd.layouts.markdown_topics.blocks import newline_of, outline
from memoryd.layouts.markdown_topics.checking import glued
from memoryd.layouts.markdown_topics.naming import ARCHIVE
from memoryd.layouts.markdown_topics.reading import ENTRY, read_document


def fixes(path: str, loaded: Loaded) -> tuple[Fix, ...]:
    data = loaded.data
    found: list[Fix] = []
    for line, at in glued(outline(data, shelved=path.startswith(ARCHIVE))):
        spot = Span(line.start + at, line.start + at)
        why = f"line {line.number}: a newline before the entry that is glued to it"
        found.append(Fix("glued-heading", (Edit(spot, newline_of(data) * 2),), why))
    return tuple(found)


def recover(path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
    """An emptied file gets back what its newest good backup holds, without the entries that were archived since.

    Markdown never is corrupt beyond reading: a file that holds anything is left to a person."""
    if loaded.data.strip():
        return None
    old = read_document(path, backup, now=now, mtime=0.0)
    back, at = b"", 0
    for record in old.records:
        if record.type == ENTRY and record.id in archived:
            back += backup[at : record.span.start]
            at = record.span.end
    back += backup[at:]
    ids = tuple(record.id for record in old.records if record.id not in archived)
    if not ids:
        return None
    whole = Span(0, len(loaded.data))
    return Fix("emptied-file", (Edit(whole, back),), f"{len(ids)} memories back from the backup", ids, safe=False)
