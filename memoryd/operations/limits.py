"""The levels of files with a limit: rows for `status`, and the findings near a limit and above it."""

from __future__ import annotations

from msgspec import UNSET, Struct

from memoryd.control.methods.status import LimitRow
from memoryd.core.defaults import Limit, LimitKind
from memoryd.core.findings import Finding
from memoryd.core.index import FileRow
from memoryd.store import Store

NEAR = 0.85  # of a limit
SUGGESTIONS = 5  # ids in a warning


class Level(Struct, frozen=True):
    """The number of memories and bytes of a file with a limit."""

    file: str
    limit: Limit
    count: int
    size: int

    @property
    def level(self) -> str:
        """Return ok, near (from 85 %) or over: a hard limit once it is reached, a soft one once it is exceeded."""
        bounds = ((self.count, self.limit.max_count), (self.size, self.limit.max_bytes))
        full = max((used / bound for used, bound in bounds if bound), default=0.0)
        over = full >= 1 if self.limit.kind is LimitKind.HARD else full > 1
        return "over" if over else "near" if full >= NEAR else "ok"

    def row(self, hint: str | None = None) -> LimitRow:
        """Return the row for `status`; `hint` suggests memories to archive."""
        return LimitRow(
            file=self.file,
            count=self.count,
            max_count=self.limit.max_count,
            bytes=self.size,
            max_bytes=self.limit.max_bytes,
            kind=str(self.limit.kind),
            level=self.level,
            hint=UNSET if hint is None else hint,
        )


def limit_levels(store: Store) -> list[Level]:
    """Return the level of each file with a limit, in the order of paths."""
    levels: list[Level] = []
    for path, limit in sorted(store.limits.items()):
        row = store.catalogue.file(path)
        levels.append(Level(path, limit, _count(store, row, limit), row.fingerprint.size if row else 0))
    return levels


def limit_rows(store: Store) -> tuple[LimitRow, ...]:
    """Return the limits for `status`; a file over its hard limit has a hint."""
    hints = {each.path: each.message for each in store.root_findings.get("limits", ()) if each.code == "hard-limit"}
    return tuple(level.row(hints.get(level.file) if level.level == "over" else None) for level in limit_levels(store))


def _count(store: Store, row: FileRow | None, limit: Limit) -> int:
    """Count the memories of a file. Near its limit, duplicates and archived ones are not counted."""
    if row is None:
        return 0
    near = limit.max_count is not None and row.records >= limit.max_count * NEAR
    return store.catalogue.live_count(row.path) if near else row.records


def note_limits(store: Store) -> tuple[list[Finding], bool]:
    """Update the findings for files near or over a limit.

    Returns the findings for limits newly crossed (each crossing is reported once, across restarts), and whether a soft
    limit is exceeded.
    """
    levels = limit_levels(store)
    over = {each.file: each.limit.kind for each in levels if each.level == "over"}
    known = {finding.path: finding for finding in store.root_findings.get("limits", ()) if finding.code == "hard-limit"}
    hard = {
        path: known.get(path) or _hard_limit_finding(store, path)
        for path, kind in over.items()
        if kind is LimitKind.HARD
    }
    near = "the file is at 85 % or more of its limit"
    store.root_findings["limits"] = (
        *hard.values(),
        *(Finding("near-limit", each.file, near) for each in levels if each.level == "near"),
    )
    warned = set(store.journal.facts.get("warned_limits", []))
    if warned != set(over):
        store.journal.facts.set("warned_limits", sorted(over))
    crossed = [hard.get(path) or _soft_limit_finding(store, path) for path in over if path not in warned]
    return crossed, LimitKind.SOFT in over.values()


def _hard_limit_finding(store: Store, path: str) -> Finding:
    return Finding(
        "hard-limit", path, f"the file is at its hard limit; free space, for example: {_suggestion(store, path)}"
    )


def _soft_limit_finding(store: Store, path: str) -> Finding:
    action = "memoryd archives the excess soon; to choose what goes, for example"
    if store.observes:
        action = "memoryd archives nothing here by itself; free space, for example"
    return Finding("soft-limit", path, f"the file exceeds its soft limit; {action}: {_suggestion(store, path)}")


def _suggestion(store: Store, path: str) -> str:
    """Return a command that archives the memories not used for the longest time."""
    entries = [entry for entry in store.catalogue.entries([path]) if not entry.archived]
    entries.sort(key=lambda e: (e.facts.get("accessed", 0.0), e.facts.get("access_count", 0)))
    return f"memoryd archive {' '.join(entry.id for entry in entries[:SUGGESTIONS])}"
