"""Whether the value beside a telling name is the secret itself, or what stands there instead of one.

Instead of a secret stand: a placeholder, the name of a variable, code that gets it, the place it is kept at, its
form, its algorithm, a date, a number. All tests are on at most `LONGEST` characters.
"""

from __future__ import annotations

import base64
import binascii
import re

from memoryd.core.secrets.names import AUTH, KEY, PAIR, PASSWORD
from memoryd.core.secrets.randomness import random_looking

COVER = "\ue000"  # stands where a token was; of private use, and part of no value that is accepted
SHORTEST, LONGEST = 6, 160  # characters of a value that are judged

_PLACEHOLDERS = {
    "your", "example", "placeholder", "changeme", "change", "dummy", "sample", "replace", "insert", "redacted", "todo",
    "here", "enter", "fake", "null", "none", "undefined", "string", "empty", "hidden", "masked", "removed", "omitted",
    "see", "ask",
}  # fmt: skip
_NAMING = {
    "password", "passwd", "pwd", "pass", "pw", "secret", "secrets", "token", "tokens", "key", "keys", "credential",
    "credentials", "creds", "apikey", "auth", "user", "username",
}  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

# What begins like this is a variable, a template, a place or a type.
_REFERENCE = re.compile(
    r"[${<%]|[&*!@][A-Za-z_]+\d?$|[A-Za-z]{1,12}://|(?:~|\.{1,2})/|/[a-z]{1,16}/|--|ssh-[a-z0-9]{3}|ecdsa-"
    r"|(?:arn|vault|env|file|ssm|sops|op|ref|kv\d?|urn|enc|keyring|secret)[:/]"
)
_NUMBER = (
    r"[vV]?\d+(?:[.,:]\d+)*(?:-?(?:[smhdwyx%]|ms|min|[kmgt]i?b|px|r?em|bits?|bytes?|chars?|st|nd|rd|th|[a-z]{3,7}s))?"
)
_DATE = r"\d{4}-\d\d(?:-\d\d.{0,20})?"
_TICKET = r"[A-Z]{2,10}-\d{1,6}"
_COIN_ADDRESS = r"0x[0-9A-Fa-f]{40}"
_FILE = (
    r"[\w./-]{1,80}\.(?:py|[tj]sx?|json|ya?ml|toml|md|txt|pem|key|crt|env|csv|sql|log|ini|cfg|conf|sh|html|css|gpg"
    r"|local)"
)
_ALGORITHM = (
    r"(?i:(?:sha|md|aes|rsa|hs|rs|es|ps|ed|utf|base|oauth|argon|pbkdf|http|ipv|curve|secp|tls|ssl|id_rsa|id_ed|kv|ec|scrypt"
    r"|bcrypt)[-_]?\d{1,5}[a-z-]{0,16}(?:-\w{1,12}){0,3})"
)
_KNOWN = re.compile("|".join((_NUMBER, _DATE, _TICKET, _COIN_ADDRESS, _FILE, _ALGORITHM)))
_DOTTED = re.compile(r"[A-Za-z_]{1,40}\d{0,3}(?:(?:\.|::|->|\?\.)[A-Za-z_]{1,40}\d{0,3}){1,8}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SIGNS = frozenset("!@#$%^&+")


def stands_for(kind: str, value: str) -> bool:
    """Whether a value of that kind is a secret; `value` without quotes and without the full stop of its sentence."""
    if len(value) < SHORTEST or instead(value):
        return False
    if kind == PASSWORD:
        return password_like(value)
    if kind == PAIR:
        user, colon, password = value.partition(":")
        return bool(colon and user) and len(password) >= SHORTEST and not instead(password) and password_like(password)
    if kind == AUTH:
        return is_pair_in_base64(value) or secret_like(value)
    if kind == KEY:
        return len(value) >= 24 and value.isalnum() and random_looking(value, mixed=True, most=2.6)
    return secret_like(value)


def instead(value: str) -> bool:
    """A placeholder, reference, number, name: something that stands where the secret would."""
    if is_covered(value) or _REFERENCE.match(value) or _KNOWN.fullmatch(value) or _DOTTED.fullmatch(value):
        return True
    words = [word.lower() for word in _WORDS.findall(value[:LONGEST])]
    if not words or len(set(value)) < 4:
        return True
    if len(value) <= 60 and any(word in _PLACEHOLDERS for word in words) and not random_looking(value):
        return True
    longest_number = max((len(word) for word in words if word.isdigit()), default=0)
    return longest_number < 3 and any(word in _NAMING for word in words) and not random_looking(value)


def is_covered(value: str) -> bool:
    """A token within was found already, or taken out."""
    return COVER in value or "[redacted:" in value


def password_like(value: str) -> bool:
    """Letters together with digits or signs; what is all of one kind is too often a word or a number."""
    letters = any(character.isalpha() for character in value)
    digits = any(character.isdigit() for character in value)
    signs = any(character in _SIGNS for character in value[:-1])
    return letters and (digits or signs)


def secret_like(value: str) -> bool:
    """Long and random, or a UUID, as some makers use them."""
    if _UUID.fullmatch(value):
        return True
    if len(value) >= 12 and value.isalnum() and value.lower() == value and _mixed(value):
        return True
    if len(value) < 16:
        return len(value) >= 12 and value.isalnum() and random_looking(value, mixed=True, most=2.6)
    return random_looking(value) and any(character.isdigit() for character in value)


def _mixed(value: str) -> bool:
    """At least four digits and four letters: `abcdef1234567890`, which was thought up rather than drawn."""
    digits = sum(map(str.isdigit, value))
    return digits >= 4 and len(value) - digits >= 4


def is_pair_in_base64(value: str) -> bool:
    """`user:password` in base64, as basic authentication sends it."""
    try:
        pair = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):  # is no base64, or none of a text
        return False
    user, colon, password = pair.partition(":")
    return bool(colon) and user.isprintable() and password.isprintable() and len(password) >= 3
