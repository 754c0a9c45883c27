"""Embeddings looked at in their text: how many numbers, are they finite, are they all zero.

They are never computed anew, and never dropped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from memoryd.core.json_elements import elements, skip_space
from memoryd.core.text import Span
from memoryd.layouts.user_document.vectors import Vector, numbers_in, packed

_NUMBERS = b"0123456789+-.eE, \t\r\n"
_NOT_ZERO = re.compile(rb"(?:^|[,\s])-?[0.]*+[1-9]")  # a digit of a mantissa, not of an exponent
_LONGEST = 300  # characters: a shorter number without an exponent is finite


class Embedding(NamedTuple):
    """`size` counts its numbers; `fault` says why it is of no use by itself."""

    size: int
    fault: str = ""


ABSENT = Embedding(0)


def looked_into(data: bytes, array: Span) -> tuple[Embedding, Vector | None]:
    """With its numbers, where their values alone show that nothing is wrong with them."""
    text = array.of(data)
    numbers = numbers_in(text)
    if numbers and math.isfinite(sum(numbers)) and any(numbers):
        return Embedding(len(numbers)), packed(numbers)
    return inspect(data, array), None


def inspect(data: bytes, array: Span) -> Embedding:
    """A value that a JSON parser has accepted."""
    if data[array.start : array.start + 1] != b"[":
        return ABSENT
    inner = data[array.start + 1 : array.end - 1]
    if not inner.strip():
        return ABSENT
    if inner.translate(None, _NUMBERS):
        return Embedding(len(elements(data, array)), "holds what is no finite number")
    numbers = inner.split(b",")
    if not _finite(inner, numbers):
        return Embedding(len(numbers), "holds a number without bound")
    if _NOT_ZERO.search(inner) is None:
        return Embedding(len(numbers), "holds nothing but zeros")
    return Embedding(len(numbers))


def _finite(inner: bytes, numbers: list[bytes]) -> bool:
    """Only a large exponent or a very long number can be without bound; those few are looked at one by one."""
    small = b"E" not in inner and (b"e" not in inner or inner.count(b"e") == inner.count(b"e-"))
    if small and max(map(len, numbers)) < _LONGEST:
        return True
    return all(math.isfinite(float(number)) for number in numbers)


def size_in(data: bytes, array: Span) -> int:
    """Of an embedding that is not looked at any further."""
    start, end = array.start + 1, array.end - 1
    if data[array.start : start] != b"[" or skip_space(data, start) >= end:
        return 0
    if data.find(b'"', start, end) < 0 and data.find(b"[", start, end) < 0 and data.find(b"{", start, end) < 0:
        return data.count(b",", start, end) + 1
    return len(elements(data, array))


def common_size(found: Iterable[int]) -> int:
    """The length most embeddings of a file have, of the lengths of all; 0 where there is none."""
    sizes = Counter(filter(None, found))
    return sizes.most_common(1)[0][0] if sizes else 0


def problem_of(found: Embedding, common: int) -> tuple[str, str] | None:
    """Finding code and message of an embedding that no vector work may use."""
    if found.size == 0:
        return "embedding-size", "embedding: missing or empty; text search finds this memory all the same"
    if found.size != common:
        return "embedding-size", f"embedding: {found.size} numbers where most of this file have {common}"
    return ("embedding-not-finite", f"embedding: {found.fault}") if found.fault else None
