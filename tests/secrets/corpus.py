"""The corpus that the rules for secrets are measured by: shapes of real makers with made-up values, and harmless lines.

`shapes.txt`: `LEVEL<tab>NAME<tab>TEXT`, one a line. LEVEL is what is expected of it: `block` for what is recognised by
its own form, `warn` for what only its surroundings tell. What must not be repeated stands between ⟦ and ⟧ and was
drawn at random; ⏎ is a newline. A broken bar (¦) stands in every value at least every ten characters, so that no
scanner of repositories takes the file for a leak; it is taken out here and belongs to no value.

`harmless.txt`: one line each, as agents write them into their memories. Nothing in it may be found at any level.

Both were written and committed before the rules. Each is split in two by the hash of its text: rules are tuned on
`TUNING` alone, `HELD_OUT` is only measured.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TUNING, HELD_OUT = "tuning", "held out"
HALVES = (TUNING, HELD_OUT)


class Shape(NamedTuple):
    """`value` is the part of `text` that must not be repeated."""

    level: str
    name: str
    text: str
    value: str


def half_of(text: str) -> str:
    return HALVES[sha256(text.encode()).digest()[0] % 2]


def _shape(line: str) -> Shape:
    level, name, marked = line.replace("¦", "").replace("⏎", "\n").split("\t", 2)
    before, _, rest = marked.partition("⟦")
    value, _, after = rest.partition("⟧")
    return Shape(level, name, before + value + after, value)


def _lines(name: str) -> list[str]:
    return (HERE / name).read_text(encoding="utf-8").splitlines()


SHAPES: tuple[Shape, ...] = tuple(map(_shape, _lines("shapes.txt")))
HARMLESS: tuple[str, ...] = tuple(_lines("harmless.txt"))


def shapes(half: str) -> list[Shape]:
    return [each for each in SHAPES if half_of(each.text) == half]


def harmless(half: str) -> list[str]:
    return [each for each in HARMLESS if half_of(each) == half]
