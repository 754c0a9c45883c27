"""The questions that search is judged by, fixed before any table was made.

`paraphrases` share at most one word with the memory they ask for (half of them none) and are no riddles: they were
reworded until MiniLM, a model of 22 MB and the teacher of the table, had more than eight of ten at the first place.
`keywords` name a rare word or an exact phrase of
it, `mixed` are what agents mostly ask: some words are shared, some are not. `distractors` are memories that answer
none of them, spelled out from the patterns of `distractors.txt` in an order that never changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import gcd
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
EACH = 10  # memories made of one pattern, spread over all it can say

_CHOICE = re.compile(r"\{([^}]*)\}")
_WORD = re.compile(r"\w+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "ly", "s", "e", "y")
_STOP = frozenset(
    _WORD.findall(
        "a about after all am an and any are as at be because been before but by can cannot could did do does "
        "doing done for from get give go got had has have he her here hers him his how i if in into is it its "
        "just let like made make may me might more most much must my no nor not of off on once one only or "
        "other our out over own per put s said same shall she should so some still such t take than that the "
        "their them then there these they this those to too until up us use used uses was we were what when "
        "where which while who whom whose why will with without would yet you your user "
    )
)


class Asked(NamedTuple):
    question: str
    memory: str


def _read(name: str, key: str) -> list[Asked]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [Asked(row[key], row["memory"]) for row in map(json.loads, lines)]


def paraphrases() -> list[Asked]:
    return _read("paraphrases.jsonl", "question")


def keywords() -> list[Asked]:
    return _read("keywords.jsonl", "query")


def mixed() -> list[Asked]:
    return _read("mixed.jsonl", "query")


def distractors(each: int = EACH) -> list[str]:
    """`each` different memories of every pattern."""
    patterns = (HERE / "distractors.txt").read_text(encoding="utf-8").splitlines()
    return [memory for pattern in patterns for memory in _spelled_out(pattern, each)]


def _spelled_out(pattern: str, wanted: int) -> Iterator[str]:
    """The choices are digits of a number that walks through all numbers in steps prime to their count."""
    choices = [found.split("|") for found in _CHOICE.findall(pattern)]
    total = 1
    for options in choices:
        total *= len(options)
    step = max(1, int(total * 0.618))
    while gcd(step, total) != 1:
        step += 1
    for turn in range(min(wanted, total)):
        number, picked = turn * step % total, []
        for options in choices:
            number, digit = divmod(number, len(options))
            picked.append(options[digit])
        left = iter(picked)
        yield _CHOICE.sub(lambda _, left=left: next(left), pattern)  # type: ignore[misc]  # a default binds it now


def content_words(text: str) -> set[str]:
    """Words that say something, without their endings: two texts share one of them where a search by words might."""
    return {_stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP}


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
