"""How good the rules are, measured on the corpus: what is found of the shapes, and what is found where nothing is."""

from __future__ import annotations

import re
from typing import NamedTuple

from memoryd.core.secrets import find_secrets, redact
from tests.secrets.corpus import HALVES, Shape, harmless, shapes

_PIECE = 10  # characters; a shorter value must not be left whole
_MARK = re.compile(r"\[redacted:[a-z0-9-]+\]")


class Figures(NamedTuple):
    found: int
    shapes: int
    alarms: int
    harmless: int


def is_found(shape: Shape) -> bool:
    """At the level expected of it, with no piece of its value left in the redacted text."""
    rest = _MARK.sub("", redact(shape.text))
    size = min(_PIECE, len(shape.value))
    pieces = (shape.value[at : at + size] for at in range(len(shape.value) - size + 1))
    return any(each.level == shape.level for each in find_secrets(shape.text)) and not any(p in rest for p in pieces)


def is_alarm(text: str) -> bool:
    return redact(text) != text or any(find_secrets(text))


def figures(half: str) -> Figures:
    ours, theirs = shapes(half), harmless(half)
    return Figures(sum(map(is_found, ours)), len(ours), sum(map(is_alarm, theirs)), len(theirs))


def rows() -> list[tuple[str, str, str]]:
    """As the README shows them: half, shapes found, false alarms."""
    return [
        (half, _share(found, of), _share(alarms, texts))
        for half in HALVES
        for found, of, alarms, texts in [figures(half)]
    ]


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.1f} %)"
