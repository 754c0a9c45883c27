"""After a crash or a failed step: finish what was committed, roll back what was not.

A group (copies into archives, then one rewrite of the live file) is decided by its live file alone. If that still
begins with the content from before, the rewrite never happened and the group's own appends are taken back; if it begins
with the content from after, the group is done. Anything else is left for the next run, which finds the copies in the
archive and does not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from memoryd.core.records import Role
from memoryd.core.spans import sha256, splice
from memoryd.disk import atomic, temps
from memoryd.disk.blobs import quarantine
from memoryd.disk.journal import Entry, Step
from memoryd.disk.locks.inspect import clear
from memoryd.store.store import Store
from memoryd.store.undo_content import decode_edits, has_undo_content, load_undo_content

RECENT = 200  # entries whose replaced inodes may still lie about after a crash


def recover(store: Store, now: float) -> list[str]:
    """Recover a root at start: remove our temporary files, resolve entries that were begun.

    Returns a sentence for each thing done. Must run before anything else writes, by the owner of the root.
    """
    said = [*_sweep(store, now), *_clear_own_locks(store, now)]
    for entry in store.journal.unfinished():
        state = resolve(store, entry)
        store.journal.finish(entry.receipt, state, error="memoryd ended while it was at work")
        said.append(f"{entry.operation} {entry.receipt} was cut off and is now {state.replace('_', ' ')}")
    return said


def _clear_own_locks(store: Store, now: float) -> list[str]:
    """Clear locks of an earlier process: the owner of the root knows that no memoryd is inside."""
    said: list[str] = []
    for rule in store.layout.files.locks if store.layout is not None and store.network_fs is None else ():
        report = clear(store.tree.fd, rule.name, now, kind=rule.kind, own_locks_stale=True)
        if report is not None and report.action in ("removed", "emptied"):
            said.append(f"{rule.name} is {report.action}: {report.evidence}")
    return said


def resolve(store: Store, entry: Entry) -> str:
    """Return the state in which an entry ends: done (at least one group), rolled_back, or interrupted."""
    outcomes = [_resolve_group(store, list(group)) for _, group in groupby(entry.steps, lambda step: step.group)]
    if "interrupted" in outcomes:
        return "interrupted"
    return "done" if "done" in outcomes else "rolled_back"


def _resolve_group(store: Store, steps: Sequence[Step]) -> str:
    decisive = steps[-1]
    if decisive.applied or any(step.kind == "chmod" and step.applied for step in steps):
        return "done"
    if decisive.kind == "chmod":
        return "rolled_back"
    state = _state_of(store, decisive)
    if state == "after":
        return "done"
    if state != "before":
        return "interrupted"
    # A deciding append may be torn; any other last step did not happen at all.
    mine = steps if decisive.kind == "append" else steps[:-1]
    return "rolled_back" if _taken_back(store, mine) else "interrupted"


def _taken_back(store: Store, steps: Sequence[Step]) -> bool:
    """Undo the steps of a group. What an undo restored in a live file stays unless its archive copy exists again."""
    whole = True
    for step in reversed(steps):
        if whole or store.role(step.path) is not Role.SOURCE:
            whole = _TAKE_BACK[step.kind](store, step) and whole
    return whole


def _state_of(store: Store, step: Step) -> str:
    """Return before, after or neither, by the file's prefix: other programs may have appended since."""
    content = _content(store, step.path)
    if content is None:
        if step.after_sha is None:
            return "after"
        return "before" if step.before_sha is None else "neither"
    # The longer prefix first: one of the two may be a prefix of the other.
    sides = [("before", step.before_sha, step.before_size), ("after", step.after_sha, step.after_size)]
    for side, digest, size in sorted(sides, key=lambda item: -(item[2] or 0)):
        if digest is not None and size is not None and _begins(content, digest, size):
            return side
    return "neither"


def _begins(content: bytes, digest: str, size: int) -> bool:
    if size == 0:  # an empty prefix proves nothing
        return not content
    return len(content) >= size and sha256(content[:size]) == digest


def _content(store: Store, path: str) -> bytes | None:
    try:
        return store.tree.read(path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return None


def _take_back_append(store: Store, step: Step) -> bool:
    """Undo our own append, complete or torn, if nothing else follows it."""
    content = _content(store, step.path)
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


def _take_back_rewrite(store: Store, step: Step) -> bool:
    """Undo our own rewrite if the file is still as we left it."""
    if _content(store, step.path) is None or not has_undo_content(step):
        return False
    content, fingerprint = store.tree.read(step.path)
    if sha256(content) != step.after_sha:
        return sha256(content) == step.before_sha
    before = splice(content, decode_edits(load_undo_content(store.blobs, step)))
    displaced = atomic.replace(store.tree, step.path, before, expected=fingerprint, exchange=True).replaced_file
    if displaced is not None and not displaced.close_if_unused():
        displaced.detach()  # another process has it open: the next start checks for late appends
    return True


def _take_back_create(store: Store, step: Step) -> bool:
    content = _content(store, step.path)
    if content is None:
        return True
    found = store.tree.stat(step.path)
    if found is None or sha256(content) != step.after_sha:
        return False
    atomic.remove(store.tree, step.path, expected=found)
    return True


def _take_back_remove(store: Store, step: Step) -> bool:
    content = _content(store, step.path)
    if content is None and has_undo_content(step):
        mode = store.mode_for(step.path) if step.mode is None else step.mode
        atomic.create(store.tree, step.path, load_undo_content(store.blobs, step), mode)
        return True
    return content is not None and sha256(content) == step.before_sha


_TAKE_BACK: dict[str, Callable[[Store, Step], bool]] = {
    "append": _take_back_append,
    "rewrite": _take_back_rewrite,
    "create": _take_back_create,
    "remove": _take_back_remove,
    "chmod": lambda store, step: True,  # noqa: ARG005 - a tightened mode harms nothing
}


def _sweep(store: Store, now: float) -> list[str]:
    """Remove our temporary files of an earlier process. One may be an inode that we had just replaced; bytes appended
    to it since are carried over first."""
    said: list[str] = []
    folders = sorted(store.scan().directories)
    for path, _ in (found for folder in folders for found in temps.our_temps(store.tree, folder)):
        kept = _rescue(store, path, now)
        store.tree.unlink(path)
        said.append(f"{path} was left by a crash and is removed{kept}")
    return said


def _rescue(store: Store, path: str, now: float) -> str:
    """Keep what only this temporary file holds: late appends, or a change made in place."""
    live = temps.target_of(path)
    if store.role(live) is not Role.SOURCE:
        return ""  # derived files are made anew
    content, _ = store.tree.read(path)
    current = _content(store, live) or b""
    steps = _last_replacing(store, live)
    last = next((step for step in steps if step.kind == "rewrite"), None)
    if current.startswith(content) or last is None or _state_of(store, last) == "before":
        return ""  # where the last exchange never happened this is our own new content
    # Several may lie there, each put aside by a rewrite of its own: what that one knew is not late.
    known = [s.before_size for s in steps if s.before_size and _begins(content, s.before_sha or "", s.before_size)]
    if not known:
        reason = "changed in place while it was replaced"
        quarantine(store.journal, store.blobs, live, content, reason, now=now)
        return ", its content is in quarantine"
    extra = content[max(known) :]
    if not extra or extra in current:
        return ""
    lead = b"\n" if current and not current.endswith(b"\n") else b""
    atomic.append(store.tree, live, lead + extra, expected=store.tree.stat(live))
    return f", {len(extra)} late bytes were carried into {live}"


def _last_replacing(store: Store, path: str) -> list[Step]:
    """Return the last steps that replaced an inode of that path, newest first."""
    steps = (step for entry in store.journal.entries(RECENT) for step in reversed(entry.steps))
    return [step for step in steps if step.path == path and step.kind in ("rewrite", "remove")]
