"""Entries of the journal and their steps: the values, and how they lie in a row."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, NamedTuple

from memoryd.core.dates import iso
from memoryd.disk.database import packed, said, unpacked

CAUSES = frozenset({"command", "schedule", "start", "watch"})
STATES = frozenset({"begun", "done", "undone", "rolled_back", "interrupted", "failed"})


class Step(NamedTuple):
    """One change to one file. Digests are SHA-256 (hex) of the whole file before and after; None: no file.

    `base_size` is the length an append found, `blob` the content that an undo needs, or `content` where it is small
    enough to stand here (compressed), `mode` the permission bits before a chmod, `group` the number of the group
    that stands or falls together. `position` and `applied` are the journal's: what `begin` is given there is ignored.
    """

    kind: str
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One change, with its steps in order. `at` is seconds since the epoch; `state` one of STATES."""

    seq: int
    receipt: str
    at: float
    operation: str
    by: str
    summary: str
    state: str
    undone_by: str | None
    error: str | None
    steps: tuple[Step, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Each path once, in the order of the steps."""
        return tuple(dict.fromkeys(step.path for step in self.steps))

    def public(self) -> dict[str, Any]:
        """What `history` shows; the caller adds the root's name."""
        return {
            "receipt": self.receipt,
            "at": iso(self.at),
            "operation": self.operation,
            "by": self.by,
            "summary": self.summary,
            "undone": self.state == "undone",
            "state": self.state,
            "paths": list(self.paths),
        }


def columns_of(step: Step) -> tuple[Any, ...]:
    """In the order of the table, from `group_no` to `content`."""
    sizes = (step.before_sha, step.before_size, step.after_sha, step.after_size, step.base_size)
    note = None if step.note is None else said(step.note)
    return (step.group, str(step.kind), packed(step.path), *sizes, step.blob, step.mode, note, step.content)


def step_of(row: sqlite3.Row) -> Step:
    fields = dict(row)
    del fields["entry"]
    group, path, applied = fields.pop("group_no"), unpacked(fields.pop("path")), bool(fields.pop("applied"))
    return Step(path=path, group=group, applied=applied, **fields)


def entry_of(row: sqlite3.Row, steps: tuple[Step, ...]) -> Entry:
    return Entry(**dict(row), steps=steps)
