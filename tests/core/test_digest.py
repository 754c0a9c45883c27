"""SHA-256 with OpenSSL and without it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from memoryd.core.digest import LARGE, digest_of

DIGESTS = {
    0: "e3b0c442",
    3: "cd2eb083",
    LARGE - 1: "09ab7495",
    LARGE: "1f8745f0",
    3 * LARGE: "7c30a2f6",
}  # of b"xxx..."
HAS_OWN = any(find_spec(name) for name in ("_sha2", "_sha256"))
WITHOUT_OWN = "import sys; sys.modules['_sha2'] = sys.modules['_sha256'] = None\n"


def python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("size", DIGESTS)
def test_a_digest(size: int) -> None:
    whole, parts = digest_of(b"x" * size), digest_of(memoryview(b"x" * (size // 2)), size=size)
    parts.update(b"x" * (size - size // 2))
    assert whole.hexdigest()[:8] == parts.copy().hexdigest()[:8] == DIGESTS[size]


@pytest.mark.skipif(not HAS_OWN, reason="this Python has OpenSSL alone")
def test_the_daemon_loads_openssl_for_a_large_content_only() -> None:
    script = f"""
import sys
import memoryd.cli.local_commands, memoryd.service.start
from memoryd.core.digest import digest_of
small = [digest_of(b"x" * size).hexdigest()[:8] for size in (0, 3, {LARGE - 1})]
print(*small, *({{"hashlib", "_hashlib"}} & {{*sys.modules}}))
print(digest_of(b"x" * 3, size={LARGE}).hexdigest()[:8], "_hashlib" in sys.modules)
import hashlib
print(hashlib.sha256.__name__)
"""
    assert python(script).split("\n")[:3] == ["e3b0c442 cd2eb083 09ab7495", "cd2eb083 True", "openssl_sha256"]


def test_a_python_without_an_implementation_of_its_own_uses_openssl() -> None:
    script = "import memoryd.disk.daemon_lock\nfrom memoryd.core.digest import digest_of\n"
    assert python(f"{WITHOUT_OWN}{script}print(digest_of(b'xxx').hexdigest()[:8])") == "cd2eb083\n"
