"""The words of an index in memory, to find those that begin with, or contain, some letters.

They stay in UTF-8: a single emoji among them would quadruple a `str`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from itertools import chain

MAX_NEWER = 50  # memories that are split into words for one question
NEW_WORDS = 20  # bytes that a new memory adds to the word list
RELOAD = 300  # bytes of the word list that are loaded in the time in which a word is looked up without the list
LARGE = 30_000  # memories; loading the words of more takes longer than any question may
LONG = 11  # bytes; what is this long is looked for among the few words that are as long
LOAD = 12  # memories whose words are loaded in the time in which a new one is split into words


_BEYOND_ASCII = re.compile(rb"\n([ -~]*[\x80-\xff][^\n]*)")
_LONG = re.compile(rb"\n([^\n]{%d,})" % LONG)
_ALIKE = re.compile(rb"\n(..)[^\n]*(?:\n\1[^\n]*)*")  # neighbours with the same first two bytes
_SAME_LETTER = re.compile(rb"\n(.)[^\n]*(?:\n\1[^\n]*)*")  # with the same first one


class WordList:
    """The vocabulary of an index in memory, to find words by a part of them; shared by all its readers.

    It may contain words that have been deleted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._upto = -1  # the newest key it covers
        self._loaded = b""  # the vocabulary when it was loaded, in order, each word between newlines
        self._spans: dict[bytes, tuple[int, int]] = {}  # where its words with this first byte, or these first two, are
        self._newer: dict[str, None] = {}  # the words of memories since then
        self._words: bytes | None = None  # both
        self._loaded_long = b""  # the words of the vocabulary with at least LONG bytes, each between newlines
        self._long = b""  # these, and the newer ones
        self._loaded_beyond_ascii = b""  # the words of the vocabulary with letters beyond ASCII, in the same form
        self._beyond_ascii = b""  # these, and the newer ones
        self._missed = 0  # words that were looked up without it since then

    def words_up_to(
        self, last_key: int, vocabulary: Callable[[], bytes], words_after: Callable[[int], Iterable[str]]
    ) -> bytes:
        """Return the words of all memories up to this key, each between newlines. Newer memories are split into words
        (`words_after` a key); if there are very many, the whole `vocabulary` (one word a line) is loaded, which then
        takes less time."""
        with self._lock:
            return self._words_up_to(last_key, vocabulary, words_after)

    def words_containing(
        self,
        piece: str,
        limit: int,
        last_key: int,
        vocabulary: Callable[[], bytes],
        words_after: Callable[[int], Iterable[str]],
        *,
        beyond_ascii: bool = False,
    ) -> list[str] | None:
        """Return the words up to this key that contain `piece`, or end with it if it has a newline at its end; None if
        there are more than `limit`. With `beyond_ascii`, only those that have letters beyond ASCII."""
        with self._lock:
            words = self._words_up_to(last_key, vocabulary, words_after)
            letters = _utf8(piece)
            if beyond_ascii:
                words = self._beyond_ascii
            elif len(letters.rstrip(b"\n")) >= LONG:
                words = self._long
            return words_containing(words, letters, limit)

    def _words_up_to(
        self, last_key: int, vocabulary: Callable[[], bytes], words_after: Callable[[int], Iterable[str]]
    ) -> bytes:
        if self._upto < 0 or (last_key - self._upto) * LOAD > last_key:
            self._load(last_key, vocabulary)
        self._add_newer(last_key, words_after)
        if self._words is None:
            newer = [*map(_utf8, self._newer)]
            self._words = self._loaded + b"\n".join((*newer, b""))
            self._long = self._loaded_long + b"\n".join((*(word for word in newer if len(word) >= LONG), b""))
            beyond_ascii = (word for word in newer if not word.isascii())
            self._beyond_ascii = self._loaded_beyond_ascii + b"\n".join((*beyond_ascii, b""))
        return self._words

    def words_beginning(
        self,
        start: str,
        last_key: int,
        vocabulary: Callable[[], bytes],
        words_after: Callable[[int], Iterable[str]],
        *,
        end: str = "",
    ) -> list[str] | None:
        """Return the words that begin with `start` and end with `end`, in order; None if the list is not loaded or many
        memories are newer. After so many of these that loading would have taken less time, it is loaded; but that of a
        large index takes 0.2 s, and is left to the pause after a change."""
        with self._lock:
            if not self._covers(last_key, vocabulary, words_after):
                return None
            letters = _utf8(start)
            low, high = self._spans.get(letters[:2], (0, 0))
            found = _words_between(self._loaded, low, high, letters, _utf8(end))
            more = [word for word in self._newer if word.startswith(start) and word.endswith(end)]
        return sorted({*found, *more}) if more else found

    def known_words(
        self,
        words: Iterable[str],
        last_key: int,
        vocabulary: Callable[[], bytes],
        words_after: Callable[[int], Iterable[str]],
    ) -> list[str] | None:
        """Return those of the words that are in the list, in their order; None where `words_beginning` does."""
        with self._lock:
            if not self._covers(last_key, vocabulary, words_after):
                return None
            return [word for word in words if word in self._newer or self._has_loaded(_utf8(word))]

    def _has_loaded(self, word: bytes) -> bool:
        low, high = self._spans.get(word[:2], (0, 0))
        return self._loaded.find(b"\n%b\n" % word, low, high + 1) >= 0

    def _covers(
        self, last_key: int, vocabulary: Callable[[], bytes], words_after: Callable[[int], Iterable[str]]
    ) -> bool:
        """Bring the list up to this key; False if it is not loaded, or many memories are newer."""
        newer = last_key - self._upto
        if self._upto < 0 or newer > MAX_NEWER:
            self._missed += 1
            if last_key > LARGE or self._missed * RELOAD < len(self._loaded) + NEW_WORDS * newer:
                return False
            self._load(last_key, vocabulary)
        self._add_newer(last_key, words_after)
        return True

    def _load(self, last_key: int, vocabulary: Callable[[], bytes]) -> None:
        words = vocabulary()
        self._loaded, self._newer = b"\n%b\n" % words if words else b"\n", {}
        neighbours = chain(_SAME_LETTER.finditer(self._loaded), _ALIKE.finditer(self._loaded))
        self._spans = {found[1]: found.span() for found in neighbours}
        self._loaded_long = b"\n".join((b"", *_LONG.findall(self._loaded), b""))
        self._loaded_beyond_ascii = b"\n".join((b"", *_BEYOND_ASCII.findall(self._loaded), b""))
        self._words, self._upto, self._missed = None, last_key, 0

    def _add_newer(self, last_key: int, words_after: Callable[[int], Iterable[str]]) -> None:
        if last_key > self._upto:
            self._newer.update(dict.fromkeys(words_after(self._upto)))
            self._words, self._upto = None, last_key


def _utf8(letters: str) -> bytes:
    """Return letters as they are looked for; a lone surrogate is in no word."""
    return letters.encode(errors="surrogatepass")


def _words_between(words: bytes, low: int, high: int, start: bytes, end: bytes) -> list[str]:
    """Return the words that begin with `start` and end with `end`, of those in this range."""
    first = words.find(b"\n" + start, low, high)
    if first < 0:
        return []
    last = words.rfind(b"\n" + start, first, high)
    found = words[first : words.index(b"\n", last + 1) + 1]
    return (words_containing(found, end + b"\n", len(found)) or []) if end else found[1:-1].decode().split("\n")


def words_containing(words: bytes, piece: bytes, limit: int) -> list[str] | None:
    """Return the words (each between newlines) that contain `piece`; None if there are more than `limit`."""
    found: list[str] = []
    at = words.find(piece)
    while at >= 0:
        if len(found) == limit:
            return None
        end = words.find(b"\n", at)
        found.append(words[words.rfind(b"\n", 0, at) + 1 : end].decode())
        at = words.find(piece, end)
    return found
