"""Secrets recognised by their own form: tokens of vendors, bearer headers, private keys; what a secret found is, and
how a random string is told from words.

Nearly every text has none, so a cheap test comes first: a token contains a long run of letters, digits and joining
signs, and is searched for only in the word around such a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memoryd.core.secrets.vendor_tokens import VENDOR_TOKENS, A

_RUN = 15  # characters; the longest run of a token is never shorter
_BEFORE = 80  # characters of the word that may precede the run
_LOOSE = "prefixed-token"  # of any vendor: a prefix and a long random run

_SHADOW = bytes(97 if chr(code) in "_-~" or (code < 128 and chr(code).isalnum()) else 32 for code in range(256))
_LONG = b"a" * _RUN
_SPACE = re.compile(r"\s")

_LOOSE_SHAPE = rf"(?<![]_-])[a-z]{{2,12}}(?:[_-][a-z0-9]{{1,8}}){{0,2}}_{A}{{32,}}+"
# One flat alternation without groups, so that each branch fails on its first character.
_TOKEN = re.compile(
    "(?<![A-Za-z0-9])(?=[A-Za-z0-9])(?:"
    + "|".join([*(shape for _, shape in VENDOR_TOKENS), _LOOSE_SHAPE])
    + ")(?![A-Za-z0-9])"
)
_SINGLE = [(re.sub(r"-\d$", "", name), re.compile(f"(?:{shape})(?![A-Za-z0-9])")) for name, shape in VENDOR_TOKENS]
_BEARER = re.compile(r"\b[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8}[A-Za-z0-9._~+/=-]{20,}+")
# With its body: to the END line, or, if that is missing, across everything that looks like base64. Public material
# (certificates, public keys, signatures) is excluded. Newlines may be written as `\n`.
_PEM = re.compile(
    r"-----BEGIN (?!CERTIFICATE|TRUSTED CERT|NEW CERT|[A-Z0-9 ]{0,20}PUBLIC KEY|PGP (?:SIGN|MESSAGE)|X509 CRL|DH PARAM)"
    r"[A-Z0-9 ]{1,40}-----"
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{1,40}-----|(?:(?:\s|\\[rn]){0,8}[A-Za-z0-9+/=]{32,}+)*+)"
)
_PUTTY = re.compile(r"(?<=Private-Lines: )\d{1,3}(?:\s{1,4}[A-Za-z0-9+/=]{16,64})++")

_JOINT = re.compile(r"[_-]")
_PREFIX = re.compile(r"[A-Za-z0-9.]{1,12}[_-]")
_FILL = 12  # characters
_FILLED = {sign * _FILL for sign in "xX0"}


def find_tokens(text: str, lowered: str) -> Iterator[Secret]:
    """Yield every token, bearer header and private key; they may overlap.

    `lowered` is the text in lower case, with the same length.
    """
    if "bearer" in lowered:
        for match in _BEARER.finditer(text):
            if not _is_words(match.group()[6:].strip()):
                yield Secret("bearer", match.start(), match.end())
    if "-----BEGIN" in text:
        yield from (Secret("pem", match.start(), match.end()) for match in _PEM.finditer(text))
    if "Private-Lines" in text:
        yield from (Secret("putty-key", match.start(), match.end()) for match in _PUTTY.finditer(text))
    shadow = text.encode("ascii", "replace").translate(_SHADOW)
    if _LONG in shadow:
        yield from _vendor_tokens(text, shadow)


def _vendor_tokens(text: str, shadow: bytes) -> Iterator[Secret]:
    for low, high in _words(text, shadow):
        for match in _TOKEN.finditer(text, low, high):
            name = _vendor(text, match.start(), high)
            token = match.group()
            if name is not None and not _is_filler(token):
                yield Secret(name, match.start(), match.end(), BLOCK)
            elif name is None and looks_random(token.rpartition("_")[2], mixed=True):
                yield _token_after_word(text, match.start(), match.end(), high) or Secret(_LOOSE, *match.span(), WARN)


def _token_after_word(text: str, start: int, end: int, high: int) -> Secret | None:
    """Return a vendor's token that follows another word (`db-ghp_...`)."""
    for joint in _JOINT.finditer(text, start, end):
        name = _vendor(text, joint.end(), high)
        if name is not None and not _is_filler(text[joint.end() : end]):
            return Secret(name, joint.end(), end, BLOCK)
    return None


def _vendor(text: str, at: int, end: int) -> str | None:
    """Return the name of the vendor whose token starts at `at`."""
    return next((name for name, shape in _SINGLE if shape.match(text, at, end)), None)


def _words(text: str, shadow: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges of words (without white space) that contain a long run, each once, so the whole is linear."""
    done = 0
    run = shadow.find(_LONG)
    while run >= 0:
        low = max(done, run - _BEFORE)
        low = max(low, text.rfind(" ", low, run) + 1)
        space = _SPACE.search(text, run + _RUN)
        done = space.start() if space else len(text)
        yield low, done
        run = shadow.find(_LONG, done)


def _is_filler(token: str) -> bool:
    """`sk-your-key-goes-here`, `ghp_xxxxxxxxxxxxxxxxxxxx`, `HRKU-YOUR_KEY_COMES_HERE`: placeholders in documents."""
    prefix = _PREFIX.match(token)
    return prefix is not None and (_is_words(token[prefix.end() :]) or token[-_FILL:] in _FILLED)


def _is_words(body: str) -> bool:
    """True for several words, all in lower case or all in capitals, without digits."""
    letters = body.replace("_", "").replace("-", "")
    return letters != body and letters.isalpha() and (letters.islower() or letters.isupper())


BLOCK, WARN = "block", "warn"


class Secret(NamedTuple):
    """The range of a likely secret, in characters; its text is not kept.

    `pattern` names the rule that found it. `level`: `block` if its own form proves it, `warn` if only its context does.
    """

    pattern: str
    start: int
    end: int
    level: str = BLOCK


def merge_overlaps(found: list[Secret]) -> list[Secret]:
    """Sort secrets and merge those that overlap, under the name of the first, so that nothing of them remains."""
    merged: list[Secret] = []
    for each in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if merged and each.start < merged[-1].end:
            last = merged[-1]
            level = BLOCK if BLOCK in (last.level, each.level) else WARN
            merged[-1] = last._replace(end=max(last.end, each.end), level=level)
        else:
            merged.append(each)
    return merged


# A capitalised word counts as one piece, because names in code are made of such words.
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PARTS = re.compile(r"[-_./:]")
_WORD = re.compile(r"[A-Z]?[a-z]*[0-9]{0,4}|[A-Z]*[0-9]{0,4}")
_MAX_CHARS_PER_PIECE = (
    3.4  # characters per piece: random base64 has about 1.9, hexadecimal 2.1, base36 2.5, names in code 5
)


def looks_random(word: str, mixed: bool = False, most: float = _MAX_CHARS_PER_PIECE) -> bool:
    """True if the word consists of short pieces of letters and digits, at most `most` characters each on average.

    `mixed` requires lower-case letters, capital letters and digits.
    """
    pieces = _PIECES.findall(word)
    if len(pieces) < 3 or sum(map(len, pieces)) > most * len(pieces):
        return False
    parts = _PARTS.split(word)
    if len(parts) > 1 and all(map(_WORD.fullmatch, parts)):
        return False  # `my-app-tls-v2`: words, each with at most a number
    digits = any(character.isdigit() for character in word)
    if mixed:
        return digits and word.lower() != word and word.upper() != word
    return digits or (word.lower() != word and word.upper() != word)
