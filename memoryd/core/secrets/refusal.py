"""Rules for what may be stored: the list of the seed for topic files, token forms for all, warnings for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoryd.core.secrets.detect import find_secrets
from memoryd.core.secrets.secret import BLOCK, WARN, Secret

VIOLATION = "Security violation: Cannot store sensitive data"
SUGGESTION = "store where the value is kept or how to get it (such as the name of a variable), not the value itself"

# The general words of the seed, which the caller may allow, and its tokens, which are never allowed.
WORDS = ("password", "token", "key", "secret", "credential")
PREFIXES = ("ghp_", "sk-", "ak_")
TOKENS = (*PREFIXES, "-----BEGIN", "api_key", "@gmail.com", "amazonaws.com/key", "bearer ")

_PREFIX_AT_WORD = re.compile(r"(?<!\w)(?:ghp_|sk-|ak_)")


class Judgement(NamedTuple):
    """The verdict on a text, as names of patterns, never what they matched.

    `blocked`: the first pattern that forbids storing the text; None if it may be stored.
    `warnings`: patterns of likely secrets that do not forbid it, each once, in order.
    """

    blocked: str | None
    warnings: tuple[str, ...] = ()


def judge(text: str, mode: str = "seed", allow_words: bool = False) -> Judgement:
    """Decide whether a text may be stored.

    `seed`: the list of the seed, ignoring case, its three prefixes only at the start of a word (not in `task-` or
    `break_`), and token forms. `literal`: exactly the list of the seed, prefixes anywhere. `shapes`: token forms only.
    `off`: nothing, and no warnings. `allow_words` allows the five general words and nothing else.
    """
    if mode == "off":
        return Judgement(None)
    found = list(find_secrets(text))
    warned = dict.fromkeys(each.pattern for each in found if each.level == WARN)
    return Judgement(_blocked(text, found, allow_words, mode), tuple(warned))


def find_words(text: str) -> Iterator[Secret]:
    """Yield the general words of the seed wherever they occur, also inside other words."""
    lowered = text.lower()
    for word in WORDS:
        at = lowered.find(word)
        while at >= 0:
            yield Secret(word, at, at + len(word), WARN)
            at = lowered.find(word, at + len(word))


def _blocked(text: str, found: Iterable[Secret], allow_words: bool, mode: str) -> str | None:
    token = next((each.pattern for each in found if each.level == BLOCK), None)
    if mode == "shapes":
        return token
    lowered = text.lower()
    if mode == "literal":
        token = next((token for token in TOKENS if token.lower() in lowered), None)
    else:
        token = _token(lowered) or token
    if token is not None or allow_words:
        return token
    return next((word for word in WORDS if word in lowered), None)


def _token(lowered: str) -> str | None:
    at_word = _PREFIX_AT_WORD.search(lowered)
    if at_word is not None:
        return at_word.group()
    return next((token for token in TOKENS[len(PREFIXES) :] if token.lower() in lowered), None)
