"""Queries of an index: filters, and text to search for.

A new filter also needs its parameter in `control.methods.memories`, where `service.handlers.memories` reads it, and its
condition in `index.sqlite.memories`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Literal

from msgspec import Struct

Mode = Literal["text", "semantic", "hybrid"]
Rerank = Literal["off", "minilm"]


class Filters(Struct, frozen=True):
    """Conditions on memories, applied before ranking.

    `tags`: exact (`test` does not match `testing`); a memory must have all of them. `since`, `until`: creation times
    in epoch seconds, from `since` up to, but without, `until`. `archived`: include archived ones. `owner`: only
    memories of this user; None: of all.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    archived: bool = False
    owner: str | None = None


class Term(Struct, frozen=True, cache_hash=True):
    """A word as returned by `core.words.tokens`, or a sequence of words separated by single spaces.

    With `prefix`, the last word matches any word that starts with it. Each word of `forms` matches, too.
    """

    text: str
    prefix: bool = False
    forms: tuple[str, ...] = ()


TextMode = Literal["all", "any", "substring"]


class TextQuery(Struct, frozen=True):
    """A search in title, labels, tags and body. Every text is plain data without operators.

    `all`: memories with every term; those that also contain `phrase` come first and have the kind "phrase". Without
    terms, only these.
    `any`: memories with at least one term; the score is 1 for a full match of all terms in `scale` (default: `terms`).
    `substring`: memories that contain the text of at least one term, ignoring case; with `whole_words`, not inside a
    longer word. Those with the keys `without` are left out.
    """

    terms: tuple[Term, ...]
    mode: TextMode = "all"
    phrase: Term | None = None
    scale: tuple[Term, ...] = ()
    whole_words: bool = False
    without: Collection[int] = ()


_FEW = 5  # a term in at most this many memories is never too common


def informative_terms(terms: Sequence[Term], frequencies: Sequence[int], size: int, budget: int) -> list[Term]:
    """Return the informative terms, the rarest first, limited so that together at most `budget` memories contain them.

    The rarest term is always included. Terms in more than a tenth of `size` memories are too common.
    """
    rising = sorted(zip(terms, frequencies, strict=True), key=itemgetter(1))
    common = max(size / 10, _FEW)
    chosen = [each for each in rising if each[1] <= common] or rising[:1]
    total = 0
    for number, (_, frequency) in enumerate(chosen):
        total += frequency
        if total > budget and number:
            chosen = chosen[:number]
            break
    return [term for term, _ in chosen]
