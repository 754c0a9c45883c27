"""Words in other forms: which beginning of a word stands for all of them, and which words say next to nothing.

The index holds words as they are written. Where they are not found so, a question is asked again by beginnings:
`deploying` becomes `deploy*`, which finds deploy, deployed, deployment. Light on purpose: a beginning too short would
find anything.
"""

from __future__ import annotations

SHORTEST = 4  # letters of a beginning; three after a plural `s`
_LONG, _MIDDLE = 7, 5  # of a word in another alphabet: two letters of its ending go, or one

# The first that fits is cut off; what is left has to be long enough.
_ENDINGS = (
    "ational", "ization", "isation", "fulness", "ations", "ation", "ments", "ities", "ively", "ement", "ment",
    "ness", "ions", "ings", "able", "ible", "ally", "ing", "ion", "ies", "ied", "ity", "ers", "ors", "ive", "ful",
    "est", "ed", "er", "or", "es", "ly", "al", "y", "s", "e",
)  # fmt: skip
_PLURALS = ("s", "ies", "ied")
_NO_PLURALS = ("ss", "us", "is")
_DOUBLING = ("ing", "ings", "ed", "er", "ers")
_HANGUL = ("\uac00", "\ud7a3")

_STOP = """
a about after all also am an and any are as at be because been before being but by can cannot could did do does
doing don done down during each few for from further get gets got had has have having he her here hers him his
how however i if in into is it its itself just ll let me more most much must my no nor not now of off on once
one only or other our ours out over own per please re same shall she should so some such t than that the their
them then there these they this those through to too under until up upon us ve very was we were what when where
whether which while who whom whose why will with within without would yet you your yours
"""
STOP_WORDS = frozenset(_STOP.split())


def beginning(word: str) -> str | None:
    """What all forms of the word begin with; None where only the word itself will do."""
    if word.isascii():
        return _english(word) if word.isalpha() and len(word) >= SHORTEST else None
    if not word.isalpha():
        return None
    if _HANGUL[0] <= word[-1] <= _HANGUL[1]:
        return word[:-1] if len(word) > 2 else word  # particles are written onto the word
    return word[: -2 if len(word) >= _LONG else -1] if len(word) >= _MIDDLE else None


def _english(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and not (ending == "s" and word.endswith(_NO_PLURALS)):
            left = word[: -len(ending)]
            if len(left) >= (SHORTEST - 1 if ending in _PLURALS else SHORTEST):
                return _undoubled(left) if ending in _DOUBLING else left
    return word


def _undoubled(left: str) -> str:
    """`running` begins like `run`; `calling` and `passing` do not lose a letter."""
    return left[:-1] if left[-1] == left[-2] and left[-1] not in "aeioulsz" else left
