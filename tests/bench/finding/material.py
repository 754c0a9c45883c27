"""The memories and questions of the benchmark.

`memories.txt` and `questions.txt` are written by hand and belong together; `others.txt` and the patterns of
`tests/search` are spelled out to any number of memories of 5 to 80 words that answer no question. Of each kind of
question every second one belongs to the half that values are chosen by; the rest is for reporting. The sets in
`held_out` and `held_out_2` to `held_out_9` are about other subjects. Few values were chosen with them in sight: those
of the newest memories, whose fault `held_out_3` showed, the limits of confidence, what dense questions lose of it, and
what rare words add.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

HERE = Path(__file__).parent
HELD_OUT = (HERE / "held_out", *(HERE / f"held_out_{number}" for number in range(2, 10)))
PATTERNS = HERE.parent.parent / "search" / "distractors.txt"
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0
OLDEST = 900  # days
SHORTEST, LONGEST = 5, 80  # words
SENTENCES = 6

CATEGORIES = ("general", "preference", "technical", "work", "process", "decision", "fact", "personal")
SHARED = (
    "project", "backend", "frontend", "infra", "team", "process", "decision", "bug", "workflow", "customer", "billing",
    "tooling", "release", "testing", "security", "performance", "personal", "planning", "docs", "operations",
)  # fmt: skip

Half = Literal["tune", "report", "all"]

_TAG = re.compile(r"[a-z]{4,}")
_CHOICE = re.compile(r"\{([^}]*)\}")


class Written(NamedTuple):
    """A memory; `age` in days before NOW."""

    name: str
    text: str
    age: float
    importance: float | None
    uses: int
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class Asked(NamedTuple):
    """A question and the names of the memories that answer it; none if nothing does."""

    kind: str
    text: str
    answers: tuple[str, ...]
    half: Half


def _rows(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [part.strip() for part in f"{line} ".split(" | ")]  # the last part may be empty


def memories(place: Path = HERE) -> list[Written]:
    return [
        Written(name, text, float(age), None if importance == "-" else float(importance), int(uses))
        for name, age, importance, uses, text in _rows(place / "memories.txt")
    ]


def questions(half: Half = "all", place: Path = HERE) -> list[Asked]:
    turn: Counter[str] = Counter()
    found: list[Asked] = []
    for kind, text, answers in _rows(place / "questions.txt"):
        found.append(Asked(kind, text, tuple(answers.split()), "report" if turn[kind] % 2 else "tune"))
        turn[kind] += 1
    return [each for each in found if half in ("all", each.half)]


def others(count: int, seed: int = 1) -> list[Written]:
    """`count` different memories that answer no question."""
    chance = random.Random(seed)
    about = [block.splitlines() for block in (HERE / "others.txt").read_text(encoding="utf-8").split("\n\n")]
    about[0] = [line for line in about[0] if not line.startswith("#")]
    mixed = PATTERNS.read_text(encoding="utf-8").splitlines()
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[_text(chance, chance.choice(about) if len(texts) % 2 else mixed)] = None
    return [
        Written(
            f"other-{number}",
            text,
            chance.uniform(0, OLDEST),
            chance.choice((None, *(tenth / 10 for tenth in range(1, 10)))),
            int(chance.expovariate(0.6)),
        )
        for number, text in enumerate(texts)
    ]


def tagged(written: Sequence[Written], seed: int = 1) -> list[Written]:
    """These memories, each with a category and three tags: up to two of its rarest words, and such as many share."""
    chance = random.Random(seed)
    words = [sorted(set(_TAG.findall(each.text.lower()))) for each in written]
    count = Counter(word for each in words for word in each)
    made: list[Written] = []
    for each, some in zip(written, words, strict=True):
        rarest = sorted(some, key=lambda word: (count[word], word))[:4]
        own = chance.sample(rarest, min(len(rarest), chance.choice((0, 1, 1, 2))))
        tags = (*own, *chance.sample(SHARED, 3 - len(own)))
        made.append(each._replace(labels=(chance.choice(CATEGORIES),), tags=tags))
    return made


def _text(chance: random.Random, sentences: Sequence[str]) -> str:
    """Some sentences that stand together, with one of the choices each time."""
    while True:
        first, count = chance.randrange(len(sentences)), chance.randint(1, SENTENCES)
        some = [*sentences[first:], *sentences[:first]][:count]
        text = _CHOICE.sub(lambda found: chance.choice(found[1].split("|")), " ".join(some))
        if SHORTEST <= len(text.split()) <= LONGEST:
            return text
