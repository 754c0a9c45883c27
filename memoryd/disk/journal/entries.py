"""Entries of the journal and their steps: values, conversion from and to table rows, and receipts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import count
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from memoryd.core.dates import compact
from memoryd.core.digest import digest_of
from memoryd.core.plan import Kind
from memoryd.disk.journal.database import from_blob, printable, to_blob

CAUSES = frozenset({"command", "schedule", "start", "watch"})
EntryState = Literal["begun", "done", "undone", "rolled_back", "interrupted", "failed"]


class Step(NamedTuple):
    """One change to one file. Digests are SHA-256 (hex) of the whole file before and after; None: no file.

    `base_size`: the size of the file before an append. `blob`: the content that an undo needs, or, if it is small,
    `content` (compressed). `mode`: the permission bits before a chmod. `group`: steps with the same number succeed or
    fail together. `position` and `applied` are set by the journal; `begin` ignores them.
    """

    kind: Kind
    path: str
    group: int = 0
    before_sha: str | None = None
    before_size: int | None = None
    after_sha: str | None = None
    after_size: int | None = None
    base_size: int | None = None
    blob: str | None = None
    content: bytes | None = None
    mode: int | None = None
    note: str | None = None
    position: int = 0
    applied: bool = False


class Entry(Struct, frozen=True):
    """One change, with its steps in order. `at` is seconds since the epoch."""

    seq: int
    receipt: str
    at: float
    operation: str
    by: str
    summary: str
    state: EntryState
    undone_by: str | None
    error: str | None
    steps: tuple[Step, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Each path once, in the order of the steps."""
        return tuple(dict.fromkeys(step.path for step in self.steps))


def columns_of(step: Step) -> tuple[Any, ...]:
    """Return the values of a step in the order of the table, from `group_no` to `content`."""
    sizes = (step.before_sha, step.before_size, step.after_sha, step.after_size, step.base_size)
    note = None if step.note is None else printable(step.note)
    return (step.group, str(step.kind), to_blob(step.path), *sizes, step.blob, step.mode, note, step.content)


def step_of(row: sqlite3.Row) -> Step:
    """Convert a row of the table to a step."""
    fields = dict(row)
    del fields["entry"]
    kind, path = Kind(fields.pop("kind")), from_blob(fields.pop("path"))
    group, applied = fields.pop("group_no"), bool(fields.pop("applied"))
    return Step(kind=kind, path=path, group=group, applied=applied, **fields)


def entry_of(row: sqlite3.Row, steps: tuple[Step, ...]) -> Entry:
    """Convert a row of the table to an entry."""
    return Entry(**dict(row), steps=steps)


_RANDOM_BITS = 18  # after those of the time
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 in sort order, without letters that look alike


def receipts(salt: str, now: float) -> Iterator[str]:
    """Yield candidates for the receipt of a change: short ids that sort by time (`20260131-k2f7xqa`), made from a hash,
    so that roots whose jobs run in the same second get different ones. `salt`: the journal's path."""
    for attempt in count():
        random = int.from_bytes(digest_of(to_blob(f"{salt}\n{now!r}\n{attempt}")).digest()[:4], "big")
        yield _format(now, random % 2**_RANDOM_BITS)


def _format(now: float, random: int) -> str:
    """Format a receipt: the date, then 35 bits of the second of the day and the random number."""
    number = int(now % 86_400) * 2**_RANDOM_BITS + random
    return f"{compact(now)[:8]}-" + "".join(_DIGITS[number >> shift & 31] for shift in range(30, -1, -5))
