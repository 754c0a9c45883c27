"""Find secrets of both levels in a text, and redact them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from memoryd.core.secrets.context_rules import find_by_context
from memoryd.core.secrets.value_rules import MASK
from memoryd.core.secrets.vendor_tokens import BLOCK, Secret, find_tokens, merge_overlaps

WIDTH = 100  # characters of a headline
MIN_TOKEN_CHARS = 12  # characters
NAME_KEYS = frozenset(
    {"id", "ids", "path", "paths", "file", "files", "owner", "user", "gone", "changed", "suggested", "written"}
    | {"message", "hint", "reason", "reasons", "summary", "evidence", "why", "what", "withheld", "error"}
)
CONTENT_KEYS = frozenset({"memory", "text", "part", "diff"})  # requested content is returned unchanged
_MAX_CLEAN = 3_000  # texts; less than a megabyte

# Digests of texts without secrets. A changed file mostly has the same texts as before, and each of them is redacted
# in more than one place.
_clean: set[bytes] = set()


def find_secrets(text: str, level: str | None = None) -> Iterator[Secret]:
    """Yield likely secrets, in order and without overlap; only those of `level` (`block` or `warn`) if given."""
    return (each for each in _all_secrets(text) if level is None or each.level == level)


def redact(text: str) -> str:
    """Return the text with `[redacted:PATTERN]` in place of each secret; in an assignment only the value is replaced.

    Redacting twice changes nothing.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    if digest in _clean:
        return text
    secrets = _all_secrets(text)
    if not secrets:
        if len(_clean) >= _MAX_CLEAN:
            _clean.clear()
        _clean.add(digest)
        return text
    parts: list[str] = []
    at = 0
    for secret in secrets:
        parts += [text[at : secret.start], f"[redacted:{secret.pattern}]"]
        at = secret.end
    return "".join([*parts, text[at:]])


def headline(text: str, width: int = WIDTH) -> str:
    """Return the first line of a memory for lists, redacted before it is cut, which could leave half a token."""
    return redact(text.partition("\n")[0][: 10 * width])[:width]


def redact_with_headline(text: str) -> tuple[str, str]:
    """Return the headline and the whole text redacted. A short single line is searched only once."""
    redacted = redact(text)
    single_line = "\n" not in text and len(text) <= 10 * WIDTH
    return redacted[:WIDTH] if single_line else headline(text), redacted


def redact_values(values: Mapping[str, object]) -> Mapping[str, object]:
    """Redact tokens in names, ids and messages of an answer, event or log record; return `values` if there are none.

    A file name or id may look like a token. It is needed unchanged to open the file, but must not be shown. Contents
    of memories are redacted where they enter the search index.
    """
    changed = {key: new for key, old in values.items() if (new := _redacted_value(key, old)) is not old}
    return {**values, **changed} if changed else values


def redact_tokens(text: str) -> str:
    """Return the text without the secrets that their own form proves (level `block`)."""
    if len(text) < MIN_TOKEN_CHARS or redact(text) is text:  # redact remembers clean texts
        return text
    for secret in reversed(list(find_secrets(text, BLOCK))):
        text = f"{text[: secret.start]}[redacted:{secret.pattern}]{text[secret.end :]}"
    return text


def _redacted_value(key: str, value: object) -> object:
    if isinstance(value, str):
        return redact_tokens(value) if key in NAME_KEYS else value
    if isinstance(value, Mapping):
        return value if key in CONTENT_KEYS else redact_values(value)
    if isinstance(value, (list, tuple)):
        items = [_redacted_value(key, item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _all_secrets(text: str) -> list[Secret]:
    """Find tokens first, then secrets by context with the tokens masked.

    So `token=TOKEN` is reported as the token, and the text gives the same result after the token is redacted.
    """
    lowered = _lowered(text)
    tokens = merge_overlaps(list(find_tokens(text, lowered)))
    if tokens:
        text = _masked(text, tokens)
        lowered = _lowered(text)
    return merge_overlaps([*tokens, *find_by_context(text, lowered)])


def _lowered(text: str) -> str:
    """Return the text in lower case with the same length; letters that would become two stay as they are."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(map(_lower, text))


def _lower(character: str) -> str:
    return character.lower() if len(character.lower()) == 1 else character


def _masked(text: str, tokens: list[Secret]) -> str:
    parts: list[str] = []
    at = 0
    for token in tokens:
        parts += [text[at : token.start], MASK * (token.end - token.start)]
        at = token.end
    return "".join([*parts, text[at:]])
