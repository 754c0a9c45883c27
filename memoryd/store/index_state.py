"""The state of the index files of a store, from one update to the next, and from an orderly end to the next start.

A start that finds the same files beside the same catalogue has nothing to render. What was saved at the end is taken
once: after a crash, or a change of the catalogue by another process, the index is rendered.
"""

from __future__ import annotations

from msgspec import Struct, field

from memoryd.core.spans import Fingerprint
from memoryd.disk.journal.database import Facts
from memoryd.layouts.protocol import IndexResult, UpdateIndex

DELETION_QUIET_S, MAX_DELETION_S = 1.0, 10.0
LAST_STATE = "index_state"  # journal key: the state at the last orderly end


class IndexState(Struct):
    """The last observed and written state of each index file.

    `needs_scan`: what changed may not be indexed, and no event says where: nothing was read yet, or that failed.
    `dirty`: something was indexed since. `changes`: how often anything was indexed. `current`: the files were then what
    the catalogue says. `written`: what memoryd wrote last. `overwrites`: how often in a row another program replaced
    our version. `update`: renders the next change; set while the files are what memoryd wrote and match the catalogue.
    `not_durable`: the files that a failed update may have replaced without putting that on the disk.
    `archived_at`: the `changes` at which memories that are live and archived were last looked for.
    `foreign_versions`: a version by another program, and when it was first observed. `deletions`: the first and last
    time of a run of deleted files without a pause. `deletion_event`: the time of the last event for a deleted source
    file, which may still have to be indexed; set by any thread.
    """

    needs_scan: bool = True
    dirty: bool = True
    changes: int = 0
    current: bool = False
    fingerprints: dict[str, Fingerprint | None] = field(default_factory=dict)
    written: dict[str, Fingerprint] = field(default_factory=dict)
    written_at: dict[str, float] = field(default_factory=dict)
    overwrites: dict[str, int] = field(default_factory=dict)
    not_durable: frozenset[str] = frozenset()
    archived_at: int = -1
    foreign_versions: dict[str, tuple[Fingerprint, float]] = field(default_factory=dict)
    result: IndexResult = field(default_factory=IndexResult)
    update: UpdateIndex | None = None
    deletions: tuple[float, float] | None = None
    deletion_event: float = 0.0

    def note_render(self, changes: int, *, current: bool) -> None:
        """Record that the files are rendered. `changes`: their number when it began; more may have come meanwhile."""
        self.dirty, self.current = self.changes != changes, current

    def note_deletion(self, now: float) -> None:
        """Record the deletion of a source file at `now` (epoch seconds)."""
        first = self.deletions[0] if self.deletions and self.hold_until(now) is not None else now
        self.deletions = (first, now)

    def hold_until(self, now: float) -> float | None:
        """Return until when no index is written, because the whole directory may be about to be removed and a new file
        would prevent that; None if the index may be written."""
        if self.deletions is None:
            return None
        first, last = self.deletions
        last = max(last, min(self.deletion_event, now))
        until = min(last + DELETION_QUIET_S, first + MAX_DELETION_S)
        return until if last <= now < until else None


def remember(facts: Facts, state: IndexState, rules: str) -> None:
    """Save the state for `recall`, if the index files are current and there is nothing to report about them. `rules`
    name all that decides their content beside the memories."""
    result = state.result
    if state.dirty or not state.current or result.findings:
        return
    counts = [result.memories, result.archived, dict(result.by_type)]
    prints = {path: found and list(found) for path, found in state.fingerprints.items()}
    written = {path: (list(found), state.written_at[path]) for path, found in state.written.items()}
    facts.set(LAST_STATE, {"rules": rules, "files": prints, "written": written, "counts": counts})


def recall(facts: Facts, rules: str) -> IndexState:
    """Take the saved state; a new one if there is none that these rules made."""
    saved = facts.get(LAST_STATE)
    if saved is None:
        return IndexState()
    facts.set(LAST_STATE, None)
    if saved["rules"] != rules:
        return IndexState()
    memories, archived, by_type = saved["counts"]
    prints = {path: found and Fingerprint(*found) for path, found in saved["files"].items()}
    result = IndexResult(memories=memories, archived=archived, by_type=by_type)
    state = IndexState(dirty=False, current=True, fingerprints=prints, result=result)
    for path, (found, at) in saved.get("written", {}).items():
        state.written[path], state.written_at[path] = Fingerprint(*found), at
    return state
