"""Plans: the exact list of changes an operation would make, decided before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from memoryd.core.text import Edit, Span

WHATEVER = "whatever is there"  # the base of an append that was decided on without a look at the file


class Kind(StrEnum):
    APPEND = "append"  # add `data` at the end of `path`, creating it when missing
    REWRITE = "rewrite"  # apply `edits` to `path`
    CREATE = "create"  # new file with `data`; refused when the name is taken
    REMOVE = "remove"
    CHMOD = "chmod"  # set `mode`; only ever tightens
    NOTE = "note"  # nothing to write: something a person should know or decide


@dataclass(frozen=True, slots=True)
class Action:
    """One step. `base` is the SHA-256 (hex) of the content that `edits` were decided on, or WHATEVER for an append of
    whole lines, which then begins a line of its own; `whys`, where
    given, holds the reason for each of `ids`. A `copy` keeps memories elsewhere before a later action of
    its group takes them out of a live file; appends always are. `aside` are spans of the content before that no
    other file keeps: their bytes go to quarantine first. `mode` is that of a CHMOD, or of a file that comes back;
    a file that is new is private. A `light` REWRITE changes what is only counted: it is worth no backup, which would
    push out one of a memory."""

    kind: Kind
    path: str
    why: str
    ids: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    data: bytes = b""
    mode: int | None = None
    base: str | None = None
    whys: tuple[str, ...] = ()
    copy: bool = False
    aside: tuple[Span, ...] = ()
    light: bool = False

    def public(self) -> dict[str, Any]:
        """What the control protocol and `--dry-run` show; `memories` tells the reason for each id."""
        shown = {"kind": str(self.kind), "path": self.path, "ids": list(self.ids), "why": self.why}
        if not self.whys:
            return shown
        return shown | {"memories": [{"id": i, "why": w} for i, w in zip(self.ids, self.whys, strict=True)]}


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in safe order: copies come before the removal they make possible, and every
    REWRITE or REMOVE ends a group that can be carried out or rolled back on its own."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Action, ...] = ()
    waiting: int = 0  # memories that are due as well and wait for the next run

    def __bool__(self) -> bool:
        return bool(self.actions)

    def public(self) -> dict[str, Any]:
        return {"actions": [action.public() for action in (*self.actions, *self.notes)]}

    def groups(self) -> list[tuple[Action, ...]]:
        found: list[tuple[Action, ...]] = []
        current: list[Action] = []
        for action in self.actions:
            current.append(action)
            if action.kind in (Kind.REWRITE, Kind.REMOVE) and not action.copy:
                found.append(tuple(current))
                current = []
        if current:
            found.append(tuple(current))
        return found


class Fingerprint(NamedTuple):
    """Identity and state of a file as `stat` tells it: equal means "not changed since we read it",
    but for two writes within one clock tick, which is why young files are hashed again."""

    dev: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int = 0
    uid: int = 0
    nlink: int = 1

    def same_file(self, other: Fingerprint) -> bool:
        """The same inode, whatever became of its content."""
        return (self.dev, self.inode) == (other.dev, other.inode)

    def same_content(self, other: Fingerprint | None) -> bool:
        """Equal but for mode, owner and change time (a chmod is no change of content)."""
        return other is not None and (self.dev, self.inode, self.size, self.mtime_ns) == (
            other.dev,
            other.inode,
            other.size,
            other.mtime_ns,
        )


Facts = Mapping[str, Any]
