"""Whether a word was drawn at random or made by a person: by how often the kind of its characters changes."""

from __future__ import annotations

import re

# A capitalised word counts as one piece, as names in code are made of them.
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PARTS = re.compile(r"[-_./:]")
_WORD = re.compile(r"[A-Z]?[a-z]*[0-9]{0,4}|[A-Z]*[0-9]{0,4}")
_MOST = 3.4  # characters a piece: random base64 has about 1.9, hexadecimal 2.1, small letters and digits 2.5, code 5


def random_looking(word: str, mixed: bool = False, most: float = _MOST) -> bool:
    """Letters and digits in short pieces; `mixed` asks for small and capital letters and digits at once."""
    pieces = _PIECES.findall(word)
    if len(pieces) < 3 or sum(map(len, pieces)) > most * len(pieces):
        return False
    parts = _PARTS.split(word)
    if len(parts) > 1 and all(map(_WORD.fullmatch, parts)):
        return False  # `my-app-tls-v2`: words, each with a number at most
    digits = any(character.isdigit() for character in word)
    if mixed:
        return digits and word.lower() != word and word.upper() != word
    return digits or (word.lower() != word and word.upper() != word)
