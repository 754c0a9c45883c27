"""Storing through memoryd: add, update, forget and bring back, each by the rules of the root's own layout.

The layout decides what changes, the commit carries it out: under the store's lock, against exactly the bytes it was
decided on, and decided again where another writer was faster. Only the memory itself must hold still: when somebody
else changes or takes away just what is to be changed, that is a conflict for whoever asked to settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, NamedTuple, TypeVar

from memoryd.core.digest import sha256
from memoryd.core.plan import Plan
from memoryd.core.secrets import redact
from memoryd.disk.shelf import Held
from memoryd.errors import ConflictError, InvalidMemoryError, NotFoundError
from memoryd.layouts.storing import Asked, Found, Stored, StoringView
from memoryd.operations.alarms import remember_change
from memoryd.operations.archive import tidy
from memoryd.operations.laid_aside import bytes_of, laid_aside, lay_aside
from memoryd.operations.locate import find_archived, find_live
from memoryd.operations.sensitive import require_storable, require_storable_entry
from memoryd.operations.touching import follow_id
from memoryd.operations.undone import store_again, watch
from memoryd.store import Store
from memoryd.store.commit import Cause, change
from memoryd.store.recent import Recent
from memoryd.store.storing import layout_of, storing_view

BY_ID = ("jsonl-store", "json-files")  # layouts whose memories may be given their id
F = TypeVar("F", Found, Found | None)


@dataclass(frozen=True, slots=True)
class Means:
    """What storing is given from above: a random number of 64 bits, the time zone of the place, and whether the five
    general words of the seed's list may stand in a topic file."""

    number: int = 0
    zone: tzinfo = UTC
    allow_words: bool = False


class Outcome(NamedTuple):
    """`receipt` is None where nothing had to change; `paths` are the files that did."""

    id: str
    path: str
    receipt: str | None
    paths: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def public(self, root: str) -> dict[str, Any]:
        told: dict[str, Any] = {"root": root, "id": self.id, "path": self.path}
        more = {"receipt": self.receipt, "warnings": list(self.warnings)}
        return told | {key: value for key, value in more.items() if value}


def add(store: Store, asked: Asked, now: float, means: Means) -> Outcome:
    """A new memory. Raises SensitiveError, InvalidMemoryError, LimitExceededError, UsageError."""
    warnings = require_storable(store, asked.memory, where=asked.where, allow_words=means.allow_words)
    view = _view(store, now, means)

    def decide() -> Stored:
        seen = view()
        stored = layout_of(store).add(seen, asked)
        return require_storable_entry(store, seen, stored, allow_words=means.allow_words)

    outcome = _carry_out(store, "add", decide, now, warnings=warnings)
    remember_change(store, outcome.receipt, kept=outcome.id)
    if outcome.receipt is not None:
        recent = Recent(now, asked.memory, asked.where, zone=means.zone, allow_words=means.allow_words)
        watch(store, outcome.path, outcome.id, recent)
    return outcome


def update(store: Store, asked: str, changes: Mapping[str, Any], now: float, means: Means) -> Outcome:
    """Named fields of one live memory; None takes a field away."""
    warnings = require_storable(store, changes, allow_words=means.allow_words)
    view, still = _view(store, now, means), _Still(asked)

    def decide() -> Stored:
        found = still.the_same(lambda: find_live(store, asked, now))
        seen = view()
        stored = layout_of(store).update(seen, found, changes)
        return require_storable_entry(store, seen, stored, allow_words=means.allow_words)

    outcome = _carry_out(store, "update", decide, now, warnings=warnings)
    remember_change(store, outcome.receipt, out={outcome.path: [still.id]}, kept=outcome.id)
    follow_id(store, outcome.path, still.id, outcome.id)
    if outcome.receipt is not None:
        recent = Recent(now, changes=changes, before=still.digest, zone=means.zone, allow_words=means.allow_words)
        watch(store, outcome.path, outcome.id, recent)
    return outcome


def bring_back(store: Store, now: float, *, asked: bool = False) -> list[dict[str, Any]]:
    """Store again what an agent wrote an older state over; `asked`: also what does not come back by itself."""

    def again(identity: str, recent: Recent) -> tuple[str, str | None]:
        means = Means(zone=recent.zone, allow_words=recent.allow_words)
        if recent.changes is not None:
            outcome = update(store, identity, recent.changes, now, means)
        else:
            by_id = store.layout is not None and store.layout.name in BY_ID
            memory = {**recent.memory, "id": identity} if by_id else recent.memory
            outcome = add(store, Asked(memory, recent.where), now, means)
        store.recent.get(outcome.path, {}).pop(outcome.id, None)  # once
        return outcome.id, outcome.receipt

    return list(store_again(store, now, again, asked=asked))


def forget(store: Store, asked: str, now: float, means: Means) -> Outcome:
    """Out of the live memories: into the archive of the layout, else aside, for `unarchive` to put back."""
    view, still = _view(store, now, means), _Still(asked)

    def decide() -> Stored:
        found = still.the_same(lambda: find_live(store, asked, now))
        return layout_of(store).forget(view(), found)

    outcome = _carry_out(store, "forget", decide, now, first=lambda stored: lay_aside(store, stored, now))
    remember_change(store, outcome.receipt, out={outcome.path: [still.id]})
    return outcome


def unarchive(store: Store, asked: str, now: float, means: Means) -> Outcome:
    """An archived memory, or one that was forgotten where there is no archive, back among the live ones."""
    view, still = _view(store, now, means), _Still(asked)
    taken: list[str] = []

    def decide() -> Stored:
        found = still.the_same(lambda: find_archived(store, asked, now))
        if found is not None:
            return layout_of(store).unarchive(view(), found)
        kept = laid_aside(store, asked, now)
        taken[:] = [kept.id]
        return layout_of(store).put_back(view(), kept.path, bytes_of(store, kept))

    outcome = _carry_out(store, "unarchive", decide, now, soft=True)
    if outcome.receipt is not None:
        _hold(store, outcome, now)
        remember_change(store, outcome.receipt, kept=outcome.id)
        for identity in taken:  # beside an equal one it has got another id
            store.blobs.drop(store.journal.take_forgotten(identity))
    return outcome


def _hold(store: Store, outcome: Outcome, now: float) -> None:
    """No schedule moves it again as it is: what somebody brought back would be due again at once."""
    source = store.load(outcome.path, now, [outcome.id])
    if source is None:
        return
    data = source.loaded.data
    spans = [record.span for record in source.loaded.document.records if record.id == outcome.id]
    store.journal.hold(Held(outcome.path, outcome.id, sha256(span.of(data))) for span in spans)


class _Still:
    """The memory as it was first seen; later looks must find the same. That it was read in between, which some
    programs count in its file, changes nothing of it."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._seen: Found | None = None

    @property
    def digest(self) -> str | None:
        """Of its bytes before the change."""
        return None if self._seen is None else sha256(self._seen.record.span.of(self._seen.loaded.data))

    @property
    def id(self) -> str:
        return self._seen.record.id if self._seen is not None else self._asked

    def the_same(self, look: Callable[[], F]) -> F:
        found: F | None
        try:
            found = look()
        except NotFoundError:
            if self._seen is None:
                raise
            found = None
        if self._seen is not None and (found is None or not _says_the_same(self._seen, found)):
            raise ConflictError(
                f"{redact(self._asked)} in {self._seen.path} was changed by another program meanwhile",
                hint="look at it as it is now with `memoryd get`, then try again",
                data={"changed": [self._seen.path], "id": redact(self._asked)},
            )
        self._seen = found
        return found  # type: ignore[return-value]  # where None is no answer, the look has raised


def _says_the_same(one: Found, other: Found) -> bool:
    """By its bytes, else by the layout's own measure of a file, where it has one."""
    if one.record.span.of(one.loaded.data) == other.record.span.of(other.loaded.data):
        return True
    before, after = (each.loaded.document.facts.get("meaning") for each in (one, other))
    return before is not None and before == after


def _view(store: Store, now: float, means: Means) -> Callable[[], StoringView]:
    """Made anew for each decision: what it has read is of one moment."""
    return lambda: storing_view(store, now, number=means.number, zone=means.zone)


def _carry_out(
    store: Store,
    operation: str,
    decide: Callable[[], Stored],
    now: float,
    *,
    first: Callable[[Stored], None] | None = None,
    soft: bool = False,
    warnings: tuple[str, ...] = (),
) -> Outcome:
    made: list[Stored] = []

    def plan() -> Plan:
        made[:] = [_without_secrets(decide)]
        return made[0].plan

    def prepare(_: Plan) -> None:
        if first is not None:
            first(made[0])

    cause, wait_s = Cause(operation, "command"), store.policy.lock_wait_s
    done = change(store, cause, plan, now=now, wait_s=wait_s, first=prepare, soft=soft, sure=True)
    tidy(store, done.plan)
    paths = tuple(dict.fromkeys(action.path for action in done.plan.actions))
    return Outcome(made[0].id, made[0].path, done.receipt, paths, warnings)


def _without_secrets(decide: Callable[[], Stored]) -> Stored:
    """A layout may repeat in its refusal what it was given."""
    try:
        return decide()
    except InvalidMemoryError as error:
        findings = [{str(k): redact(str(v)) for k, v in each.items()} for each in error.data.get("findings", ())]
        hint = redact(error.hint) if error.hint else None
        raise InvalidMemoryError(redact(error.message), hint=hint, data={"findings": findings}) from None
