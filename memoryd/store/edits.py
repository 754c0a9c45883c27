"""Edits as they lie in a blob: JSON, the new bytes in base64."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memoryd.core.text import Edit, Span

_decoder = msgspec.json.Decoder(list[tuple[int, int, bytes]])


def encode_edits(edits: Sequence[Edit]) -> bytes:
    return msgspec.json.encode([(edit.span.start, edit.span.end, edit.new) for edit in edits])


def decode_edits(blob: bytes) -> tuple[Edit, ...]:
    return tuple(Edit(Span(start, end), new) for start, end, new in _decoder.decode(blob))
