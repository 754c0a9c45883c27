"""What a layout must tell about storing: how a memory asked for becomes a plan in the layout's own form.

Everything is pure: files come in through `StoringView`, plans go out. Whether a text may be stored at all (secrets)
is decided a floor above, before any of this. A memory that does not fit its layout is an `InvalidMemoryError` whose
`data["findings"]` lists `{"field", "rule"}`, all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, NamedTuple, Protocol

from memoryd.core.plan import Plan
from memoryd.core.policy import Limit, Policy
from memoryd.core.records import Record
from memoryd.core.text import Edit
from memoryd.layouts.base import FileSummary, Loaded


class Asked(NamedTuple):
    """What somebody wants stored: native fields as given, and where (`topic`, `subtopic`, `user`, `session`)."""

    memory: Mapping[str, Any]
    where: Mapping[str, str] = {}


class Load(Protocol):
    """Reads one file afresh (None: not there). With `ids` its document need tell of no memories but these."""

    def __call__(self, path: str, ids: Collection[str] | None = None, /) -> Loaded | None: ...


def no_vector(text: str, size: int) -> None:
    """Where nothing makes vectors."""
    del text, size


@dataclass(frozen=True, slots=True)
class StoringView:
    """All that storing is decided on. `content` gives the bytes of any file, `files` what the catalogue knows of all;
    `number` is random, 64 bits; `embed(text, size)` gives a vector of that size, None where no embedder has it; `zone`
    is that of the place, by which some files are named; `held` are the digests of memories that somebody brought back,
    which no pruning takes along."""

    load: Load
    content: Callable[[str], bytes | None]
    files: Mapping[str, FileSummary]
    policy: Policy
    limits: Mapping[str, Limit]
    now: float
    number: int = 0
    embed: Callable[[str, int], Sequence[float] | None] = no_vector
    zone: tzinfo = UTC
    held: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """A memory that is to be changed: the file it stands in, read afresh, and its record there. The document may tell
    of the memories with that id alone (see `Load`)."""

    path: str
    loaded: Loaded
    record: Record


class Stored(NamedTuple):
    """The plan that stores, and where the memory is then. `kept` are the bytes that the plan takes out of the store
    with no archive to go to: they are kept so that the memory can be put back."""

    plan: Plan
    id: str
    path: str
    kept: bytes | None = None


class Touch(NamedTuple):
    """So many reads of a memory, the last of them at this time (seconds)."""

    times: int
    at: float


class Storing(Protocol):
    """The storing half of a layout. Errors: `InvalidMemoryError` (does not fit), `LimitExceededError` (a hard limit),
    `UsageError` (a place is missing or means nothing here), `ConflictError` (what is there stands in the way),
    `BusyError` (it is being written), `NotFoundError`."""

    def add(self, view: StoringView, asked: Asked) -> Stored:
        """A new memory by the layout's own rules. An append whose place needs no look at the file is an APPEND to
        `WHATEVER`; the commit sees to the newline before it."""

    def update(self, view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
        """Only the named fields change; a value of None takes a field away. What is derived from them follows
        (`updated_at`, `version`); everything else keeps its bytes."""

    def forget(self, view: StoringView, found: Found) -> Stored:
        """Into the layout's archive where it has one; else out, with the bytes in `kept`."""

    def unarchive(self, view: StoringView, found: Found) -> Stored:
        """An archived memory back among the live ones."""

    def put_back(self, view: StoringView, path: str, kept: bytes) -> Stored:
        """What an earlier `forget` took out of `path`, byte for byte, in again."""

    def touch(self, path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
        """Access statistics of the memories read (by id), where the layout has them; else nothing."""

    def native(self, path: str, text: bytes) -> Mapping[str, Any]:
        """The memory whose span holds `text`, as its agent wrote it (`{"text": ...}` where it is no object)."""
