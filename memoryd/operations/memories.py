"""Add, update, forget and restore memories by the rules of the layout.

The layout plans the change and the commit carries it out under the lock of the store, against the exact bytes it was
planned on; it is planned again if another writer was faster. If another program changed or removed the memory itself,
the caller gets a ConflictError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.places import with_suffix
from memoryd.core.plan import Action
from memoryd.core.secrets import redact
from memoryd.core.spans import sha256
from memoryd.core.vectors import unpack
from memoryd.disk.journal.trash import Pin
from memoryd.disk.locks.hold import HeldLock
from memoryd.errors import ConflictError, InvalidMemoryError, MemorydError, NotFoundError, nearest
from memoryd.index.texts import content_digest, text_of
from memoryd.layouts.protocol import Located, NewMemory, WritePlan, WriteView
from memoryd.operations.access_counts import move_counts
from memoryd.operations.batch import Drafts
from memoryd.operations.lookup import find_archived, find_live
from memoryd.operations.overwrites import RetriedWrite, failed_retry, record_change, retry_lost_writes, watch_change
from memoryd.operations.secret_check import reject_secrets, reject_secrets_in_entry
from memoryd.operations.trash import find_in_trash, put_in_trash
from memoryd.operations.upkeep import remove_empty_directories
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store
from memoryd.store.commit import Origin, commit, with_lock
from memoryd.store.layout_views import write_view, writer_of
from memoryd.store.recent_changes import LostWrite, RecentChange
from memoryd.store.undo_content import load_undo_content

MAX_NAME = 40  # of a field that may be a slip of the pen

LocatedT = TypeVar("LocatedT", Located, Located | None)


class Context(Struct, frozen=True):
    """The values a storing operation needs from its caller: a random 64-bit number, the local time zone, and whether
    the five general words in the list of the seed are allowed in a topic file. `by` is what triggered it (see
    `Origin`). `dry_run`: only plan an add or an update."""

    number: int = 0
    zone: tzinfo = UTC
    allow_words: bool = False
    by: str = "command"
    dry_run: bool = False


class Outcome(NamedTuple):
    """The result of a storing operation. `receipt` is None if nothing had to change; `paths` are the changed files, and
    `actions` the changes.

    `stored` has the (id, path) of each memory if several were stored in one call.
    """

    id: str
    path: str
    receipt: str | None
    paths: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    stored: tuple[tuple[str, str], ...] = ()
    actions: tuple[Action, ...] = ()


class _Decision(NamedTuple):
    """The plan of a storing operation. `stored`: id and path of each memory, if there are several; `trashed`: the id in
    the trash of the memory that it restores."""

    change: WritePlan
    stored: tuple[tuple[str, str], ...] = ()
    trashed: str | None = None


def add(store: Store, new: NewMemory, now: float, context: Context) -> Outcome:
    """Store a new memory. Raises SensitiveError, InvalidMemoryError, LimitExceededError, UsageError."""
    warnings = _review(store, new.memory, context, new.location)

    def decide() -> _Decision:
        snapshot = _view(store, now, context)
        stored = writer_of(store).add(snapshot, new)
        return _Decision(reject_secrets_in_entry(store, snapshot, stored, allow_words=context.allow_words))

    outcome = _commit(store, "add", decide, now, by=context.by, warnings=warnings, dry_run=context.dry_run)
    record_change(store, outcome.receipt, added=[outcome.id])
    _watch_added(store, outcome, [new], now, context)
    return outcome


def add_several(store: Store, new: Sequence[NewMemory], now: float, context: Context) -> Outcome:
    """Store several memories or none, with one receipt. Raises like `add`, with the index in `data["memory"]`."""
    warnings = []
    for number, each in enumerate(new):
        with _with_index(number):
            warnings.append(_review(store, each.memory, context, each.location))

    def decide() -> _Decision:
        drafts = Drafts(store.known_layout, _view(store, now, context))
        for number, each in enumerate(new):
            with _with_index(number):
                snapshot = drafts.view()
                stored = writer_of(store).add(snapshot, each)
                drafts.add(reject_secrets_in_entry(store, snapshot, stored, allow_words=context.allow_words))
        ids = tuple(drafts.stored())
        return _Decision(WritePlan(drafts.plan(), *ids[0], warnings=drafts.warnings), ids)

    unique = tuple(dict.fromkeys(warning for each in warnings for warning in each))
    outcome = _commit(store, "add", decide, now, warnings=unique)
    record_change(store, outcome.receipt, added=[identity for identity, _ in outcome.stored])
    _watch_added(store, outcome, new, now, context)
    return outcome


def _review(
    store: Store, memory: Mapping[str, object], context: Context, location: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return warnings about a memory that may be stored: possible secrets, and unknown fields whose name is nearly that
    of a known one. Raises SensitiveError if it may not."""
    warnings = reject_secrets(store, memory, location=location, allow_words=context.allow_words)
    if store.layout is None:
        return warnings
    known = tuple(store.layout.fields)
    slips = {name: _near_field(name, known) for name in memory if name not in known and len(name) <= MAX_NAME}
    return *warnings, *(f"{name}: stored as it is; did you mean {near}?" for name, near in slips.items() if near)


@lru_cache(maxsize=256)
def _near_field(name: str, known: tuple[str, ...]) -> str | None:
    """Return the known field whose name differs from an unknown one by little more than a letter. Many words that mean
    something else differ by two: content and context."""
    return nearest(name, known, least=0.9)


@contextmanager
def _with_index(number: int) -> Iterator[None]:
    """Add the index of the memory to errors, so that the caller of several knows which one is invalid."""
    try:
        yield
    except MemorydError as error:
        error.data = {**error.data, "memory": number}
        raise


def _watch_added(store: Store, outcome: Outcome, new: Sequence[NewMemory], now: float, context: Context) -> None:
    if outcome.receipt is None:
        return
    stored = outcome.stored or ((outcome.id, outcome.path),)
    for each, (identity, path) in zip(new, stored, strict=True):
        recent = RecentChange(now, each.memory, each.location, zone=context.zone, allow_words=context.allow_words)
        watch_change(store, path, identity, recent)


def update(store: Store, identity: str, changes: Mapping[str, object], now: float, context: Context) -> Outcome:
    """Change fields of a live memory; the value None removes a field. Raises like `find_live` and `add`."""
    warnings = _review(store, changes, context)
    target = _Target(identity)

    def decide() -> _Decision:
        found = target.check(lambda: find_live(store, identity, now))
        snapshot = _view(store, now, context)
        stored = writer_of(store).update(snapshot, found, changes)
        return _Decision(reject_secrets_in_entry(store, snapshot, stored, allow_words=context.allow_words))

    outcome = _commit(store, "update", decide, now, by=context.by, warnings=warnings, dry_run=context.dry_run)
    if context.dry_run:
        return outcome
    record_change(store, outcome.receipt, removed={outcome.path: [target.id]}, added=[outcome.id])
    move_counts(store, outcome.path, target.id, outcome.id)
    if outcome.receipt is not None:
        recent = RecentChange(
            now, changes=changes, before=target.digest, zone=context.zone, allow_words=context.allow_words
        )
        watch_change(store, outcome.path, outcome.id, recent)
    return target.updated(store, outcome, now)


def restore_lost_writes(store: Store, now: float, *, on_request: bool = False) -> list[RetriedWrite]:
    """Store memories again that another program overwrote with an older state.

    `on_request`: also those that are not restored automatically.
    """

    def retry(lost: LostWrite) -> RetriedWrite:
        outcome = _store_again(store, lost, now, by="command" if on_request else "watch")
        store.recent_changes.by_path.get(outcome.path, {}).pop(outcome.id, None)  # only once
        return _retried(lost, outcome)

    return list(retry_lost_writes(store, now, retry, on_request=on_request))


def plan_lost_writes(store: Store, now: float) -> list[RetriedWrite]:
    """Plan what `restore_lost_writes` would do on request; nothing is written."""
    planned = list[RetriedWrite]()
    for lost in store.recent_changes.lost:
        try:
            planned.append(_retried(lost, _store_again(store, lost, now, by="command", dry_run=True)))
        except MemorydError as error:
            planned.append(failed_retry(lost, error))
    return planned


def _store_again(store: Store, lost: LostWrite, now: float, *, by: str, dry_run: bool = False) -> Outcome:
    recent = lost.change
    context = Context(zone=recent.zone, allow_words=recent.allow_words, by=by, dry_run=dry_run)
    if recent.changes is not None:
        return update(store, lost.id, recent.changes, now, context)
    memory = {**recent.memory, "id": lost.id} if writer_of(store).stores_id else recent.memory
    return add(store, NewMemory(memory, recent.location), now, context)


def _retried(lost: LostWrite, outcome: Outcome) -> RetriedWrite:
    what = "a memory" if lost.change.changes is None else "an update"
    why = f"stores {what} again that another program overwrote with an older state"
    actions = (replace(each, why=why, ids=each.ids or (outcome.id,), reasons=()) for each in outcome.actions)
    return RetriedWrite(lost.path, outcome.id, outcome.receipt, tuple(actions))


def forget(store: Store, identity: str, now: float, context: Context) -> Outcome:
    """Move a live memory to the archive of the layout, or to the trash if it has none; `unarchive` restores it."""
    target = _Target(identity)

    def decide() -> _Decision:
        found = target.check(lambda: find_live(store, identity, now))
        return _Decision(writer_of(store).forget(_view(store, now, context), found))

    outcome = _commit(store, "forget", decide, now)
    record_change(store, outcome.receipt, removed={outcome.path: [target.id]})
    return target.with_unique_id(outcome)


def unarchive(store: Store, identity: str, now: float, context: Context) -> Outcome:
    """Make an archived memory live again, or restore one from the trash."""
    target = _Target(identity)

    def decide() -> _Decision:
        found = target.check(lambda: find_archived(store, identity, now))
        if found is not None:
            return _Decision(writer_of(store).unarchive(_view(store, now, context), found))
        trashed = find_in_trash(store, identity, now)
        content = load_undo_content(store.blobs, trashed)
        restored = writer_of(store).restore(_view(store, now, context), trashed.path, [content])
        return _Decision(restored, trashed=trashed.id)

    outcome = _commit(store, "unarchive", decide, now, soft_locks=True)
    if outcome.receipt is not None:
        _pin(store, outcome, now)
        record_change(store, outcome.receipt, added=[outcome.id])
    return target.with_unique_id(outcome)


def _pin(store: Store, outcome: Outcome, now: float) -> None:
    """Exempt the memory from scheduled archiving until it changes; otherwise it would be due again at once."""
    source = store.load(outcome.path, now, [outcome.id])
    if source is None:
        return
    data = source.loaded.data
    spans = [record.span for record in source.loaded.document.records if record.id == outcome.id]
    store.journal.pins.pin(Pin(outcome.path, outcome.id, sha256(span.of(data))) for span in spans)


class _Target:
    """The memory to change, as first found; it must still be the same when the change is planned again.

    Access counts, which some programs write to its file, are not a change.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._original: Located | None = None

    @property
    def digest(self) -> str | None:
        """SHA-256 of its bytes before the change; None before it was found."""
        return None if self._original is None else sha256(self._original.record.span.of(self._original.loaded.data))

    @property
    def id(self) -> str:
        """Its full id once found, before that the id given by the caller."""
        return self._original.record.id if self._original is not None else self._identity

    def with_unique_id(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the unique id of a memory that was moved."""
        shared = self._original is not None and self._original.is_shared
        return outcome._replace(id=self._original.unique_id) if self._original and shared else outcome

    def updated(self, store: Store, outcome: Outcome, now: float) -> Outcome:
        """Return the outcome with the unique id of a memory whose content was changed where it is."""
        original = self._original
        source = store.load(outcome.path, now, [outcome.id]) if original is not None and original.is_shared else None
        if original is None or source is None:
            return outcome
        for record in source.loaded.document.records:
            if (record.id, record.span.start) == (outcome.id, original.record.span.start):
                return outcome._replace(id=with_suffix(record.id, content_digest(text_of(record))))
        return outcome

    def check(self, find: Callable[[], LocatedT]) -> LocatedT:
        """Find the memory. Raises ConflictError if it has changed since it was first found."""
        found: LocatedT | None
        try:
            found = find()
        except NotFoundError:
            if self._original is None:
                raise
            found = None
        if self._original is not None and (found is None or not _is_same(self._original, found)):
            raise ConflictError(
                f"{redact(self._identity)} in {self._original.path} was changed by another program in the meantime",
                hint="see its current state with `memoryd get`, then try again",
                data={"changed": [self._original.path], "id": redact(self._identity)},
            )
        self._original = found
        return found  # type: ignore[return-value]  # `find` has raised if None is not allowed


def _is_same(one: Located, other: Located) -> bool:
    """True if the bytes are equal, or the meaning of the file, in layouts that compute one."""
    if one.record.span.of(one.loaded.data) == other.record.span.of(other.loaded.data):
        return True
    before, after = (each.loaded.document.facts.get("meaning") for each in (one, other))
    return before is not None and before == after


def _view(store: Store, now: float, context: Context) -> WriteView:
    """Return a view for one plan, so that all it reads is from the same time."""
    return write_view(store, now, number=context.number, zone=context.zone)


def _commit(
    store: Store,
    operation: str,
    decide: Callable[[], _Decision],
    now: float,
    *,
    by: str = "command",
    soft_locks: bool = False,
    warnings: tuple[str, ...] = (),
    dry_run: bool = False,
) -> Outcome:
    """Plan the change under the lock, without a look before that: it is almost certain to be needed."""

    def attempt(held: HeldLock | None) -> tuple[_Decision, str | None]:
        decision = _redact_errors(decide)
        if dry_run or not decision.change.plan:
            return decision, None
        put_in_trash(store, decision.change, now)
        return decision, commit(store, decision.change.plan, Origin(operation, by), held, now)

    decision, receipt = attempt(None) if dry_run else with_lock(store, operation, attempt, soft_locks=soft_locks)
    change = decision.change
    if not dry_run:
        remove_empty_directories(store, change.plan)
    if receipt is not None and decision.trashed is not None:
        store.blobs.drop(store.journal.trash.remove(decision.trashed))
    actions = change.plan.actions
    paths = tuple(dict.fromkeys(action.path for action in actions))
    return Outcome(change.id, change.path, receipt, paths, (*warnings, *change.warnings), decision.stored, actions)


def _redact_errors(decide: Callable[[], _Decision]) -> _Decision:
    """Redact the error of a layout, which may quote the memory."""
    try:
        return decide()
    except InvalidMemoryError as error:
        findings = [{str(k): redact(str(v)) for k, v in each.items()} for each in error.data.get("findings", ())]
        hint = redact(error.hint) if error.hint else None
        raise InvalidMemoryError(redact(error.message), hint=hint, data={**error.data, "findings": findings}) from None


def vector_maker(embedder: Embedder) -> Callable[[str, int], Sequence[float] | None]:
    """Return a function (text, size) -> vector, or None if the embedder has another size or does not know the text.

    The function raises EmbedderError if the embedder is not available.
    """

    def embed(text: str, size: int) -> Sequence[float] | None:
        if embedder.size != size:
            return None
        numbers = [float(number) for number in unpack(embedder.embed([redact(text)])[0], size)]
        return numbers if any(numbers) else None

    return embed
