"""Late appends: whoever had a file open when a commit replaced it may still append to the inode that went.

The inode is kept and looked at until nobody else has it open; what came to it goes into the live file. Where a lease
proves that nobody has it open it goes at once, so that no temporary name is left for a `git add`. Where that can only
be looked for, two seconds must have passed as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoryd.core.digest import sha256
from memoryd.core.text import splice
from memoryd.disk import atomic
from memoryd.disk.displaced import Displaced
from memoryd.disk.snapshots import quarantine
from memoryd.store.edits import decode_edits
from memoryd.store.kept import has_kept, kept_of

if TYPE_CHECKING:
    from memoryd.store.store import Store

LONG_ENOUGH_S = 2.0


@dataclass(slots=True)
class Late:
    """An inode that a commit replaced: whoever had it open may still append to it."""

    displaced: Displaced
    receipt: str
    position: int
    known: int
    since: float


def has_late_bytes(store: Store) -> bool:
    return any(late.displaced.late(late.known) for late in store.late)


def carry_over(store: Store, now: float) -> int:
    """Bytes that somebody appended to a replaced inode go into the live file; the count of bytes carried.

    Must run under the store's lock where bytes are found."""
    carried = 0
    for late in list(store.late):
        late.since = min(late.since, now)  # the clock may have been set back
        extra = late.displaced.late(late.known)
        if extra:
            carried += _carry(store, late, extra)
        elif late.displaced.is_proven_ours() or (now - late.since >= LONG_ENOUGH_S and late.displaced.only_ours()):
            _let_go(store, late, now)
    return carried


def leave_all(store: Store) -> None:
    """At the end: what nobody can write to any more goes now; the rest is looked at by the recovery at the next
    start."""
    for late in store.late:
        if not (late.displaced.intact() and late.displaced.close_if_silent(late.known)):
            late.displaced.leave()
    store.late.clear()


def _let_go(store: Store, late: Late, now: float) -> None:
    if not late.displaced.intact():  # somebody wrote into it in place: only this inode holds that
        reason = "changed in place while it was replaced"
        content = late.displaced.late(0)
        quarantine(store.journal, store.blobs, late.displaced.path, content, reason, now=now)
        late.displaced.close()
    elif not late.displaced.close_if_silent(late.known):
        return  # something came between the look and now: carried over the next time
    store.late.remove(late)


def _carry(store: Store, late: Late, extra: bytes) -> int:
    path = late.displaced.path
    content, fingerprint = store.tree.read(path)
    lead = b"\n" if content and not content.endswith(b"\n") else b""
    atomic.append(store.tree, path, lead + extra, expected=fingerprint)
    late.known += len(extra)
    _amend(store, late, content, lead + extra)
    return len(extra)


def _amend(store: Store, late: Late, content: bytes, extra: bytes) -> None:
    """What the undo of that change compares with has grown by the carried bytes, before and after."""
    step = store.journal.entry(late.receipt).steps[late.position]
    if step.after_sha != sha256(content) or not has_kept(step):
        return
    before = splice(content, decode_edits(kept_of(store.blobs, step))) + extra
    after = content + extra
    store.journal.amend(
        late.receipt,
        late.position,
        before_sha=sha256(before),
        before_size=len(before),
        after_sha=sha256(after),
        after_size=len(after),
    )
