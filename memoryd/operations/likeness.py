"""Asking by a vector instead of words: one that is given, or that of a memory which is known already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.catalogue import Catalogue
from memoryd.core.asking import Filters
from memoryd.core.secrets import redact
from memoryd.errors import NotFoundError, UsageError
from memoryd.operations.search import Place, looked, of_one_user
from memoryd.search.embedding.embedder import numbers_in
from memoryd.search.semantic import Like, like_floats


class Known(NamedTuple):
    """A memory in the root `place`; `vector` is None where it has none."""

    place: str
    key: int
    vector: tuple[str, bytes] | None


def like_numbers(numbers: Sequence[object]) -> Like:
    """UsageError where they make no vector."""
    given = [float(each) for each in numbers if isinstance(each, int | float) and not isinstance(each, bool)]
    if not given or len(given) != len(numbers) or not all(map(math.isfinite, given)) or not any(given):
        raise UsageError("vector: is no list of finite numbers that are not all zero")
    return like_floats(given)


def like_memory(places: Sequence[Place], identity: str, user: str | None) -> tuple[Like, tuple[str, int]]:
    """The vector of the memory with this id, and the memory itself (root, key). Raises NotFoundError, and UsageError
    where it has none."""
    found = [each for place in places for each in _known(place, identity, user)]
    if not found:
        raise NotFoundError(f"no memory bears the id {redact(identity)}", hint="`memoryd search` prints ids")
    for known in found:
        if known.vector is not None:
            model, vector = known.vector
            return Like(vector, numbers_in(model, vector), model), (known.place, known.key)
    raise UsageError(f"memory {redact(identity)} has no vector", hint="embedder in [search] says what makes them")


def _known(place: Place, identity: str, user: str | None) -> list[Known]:
    def look(reader: Catalogue) -> list[Known]:
        filters = of_one_user(reader, Filters(archived=True), user, {})
        if filters is None:
            return []
        keys = reader.vectors.keys_of(identity)
        allowed = reader.vectors.allowed(filters, keys)
        return [Known(place.name, key, reader.vectors.of(key)) for key in keys if key in allowed]

    return looked(place, {}, look)
