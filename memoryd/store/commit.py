"""Commit a plan: intent, backup, change, receipt. Files of agents are changed in no other way.

The order makes every crash harmless. The intent is journalled before any file changes. Copies are written, fsynced and
read back before the live file shrinks. Each rewrite is one atomic exchange, checked against the content that the plan
was based on. After a crash, `recovery` completes the change or rolls it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from msgspec import Struct

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.core.spans import Fingerprint, sha256
from memoryd.disk import atomic
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.backups import BackupDirectory
from memoryd.disk.blobs import quarantine
from memoryd.disk.journal.backups import PART
from memoryd.disk.locks.hold import HeldLock, LockLostError
from memoryd.disk.replaced_file import ReplacedFile
from memoryd.disk.snapshots import FileState
from memoryd.disk.syscalls import ChangingError
from memoryd.errors import BusyError
from memoryd.store.late_writes import LateWrite
from memoryd.store.prepare import PreparedAction, prepare
from memoryd.store.recovery import resolve
from memoryd.store.store import Store

# Another program was faster: plan again with the new state.
RETRYABLE = (StoreChangedError, LockLostError, ChangingError)
ATTEMPTS = 25
# Operations that remove no memory.
KEEPING = ("add", "update", "unarchive", "restore-lost", "touch", "permissions", "migrate")
REMOVALS = ("archive", "limits", "prune", "forget", "dedupe")  # operations that remove only the memories they name
# Steps that remove nothing can be verified in the files: the journal need not be on disk before them.
ADDITIVE = (Kind.APPEND, Kind.CREATE)

R = TypeVar("R")


class Origin(Struct, frozen=True):
    """The operation that changes files, and what triggered it: `by` is command, schedule, start or watch."""

    operation: str
    by: str


class Committed(Struct, frozen=True):
    """A plan and the receipt of its change; the receipt is None if nothing was changed."""

    plan: Plan
    receipt: str | None


def change(
    store: Store,
    origin: Origin,
    decide: Callable[[], Plan],
    *,
    now: float,
    dry_run: bool = False,
    before_commit: Callable[[Plan], None] | None = None,
    soft_locks: bool = False,
) -> Committed:
    """Plan and commit under the store's lock, as `with_lock` does. A dry run plans without the lock and commits
    nothing. `before_commit` is called with the plan right before it is carried out."""
    try:
        plan = decide()
        if dry_run or not plan:
            # Nothing to do: the lock is not taken, since its file would change the directory's mtime.
            return Committed(plan, None)
    except ChangingError:
        if dry_run:
            raise

    def attempt(held: HeldLock | None) -> Committed:
        plan = decide()
        if plan and before_commit is not None:
            before_commit(plan)
        return Committed(plan, commit(store, plan, origin, held, now) if plan else None)

    return with_lock(store, origin.operation, attempt, soft_locks=soft_locks)


def with_lock(store: Store, operation: str, attempt: Callable[[HeldLock | None], R], *, soft_locks: bool = False) -> R:
    """Return what `attempt` does under the store's lock; it is called again if other programs change the files
    meanwhile. `soft_locks` also takes the lock files of other programs that lock by the existence of a file. Raises
    BusyError if other programs never pause."""
    reason = ""
    for _ in range(ATTEMPTS):
        with store.locked(store.policy.lock_wait_s) as held, store.soft_locked() if soft_locks else nullcontext():
            try:
                return attempt(held)
            except RETRYABLE as error:
                reason = _message(error)
    raise BusyError(
        f"root {store.name}: {operation} gave way {ATTEMPTS} times to other writers: {reason}",
        hint="try again when the agents pause; nothing was changed",
    )


def _message(error: Exception) -> str:
    """Return the message of an error without its errno."""
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def commit(store: Store, plan: Plan, origin: Origin, held: HeldLock | None, now: float) -> str:
    """Carry out the plan under the lock and return its receipt. If a step fails, its whole group is rolled back (see
    `recovery.resolve`); earlier groups stay committed."""
    groups = [[prepare(store, action, number) for action in group] for number, group in enumerate(plan.groups())]
    steps = [prepared.step for group in groups for prepared in group]
    additive = len(plan.actions) == 1 and plan.actions[0].kind in ADDITIVE  # several must all be applied or none
    receipt = store.journal.begin(origin.operation, origin.by, _summary(plan), steps, now, durable=not additive)
    work = _Commit(store, receipt, held, now, additive)
    position = 0
    try:
        for group in groups:
            work.carry_out(group, position, last=group is groups[-1])
            position += len(group)
    except BaseException as error:
        store.journal.finish(receipt, resolve(store, store.journal.entry(receipt)), error=str(error))
        raise
    store.journal.finish_done(receipt)
    if origin.operation not in KEEPING:
        _note_removals(store, plan, origin.operation)
    return receipt


def _note_removals(store: Store, plan: Plan, operation: str) -> None:
    """Note what leaves each file: it is watched no more, since no agent overwrote it, and not taken for a loss if
    another program writes the file as well before it is indexed."""
    for action in plan.actions:
        named = frozenset(action.ids) if operation in REMOVALS else None
        recent = store.recent_changes.by_path.get(action.path, {})
        for identity in list(recent) if named is None else named:
            recent.pop(identity, None)
        known = store.losses.removed.get(action.path, frozenset[str]())
        store.losses.removed[action.path] = None if known is None or named is None else known | named


def _summary(plan: Plan) -> str:
    moved = [action for action in plan.actions if action.kind is not Kind.APPEND] or list(plan.actions)
    return "; ".join(map(_describe, moved))


def _describe(action: Action) -> str:
    number = len(action.ids)
    count = f" ({number})" if number and f" {number} " not in action.why else ""
    return f"{action.kind} {action.path or 'the directory'}: {action.why}{count}"


class _Commit:
    """A commit in progress, and what its steps share."""

    def __init__(self, store: Store, receipt: str, held: HeldLock | None, now: float, additive: bool) -> None:
        self.store = store
        self.tree = store.tree
        self.receipt = receipt
        self.guard = held.check if held is not None else lambda: None  # the layout has no lock
        self.now = now
        self.additive = additive

    def carry_out(self, group: Sequence[PreparedAction], first: int, *, last: bool) -> None:
        """Carry out one group. `first` is the position of its first step in the journal entry. Steps that decide a
        group, or that only the journal can prove, are journalled one by one, except the very last: the entry is closed
        right after it."""
        for prepared in group:
            if prepared.action.kind in (Kind.REWRITE, Kind.REMOVE):
                self._back_up(prepared)
            self._quarantine(prepared)
        for position, prepared in enumerate(group, first):
            _APPLY[prepared.action.kind](self, prepared, position)
            decides = prepared is group[-1]
            if not self.additive and not (last and decides) and (decides or prepared.action.kind is Kind.CHMOD):
                self.store.journal.mark_applied(self.receipt, position)

    def _quarantine(self, prepared: PreparedAction) -> None:
        action, before = prepared.action, prepared.before or b""
        if action.quarantine:
            content = b"\n".join(span.of(before) for span in action.quarantine)
            reason = action.why if content == before else f"{PART}{action.why}"
            quarantine(self.store.journal, self.store.blobs, action.path, content, reason, now=self.now)

    def _back_up(self, prepared: PreparedAction) -> None:
        """Back up a live file; the journal covers archives."""
        path, layout = prepared.action.path, self.store.layout
        if layout is None or prepared.action.no_backup or layout.reader.role(path) is not Role.SOURCE:
            return
        assert prepared.before is not None
        assert prepared.fingerprint is not None
        digest = prepared.step.before_sha
        back_up(self.store, path, prepared.before, prepared.fingerprint, self.now, digest=digest)

    def append(self, prepared: PreparedAction, position: int) -> None:
        action, change = prepared.action, prepared.change
        self._make_directory(action.path, position)
        expected = prepared.fingerprint
        mode = self.store.mode_for(action.path) if expected is None else 0
        after = atomic.append(
            self.tree, action.path, action.data, expected=expected, guard=self.guard, create_mode=mode
        )
        if prepared.fingerprint is None:
            self.store.pending_changes.created(action.path)
        elif change is not None and after.size == change.start + len(change.new):
            self.store.pending_changes.note(action.path, change._replace(after=after))
        else:
            self.store.pending_changes.invalidate(action.path, appended=action.data)

    def rewrite(self, prepared: PreparedAction, position: int) -> None:
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
            self._watch(error.replaced_file, position, 0)
            raise
        if prepared.change is not None:
            self.store.pending_changes.note(path, prepared.change._replace(after=replaced.fingerprint))
        else:
            self.store.pending_changes.invalidate(path)
        self._watch(replaced.replaced_file, position, len(before))

    def _watch(self, replaced: ReplacedFile | None, position: int, merged_size: int) -> None:
        """Watch a replaced inode: a process that had it open may still append to it."""
        if replaced is not None:
            self.store.late_writes.waiting.append(LateWrite(replaced, self.receipt, position, merged_size, self.now))
            self.store.late_writes.merge(self.tree, self.now)

    def create(self, prepared: PreparedAction, position: int) -> None:
        self._make_directory(prepared.action.path, position)
        self.guard()
        action = prepared.action
        try:
            mode = self.store.mode_for(action.path) if action.mode is None else action.mode
            atomic.create(self.tree, action.path, action.data, mode)
        except FileExistsError as error:
            raise StoreChangedError(action.path) from error  # another program created the path: plan again
        self.store.pending_changes.created(action.path)

    def remove(self, prepared: PreparedAction, position: int) -> None:
        del position
        assert prepared.fingerprint is not None
        atomic.remove(self.tree, prepared.action.path, expected=prepared.fingerprint, guard=self.guard)

    def chmod(self, prepared: PreparedAction, position: int) -> None:
        del position
        assert prepared.action.mode is not None
        self.tree.chmod(prepared.action.path, prepared.action.mode)

    def _make_directory(self, path: str, position: int) -> None:
        """Create missing directories and journal how many, so that an undo can remove them."""
        directory = path.rpartition("/")[0]
        created = self.tree.mkdir(directory, self.store.mode_for_directory) if directory else []
        if created:
            self.store.journal.amend(self.receipt, position, note=f"made {len(created)} folders")


_APPLY: dict[Kind, Callable[[_Commit, PreparedAction, int], None]] = {
    Kind.APPEND: _Commit.append,
    Kind.REWRITE: _Commit.rewrite,
    Kind.CREATE: _Commit.create,
    Kind.REMOVE: _Commit.remove,
    Kind.CHMOD: _Commit.chmod,
}


def back_up(
    store: Store, path: str, content: bytes, fingerprint: Fingerprint, now: float, *, digest: str | None = None
) -> str | None:
    """Back up the content of a file to the layout's backup directory, or to the state directory; verify and rotate.

    Returns the id of the backup; None if the newest one is equal or the content is empty. `digest` is the SHA-256 (hex)
    of the content.
    """
    if not content:
        return None
    digest = digest or sha256(content)
    row = store.catalogue.file(path)
    is_indexed = row is not None and row.digest == digest
    quality = Quality(row.units, row.records) if row and is_indexed else store.quality(path, content, now)
    if store.file_rules.backup_dir is None:
        state = FileState(path, digest, fingerprint.mode, quality, content)
        made = store.vault.add_version(state, now, keep=store.policy.backups)
        return made.id if made is not None else None
    directory = BackupDirectory(
        store.tree,
        store.journal,
        store.known_layout.reader.source_paths(()),
        store.file_rules.backup_dir,
        quality_of=lambda found: store.quality(path, found, now),
        hashes=store.backups_seen,
    )
    limit = store.policy.backups
    result = directory.create(path, content, fingerprint, quality, limit=limit, now=now, digest=digest)
    return result.name if result.outcome == "made" else None
