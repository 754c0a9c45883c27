"""Questions and notes as agents write them, made at random: the same ones in every run."""

from __future__ import annotations

import random
import re
from pathlib import Path

HERE = Path(__file__).parent
SPELLED, ASKED = 90_000, 60_000  # sentences from patterns, and from the words of other sentences

_LISTED = re.compile(r"@([a-z]+2?)")
_STOP = frozenset(
    re.findall(
        "[a-z]+",
        "the a an of to in is are and or for with that this it be by on as at from if not can will may which when you"
        " your has have was were its into than then also only any all each other such more most one two use used using"
        " no do does",
    )
)
_FORMS = (
    "how do we {}?", "how can I {}?", "why {}?", "what about {}?", "which {}?", "where {}?", "what is the {}?",
    "how does {} work?", "what did we decide about {}?", "why did {}?", "when {}?", "who {}?", "is there {}?",
    "{}", "{}", "what do we know about {}", "how to {}", "problem with {}",
)  # fmt: skip
_ODD_VERBS = {
    "crashes": "crash", "loses": "lose", "freezes": "freeze", "refuses": "refuse", "uses": "use", "arrives": "arrive",
    "drifts": "drift",
}  # fmt: skip


def lists() -> dict[str, list[str]]:
    lines = (HERE / "lists.txt").read_text(encoding="utf-8").splitlines()
    return {name: words.split("|") for name, words in (line.split(": ", 1) for line in lines)}


def made(general: list[str]) -> list[str]:
    """All of them, shuffled."""
    sentences = spelled_out(SPELLED) + of_words(general, ASKED)
    random.Random(13).shuffle(sentences)
    return sentences


def spelled_out(count: int) -> list[str]:
    """Patterns with something of a list at each `@name`; `@did2` is `@did` as it stands behind "does"."""
    source = random.Random(11)
    known, patterns = lists(), (HERE / "patterns.txt").read_text(encoding="utf-8").splitlines()

    def filled(match: re.Match[str]) -> str:
        return _infinitive(source.choice(known["did"])) if match[1] == "did2" else source.choice(known[match[1]])

    found: dict[str, None] = {}
    while len(found) < count:
        text = _LISTED.sub(filled, source.choice(patterns))
        found[text[0].upper() + text[1:] if source.random() < 0.7 else text] = None
    return list(found)


def _infinitive(did: str) -> str:
    for beginning, instead in (("is ", "be "), ("does ", "")):
        if did.startswith(beginning):
            return instead + did[len(beginning) :]
    verb, *rest = did.split(" ", 1)
    return " ".join([_ODD_VERBS.get(verb) or verb.removesuffix("s"), *rest])


def of_words(texts: list[str], count: int) -> list[str]:
    """Some words of a sentence, in their order, as a question."""
    source = random.Random(12)
    found: dict[str, None] = {}
    while len(found) < count:
        text = source.choice(texts).split(": ", 1)[-1]
        telling = [word for word in re.findall(r"[A-Za-z][A-Za-z']+", text) if word.lower() not in _STOP]
        if len(telling) < 2:
            continue
        many = source.randint(2, min(6, len(telling)))
        chosen = sorted(source.sample(range(len(telling)), many))
        found[source.choice(_FORMS).format(" ".join(telling[at] for at in chosen).lower())] = None
    return list(found)
