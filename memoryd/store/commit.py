"""Committing a plan: intent, backup, change, receipt. The one way an agent's file is ever changed.

The order makes every crash harmless: the journal knows what is meant before anything is touched, copies are
written, fsynced and read back before the live file shrinks, and each rewrite is one atomic exchange, checked
against what the plan was decided on. What a crash leaves is finished or rolled back by `recovery`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Fingerprint, Kind, Plan
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.disk import atomic, backups
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.displaced import Displaced
from memoryd.disk.locking import Held, LockLostError
from memoryd.disk.snapshots import quarantine
from memoryd.disk.tree import ChangingError
from memoryd.disk.vault import FileState
from memoryd.errors import BusyError
from memoryd.store.late import Late, carry_over
from memoryd.store.preparing import Prepared, prepare
from memoryd.store.recovery import resolve
from memoryd.store.store import Store

# What means "somebody else was faster": decide again on the new state.
CHANGED = (StoreChangedError, LockLostError, ChangingError)
ATTEMPTS = 25
KEEPING = ("add", "update", "unarchive")  # leave every other memory as it is
MOVING = ("archive", "limits", "prune", "forget", "dedupe")  # take just the memories they name
# What takes nothing away proves itself in the files: the journal need not be on disk before it.
ADDING = (Kind.APPEND, Kind.CREATE)


@dataclass(frozen=True, slots=True)
class Cause:
    """`by` is command, schedule, start or watch."""

    operation: str
    by: str


@dataclass(frozen=True, slots=True)
class Done:
    plan: Plan
    receipt: str | None


def change(
    store: Store,
    cause: Cause,
    decide: Callable[[], Plan],
    *,
    now: float,
    wait_s: float,
    dry_run: bool = False,
    first: Callable[[Plan], None] | None = None,
    soft: bool = False,
    sure: bool = False,
) -> Done:
    """Decide and commit under the store's lock; decide again while others change the files meanwhile.

    `first` is done with the plan right before it is carried out; `soft` takes the lock files of other programs
    whose existence is the lock, too. A dry run decides without the lock and commits nothing; what is `sure` to change
    something is decided under the lock alone. Raises BusyError when others never pause."""
    if dry_run or not sure:
        try:
            plan = decide()
            if dry_run or not plan:
                # Looking needs no lock, and a lock taken for nothing would move the folder's time stamp.
                return Done(plan, None)
        except ChangingError:
            if dry_run:
                raise
    reason = ""  # a file that does not hold still for a look does so under the lock
    for _ in range(ATTEMPTS):
        with store.locked(wait_s) as held, store.soft_locked() if soft else nullcontext():
            try:
                plan = decide()
                if not plan:
                    return Done(plan, None)
                if first is not None:
                    first(plan)
                return Done(plan, commit(store, plan, cause, held, now))
            except CHANGED as error:
                reason = str(error)
    raise BusyError(
        f"root {store.name}: {cause.operation} gave way {ATTEMPTS} times to other writers: {reason}",
        hint="try again when the agents pause; nothing was changed",
    )


def commit(store: Store, plan: Plan, cause: Cause, held: Held | None, now: float) -> str:
    """Carry the plan out under the lock and return its receipt. A failing group is rolled back whole
    (see `recovery.resolve`); groups before it stay done."""
    groups = [[prepare(store, action, number) for action in group] for number, group in enumerate(plan.groups())]
    steps = [prepared.step for group in groups for prepared in group]
    adding = all(action.kind in ADDING for action in plan.actions)
    receipt = store.journal.begin(cause.operation, cause.by, _summary(plan), steps, now, durable=not adding)
    work = _Commit(store, receipt, held, now, adding)
    position = 0
    try:
        for group in groups:
            work.carry_out(group, position, last=group is groups[-1])
            position += len(group)
    except BaseException as error:
        store.journal.finish(receipt, resolve(store, store.journal.entry(receipt)), error=str(error))
        raise
    store.journal.finish(receipt, "done")
    if cause.operation not in KEEPING:
        _watch_no_more(store, plan, cause.operation)
    return receipt


def _watch_no_more(store: Store, plan: Plan, operation: str) -> None:
    """What we take out or bring back ourselves is no older state of an agent."""
    for action in plan.actions:
        known = store.recent.get(action.path, {})
        for identity in action.ids if operation in MOVING else list(known):
            known.pop(identity, None)


def _summary(plan: Plan) -> str:
    moved = [action for action in plan.actions if action.kind is not Kind.APPEND] or list(plan.actions)
    return "; ".join(map(_told, moved))


def _told(action: Action) -> str:
    count = f" ({len(action.ids)})" if action.ids else ""
    return f"{action.kind} {action.path or 'the folder'}: {action.why}{count}"


class _Commit:
    """One commit under way: what its steps share."""

    def __init__(self, store: Store, receipt: str, held: Held | None, now: float, adding: bool) -> None:
        self.store = store
        self.tree = store.tree
        self.receipt = receipt
        self.guard = held.check if held is not None else _unguarded
        self.now = now
        self.adding = adding

    def carry_out(self, group: Sequence[Prepared], first: int, *, last: bool) -> None:
        """`first` is the position of the group's first step in the journal's entry. What decides over a group, and what
        only the journal can prove, is written down when it is made; but not the very last: the end of the whole is."""
        for prepared in group:
            if prepared.action.kind in (Kind.REWRITE, Kind.REMOVE):
                self._back_up(prepared)
            self._lay_aside(prepared)
        for position, prepared in enumerate(group, first):
            _APPLY[prepared.action.kind](self, prepared, position)
            decides = prepared is group[-1]
            if not self.adding and not (last and decides) and (decides or prepared.action.kind is Kind.CHMOD):
                self.store.journal.applied(self.receipt, position)

    def _lay_aside(self, prepared: Prepared) -> None:
        action, before = prepared.action, prepared.before or b""
        if action.aside:
            content = b"\n".join(span.of(before) for span in action.aside)
            quarantine(self.store.journal, self.store.blobs, action.path, content, action.why, now=self.now)

    def _back_up(self, prepared: Prepared) -> None:
        """Live files only: archives are covered by the journal."""
        path, layout = prepared.action.path, self.store.layout
        if layout is None or prepared.action.light or layout.role(path) is not Role.SOURCE:
            return
        assert prepared.before is not None
        assert prepared.fingerprint is not None
        digest = prepared.step.before_sha
        back_up(self.store, path, prepared.before, prepared.fingerprint, self.now, digest=digest)

    def append(self, prepared: Prepared, position: int) -> None:
        action, change = prepared.action, prepared.change
        self._make_folder(action.path, position)
        after = atomic.append(self.tree, action.path, action.data, expected=prepared.fingerprint, guard=self.guard)
        if prepared.fingerprint is None:
            self.store.own_changes.made(action.path)
        elif change is not None and after.size == change.start + len(change.new):
            self.store.own_changes.note(action.path, change._replace(after=after))
        else:
            self.store.own_changes.lost(action.path)

    def rewrite(self, prepared: Prepared, position: int) -> None:
        path, before, after = prepared.action.path, prepared.before, prepared.after
        assert before is not None
        assert after is not None
        expected = prepared.fingerprint
        digest, guard = prepared.step.before_sha, self.guard
        try:
            replaced = atomic.replace(
                self.tree, path, after, expected=expected, guard=guard, exchange=True, digest=digest
            )
        except StoreChangedError as error:
            self._watch(error.displaced, position, 0)
            raise
        if prepared.change is not None:
            self.store.own_changes.note(path, prepared.change._replace(after=replaced.fingerprint))
        self._watch(replaced.displaced, position, len(before))

    def _watch(self, displaced: Displaced | None, position: int, known: int) -> None:
        """Whoever had the replaced inode open may still append to it."""
        if displaced is not None:
            self.store.late.append(Late(displaced, self.receipt, position, known, self.now))
            carry_over(self.store, self.now)

    def create(self, prepared: Prepared, position: int) -> None:
        self._make_folder(prepared.action.path, position)
        self.guard()
        action = prepared.action
        try:
            atomic.create(self.tree, action.path, action.data, 0o600 if action.mode is None else action.mode)
        except FileExistsError as error:
            raise StoreChangedError(action.path) from error  # somebody took the name: decide again
        self.store.own_changes.made(action.path)

    def remove(self, prepared: Prepared, position: int) -> None:
        del position
        assert prepared.fingerprint is not None
        atomic.remove(self.tree, prepared.action.path, expected=prepared.fingerprint, guard=self.guard)

    def chmod(self, prepared: Prepared, position: int) -> None:
        del position
        assert prepared.action.mode is not None
        self.tree.chmod(prepared.action.path, prepared.action.mode)

    def _make_folder(self, path: str, position: int) -> None:
        """How many folders above the file had to be made is noted, for an undo to take them away again. They are
        open to whom the root is, or an agent of another user could not write into them."""
        folder = path.rpartition("/")[0]
        private = self.store.layout is None or self.store.layout.private
        made = self.tree.mkdir(folder, 0o700 if private else self.tree.mode_of("")) if folder else []
        if made:
            self.store.journal.amend(self.receipt, position, note=f"made {len(made)} folders")


_APPLY: dict[Kind, Callable[[_Commit, Prepared, int], None]] = {
    Kind.APPEND: _Commit.append,
    Kind.REWRITE: _Commit.rewrite,
    Kind.CREATE: _Commit.create,
    Kind.REMOVE: _Commit.remove,
    Kind.CHMOD: _Commit.chmod,
}


def _unguarded() -> None:
    """A layout without a lock of its own has nothing to check but the files."""


def back_up(
    store: Store, path: str, content: bytes, fingerprint: Fingerprint, now: float, *, digest: str | None = None
) -> str | None:
    """Into the layout's own place, or the vault of the state directory: verified and rotated. The id of the backup
    made; None where the newest one equals it or there is nothing to keep. `digest` is that of the content."""
    assert store.layout is not None
    if not content:
        return None
    digest = digest or sha256(content)
    row = store.catalogue.file(path)
    known = row is not None and row.digest == digest
    quality = Quality(row.units, row.records) if row and known else store.quality(path, content, now)
    if store.layout.backup_place is None:
        state = FileState(path, digest, fingerprint.mode, quality, content)
        made = store.vault.add_version(state, now, keep=store.policy.backups)
        return made.id if made is not None else None
    done = backups.create(
        store.tree,
        store.journal,
        file=path,
        content=content,
        fingerprint=fingerprint,
        quality=quality,
        limit=store.policy.backups,
        now=now,
        files=store.layout.live_paths(()),
        place=store.layout.backup_place,
        readable=lambda found: store.quality(path, found, now),
        looked_at=store.backups_seen,
        digest=digest,
    )
    return done.name if done.outcome == "made" else None
