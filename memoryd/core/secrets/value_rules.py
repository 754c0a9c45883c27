"""Decide from a key name and its value whether the value is a secret or stands for one.

Not secrets: placeholders, names of variables, code that fetches the secret, its location, its form, an algorithm, a
date, a number. All checks are limited to `MAX_CHARS` characters.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache

# A password may be short, a secret is long and random. A plain `key` may be anything, so only an unmistakably random
# value counts. Credentials are a user and a password, auth is such a pair in base64.
PASSWORD, SECRET, KEY, PAIR, AUTH = "password", "secret", "key", "pair", "auth"

_KEY_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

_ENDS = (
    ("password", PASSWORD), ("passwd", PASSWORD), ("passphrase", PASSWORD), ("passcode", PASSWORD), ("pwd", PASSWORD),
    ("sshpass", PASSWORD), ("secret", SECRET), ("token", SECRET), ("apikey", SECRET), ("accesskey", SECRET),
    ("secretkey", SECRET), ("privatekey", SECRET), ("authkey", SECRET), ("encryptionkey", SECRET),
)  # fmt: skip
_WHOLE = {
    "pass": PASSWORD, "pw": PASSWORD, "passwords": PASSWORD, "secrets": SECRET, "key": KEY,
    "credential": PAIR, "credentials": PAIR, "creds": PAIR, "cred": PAIR, "auth": AUTH, "authorization": AUTH,
}  # fmt: skip
# Words that may follow without changing the meaning.
_TRAILING = {
    "prod", "production", "dev", "development", "staging", "stage", "live", "test", "testing", "value", "default",
    "old", "new", "main", "primary", "secondary", "base", "b", "v", "text", "plain", "plaintext", "string",
}  # fmt: skip
# Words that make `key` a secret when they precede it, and words that make `token` harmless.
_SECRET_KEYS = {
    "api", "access", "secret", "private", "auth", "authentication", "encryption", "encrypt", "signing", "sign",
    "master", "account", "shared", "storage", "admin", "application", "app", "client", "consumer", "license", "deploy",
    "session", "jwt", "hmac", "aes", "webhook", "subscription", "rest", "service", "server", "write", "root", "bot",
    "integration", "ingestion", "token", "crypto", "cookie", "symmetric", "hash", "salt", "security",
}  # fmt: skip
_NO_TOKENS = {
    "next", "page", "continuation", "pad", "eos", "bos", "unk", "mask", "sep", "cls", "stop", "start", "end", "max",
    "min", "sync", "resume", "cursor", "per", "first", "last", "previous", "prev", "design", "public", "erc",
}  # fmt: skip


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str | None:
    """Return the kind of value that `name` announces, or None. Its words may be joined in any way."""
    words = [word.lower() for word in _KEY_WORDS.findall(name)]
    while len(words) > 1 and words[-1] in _TRAILING:
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "key":
        return SECRET if before in _SECRET_KEYS else None if before else KEY
    if last == "token" and before in _NO_TOKENS:
        return None
    return _WHOLE.get(last) or next((kind for end, kind in _ENDS if last.endswith(end)), None)


MASK = "\ue000"  # replaces each character of a token; a private-use character that no accepted value contains
MIN_CHARS, MAX_CHARS = 6, 160  # characters of a value that are examined

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

# A value that starts like this is a variable, a template, a location or a type.
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

# A capitalised word counts as one piece, because names in code are made of such words.
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PARTS = re.compile(r"[-_./:]")
_PART = re.compile(r"[A-Z]?[a-z]*[0-9]{0,4}|[A-Z]*[0-9]{0,4}")
# Characters per piece: random base64 has about 1.9, hexadecimal 2.1, base36 2.5, names in code 5.
_MAX_CHARS_PER_PIECE = 3.4


def is_secret(kind: str, value: str) -> bool:
    """True if a value of this kind is a secret. `value` is without quotes and without the full stop of its sentence."""
    if len(value) < MIN_CHARS or is_placeholder(value):
        return False
    if kind == PASSWORD:
        return looks_like_password(value)
    if kind == PAIR:
        user, colon, password = value.partition(":")
        return (
            bool(colon and user)
            and len(password) >= MIN_CHARS
            and not is_placeholder(password)
            and looks_like_password(password)
        )
    if kind == AUTH:
        return is_pair_in_base64(value) or looks_like_secret(value)
    if kind == KEY:
        return len(value) >= 24 and value.isalnum() and looks_random(value, mixed=True, most=2.6)
    return looks_like_secret(value)


def is_placeholder(value: str) -> bool:
    """True for a placeholder, reference, number or name in place of a secret."""
    if is_masked(value) or _REFERENCE.match(value) or _KNOWN.fullmatch(value) or _DOTTED.fullmatch(value):
        return True
    words = [word.lower() for word in _WORDS.findall(value[:MAX_CHARS])]
    if not words or len(set(value)) < 4:
        return True
    if len(value) <= 60 and any(word in _PLACEHOLDERS for word in words) and not looks_random(value):
        return True
    longest_number = max((len(word) for word in words if word.isdigit()), default=0)
    return longest_number < 3 and any(word in _NAMING for word in words) and not looks_random(value)


def is_masked(value: str) -> bool:
    """True if the value contains a masked or redacted token."""
    return MASK in value or "[redacted:" in value


def looks_like_password(value: str) -> bool:
    """True for letters with digits or signs; characters of one kind are too often a word or a number."""
    letters = any(character.isalpha() for character in value)
    digits = any(character.isdigit() for character in value)
    signs = any(character in _SIGNS for character in value[:-1])
    return letters and (digits or signs)


def looks_like_secret(value: str) -> bool:
    """True for a long random string, or a UUID, which some vendors use."""
    if _UUID.fullmatch(value):
        return True
    if len(value) >= 12 and value.isalnum() and value.lower() == value and _mixed(value):
        return True
    if len(value) < 16:
        return len(value) >= 12 and value.isalnum() and looks_random(value, mixed=True, most=2.6)
    return looks_random(value) and any(character.isdigit() for character in value)


def looks_random(word: str, mixed: bool = False, most: float = _MAX_CHARS_PER_PIECE) -> bool:
    """True if the word consists of short pieces of letters and digits, at most `most` characters each on average.

    `mixed` requires lower-case letters, capital letters and digits.
    """
    pieces = _PIECES.findall(word)
    if len(pieces) < 3 or sum(map(len, pieces)) > most * len(pieces):
        return False
    parts = _PARTS.split(word)
    if len(parts) > 1 and all(map(_PART.fullmatch, parts)):
        return False  # `my-app-tls-v2`: words, each with at most a number
    digits = any(character.isdigit() for character in word)
    if mixed:
        return digits and word.lower() != word and word.upper() != word
    return digits or (word.lower() != word and word.upper() != word)


def _mixed(value: str) -> bool:
    """True for at least four digits and four letters, as in an invented `abcdef1234567890`."""
    digits = sum(map(str.isdigit, value))
    return digits >= 4 and len(value) - digits >= 4


def is_pair_in_base64(value: str) -> bool:
    """True for `user:password` in base64, as sent by basic authentication."""
    try:
        pair = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):  # not base64, or not of text
        return False
    user, colon, password = pair.partition(":")
    return bool(colon) and user.isprintable() and password.isprintable() and len(password) >= 3
