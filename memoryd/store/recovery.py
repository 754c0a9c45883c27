"""Complete or roll back changes after a crash or a failed step.

The live file alone decides the state of a group (copies into archives, then one rewrite of the live file). If it still
starts with the content from before, the rewrite never happened and the appends of the group are rolled back; if it
starts with the content from after, the group is done. Anything else is left for the next run, which finds the copies in
the archive and does not repeat them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from memoryd.core.lock_staleness import CLEARED
from memoryd.core.plan import Kind
from memoryd.core.records import Role
from memoryd.core.spans import sha256, splice
from memoryd.disk import atomic, temps
from memoryd.disk.blobs import quarantine
from memoryd.disk.journal import Entry, Step
from memoryd.disk.journal.entries import EntryState
from memoryd.disk.locks.inspect import LockRules, clear
from memoryd.disk.processes import is_sole_opener
from memoryd.disk.replaced_file import ReplacedFile
from memoryd.disk.syscalls import open_regular
from memoryd.store.late_writes import LateWrite
from memoryd.store.store import Store
from memoryd.store.undo_content import decode_edits, has_undo_content, load_undo_content

RECENT_ENTRIES = 10_000  # whose replaced inodes may still exist after a crash: an agent may have one open for days
_REPLACING = (Kind.REWRITE, Kind.REMOVE)
_Side = Literal["before", "after", "neither"]
_WHOLE_FILE = (*_REPLACING, Kind.CREATE)


def recover(store: Store, now: float) -> list[str]:
    """Recover a root at start: remove temporary files and stale locks of memoryd, resolve unfinished journal entries.

    Returns a sentence for each step. Must run before anything else writes, by the owner of the root.
    """
    messages = [*_remove_temps(store, now), *_clear_own_locks(store, now)]
    for entry in store.journal.unfinished():
        state = resolve(store, entry)
        store.journal.finish(entry.receipt, state, error="memoryd ended while it was at work")
        messages.append(f"{entry.operation} {entry.receipt} was cut off and is now {state.replace('_', ' ')}")
    return messages


def _clear_own_locks(store: Store, now: float) -> list[str]:
    """Clear locks of an earlier process: the owner of the root knows that no other memoryd holds them. In observe mode
    they are only reported."""
    messages: list[str] = []
    clears = store.network_fs is None and not store.observes
    for rule in store.file_rules.locks if clears else ():
        report = clear(store.tree.fd, rule.name, LockRules(now, rule.kind, own_locks_stale=True))
        if report is not None and report.action in CLEARED:
            messages.append(f"{rule.name} is {report.action}: {report.evidence}")
    return messages


def resolve(store: Store, entry: Entry) -> EntryState:
    """Return the state in which an entry ends: done (at least one group), rolled_back, or interrupted."""
    outcomes = [_resolve_group(store, list(group)) for _, group in groupby(entry.steps, lambda step: step.group)]
    if "interrupted" in outcomes:
        return "interrupted"
    return "done" if "done" in outcomes else "rolled_back"


def _resolve_group(store: Store, steps: Sequence[Step]) -> EntryState:
    decisive = steps[-1]
    if decisive.applied or any(step.kind is Kind.CHMOD and step.applied for step in steps):
        return "done"
    if decisive.kind is Kind.CHMOD:
        return "rolled_back"
    side = _side_of(store, decisive)
    if side == "after":
        return "done"
    if side != "before":
        return "interrupted"
    # The last step decides the group. As an append it may be torn; any other kind did not happen at all.
    steps_made = steps if decisive.kind is Kind.APPEND else steps[:-1]
    return "rolled_back" if _roll_back(store, steps_made) else "interrupted"


def _roll_back(store: Store, steps: Sequence[Step]) -> bool:
    """Undo the steps of a group. Memories that an undo restored in a live file stay unless their archive copy exists
    again."""
    complete = True
    for step in reversed(steps):
        if complete or store.role(step.path) is not Role.SOURCE:
            complete = _ROLL_BACK[step.kind](store, step) and complete
    return complete


def _side_of(store: Store, step: Step) -> _Side:
    """Return on which side of the step a file is, judged by its start: other programs may have appended since."""
    content = store.content(step.path)
    if content is None:
        if step.after_sha is None:
            return "after"
        return "before" if step.before_sha is None else "neither"
    # The longer one first: it may start with the other.
    sides: list[tuple[_Side, str | None, int | None]] = [
        ("before", step.before_sha, step.before_size),
        ("after", step.after_sha, step.after_size),
    ]
    for side, digest, size in sorted(sides, key=lambda item: -(item[2] or 0)):
        if digest is not None and size is not None and _starts_with(content, digest, size):
            return side
    return "neither"


def _starts_with(content: bytes, digest: str, size: int) -> bool:
    if size == 0:  # an empty prefix proves nothing
        return not content
    return len(content) >= size and sha256(content[:size]) == digest


def _roll_back_append(store: Store, step: Step) -> bool:
    """Undo an append of memoryd, complete or torn, if nothing else follows it."""
    content = store.content(step.path)
    base = step.base_size or 0
    if content is None or len(content) == base:
        return content is not None or step.before_sha is None
    if not has_undo_content(step) or not load_undo_content(store.blobs, step).startswith(content[base:]):
        return False
    if step.before_sha is not None and sha256(content[:base]) != step.before_sha:
        return False
    fingerprint = store.tree.stat(step.path)
    if fingerprint is None:
        return False
    if step.before_sha is None:
        atomic.remove(store.tree, step.path, expected=fingerprint)
    else:
        atomic.truncate(store.tree, step.path, base, expected=fingerprint)
    return True


def _roll_back_rewrite(store: Store, step: Step) -> bool:
    """Undo a rewrite of memoryd if the file has not changed since."""
    if store.content(step.path) is None or not has_undo_content(step):
        return False
    content, fingerprint = store.read(step.path)
    if sha256(content) != step.after_sha:
        return sha256(content) == step.before_sha
    before = splice(content, decode_edits(load_undo_content(store.blobs, step)))
    displaced = atomic.replace(store.tree, step.path, before, expected=fingerprint, exchange=True).replaced_file
    if displaced is not None and not displaced.close_if_unused():
        displaced.detach()  # another process has it open: the next start checks for late appends
    return True


def _roll_back_create(store: Store, step: Step) -> bool:
    content = store.content(step.path)
    if content is None:
        return True
    fingerprint = store.tree.stat(step.path)
    if fingerprint is None or sha256(content) != step.after_sha:
        return False
    atomic.remove(store.tree, step.path, expected=fingerprint)
    return True


def _roll_back_remove(store: Store, step: Step) -> bool:
    content = store.content(step.path)
    if content is None and has_undo_content(step):
        mode = store.mode_for(step.path) if step.mode is None else step.mode
        atomic.create(store.tree, step.path, load_undo_content(store.blobs, step), mode)
        return True
    return content is not None and sha256(content) == step.before_sha


_ROLL_BACK: dict[Kind, Callable[[Store, Step], bool]] = {
    Kind.APPEND: _roll_back_append,
    Kind.REWRITE: _roll_back_rewrite,
    Kind.CREATE: _roll_back_create,
    Kind.REMOVE: _roll_back_remove,
    Kind.CHMOD: lambda store, step: True,  # noqa: ARG005 - a tightened mode harms nothing
}


def _remove_temps(store: Store, now: float) -> list[str]:
    """Remove temporary files of an earlier memoryd process. If one is a replaced inode, bytes appended to it since are
    copied to the live file first, and while another program has it open it is watched again."""
    messages: list[str] = []
    for path in sorted(store.scan(only=temps.is_our_temp).files):
        live = temps.target_of(path, _possible_targets(store))
        content = store.tree.read(path)[0] if store.role(live) is Role.SOURCE else None  # others are derived from these
        rescued = _rescue_content(store, live, content, now) if content is not None else ""
        if content is not None and _watch_again(store, path, live, len(content), now):
            messages.append(f"{path} was left by a crash and another program still has it open{rescued}")
            continue
        store.tree.unlink(path)
        messages.append(f"{path} was left by a crash and is removed{rescued}")
    return messages


def _possible_targets(store: Store) -> Iterator[str]:
    """Yield the files that there are, and those that recent changes removed."""
    yield from store.scan().files
    yield from (step.path for entry in store.journal.entries(RECENT_ENTRIES) for step in entry.steps)


def _watch_again(store: Store, path: str, live: str, size: int, now: float) -> bool:
    """Watch a replaced inode that another program still has open, from this size on. Returns False if none has."""
    changes = store.journal.steps_of(live, RECENT_ENTRIES)
    newest = next((each for each in changes if each[1].kind in _REPLACING), None)
    if newest is None or _side_of(store, newest[1]) == "before":
        return False  # new content of memoryd, which was never in use
    entry, step = newest
    with store.tree.parent(path) as (directory, name):
        fd = open_regular(directory, name, path)
        try:
            if is_sole_opener(fd, name):
                return False
            base_size, digest = step.before_size or 0, step.before_sha or ""
            replaced = ReplacedFile(directory, name, fd, live, base_size=base_size, digest=digest)
        finally:
            os.close(fd)
    store.late_writes.waiting.append(LateWrite(replaced, entry.receipt, step.position, size, now))
    return True


def _rescue_content(store: Store, live: str, content: bytes, now: float) -> str:
    """Save content that exists only in a temporary file: late appends, or a change made in place. Returns the end of
    the message about it."""
    current = store.content(live) or b""
    if current.startswith(content):
        return ""
    changes = [step for _, step in store.journal.steps_of(live, RECENT_ENTRIES) if step.kind in _WHOLE_FILE]
    steps = [step for step in changes if step.kind in _REPLACING]
    last = next((step for step in steps if step.kind is Kind.REWRITE), None)
    if changes and (last is None or _side_of(store, last) == "before"):
        return ""  # if the last exchange never happened, this is new content of memoryd
    # There may be several, each replaced by another rewrite: content from before that rewrite is not late.
    sizes = [s.before_size for s in steps if s.before_size and _starts_with(content, s.before_sha or "", s.before_size)]
    if not sizes:
        reason = "changed in place while it was replaced" if changes else "replaced by a change that is long past"
        quarantine(store.journal, store.blobs, live, content, reason, now=now)
        return ", its content is in quarantine"
    extra = content[max(sizes) :]
    if not extra or extra in current:
        return ""
    lead = b"\n" if current and not current.endswith(b"\n") else b""
    atomic.append(store.tree, live, lead + extra, expected=store.tree.stat(live))
    return f", {len(extra)} late bytes were carried into {live}"
