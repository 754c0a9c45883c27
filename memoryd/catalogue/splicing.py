"""One place of a file of lines changed: what stood there goes, what is below moves."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from memoryd.core.text import Span


class Hole(NamedTuple):
    """`lines` lines at `span` (bytes of the file before) became `new_bytes` in `new_lines`."""

    span: Span
    lines: int
    new_bytes: int
    new_lines: int


def make_room(db: sqlite3.Connection, path: bytes, hole: Hole) -> None:
    """Records of the hole go, those below it move. Findings name their line in words, so a file that has some is none
    for this; the file's own row is the caller's."""
    start, end = hole.span.start, hole.span.end
    db.execute("DELETE FROM records WHERE path = ? AND start >= ? AND start < ?", (path, start, end))
    further, lower = hole.new_bytes - (end - start), hole.new_lines - hole.lines
    if further or lower:
        move = "UPDATE records SET start = start + ?, end = end + ?, line = line + ? WHERE path = ? AND start >= ?"
        db.execute(move, (further, further, lower, path, end))
