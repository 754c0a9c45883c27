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
NAMED = 0.9  # a name that few memories have is nearly as sure as all the words
EXACT = 0.99  # above: what says the question word by word; below: everything else


class Meant(NamedTuple):
    """`cosine` of the whole texts, `words` how well the question's words are met one by one (None: not compared);
    `named`: one of the few with a word of the question that has no meaning of its own."""

    cosine: float
    words: float | None
    model: str
    named: bool = False

    def why(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"model": self.model, "cosine": round(self.cosine, 4)}
        if self.words is not None:
            parts["words"] = round(self.words, 4)
        if self.named:
            parts["named"] = True
        return parts


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


def together(by_text: Sequence[Candidate], by_meaning: Mapping[int, Meant], limit: int) -> list[Candidate]:
    """At most `limit`, best first; of equals what came in last."""
    texts = {each.key: each for each in by_text}
    scores = [
        (_score(texts.get(key), by_meaning.get(key)), key)
        for key in {**texts, **by_meaning}
        if key in texts or not faint(by_meaning[key])
    ]
    scores.sort(reverse=True)
    return [Candidate(key, score, _why(texts.get(key), by_meaning.get(key))) for score, key in scores[:limit]]


def _score(text: Candidate | None, meant: Meant | None) -> float:
    by_text = text.score if text is not None else 0.0
    match = text.why.get("match") if text is not None else None
    if text is not None and meant is not None and match in (SOME.name, PART.name):
        by_text = NAMED if meant.named else SOME_HEARD * float(text.why.get("text") or 0.0) ** SOME_POWER
    by_meaning = meaning_score(meant) if meant is not None else 0.0
    score = 1 - (1 - by_text) * (1 - by_meaning)
    return EXACT + (1 - EXACT) * score if match == PHRASE.name else EXACT * score


def _why(text: Candidate | None, meant: Meant | None) -> dict[str, Any]:
    """What of both arms made the score."""
    why: dict[str, Any] = dict(text.why) if text is not None else {}
    return why if meant is None else {**why, "semantic": meant.why()}
