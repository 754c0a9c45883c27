"""Secrets in text: recognised by their shape, named by a pattern, and never repeated.

Two uses. What lies on disk already is searched for unmistakable token shapes: findings name the pattern, and every
text that leaves the memory itself (catalogue, logs, events, messages) is passed through `redact` first. What somebody
wants to store into topic files is also held against the seed's list of words and prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

VIOLATION = "Security violation: Cannot store sensitive data"
SUGGESTION = "store where the value is kept or how to get it (such as the name of a variable), not the value itself"

# The seed's general words, which the one who stores may lift, and its tokens, which nobody lifts.
WORDS = ("password", "token", "key", "secret", "credential")
PREFIXES = ("ghp_", "sk-", "ak_")
TOKENS = (*PREFIXES, "-----BEGIN", "api_key", "@gmail.com", "amazonaws.com/key", "bearer ")

# One expression, so that overlapping shapes are one match: an authorisation header before the token in it.
_SHAPES = re.compile(
    r"(?P<bearer>\b[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8}[A-Za-z0-9._~+/=-]{20,})"
    r"|(?P<github_token>(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}))"
    r"|(?P<sk_token>(?<![A-Za-z0-9_])sk-(?=[A-Za-z0-9_-]{0,200}\d|[A-Za-z0-9]{16})[A-Za-z0-9_-]{16,})"
    r"|(?P<aws_access_key>(?<![A-Za-z0-9])AKIA[0-9A-Z]{16}(?![0-9A-Za-z]))"
    r"|(?P<slack_token>(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{10,})"
    # With its body: to the END line, or over whatever looks like base64 where that line is missing.
    r"|(?P<pem>-----BEGIN [A-Z0-9 ]{1,40}-----"
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{1,40}-----|(?:\s{0,8}[A-Za-z0-9+/=]{32,})*))"
)
_PREFIX_AT_WORD = re.compile(r"(?<!\w)(?:ghp_|sk-|ak_)")


class Secret(NamedTuple):
    """Where something shaped like a secret stands. The text itself is not kept."""

    pattern: str
    start: int
    end: int


def find_secrets(text: str) -> Iterator[Secret]:
    """Everything of an unmistakable token shape, in order, without overlap."""
    for match in _SHAPES.finditer(text):
        yield Secret((match.lastgroup or "").replace("_", "-"), match.start(), match.end())


def redact(text: str) -> str:
    """The text with `[redacted:PATTERN]` in place of each token shape. Redacting twice changes nothing."""
    return _SHAPES.sub(lambda match: f"[redacted:{(match.lastgroup or '').replace('_', '-')}]", text)


def headline(text: str, width: int = 100) -> str:
    """The first line of a memory, as lists show it. Redacted before the cut, which might leave half a token."""
    return redact(text.partition("\n")[0][: 10 * width])[:width]


def find_words(text: str) -> Iterator[Secret]:
    """The seed's general words wherever they stand, also inside other words."""
    lowered = text.lower()
    for word in WORDS:
        at = lowered.find(word)
        while at >= 0:
            yield Secret(word, at, at + len(word))
            at = lowered.find(word, at + len(word))


def check_sensitive(text: str, allow_words: bool = False, mode: str = "seed") -> str | None:
    """The name of the first pattern that forbids to store the text in a topic file, None where it is clean.

    `seed`: the seed's list, case-insensitive on both sides, its three prefixes only where a word begins (`task-` and
    `break_` hold none), and token shapes. `literal`: the seed's list to the letter, prefixes anywhere. `shapes`: token
    shapes alone. `off`: nothing. `allow_words` lifts the five general words and nothing else."""
    if mode == "off":
        return None
    lowered = text.lower()
    if mode == "literal":
        found = next((token for token in TOKENS if token.lower() in lowered), None)
    else:
        found = _token(lowered) if mode == "seed" else None
        found = found or next((each.pattern for each in find_secrets(text)), None)
    if found is not None or allow_words or mode == "shapes":
        return found
    return next((word for word in WORDS if word in lowered), None)


def _token(lowered: str) -> str | None:
    at_word = _PREFIX_AT_WORD.search(lowered)
    if at_word is not None:
        return at_word.group()
    return next((token for token in TOKENS[len(PREFIXES) :] if token.lower() in lowered), None)
