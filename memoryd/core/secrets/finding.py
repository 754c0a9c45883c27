"""Finding secrets of both levels in a text, and taking them out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from memoryd.core.secrets.spans import Secret, without_overlap
from memoryd.core.secrets.surroundings import find_assigned
from memoryd.core.secrets.tokens import find_tokens
from memoryd.core.secrets.values import COVER

WIDTH = 100  # characters of a headline
_MOST_CLEAN = 3_000  # texts; less than a megabyte

# Digests of texts in which nothing was found. A file that is read again says mostly what it said before, and each of
# its texts is redacted on more than one way out.
_clean: set[bytes] = set()


def find_secrets(text: str, level: str | None = None) -> Iterator[Secret]:
    """Everything shaped like a secret, in order, without overlap; of one level (`block`, `warn`) where it is named."""
    return (each for each in _found(text) if level is None or each.level == level)


def redact(text: str) -> str:
    """The text with `[redacted:PATTERN]` in place of each secret; of an assignment in place of the value alone.
    Redacting twice changes nothing."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    if digest in _clean:
        return text
    found = _found(text)
    if not found:
        if len(_clean) >= _MOST_CLEAN:
            _clean.clear()
        _clean.add(digest)
        return text
    parts: list[str] = []
    at = 0
    for secret in found:
        parts += [text[at : secret.start], f"[redacted:{secret.pattern}]"]
        at = secret.end
    return "".join([*parts, text[at:]])


def headline(text: str, width: int = WIDTH) -> str:
    """The first line of a memory, as lists show it. Redacted before the cut, which might leave half a token."""
    return redact(text.partition("\n")[0][: 10 * width])[:width]


def headed(text: str) -> tuple[str, str]:
    """The headline, and the whole redacted: of one short line both take one look."""
    said = redact(text)
    alone = "\n" not in text and len(text) <= 10 * WIDTH
    return said[:WIDTH] if alone else headline(text), said


def _found(text: str) -> list[Secret]:
    """Tokens first; then what stands in their surroundings, with the tokens covered, so that `token=TOKEN` is told as
    the token it is, and just as it will be told when the token has been taken out."""
    lowered = _lowered(text)
    tokens = without_overlap(list(find_tokens(text, lowered)))
    if tokens:
        text = _covered(text, tokens)
        lowered = _lowered(text)
    return without_overlap([*tokens, *find_assigned(text, lowered)])


def _lowered(text: str) -> str:
    """In small letters, of the same length: there are letters that become two."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(map(_small, text))


def _small(character: str) -> str:
    return character.lower() if len(character.lower()) == 1 else character


def _covered(text: str, tokens: list[Secret]) -> str:
    parts: list[str] = []
    at = 0
    for token in tokens:
        parts += [text[at : token.start], COVER * (token.end - token.start)]
        at = token.end
    return "".join([*parts, text[at:]])
