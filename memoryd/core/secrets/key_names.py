"""The kind of value that a name announces: `DB_PASSWORD` a password, `client_secret` a secret, `max_tokens` none."""

from __future__ import annotations

import re
from functools import lru_cache

# A password may be short, a secret is long and random. A plain `key` may be anything, so only an unmistakably random
# value counts. Credentials are a user and a password, auth is such a pair in base64.
PASSWORD, SECRET, KEY, PAIR, AUTH = "password", "secret", "key", "pair", "auth"

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

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
    words = [word.lower() for word in _WORDS.findall(name)]
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
