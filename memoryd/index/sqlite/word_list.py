"""The words of an index in memory, to find those that begin with, or contain, some letters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

MAX_NEWER = 50  # memories that are split into words for one question
NEW_WORDS = 20  # characters that a new memory adds to the word list
RELOAD = 300  # characters of the word list that are loaded in the time in which a word is looked up without the list
LOAD = 12  # memories whose words are loaded in the time in which a new one is split into words


class WordList:
    """The vocabulary of an index in memory, to find words by a part of them; shared by all its readers.

    It may contain words that have been deleted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._upto = -1  # the newest key it covers
        self._loaded = ""  # the vocabulary when it was loaded, in order, each word between newlines
        self._spans: dict[str, tuple[int, int]] = {}  # where its words with these first two letters are
        self._newer: dict[str, None] = {}  # the words of memories since then
        self._words: str | None = None  # both
        self._missed = 0  # words that were looked up without it since then

    def words_up_to(
        self, last_key: int, vocabulary: Callable[[], str], words_after: Callable[[int], Iterable[str]]
    ) -> str:
        """Return the words of all memories up to this key, each between newlines. Newer memories are split into words
        (`words_after` a key); if there are very many, the whole `vocabulary` (one word a line) is loaded, which then
        takes less time."""
        with self._lock:
            if self._upto < 0 or (last_key - self._upto) * LOAD > last_key:
                self._load(last_key, vocabulary)
            self._add_newer(last_key, words_after)
            if self._words is None:
                self._words = self._loaded + "\n".join((*self._newer, ""))
            return self._words

    def words_beginning(
        self,
        start: str,
        last_key: int,
        vocabulary: Callable[[], str],
        words_after: Callable[[int], Iterable[str]],
    ) -> list[str] | None:
        """Return the words that begin with `start`, in order; None if the list is not loaded or many memories are
        newer. After so many of these that loading would have taken less time, it is loaded."""
        with self._lock:
            newer = last_key - self._upto
            if self._upto < 0 or newer > MAX_NEWER:
                self._missed += 1
                if self._missed * RELOAD < len(self._loaded) + NEW_WORDS * newer:
                    return None
                self._load(last_key, vocabulary)
            self._add_newer(last_key, words_after)
            pair = start[:2]
            span = self._spans.get(pair) or self._spans.setdefault(pair, _span(self._loaded, pair))
            found = _words_between(self._loaded, span, start)
            more = [word for word in self._newer if word.startswith(start)]
        return sorted({*found, *more}) if more else found

    def _load(self, last_key: int, vocabulary: Callable[[], str]) -> None:
        words = vocabulary()
        self._loaded, self._spans, self._newer = f"\n{words}\n" if words else "\n", {}, {}
        self._words, self._upto, self._missed = self._loaded, last_key, 0

    def _add_newer(self, last_key: int, words_after: Callable[[int], Iterable[str]]) -> None:
        if last_key > self._upto:
            self._newer.update(dict.fromkeys(words_after(self._upto)))
            self._words, self._upto = None, last_key


def _span(words: str, start: str) -> tuple[int, int]:
    """Return the range of the words (in order, each between newlines) that begin with `start`, from the newline before
    the first one to that after the last one."""
    low = _before(words, start, 0)
    return low, _before(words, start[:-1] + chr(ord(start[-1]) + 1), low)


def _words_between(words: str, span: tuple[int, int], start: str) -> list[str]:
    """Return the words that begin with `start`, of those in this range."""
    low, high = span
    first = words.find(f"\n{start}", low, high)
    if first < 0:
        return []
    last = words.rfind(f"\n{start}", first, high)
    return words[first + 1 : words.index("\n", last + 1)].split("\n")


def _before(words: str, limit: str, low: int) -> int:
    """Return the offset of the newline before the first word that is not less than `limit`. `low`: such an offset of a
    word that is less, or 0."""
    high = len(words) - 1
    while low < high:
        middle = words.rfind("\n", low, (low + high) // 2 + 1)
        end = words.index("\n", middle + 1)
        if words[middle + 1 : end] < limit:
            low = end
        else:
            high = middle
    return low


def words_containing(words: str, piece: str, limit: int) -> list[str] | None:
    """Return the words (each between newlines) that contain `piece`; None if there are more than `limit`."""
    found: list[str] = []
    at = words.find(piece)
    while at >= 0:
        if len(found) == limit:
            return None
        end = words.find("\n", at)
        found.append(words[words.rfind("\n", 0, at) + 1 : end])
        at = words.find(piece, end)
    return found
