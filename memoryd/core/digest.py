"""The one digest of the house: SHA-256 in hex of a whole content."""

from __future__ import annotations

import hashlib


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
