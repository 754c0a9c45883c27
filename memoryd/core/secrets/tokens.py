"""Secrets that are recognised by their own form: makers' tokens, bearer headers, private keys.

Nearly every text holds none, so that first it is asked, at a small price, whether there is anything to look at: a
token has a long run of letters, digits and signs that join them, and is sought only in the word around such a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memoryd.core.secrets.makers import MAKERS, A
from memoryd.core.secrets.randomness import random_looking
from memoryd.core.secrets.spans import BLOCK, WARN, Secret

_RUN = 15  # characters: no token has a shorter longest run
_BEFORE = 80  # characters of its word that may stand before the run
_LOOSE = "prefixed-token"  # any maker's: a prefix and a long random run

_SHADOW = bytes(97 if chr(code) in "_-~" or (code < 128 and chr(code).isalnum()) else 32 for code in range(256))
_LONG = b"a" * _RUN
_SPACE = re.compile(r"\s")

_LOOSE_SHAPE = rf"(?<![]_-])[a-z]{{2,12}}(?:[_-][a-z0-9]{{1,8}}){{0,2}}_{A}{{32,}}+"
# One flat alternation without groups: then each branch is refused by its first character alone.
_TOKEN = re.compile(
    "(?<![A-Za-z0-9])(?=[A-Za-z0-9])(?:"
    + "|".join([*(shape for _, shape in MAKERS), _LOOSE_SHAPE])
    + ")(?![A-Za-z0-9])"
)
_SINGLE = [(re.sub(r"-\d$", "", name), re.compile(f"(?:{shape})(?![A-Za-z0-9])")) for name, shape in MAKERS]
_BEARER = re.compile(r"\b[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8}[A-Za-z0-9._~+/=-]{20,}+")
# With its body: to the END line, or over whatever looks like base64 where that line is missing. What is made to be
# seen (certificates, public keys, signatures) is none. Newlines may be written as `\n`.
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
    """Every token, bearer header and private key, by kind; overlaps are left in. `lowered` has the same length."""
    if "bearer" in lowered:
        for match in _BEARER.finditer(text):
            if not _worded(match.group()[6:].strip()):
                yield Secret("bearer", match.start(), match.end())
    if "-----BEGIN" in text:
        yield from (Secret("pem", match.start(), match.end()) for match in _PEM.finditer(text))
    if "Private-Lines" in text:
        yield from (Secret("putty-key", match.start(), match.end()) for match in _PUTTY.finditer(text))
    shadow = text.encode("ascii", "replace").translate(_SHADOW)
    if _LONG in shadow:
        yield from _of_makers(text, shadow)


def _of_makers(text: str, shadow: bytes) -> Iterator[Secret]:
    for low, high in _words(text, shadow):
        for match in _TOKEN.finditer(text, low, high):
            name = _maker(text, match.start(), high)
            shown = match.group()
            if name is not None and not _is_filler(shown):
                yield Secret(name, match.start(), match.end(), BLOCK)
            elif name is None and random_looking(shown.rpartition("_")[2], mixed=True):
                yield _behind_a_word(text, match.start(), match.end(), high) or Secret(_LOOSE, *match.span(), WARN)


def _behind_a_word(text: str, start: int, end: int, high: int) -> Secret | None:
    """A maker's token with a word put before it (`db-ghp_...`) is no less one."""
    for joint in _JOINT.finditer(text, start, end):
        name = _maker(text, joint.end(), high)
        if name is not None and not _is_filler(text[joint.end() : end]):
            return Secret(name, joint.end(), end, BLOCK)
    return None


def _maker(text: str, at: int, end: int) -> str | None:
    """Whose token begins there; a number at the end of a name only parts an expression in two."""
    return next((name for name, shape in _SINGLE if shape.match(text, at, end)), None)


def _words(text: str, shadow: bytes) -> Iterator[tuple[int, int]]:
    """The words (no white space within) that hold a long run, each once; so the whole is linear."""
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
    """`sk-your-key-goes-here`, `ghp_xxxxxxxxxxxxxxxxxxxx`, `HRKU-YOUR_KEY_COMES_HERE`: what documents say instead."""
    prefix = _PREFIX.match(token)
    return prefix is not None and (_worded(token[prefix.end() :]) or token[-_FILL:] in _FILLED)


def _worded(body: str) -> bool:
    """Several words, all in small or all in capital letters, without a digit."""
    letters = body.replace("_", "").replace("-", "")
    return letters != body and letters.isalpha() and (letters.islower() or letters.isupper())
