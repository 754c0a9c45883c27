"""Plans: the exact changes an operation would make, decided before any file is written."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from memoryd.core.spans import Edit, Span

ANY_CONTENT = "any content"  # the base of an append planned without reading the file


class Kind(StrEnum):
    """The effect of an action on its file."""

    APPEND = "append"  # add `data` at the end of `path`, creating it when missing
    REWRITE = "rewrite"  # apply `edits` to `path`
    CREATE = "create"  # create `path` with `data`; refused if the name exists
    REMOVE = "remove"
    CHMOD = "chmod"  # set `mode`; never grants more access
    ACCEPT = "accept"  # take the state of `path` as right and end its alarm; no file is changed
    NOTE = "note"  # nothing to write; something the user should know or decide


class Action(Struct, frozen=True):
    """One change of one file.

    `base`: SHA-256 (hex) of the content the change was planned on; ANY_CONTENT for an append that fits any content.
    `why`: the reason, for people; `reasons`, if given, holds one for each of `ids`.
    `copy`: the action copies memories elsewhere before a later action of its group removes them; appends always do.
    `quarantine`: spans of the old content that no other file keeps; their bytes are copied to quarantine first.
    `mode`: permission bits, for CHMOD and for restored files. New files otherwise get the mode of their siblings if
    the layout is shared, else 0600.
    `no_backup`: a REWRITE that only changes counters. Its backup would only push out one of a memory.
    """

    kind: Kind
    path: str
    why: str
    ids: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    data: bytes = b""
    mode: int | None = None
    base: str | None = None
    reasons: tuple[str, ...] = ()
    copy: bool = False
    quarantine: tuple[Span, ...] = ()
    no_backup: bool = False


class Plan(Struct, frozen=True):
    """Actions in a safe order: copies come before the removals that depend on them, and every REWRITE or REMOVE
    ends a group that can be committed or rolled back by itself."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Action, ...] = ()
    waiting: int = 0  # memories that are also due but left to the next run

    def __bool__(self) -> bool:
        return bool(self.actions)

    def groups(self) -> list[tuple[Action, ...]]:
        """Return the actions in groups that can be committed or rolled back by themselves."""
        complete: list[tuple[Action, ...]] = []
        current: list[Action] = []
        for action in self.actions:
            current.append(action)
            if action.kind in (Kind.REWRITE, Kind.REMOVE) and not action.copy:
                complete.append(tuple(current))
                current = []
        if current:
            complete.append(tuple(current))
        return complete
