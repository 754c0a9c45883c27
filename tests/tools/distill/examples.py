"""Memories, and questions about them in other words: written to refine the table with, and for nothing else.

Files in `examples/`: blocks of lines, separated by empty ones. A block has one memory (`M:`) and questions that it
answers, in other words (`P:`) and with some of its own (`K:`), or several memories and broad questions (`B:`) that each
of them answers in part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).parent / "examples"
MEMORY, QUESTIONS = "M", ("P", "K", "B")


class Block(NamedTuple):
    """Memories, and questions that each of them answers."""

    memories: list[str]
    questions: list[str]


def read(place: Path = EXAMPLES) -> list[Block]:
    """Return the blocks of all files. Raises ValueError for a malformed line or block."""
    return [block for path in sorted(place.glob("*.txt")) for block in _blocks(path)]


def _blocks(path: Path) -> Iterator[Block]:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    for full, some in groupby(lines, key=lambda line: bool(line[1])):
        if full:
            pairs = [_kind_and_text(path, *line) for line in some]
            block = Block(
                [text for kind, text in pairs if kind == MEMORY], [text for kind, text in pairs if kind != MEMORY]
            )
            if not all(block):
                raise ValueError(f"{path}: a block without a memory or without a question: {pairs[0][1]}")
            yield block


def _kind_and_text(path: Path, number: int, line: str) -> tuple[str, str]:
    kind, _, text = line.partition(": ")
    if kind not in (MEMORY, *QUESTIONS) or not text.strip():
        raise ValueError(f"{path}:{number}: not a memory or a question: {line}")
    return kind, text
