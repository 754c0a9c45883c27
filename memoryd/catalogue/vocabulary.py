"""The words of the index in memory, for finding those that hold a given piece. Made when first asked for.

It may hold words that are gone, and lacks those of memories that came in after it was made; both are known by the
key it was made at, since keys are never used again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

MOST_NEW = 2_000  # memories that came in since; looking at more of them costs more than making it anew


class Vocabulary:
    """Shared by all readers of a catalogue."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._made: tuple[int, str] | None = None

    def made(self, last_key: int, words: Callable[[], Iterable[str]]) -> tuple[int, str]:
        """The key of the last memory whose words are in it, and all words, each between newlines."""
        with self._making:
            if self._made is None or last_key - self._made[0] > MOST_NEW:
                self._made = last_key, "\n".join(("", *words(), ""))
            return self._made


def holding(words: str, piece: str, most: int) -> list[str] | None:
    """The words that hold the piece; None for more than `most`."""
    found: list[str] = []
    at = words.find(piece)
    while at >= 0:
        if len(found) == most:
            return None
        end = words.find("\n", at)
        found.append(words[words.rfind("\n", 0, at) + 1 : end])
        at = words.find(piece, end)
    return found
