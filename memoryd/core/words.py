"""How text becomes the words that it is found by: one normal form for what is indexed and for what is asked.

The index splits at everything ASCII that is neither letter nor digit, and takes everything beyond ASCII for a letter;
so whatever is no letter there is taken out here first. What is left is exact: case, accents and width are folded, but
no ending is cut, so that the vocabulary of the index tells what stands in the memories.

- Scripts without spaces (Chinese, Japanese, Thai, Khmer ...) give a word a character; asked for as a phrase, they are
  found like substrings.
- Symbols and emoji are words of their own; `C++`, `C#` have one beside their letters.
- `foo_bar`, `1.0.21`, `ICC-REVIEW` and paths are phrases of their parts.
"""

from __future__ import annotations

import re
import unicodedata

VERSION = f"1 {unicodedata.unidata_version}"
"""What the index was made by. With another version of these rules, or of Unicode, it has to be made anew."""

_BEYOND = re.compile(r"[^\x00-\x7f]+")
_TOKEN = re.compile(r"[0-9a-z\u0080-\U0010ffff]+")
# Private characters stand for the signs, so that they are letters of the index.
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
    (0x20000, 0x3FFFF),
)
# Marks that writers leave out as they like: accents, Hebrew points, Arabic vowels and the stretching bar.
_OPTIONAL = ((0x0300, 0x036F), (0x0591, 0x05BD), (0x0640, 0x0640), (0x064B, 0x065F), (0xFE00, 0xFE0F))
_ZERO_WIDTH_SPACE = 0x200B  # separates words where no space is written


class _Letters(dict[int, str]):
    """What each character beyond ASCII becomes, filled as they are met."""

    def __missing__(self, code: int) -> str:
        self[code] = made = _letter(code)
        return made


def _letter(code: int) -> str:
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


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


_LETTERS = _Letters()


def indexable(text: str) -> str:
    """The text as it goes into the index, which folds the case of ASCII itself."""
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold()
        text = _BEYOND.sub(lambda run: run.group().translate(_LETTERS), folded)
    if "++" in text or "#" in text:
        text = _SIGNS.sub(lambda found: f"{found[1]} {found[1]}{_SIGN[found[2]]}", text)
    return text


def tokens(text: str) -> list[str]:
    """The words of a text, in order, just as the index splits it."""
    return _TOKEN.findall(indexable(text.lower() if text.isascii() else text))


def unspaced(token: str) -> bool:
    """True for the single character of a script without spaces."""
    return len(token) == 1 and _within(ord(token), _UNSPACED)
