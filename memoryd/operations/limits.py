"""How full each limited file is, and what a person should know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memoryd.catalogue import FileRow
from memoryd.core.findings import Finding
from memoryd.core.policy import Limit, LimitKind
from memoryd.store import Store

NEAR = 0.85
SUGGESTED = 5  # ids named in a warning


@dataclass(frozen=True, slots=True)
class Level:
    """`level` is ok, near (from 85 %) or over. A hard limit blocks when it is reached, a soft one acts when
    it is exceeded."""

    file: str
    limit: Limit
    count: int
    size: int

    @property
    def level(self) -> str:
        bounds = ((self.count, self.limit.max_count), (self.size, self.limit.max_bytes))
        full = max((used / bound for used, bound in bounds if bound), default=0.0)
        over = full >= 1 if self.limit.kind is LimitKind.HARD else full > 1
        return "over" if over else "near" if full >= NEAR else "ok"

    def public(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "count": self.count,
            "max_count": self.limit.max_count,
            "bytes": self.size,
            "max_bytes": self.limit.max_bytes,
            "kind": str(self.limit.kind),
            "level": self.level,
        }


def limit_levels(store: Store) -> list[Level]:
    levels: list[Level] = []
    for path, limit in sorted(store.limits.items()):
        row = store.catalogue.file(path)
        levels.append(Level(path, limit, _count(store, row, limit), row.fingerprint.size if row else 0))
    return levels


def shown_levels(store: Store) -> tuple[dict[str, Any], ...]:
    """What `status` shows: a file over its hard limit comes with what could go."""
    told = {each.path: each.message for each in store.noted.get("limits", ()) if each.code == "hard-limit"}
    return tuple(
        level.public() | ({"hint": told[level.file]} if level.level == "over" and level.file in told else {})
        for level in limit_levels(store)
    )


def _count(store: Store, row: FileRow | None, limit: Limit) -> int:
    """Duplicates and what is marked archived are told from the rest only where it matters: near the limit."""
    if row is None:
        return 0
    near = limit.max_count is not None and row.records >= limit.max_count * NEAR
    return store.catalogue.live_count(row.path) if near else row.records


def note_limits(store: Store) -> tuple[list[str], bool]:
    """Findings for files near or over a limit. Returns the files that newly crossed a hard limit (a crossing
    is told once, also over restarts), and whether a soft limit is exceeded."""
    levels = limit_levels(store)
    over = {each.file for each in levels if each.level == "over" and each.limit.kind is LimitKind.HARD}
    soft = any(each.level == "over" and each.limit.kind is LimitKind.SOFT for each in levels)
    known = {finding.path: finding for finding in store.noted.get("limits", ()) if finding.code == "hard-limit"}
    findings = [known.get(path) or _hard(store, path) for path in sorted(over)]
    near = "is at 85 % or more of its limit"
    findings += [Finding("near-limit", each.file, near) for each in levels if each.level == "near"]
    store.noted["limits"] = tuple(findings)
    warned = set(store.journal.get_meta("warned_limits", []))
    if warned != over:
        store.journal.set_meta("warned_limits", sorted(over))
    return sorted(over - warned), soft


def _hard(store: Store, path: str) -> Finding:
    """The oldest and least used are suggested, as the catalogue knows them."""
    entries = [entry for entry in store.catalogue.entries([path]) if not entry.archived]
    entries.sort(key=lambda e: (e.facts.get("accessed", 0.0), e.facts.get("access_count", 0)))
    ids = " ".join(entry.id for entry in entries[:SUGGESTED])
    return Finding("hard-limit", path, f"is at its hard limit; free space, for example: memoryd archive {ids}")
