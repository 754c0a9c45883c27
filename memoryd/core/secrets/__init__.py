"""Secrets in text: found by their form, reported by the name of a pattern, never repeated.

There are two levels. `block`: unmistakable by its form (a vendor's token, a private key); not stored, and reported as
a finding if it is already on disk. `warn`: recognised only by its context (`password=...`, a password in a URL);
stored with a warning. Text that leaves a memory (search index, logs, events, messages) passes through `redact`, which
removes both. New text for topic files is also checked against the list of the seed.
"""

from __future__ import annotations

from memoryd.core.secrets.answers import redact_values
from memoryd.core.secrets.detect import find_secrets, headline, not_known_clean, redact, redact_with_headline
from memoryd.core.secrets.refusal import (
    SUGGESTION,
    TOKENS,
    VIOLATION,
    WORDS,
    Judgement,
    find_words,
    judge,
)
from memoryd.core.secrets.secret import BLOCK, WARN, Secret

__all__ = [
    "BLOCK",
    "SUGGESTION",
    "TOKENS",
    "VIOLATION",
    "WARN",
    "WORDS",
    "Judgement",
    "Secret",
    "find_secrets",
    "find_words",
    "headline",
    "judge",
    "not_known_clean",
    "redact",
    "redact_values",
    "redact_with_headline",
]
