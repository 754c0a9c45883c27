"""Vectors for what is stored, by the embedder of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memoryd.core.secrets import redact
from memoryd.search.embedding.embedder import Embedder, unpack


def vector_maker(
    embedder: Embedder, may_last: Callable[[], None] = lambda: None
) -> Callable[[str, int], Sequence[float] | None]:
    """(text, size) -> its vector, None where the embedder makes none of that size or the text says nothing to it.
    Raises EmbedderError where it cannot be had now. `may_last` is called before a slow one is asked."""

    def embed(text: str, size: int) -> Sequence[float] | None:
        if embedder.size != size:
            return None
        if not embedder.fast:
            may_last()
        numbers = [float(number) for number in unpack(embedder.embed([redact(text)])[0], size)]
        return numbers if any(numbers) else None

    return embed
