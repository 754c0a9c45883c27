"""Find secrets of both levels in a text, and redact them.

Tokens are recognised by their own form (`vendor_tokens`), the rest only by its context: values after a key name,
passwords in URLs and commands. Every search by context starts at one of a few words and examines a bounded stretch from
there, so the whole is linear. No match crosses a masked or redacted token: both are treated alike, so redacting twice
changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from memoryd.core.secrets.secret import BLOCK, WARN, Secret, merge_overlaps
from memoryd.core.secrets.value_rules import (
    AUTH,
    KEY,
    MASK,
    MIN_CHARS,
    PASSWORD,
    SECRET,
    is_masked,
    is_pair_in_base64,
    is_placeholder,
    is_secret,
    kind_of,
    looks_like_password,
    looks_random,
)
from memoryd.core.secrets.vendor_tokens import find_tokens, may_hold_tokens

WIDTH = 100  # characters of a headline
MIN_TOKEN_CHARS = 12  # characters
_MAX_CLEAN = 3_000  # texts; less than a megabyte
_SHORT = 200  # characters; up to here it is faster to look for the beginnings of secrets than to remember the text

# Python's hashes (64 bits, with a key that only this process knows) of texts without secrets. A changed file mostly has
# the same texts as before, and each of them is redacted in more than one place.
_clean: set[int] = set()


def find_secrets(text: str, level: str | None = None) -> Iterator[Secret]:
    """Yield likely secrets, in order and without overlap; only those of `level` (`block` or `warn`) if given."""
    return (each for each in _all_secrets(text) if level is None or each.level == level)


def redact(text: str) -> str:
    """Return the text with `[redacted:PATTERN]` in place of each secret; in an assignment only the value is replaced.

    Redacting twice changes nothing.
    """
    if len(text) <= _SHORT and not _may_hold_secrets(text):
        return text
    known = hash(text)
    if known in _clean:
        return text
    secrets = _all_secrets(text)
    if not secrets:
        if len(_clean) >= _MAX_CLEAN:
            _clean.clear()
        _clean.add(known)
        return text
    parts: list[str] = []
    at = 0
    for secret in secrets:
        parts += [text[at : secret.start], f"[redacted:{secret.pattern}]"]
        at = secret.end
    return "".join([*parts, text[at:]])


def not_known_clean(texts: Iterable[str]) -> list[str]:
    """Return the texts that `redact` does not remember as clean."""
    return [text for text in texts if hash(text) not in _clean]


def headline(text: str, width: int = WIDTH) -> str:
    """Return the first line of a memory for lists, redacted before it is cut, which could leave half a token."""
    return redact(text.partition("\n")[0][: 10 * width])[:width]


def redact_with_headline(text: str) -> tuple[str, str]:
    """Return the headline and the whole text redacted. A short single line is searched only once."""
    redacted = redact(text)
    single_line = "\n" not in text and len(text) <= 10 * WIDTH
    return redacted[:WIDTH] if single_line else headline(text), redacted


def redact_tokens(text: str) -> str:
    """Return the text without the secrets that their own form proves (level `block`)."""
    if len(text) < MIN_TOKEN_CHARS or redact(text) is text:  # redact remembers clean texts
        return text
    for secret in reversed(list(find_secrets(text, BLOCK))):
        text = f"{text[: secret.start]}[redacted:{secret.pattern}]{text[secret.end :]}"
    return text


def _may_hold_secrets(text: str) -> bool:
    """False if no rule can apply: no word is there at which a search begins, and no long run."""
    lowered = text.lower()
    for sign in _SIGNS:
        if sign in lowered:
            return True
    return may_hold_tokens(text, lowered)


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


# --- secrets by their context

_SIGNS = ("pass", "pw", "secret", "token", "key", "cred", "auth", "://", "basic ", "curl ", "sig=", ":5432:")

_BEFORE = re.compile(r"[A-Za-z0-9_.-]*+\Z")
_AFTER = re.compile(r"[A-Za-z0-9_-]{0,40}")
_SPOKEN = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z]{2,14} ){1,2}\Z")  # the "secret access " before "key"
# Quotes and marks that close a name, then what separates it from its value, possibly with a type.
_LINK = re.compile(
    r"(?:\\?[\"'`]\]?)?[*_]{0,3}"
    r"(?:[ \t]{0,8}(?::=|=>|=(?!=)|:(?!:))[ \t]{0,8}[*_]{0,3}[ \t]{0,4}(?:[A-Za-z][A-Za-z.| ]{0,24} ?= ?)?"
    r"|(?<=[\"']),[ \t]{0,4}(?=[\"']))"
)
_SCHEME = re.compile(r"([A-Za-z]{3,16}) ")
_QUOTED = re.compile(r"[rbRB]?\\{0,3}([\"'`])([^\"'`\s\\]{1,160})")
_BARE = re.compile(r"()([^\s\"'`<>(){}\[\],;|\\&]{1,160})")
# The start of a long value decides; it is redacted to its end, up to a length that no value exceeds.
_MORE = {
    True: re.compile(r"[^\"'`\s\\]{0,4096}+"),
    False: re.compile(r"[^\s\"'`<>(){}\[\],;|\\&]{0,4096}+"),
}
_STOPS, _CALLS = ".:?", frozenset("([{")
_OPTION = re.compile(r"(?: -p)?[ =]")
_LOGIN = re.compile(r"\blogin [^\s\[\ue000]{1,40} \Z")
_SENTENCE = re.compile(r"(?:[A-Za-z0-9 ,/'()_@-]|\.(?=\S)){1,80}")
_LABEL = re.compile(r" (?:for|of|on|to|in|at) (?:[A-Za-z0-9 ,/'()_@-]|\.(?=\S)){1,60}: ")
_TELLING = re.compile(r"[0-9!@#$%^&+]")  # every accepted password contains one of these
_VERB = re.compile(r"\b(?:is|was|to|are|reads|now):? ")

_ADDRESS = re.compile(r"://([^\s/?#\"'<>:@\[]{0,64}):([^\s\"'<>@/\[\]]{1,200})@(?=[\w.-])")
_HEXADECIMAL = re.compile(r"[0-9a-f]{32,}")
_BASIC = re.compile(r"basic ([A-Za-z0-9+/]{8,400}={0,2})(?![A-Za-z0-9])", re.IGNORECASE)
_CURL = re.compile(
    r"[^\n\[\ue000]{0,160}?\s(?:-u|--user)[ =]?[\"']?([^\s:\"'$<{\[\ue000]{1,64}):([^\s\"'$<{@\[]{4,160}+)(?!\[)"
)
_SIGNATURE = re.compile(r"sig=([A-Za-z0-9%+/=]{40,200}+)(?![\w\[-])")
_PGPASS = re.compile(r":5432:[\w*-]{1,64}:[\w.*-]{1,64}:([^\s:\[]{6,160}+)(?!\[)")
_STANDS_IN = re.compile(r"[${<%*]|x+$", re.IGNORECASE)
_SCHEMATIC = {
    "pass", "password", "passwd", "pwd", "pw", "secret", "user", "username", "guest", "admin", "root", "postgres",
    "test", "example", "changeme", "xxx", "xxxx", "token", "key", "apikey", "port", "host", "my", "your", "the",
    "access", "aws",
}  # fmt: skip


def find_by_context(text: str, lowered: str) -> Iterator[Secret]:
    """Yield secrets recognised by context; they may overlap. Tokens are already masked in `text`.

    `lowered` is the text in lower case, with the same length.
    """
    present = tuple([sign for sign in _SIGNS if sign in lowered])
    if not present:
        return
    signs = _any_of(present)
    at = begin = end = 0
    while (sign := signs.search(lowered, at)) is not None:
        if begin <= sign.start() < end:
            at = end  # within the previous value
            continue
        found = _HANDLERS.get(sign.group(), _named)(text, sign.start())
        if found is not None:
            begin, end = found.start, found.end
            yield found
        at = sign.end()


@lru_cache(maxsize=512)
def _any_of(signs: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for the words that occur: one or two are found several times as fast as all of them."""
    return re.compile("|".join(map(re.escape, signs)))


# --- values after a key name


def _named(text: str, at: int) -> Secret | None:
    """Return the value that belongs to the key name around `at`."""
    start, end = _name(text, at)
    kind = kind_of(text[start:end])
    if kind == KEY:
        spoken = _SPOKEN.search(text, max(0, start - 32), start)
        kind = (kind_of(f"{spoken.group()}key") if spoken is not None else None) or KEY
    if kind is None:
        return None
    link = _LINK.match(text, end)
    if link is not None:
        return _assigned(text, link.end(), kind)
    return _unassigned(text, start, end, kind)


def _name(text: str, at: int) -> tuple[int, int]:
    """Return the whole name around `at`, with a `DB_` before and a `_PROD` after the key word."""
    low = max(0, at - 48)
    before = _BEFORE.search(text, max(low, text.rfind(" ", low, at) + 1), at)
    after = _AFTER.match(text, at)
    return before.start() if before is not None else at, after.end() if after is not None else at


def _assigned(text: str, at: int, kind: str) -> Secret | None:
    scheme = _SCHEME.match(text, at) if kind == AUTH else None
    if scheme is None:
        return _value(text, at, lambda value: is_secret(kind, value))
    if scheme[1].lower() == "basic":
        return None  # handled by the rule for basic authentication
    return _value(text, scheme.end(), lambda value: is_secret(kind, value))


def _unassigned(text: str, start: int, end: int, kind: str) -> Secret | None:
    """Return a value without `=` or `:` before it: in command options, `ENV NAME value`, login files and sentences."""
    option = text.startswith("-", start) or text.startswith("sshpass", start)
    if option or text.startswith("ENV ", max(0, start - 4)) or _LOGIN.search(text, max(0, start - 48), start):
        gap = _OPTION.match(text, end)
        return _value(text, gap.end(), lambda value: is_secret(kind, value)) if gap is not None else None
    if kind == AUTH or end - start == len("pass") or _TELLING.search(text, end, end + 120) is None:
        return None  # most sentences, and the verb "pass"; the following checks are slower
    sentence = _SENTENCE.match(text, end)
    if sentence is None:
        return None
    adjacent = _value(text, end + 1, lambda value: _unmistakable(kind, value))
    if adjacent is not None:
        return adjacent
    label = _LABEL.match(text, end)
    verbs = [*_VERB.finditer(text, end, sentence.end()), *([label] if label is not None else [])]
    found = (_value(text, verb.end(), lambda value: is_secret(kind, value)) for verb in verbs)
    return next((each for each in found if each is not None), None)


def _unmistakable(kind: str, value: str) -> bool:
    """True if the value is a secret even though nothing announces a value: it mixes all kinds of characters."""
    if is_placeholder(value) or (kind == SECRET and _HEXADECIMAL.fullmatch(value)):
        return not is_placeholder(value)
    if not any(map(str.isdigit, value)) or value.lower() == value or value.upper() == value:
        return False
    if kind == PASSWORD:
        return len(value) >= 8 and (looks_random(value, most=3) or not value[:-1].isalnum())
    return len(value) >= 20 and looks_random(value, mixed=True, most=2.6)


def _value(text: str, at: int, accepts: Callable[[str], bool]) -> Secret | None:
    """Return the quoted or bare value at `at` if `accepts` is true for it."""
    quoted = _QUOTED.match(text, at)
    match = quoted or _BARE.match(text, at)
    if match is None or len(match[2]) < MIN_CHARS:
        return None
    start, end = match.span(2)
    if not accepts(match[2] if quoted else match[2].rstrip(_STOPS)):
        return None
    more = _MORE[quoted is not None].match(text, end)
    end = more.end() if more is not None else end
    following = text[end : end + 1]
    if is_masked(text[start:end]) or (following.isspace() if quoted else following in _CALLS):
        return None  # already a token; several words; a call, an element, a template
    return Secret("assignment", start, end if quoted else start + len(text[start:end].rstrip(_STOPS)), WARN)


# --- URLs and commands


def _address(text: str, at: int) -> Secret | None:
    match = _ADDRESS.match(text, at)
    if match is None or is_masked(match[2]) or _schematic(match[2]):
        return None
    return Secret("url-password", match.start(2), match.end(2), WARN)


def _schematic(password: str) -> bool:
    """True for placeholders such as `user:password` in example URLs."""
    words = re.split("[-_ ]", password.lower())
    return _SCHEMATIC.issuperset(words) or words[-1].endswith("password") or bool(_STANDS_IN.match(password))


def _basic(text: str, at: int) -> Secret | None:
    match = _BASIC.match(text, at)
    if match is None or not is_pair_in_base64(match[1]):
        return None
    return Secret("basic-auth", match.start(1), match.end(1), WARN)


def _curl(text: str, at: int) -> Secret | None:
    match = _CURL.match(text, at + 4)
    if match is None or match[2].isdigit() or is_masked(match[2]) or _schematic(match[2]):
        return None
    return Secret("login", match.start(2), match.end(2), WARN)


def _signature(text: str, at: int) -> Secret | None:
    match = _SIGNATURE.match(text, at) if text[max(0, at - 1) : at] in ("?", "&") else None
    return Secret("signature", match.start(1), match.end(1), WARN) if match is not None else None


def _pgpass(text: str, at: int) -> Secret | None:
    match = _PGPASS.match(text, at)
    if match is None or is_placeholder(match[1]) or not looks_like_password(match[1]):
        return None
    return Secret("login", match.start(1), match.end(1), WARN)


_HANDLERS: Mapping[str, Callable[[str, int], Secret | None]] = {
    "://": _address, "basic ": _basic, "curl ": _curl, "sig=": _signature, ":5432:": _pgpass,
}  # fmt: skip
