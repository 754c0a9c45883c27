"""Secrets in text: recognised by their shape, named by a pattern, and never repeated.

Two levels. `block`: unmistakable by its own form (a maker's token, a private key); not stored, and told as a finding
where it lies on disk already. `warn`: told only by its surroundings (`password=...`, a password in an address); stored
with a warning. Whatever leaves a memory (catalogue, logs, events, messages) is passed through `redact` first, which
takes out both. What somebody wants to store into topic files is also held against the seed's list.
"""

from __future__ import annotations

from memoryd.core.secrets.finding import find_secrets, headed, headline, redact
from memoryd.core.secrets.spans import BLOCK, WARN, Secret
from memoryd.core.secrets.storing import (
    PREFIXES,
    SUGGESTION,
    TOKENS,
    VIOLATION,
    WORDS,
    Judgement,
    check_sensitive,
    find_words,
    judge,
)

__all__ = [
    "BLOCK",
    "PREFIXES",
    "SUGGESTION",
    "TOKENS",
    "VIOLATION",
    "WARN",
    "WORDS",
    "Judgement",
    "Secret",
    "check_sensitive",
    "find_secrets",
    "find_words",
    "headed",
    "headline",
    "judge",
    "redact",
]
