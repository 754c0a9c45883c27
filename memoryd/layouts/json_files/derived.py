"""The two derived files as JSON: read leniently, written as the server's `JSON.stringify(value, null, 2)` does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from memoryd.layouts.json_files.reading import decode_text


def decoded(content: bytes | None) -> dict[str, Any] | None:
    if not content:
        return None
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        value = _decoded_slowly(content)
    return value if isinstance(value, dict) else None


def _decoded_slowly(content: bytes) -> Any:
    """What only Python's own parser accepts: escapes of lone surrogates, which the server writes."""
    try:
        return decode_text(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def unknown(content: bytes | None, previous: Mapping[str, Any] | None, keys: Collection[str]) -> dict[str, msgspec.Raw]:
    """The members of an index file that are none of ours."""
    if not content or previous is None or all(key in keys for key in previous):
        return {}
    try:
        found = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):  # a key that UTF-8 cannot write: an index file is ours to make anew
        return {}
    return {key: value for key, value in found.items() if key not in keys}


def encoded(value: Mapping[str, Any]) -> bytes:
    """Byte for byte what `JSON.stringify(value, null, 2)` gives."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
