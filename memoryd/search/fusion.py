"""Both arms as one ranking. Pure: what was measured goes in, an order comes out.

Either arm can find a memory alone, and what both find counts more: the score is what is left when both doubts are
multiplied. All words in their order (the text arm's upper spans) are nearly sure; meaning is never quite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memoryd.search.candidates import Candidate
from memoryd.search.scoring import PART, PHRASE, SOME

POOL = 64  # memories near in meaning that are looked at more closely
WORDWISE = 0.3  # the share of single words in how near a meaning is, where they were compared
LOW, HIGH = 0.15, 0.95  # what is nearer than LOW counts; HIGH is as sure as meaning gets
SUREST = 0.9
# By meaning alone, what is farther away is not found. Where words were compared one by one, all right answers of
# tests/search are nearer than 0.4; by the whole texts of MiniLM 99 of 100 are nearer than 0.3.
FAINT, FAINT_WHOLE = 0.33, 0.25
# What some words in common tell beside meaning: half of a power of their share in all that the question's words could
# tell. A common word or two are next to nothing: heard more, they made answers to paraphrases worse (tests/search).
SOME_HEARD, SOME_POWER = 0.5, 2.5
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


def faint(meant: Meant) -> bool:
    """Too far away to be found by its meaning alone."""
    return nearness(meant) < (FAINT_WHOLE if meant.words is None else FAINT)


def meaning_score(meant: Meant) -> float:
    """0..1."""
    near = nearness(meant)
    return SUREST * min(max((near - LOW) / (HIGH - LOW), 0.0), 1.0) + max(near - HIGH, 0.0)  # the same still leads


def together(by_text: Sequence[Candidate], by_meaning: Mapping[int, Meant]) -> list[Candidate]:
    """Best first; of equals what came in last."""
    texts = {each.key: each for each in by_text}
    found = [
        _joined(key, texts.get(key), by_meaning.get(key))
        for key in {**texts, **by_meaning}
        if key in texts or not faint(by_meaning[key])
    ]
    return sorted(found, key=lambda each: (-each.score, -each.key))


def _joined(key: int, text: Candidate | None, meant: Meant | None) -> Candidate:
    why: dict[str, Any] = dict(text.why) if text else {}
    if meant is not None:
        why["semantic"] = meant.why()
    by_text = text.score if text else 0.0
    if meant is not None and why.get("match") in (SOME.name, PART.name):
        by_text = SOME_HEARD * float(why.get("text") or 0.0) ** SOME_POWER
    by_meaning = meaning_score(meant) if meant is not None else 0.0
    score = 1 - (1 - by_text) * (1 - by_meaning)
    exact = why.get("match") == PHRASE.name
    return Candidate(key, EXACT + (1 - EXACT) * score if exact else EXACT * score, why)
