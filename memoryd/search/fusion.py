"""Both arms as one ranking. Pure: what was measured goes in, an order comes out.

Either arm can find a memory alone, and what both find counts more: the score is what is left when both doubts are
multiplied. All words in their order (the text arm's upper spans) are nearly sure; meaning is never quite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memoryd.search.candidates import Candidate
from memoryd.search.scoring import PART, PHRASE, SOME

POOL = 100  # memories near in meaning that are looked at more closely
WORDWISE = 0.5  # the share of single words in how near a meaning is, where they were compared
LOW, HIGH = 0.15, 0.95  # what is nearer than LOW counts; HIGH is as sure as meaning gets
SUREST = 0.9
FAINT = 0.33  # by meaning alone, what is farther away is not found: of 120 right answers none was (tests/search)
SOME_HEARD = 0.05  # what a word or two in common tell beside meaning: measured, more makes answers to paraphrases worse
EXACT = 0.99  # above: what says the question word by word; below: everything else


class Meant(NamedTuple):
    """`cosine` of the whole texts, `words` how well the question's words are met one by one (None: not compared)."""

    cosine: float
    words: float | None
    model: str

    def why(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"model": self.model, "cosine": round(self.cosine, 4)}
        return parts if self.words is None else {**parts, "words": round(self.words, 4)}


def nearness(meant: Meant) -> float:
    """-1..1."""
    return meant.cosine if meant.words is None else (1 - WORDWISE) * meant.cosine + WORDWISE * meant.words


def meaning_score(meant: Meant) -> float:
    """0..1."""
    near = nearness(meant)
    return SUREST * min(max((near - LOW) / (HIGH - LOW), 0.0), 1.0)


def together(by_text: Sequence[Candidate], by_meaning: Mapping[int, Meant]) -> list[Candidate]:
    """Best first; of equals what came in last."""
    texts = {each.key: each for each in by_text}
    found = [
        _joined(key, texts.get(key), by_meaning.get(key))
        for key in {**texts, **by_meaning}
        if key in texts or nearness(by_meaning[key]) >= FAINT
    ]
    return sorted(found, key=lambda each: (-each.score, -each.key))


def _joined(key: int, text: Candidate | None, meant: Meant | None) -> Candidate:
    why: dict[str, Any] = dict(text.why) if text else {}
    if meant is not None:
        why["semantic"] = meant.why()
    by_text = text.score if text else 0.0
    if meant is not None and why.get("match") in (SOME.name, PART.name):
        by_text *= SOME_HEARD
    by_meaning = meaning_score(meant) if meant is not None else 0.0
    score = 1 - (1 - by_text) * (1 - by_meaning)
    exact = why.get("match") == PHRASE.name
    return Candidate(key, EXACT + (1 - EXACT) * score if exact else EXACT * score, why)
