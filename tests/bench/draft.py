"""What a generated memory says before it has a form, and how its file is put in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.bench.planting import Needle

OLD_S = 1_767_225_600  # 2026-01-01: when everything was written last


class Draft(NamedTuple):
    """What a memory says, before it has a form. `created` in seconds."""

    number: int
    created: int
    title: str
    body: str
    tags: tuple[str, ...]
    needle: Needle | None = None


class Place(NamedTuple):
    """The file a memory went to. `alone` is a file of just this memory, where the layout gives it the same id there:
    large files need not be read again."""

    path: str
    alone: bytes | None = None


Written = Iterator[tuple[Draft, Place]]
"""Each draft and where it went, in any order."""
Write = Callable[[Iterable[Draft]], Written]


def put(path: Path, content: bytes) -> None:
    with open(path, "wb", opener=private) as file:
        file.write(content)
    os.utime(path, (OLD_S, OLD_S))


def private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def pretty(native: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(native), indent=2)
