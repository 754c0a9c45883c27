"""SHA-256, without OpenSSL as long as the contents are small.

`hashlib` loads OpenSSL, 3.6 MB of the memory of an idle daemon. Python's own implementation needs nothing more, but
takes five times as long: the first large content loads OpenSSL, which then hashes everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

    Hash = _Hash

LARGE = 64 * 1024  # bytes: 0.2 ms for Python's own implementation
_OPENSSL = "_hashlib"
_OWN = ("_sha2", "_sha256")  # since Python 3.12, and before


def digest_of(content: bytes | memoryview = b"", *, size: int = 0) -> Hash:
    """Return the SHA-256 of the content, to be updated further; of `size` bytes in the end, if so many are known."""
    small = max(len(content), size) < LARGE and _OPENSSL not in sys.modules
    new = (_own() if small else None) or _openssl()
    return new(content)


@contextmanager
def without_openssl() -> Iterator[None]:
    """Let modules that are imported in the block do without OpenSSL, as hmac can; hashlib is imported anew after it."""
    if _own() is None or _OPENSSL in sys.modules:
        yield
        return
    sys.modules[_OPENSSL] = None  # type: ignore[assignment]  # makes the import fail
    try:
        yield
    finally:
        del sys.modules[_OPENSSL]
        sys.modules.pop("hashlib", None)


@cache
def _openssl() -> Callable[[bytes | memoryview], Hash]:
    import hashlib  # noqa: PLC0415 - loads OpenSSL

    return hashlib.sha256


@cache
def _own() -> Callable[[bytes | memoryview], Hash] | None:
    """Return Python's own implementation; None where the distribution leaves it out."""
    for name in _OWN:
        with suppress(ImportError):
            own: Callable[[bytes | memoryview], Hash] = import_module(name).sha256
            return own
    return None
