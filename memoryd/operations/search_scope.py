"""Decide which roots and users a search covers, and how fresh its answer is.

Users of a document layout are strictly separate: if there are several, in one root or over several, and the caller
names none, their memories are withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from memoryd.control.methods.memories import Freshness
from memoryd.core.dates import iso
from memoryd.core.defaults import Policy
from memoryd.core.index import IndexReader, IndexUnavailable, IndexWriter, Memory
from memoryd.core.query import Filters
from memoryd.core.secrets import redact
from memoryd.errors import UsageError
from memoryd.layouts.registry import LAYOUTS
from memoryd.layouts.user_document.parser import user_of
from memoryd.layouts.user_document.users import match_user
from memoryd.log import get_logger

log = get_logger(__name__)

MAX_NAMES = 20  # users named in a message
CURRENT_STATES = ("ok", "degraded", "read_only")  # states of a root whose changes are indexed at once
STALE_STATES = ("paused", "scanning")
UNWATCHED_STATES = ("paused", "missing")  # states that last, given as the reason of an answer that is not fresh

Row = TypeVar("Row")

Scope = Mapping[str, str | None]
"""By root name: the user whose memories may be shown, None for a root without users. Other roots show nothing."""


def owners_of(root: SearchRoot, reader: IndexReader) -> list[str]:
    """Return the users of a root; "" is the user whose document is in the root itself. Empty if it has no users."""
    names: Sequence[str] = reader.owners()
    layout = LAYOUTS.get(root.layout or "")
    separate = layout is not None and layout.reader.separates_users
    if separate:
        names = sorted({*names, *map(user_of, root.unread)})
    return list(names) if separate or any(names) else []


def find_scope(roots: Sequence[SearchRoot], user: str | None) -> tuple[dict[str, Freshness], Scope]:
    """Return how fresh the index of each root is, with what is withheld and why, and what may be shown. Raises as
    `resolve_scope` does."""
    fresh = {root.name: freshness(root) for root in roots}
    scope = resolve_scope(owners_in(roots), user, fresh)
    note_unread_files(roots, scope, fresh)
    return fresh, scope


def resolve_scope(owners: Mapping[str, Sequence[str]], user: str | None, fresh: Mapping[str, Freshness]) -> Scope:
    """Decide what may be shown, from the users of each root and the `user` named by the caller, if any.

    Sets `withheld` in `fresh` for roots that are left out. Raises UsageError for a user unknown to every root, or an
    ambiguous one.
    """
    if user is not None:
        return _scope_of_user(owners, user)
    several = len({name for names in owners.values() for name in names}) > 1
    allowed: dict[str, str | None] = {}
    for root, names in owners.items():
        if several and names:
            fresh[root].withheld = f"memories of several users ({_user_names(owners)}): name one with `user`"
        else:
            allowed[root] = names[0] if names else None
    return allowed


def note_unread_files(roots: Sequence[SearchRoot], scope: Scope, fresh: Mapping[str, Freshness]) -> None:
    """Report in `fresh` the files in scope that could not be read: the index has an older state of them, or none."""
    for root in roots:
        user = scope.get(root.name)
        unread = [path for path in root.unread if user is None or user_of(path) == user]
        if unread and root.name in scope:
            more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
            status = fresh[root.name]
            status.state = "stale" if status.state == "fresh" else status.state
            status.withheld = f"{redact(unread[0])}{more}: not read; `memoryd status` shows the reason"


def _scope_of_user(owners: Mapping[str, Sequence[str]], user: str) -> Scope:
    allowed = {root: name for root, names in owners.items() if (name := match_user(names, user)) is not None}
    if not allowed and any(owners.values()):
        raise UsageError(f"user: there is no user {redact(user)}", hint=f"users: {_user_names(owners)}")
    return allowed


def user_in(owners: Mapping[str, Sequence[str]], identity: str) -> str | None:
    """Return the user whose memory has this id; None if there is none. Ids in a user's document start with the name."""
    name = identity.rpartition("/")[0]
    return name if any(name in names for names in owners.values()) else None


def _user_names(owners: Mapping[str, Sequence[str]]) -> str:
    names = sorted({redact(name) or "(the root itself)" for each in owners.values() for name in each})
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")


class SearchRoot(Struct, frozen=True):
    """One root to search. `state` and `lag_ms` (how far the index is behind) are as in `status`."""

    name: str
    catalogue: IndexWriter
    layout: str | None
    state: str
    generation: int
    lag_ms: int
    policy: Policy = field(default_factory=Policy)
    unread: tuple[str, ...] = ()  # files that could not be read


def freshness(root: SearchRoot) -> Freshness:
    """Return how current the index of a root is.

    `fresh`: all known changes are indexed. `stale`: some are not, or changes are not watched now. `unknown`: the root
    is unreachable or suspect, so the index shows an earlier state.
    """
    state = "unknown"
    if root.state in CURRENT_STATES:
        state = "stale" if root.lag_ms else "fresh"
    elif root.state in STALE_STATES:
        state = "stale"
    reason = root.state if root.state in UNWATCHED_STATES else UNSET
    return Freshness(state=state, generation=root.generation, lag_ms=root.lag_ms, reason=reason)


def read_index(root: SearchRoot, fresh: Freshness | None, query: Callable[[IndexReader], list[Row]]) -> list[Row]:
    """Run `query` on one consistent state of the index of a root.

    If the index cannot be read (it is a cache that may be damaged or deleted at any time), returns nothing and says so
    in `fresh`, so that the other roots are still answered.
    """
    try:
        with root.catalogue.reader() as reader:
            return query(reader)
    except IndexUnavailable as error:
        log.warning("catalogue_unreadable", root=root.name, reason=str(error))
        if fresh is not None:
            fresh.state, fresh.withheld = "unknown", "the index of this root cannot be read at the moment"
        return []


def owners_in(roots: Sequence[SearchRoot]) -> dict[str, Sequence[str]]:
    """Return the users of each root whose index can be read. A layout that does not separate users has none."""
    return {
        root.name: read_index(root, None, partial(owners_of, root)) if _may_have_users(root) else [] for root in roots
    }


def _may_have_users(root: SearchRoot) -> bool:
    layout = LAYOUTS.get(root.layout or "")
    return layout is None or layout.reader.separates_users


def of_user(filters: Filters, user: str | None) -> Filters:
    """Return the filters for the memories of this user; None: for those without a user."""
    return replace(filters, owner=user or "")


def row_values(root: SearchRoot, memory: Memory) -> tuple[Any, ...]:
    """Return what search and list tell about a memory: the members of a MemoryRow, in their order."""
    return (
        root.name,
        memory.id,
        memory.path,
        memory.line,
        memory.title,
        memory.type,
        memory.tags.split("\n") if memory.tags else [],
        iso(memory.created) if memory.created is not None else None,
        memory.archived,
        root.layout,
        memory.owner or UNSET,
    )
