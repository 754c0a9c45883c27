"""Split text into words: for the index (one normal form for memories and queries), and for comparing two texts.

The index splits at ASCII characters that are neither letters nor digits and treats everything beyond ASCII as a letter,
so other characters beyond ASCII are removed here first. Case, accents and width are folded, but endings are kept, so
that the vocabulary of the index shows the real words.

- In scripts without spaces (Chinese, Japanese, Thai, Khmer ...) every character is a word; a phrase of them works like
  a substring.
- Symbols and emoji are words; `C++` and `C#` get a word in addition to their letters.
- `foo_bar`, `1.0.21`, `ICC-REVIEW` and paths are phrases of their parts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

VERSION = f"2 {unicodedata.unidata_version}"
"""The version of these rules and of Unicode; an index made with another version is rebuilt."""

_BEYOND = re.compile(r"[^\x00-\x7f]+")
_TOKEN = re.compile(r"[0-9a-z\u0080-\U0010ffff]+")
_PLAIN = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
# Private-use characters replace the signs, so that the index takes them for letters.
_SIGNS = re.compile(r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9]{0,15})(\+\+|#)(?![A-Za-z0-9+#])")
_SIGN = {"++": "\ue000", "#": "\ue001"}
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # kana
    (0x3100, 0x312F),
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),  # rare kana
    (0x20000, 0x3FFFF),
)
# Marks that writers may omit: accents, Hebrew points, Arabic vowels and the stretching bar.
_OPTIONAL = ((0x0300, 0x036F), (0x0591, 0x05BD), (0x0640, 0x0640), (0x064B, 0x065F), (0xFE00, 0xFE0F))
_ZERO_WIDTH_SPACE = 0x200B  # separates words in scripts without spaces


class _Letters(dict[int, str]):
    """A cache of what each character beyond ASCII is replaced by."""

    def __init__(self, make: Callable[[int], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, code: int) -> str:
        self[code] = made = self._make(code)
        return made


def _indexed(code: int) -> str:
    """Return a character as it is stored in the index."""
    char = chr(code)
    kind = unicodedata.category(char)
    if _within(code, _OPTIONAL):
        return ""
    bare = "".join(each for each in unicodedata.normalize("NFD", char) if not _within(ord(each), _OPTIONAL))
    if bare != unicodedata.normalize("NFD", char):
        return bare
    if kind == "Cf":  # joiners, soft hyphens, directions
        return " " if code == _ZERO_WIDTH_SPACE else ""
    if kind[0] in "PZ" or kind in ("Cc", "Cs") or char in _SIGN.values():
        return " "
    return f" {char} " if kind[0] in "SC" or _within(code, _UNSPACED) else char


def _compared(code: int) -> str:
    """Return a character as it is compared: accents count, signs do not."""
    char = chr(code)
    if unicodedata.category(char)[0] not in "LMN":
        return " "
    return f" {char} " if _within(code, _UNSPACED) else char


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


_INDEXED, _COMPARED = _Letters(_indexed), _Letters(_compared)


def indexable(text: str) -> str:
    """Return the text as it is stored in the index, which folds the case of ASCII itself."""
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold()
        text = _BEYOND.sub(lambda run: run.group().translate(_INDEXED), folded)
    if "++" in text or "#" in text:
        text = _SIGNS.sub(lambda found: f"{found[1]} {found[1]}{_SIGN[found[2]]}", text)
    return text


def tokens(text: str) -> list[str]:
    """Return the words of a text in order, as the index splits them."""
    if text.isascii() and "++" not in text and "#" not in text:
        return text.encode().translate(_PLAIN).decode().split()  # in a third of the time of the expression
    return _TOKEN.findall(indexable(text.lower() if text.isascii() else text))


def compared_words(text: str) -> list[str]:
    """Return the words of a text in order, for comparison with another: accents count, signs do not."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _TOKEN.findall(
        folded if folded.isascii() else _BEYOND.sub(lambda run: run.group().translate(_COMPARED), folded)
    )


def unspaced(token: str) -> bool:
    """True for the single character of a script without spaces."""
    return len(token) == 1 and _within(ord(token), _UNSPACED)


_STOP = """
a about after all also am an and any are aren as at be because been before being but by can cannot could couldn did
didn do does doesn doing don done down during each few for from further get gets got had hadn has hasn have haven
having he her here hers him his how however i if in into is isn it its itself just ll let me more most much must my no
nor not now of off on once one only or other our ours out over own per please re s same shall she should shouldn so
some such t than that the their them then there these they this those through to too under until up upon us ve very was
wasn we were weren what when where whether which while who whom whose why will with within without would wouldn yet you
your yours
"""
STOP_WORDS = frozenset(_STOP.split())
"""English words that carry little information about the subject of a text, also those left of `it's` and `didn't`."""


def whole_text(title: str, body: str) -> str:
    """Return the text of a memory for its vector: title and body, or the body alone if it starts with the title.

    Labels and tags are left out: what many memories share makes all of them similar (tests.bench.finding --tagged).
    """
    head = "" if body.startswith(title.rstrip("….")) else title
    return "\n".join(part for part in (head, body) if part)
