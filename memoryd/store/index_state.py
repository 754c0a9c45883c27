"""The state of the index files of a store, from one update to the next, and from an orderly end to the next start.

A start that finds the same files beside the same catalogue has nothing to render. What was saved at the end is taken
once: after a crash, or a change of the catalogue by another process, the index is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from memoryd.core.spans import Fingerprint
from memoryd.disk.journal.database import Facts
from memoryd.layouts.protocol import IndexResult, UpdateIndex

DELETION_QUIET_S, MAX_DELETION_S = 1.0, 10.0
QUIET_S = 2.0  # from a write of another program to ours
CONTENTION_S = 60.0  # between two writes of ours while another program keeps replacing what we wrote
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

    def is_ours(self, path: str, found: Fingerprint | None) -> bool:
        """True if an index file is what memoryd wrote last, since it was started."""
        return path in self.written and self.written[path].same_content(found)

    def note_write(self, path: str, written: Fingerprint, before: Fingerprint | None, now: float) -> None:
        """Record a write over the file `before`, and count how often in a row another program replaced ours."""
        last = self.fingerprints.get(path)
        foreign = path in self.written and before is not None and not before.same_content(last)
        recent = now - self.written_at.get(path, 0.0) < 2 * CONTENTION_S
        self.overwrites[path] = self.overwrites.get(path, 0) + 1 if foreign and recent else 0
        self.written[path], self.written_at[path] = written, now

    def earliest_write(self, foreign: Mapping[str, Fingerprint | None], now: float) -> float | None:
        """Return when the index may be written although another program has written these files since our last write;
        None if memoryd wrote none of them."""
        earliest: float | None = None
        for path in foreign.keys() & self.written.keys():
            allowed = self._foreign_since(path, foreign[path], now) + QUIET_S
            self.written_at[path] = min(self.written_at[path], now)  # the clock may have been set back
            if self.overwrites.get(path, 0) > 0:
                allowed = max(allowed, self.written_at[path] + CONTENTION_S)
            earliest = max(earliest or 0.0, allowed)
        return earliest

    def _foreign_since(self, path: str, found: Fingerprint | None, now: float) -> float:
        """Return when another program wrote an index file: its mtime, but no later than the time it was first observed,
        since an mtime is in the future after the clock was set back."""
        if found is None:
            return now
        previous, first_observed = self.foreign_versions.get(path, (None, now))
        first_observed = min(first_observed, now) if found.same_content(previous) else now
        self.foreign_versions[path] = (found, first_observed)
        return min(found.mtime_ns / 1e9, first_observed)


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
