"""What may be stored: the seed's list for topic files, token shapes for everything, and warnings for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoryd.core.secrets.finding import find_secrets
from memoryd.core.secrets.spans import BLOCK, WARN, Secret

VIOLATION = "Security violation: Cannot store sensitive data"
SUGGESTION = "store where the value is kept or how to get it (such as the name of a variable), not the value itself"

# The seed's general words, which the one who stores may lift, and its tokens, which nobody lifts.
WORDS = ("password", "token", "key", "secret", "credential")
PREFIXES = ("ghp_", "sk-", "ak_")
TOKENS = (*PREFIXES, "-----BEGIN", "api_key", "@gmail.com", "amazonaws.com/key", "bearer ")

_PREFIX_AT_WORD = re.compile(r"(?<!\w)(?:ghp_|sk-|ak_)")


class Judgement(NamedTuple):
    """`blocked` names the first pattern that forbids to store a text, `warnings` the patterns of what looks like a
    secret all the same, each once, in order. Names of patterns, never what was found."""

    blocked: str | None
    warnings: tuple[str, ...] = ()


def judge(text: str, mode: str = "seed", allow_words: bool = False) -> Judgement:
    """Whether a text may be stored, and what to tell the one who stores it. For the modes see `check_sensitive`; with
    `off` nothing is blocked and nothing told."""
    if mode == "off":
        return Judgement(None)
    found = list(find_secrets(text))
    warned = dict.fromkeys(each.pattern for each in found if each.level == WARN)
    return Judgement(_blocked(text, found, allow_words, mode), tuple(warned))


def find_words(text: str) -> Iterator[Secret]:
    """The seed's general words wherever they stand, also inside other words."""
    lowered = text.lower()
    for word in WORDS:
        at = lowered.find(word)
        while at >= 0:
            yield Secret(word, at, at + len(word), WARN)
            at = lowered.find(word, at + len(word))


def check_sensitive(text: str, allow_words: bool = False, mode: str = "seed") -> str | None:
    """The name of the first pattern that forbids to store the text, None where it is clean.

    `seed`: the seed's list, case-insensitive on both sides, its three prefixes only where a word begins (`task-` and
    `break_` hold none), and token shapes. `literal`: the seed's list to the letter, prefixes anywhere. `shapes`: token
    shapes alone. `off`: nothing. `allow_words` lifts the five general words and nothing else."""
    return _blocked(text, find_secrets(text), allow_words, mode) if mode != "off" else None


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
