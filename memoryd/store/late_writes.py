"""Merge late appends: a program that had a file open when a commit replaced it may still append to the old inode.

The old inode stays until no other process has it open; bytes appended to it are copied to the live file. If a lease
proves that no process has it open, it is released at once, so that `git add` finds no temporary file. If openers can
only be searched for in /proc, two seconds must have passed as well.
"""

from __future__ import annotations

import os
from contextlib import suppress

from msgspec import Struct

from memoryd.core.findings import Finding
from memoryd.core.spans import sha256, splice
from memoryd.disk import atomic
from memoryd.disk.blobs import Blobs, quarantine
from memoryd.disk.journal import Journal
from memoryd.disk.replaced_file import ReplacedFile
from memoryd.disk.tree import Tree
from memoryd.errors import NotFoundError
from memoryd.store.undo_content import decode_edits, has_undo_content, load_undo_content

MIN_AGE_S = 2.0
LATE_WRITES_TOPIC = "late-writes"


class LateWrite(Struct):
    """An inode replaced by step `position` of the change `receipt`, at `replaced_at` (epoch seconds). Its first
    `merged_size` bytes are in the live file."""

    replaced: ReplacedFile
    receipt: str
    position: int
    merged_size: int
    replaced_at: float
    reported: tuple[int, Finding] | None = None  # and the modification time it was made for

    def finding(self, now: float) -> Finding | None:
        """Return a finding if a program has written to it and still has it open after two seconds."""
        written_at = self.replaced.written_at()
        if written_at is None or now - self.replaced_at < MIN_AGE_S:
            return None
        if self.reported is None or self.reported[0] != written_at:
            self.reported = written_at, _finding(self.replaced)
        return self.reported[1]


def _finding(replaced: ReplacedFile) -> Finding:
    path = replaced.path
    if replaced.unmodified():
        state = f"what it appends is copied to {path}"
    else:
        state = f"what it changed in place is only here, and goes to quarantine, not to {path}, when it closes the file"
    place = path if replaced.temp is None else os.path.join(os.path.dirname(path), replaced.temp)
    message = f"a program still writes to {path} as it was before memoryd replaced it: {state}; have it reopen the file"
    return Finding("late-writes", place, message)


class LateWrites:
    """The replaced inodes of one root, in `waiting`. Used by the thread that owns the root."""

    def __init__(self, journal: Journal, blobs: Blobs) -> None:
        self._journal = journal
        self._blobs = blobs
        self.waiting: list[LateWrite] = []

    def has_new(self) -> bool:
        """True if bytes were appended to one of them; `merge` then needs the store's lock."""
        return any(each.replaced.appended(each.merged_size) for each in self.waiting)

    def merge(self, tree: Tree, now: float) -> int:
        """Append new bytes to the live files and release inodes that no process has open. Returns the number of bytes.
        Needs the store's lock if `has_new`."""
        merged = 0
        for each in list(self.waiting):
            each.replaced_at = min(each.replaced_at, now)  # the clock may have been set back
            extra = each.replaced.appended(each.merged_size)
            if extra:
                merged += self._append(tree, each, extra)
            elif each.replaced.is_proven_sole_opener() or (
                now - each.replaced_at >= MIN_AGE_S and each.replaced.is_sole_opener()
            ):
                self._release(each, now)
        return merged

    def findings(self, now: float) -> tuple[Finding, ...]:
        """Return a finding for each inode to which a program still writes."""
        found = (each.finding(now) for each in self.waiting)
        return tuple(each for each in found if each is not None)

    def close(self) -> None:
        """Release inodes that no process can still write to; the recovery when the directory is opened again handles
        the rest."""
        for each in self.waiting:
            released = False
            with suppress(OSError):  # the disk is gone, perhaps with the directory: nothing more can be done here
                released = each.replaced.unmodified() and each.replaced.close_if_unused(each.merged_size)
            if not released:
                each.replaced.detach()
        self.waiting.clear()

    def _release(self, late: LateWrite, now: float) -> None:
        if not late.replaced.unmodified():  # another program wrote in place: only this inode has that content
            reason = "changed in place while it was replaced"
            content = late.replaced.appended(0)
            quarantine(self._journal, self._blobs, late.replaced.path, content, reason, now=now)
            late.replaced.close()
        elif not late.replaced.close_if_unused(late.merged_size):
            return  # bytes were appended since the check; the next call merges them
        self.waiting.remove(late)

    def _append(self, tree: Tree, late: LateWrite, extra: bytes) -> int:
        path = late.replaced.path
        content, fingerprint = tree.read(path)
        lead = b"\n" if content and not content.endswith(b"\n") else b""
        atomic.append(tree, path, lead + extra, expected=fingerprint)
        late.merged_size += len(extra)
        self._amend(late, content, lead + extra)
        return len(extra)

    def _amend(self, late: LateWrite, content: bytes, extra: bytes) -> None:
        """Update the undo data of that change: its content before and after has grown by the appended bytes."""
        try:
            step = self._journal.entry(late.receipt).steps[late.position]
        except NotFoundError:
            return  # so long ago that nobody can undo it any more
        if step.after_sha != sha256(content) or not has_undo_content(step):
            return
        before = splice(content, decode_edits(load_undo_content(self._blobs, step))) + extra
        after = content + extra
        self._journal.amend(
            late.receipt,
            late.position,
            before_sha=sha256(before),
            before_size=len(before),
            after_sha=sha256(after),
            after_size=len(after),
        )
