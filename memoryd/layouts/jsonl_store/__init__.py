"""The JSONL store: core memories, learnings and tasks, one JSON object a line, with `index.json`,
`.lock`, `.backup/` and a quarterly archive (seed 004, "Storage Format Specification - Agent Memory Server").

Where the seed contradicts itself: files end in a newline when memoryd writes them (the seed's own append
needs it), both are accepted; archives take the name of the tree (`learnings_2025_Q4.jsonl`), both are read;
KB and MB are 1,024-based. The `<agent-id>.json` form that the server really shipped is read, never written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.plan import Plan
from memoryd.core.policy import MB, Limit, LimitKind
from memoryd.core.records import Base, Document, Role
from memoryd.core.retention import Quality
from memoryd.core.text import Edit
from memoryd.layouts.base import (
    FileSummary,
    Fix,
    IndexResult,
    IndexView,
    Loaded,
    LockRule,
    Migration,
    UpkeepView,
    is_temp,
)
from memoryd.layouts.folder import Folder
from memoryd.layouts.jsonl_store import index, lines, repair, shipped, storing, upkeep
from memoryd.layouts.jsonl_store.schema import FILE_TYPES
from memoryd.layouts.jsonl_store.shape import shape
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch


class JsonlStore:
    """See `memoryd.layouts.base.Layout` and `memoryd.layouts.storing.Storing`."""

    name = "jsonl-store"
    lock: str | None = ".lock"
    locks: tuple[LockRule, ...] = (LockRule(".lock", ".lock"),)
    backup_place: str | None = ".backup"
    index_paths: tuple[str, ...] = (index.INDEX,)
    keeps_every_change = False
    appendable = True
    private = True
    jobs: tuple[str, ...] = ("archive", "limits", "backup", "locks", "permissions", "verify", "rescan")
    limits: Mapping[str, Limit] = {
        "core_memories.jsonl": Limit(LimitKind.HARD, 10 * MB, 1000),
        "learnings.jsonl": Limit(LimitKind.SOFT, 5 * MB, 500),
        "tasks.jsonl": Limit(LimitKind.SOFT, 2 * MB, 200),
    }

    migrations: tuple[Migration, ...] = ()  # version 1.0.0 is the first there is

    def index_version(self, content: bytes) -> str | None:
        return index.version_of(content)

    def recognises(self, folder: Folder) -> str | None:
        return shape(folder)

    def role(self, path: str) -> Role:
        if path == self.lock:
            return Role.LOCK
        if path.startswith(".backup/"):
            return Role.BACKUP
        if is_temp(path):
            return Role.TEMP
        if path in FILE_TYPES or shipped.is_candidate(path):
            return Role.SOURCE
        if path == index.INDEX:
            return Role.INDEX
        return Role.ARCHIVE if upkeep.is_archive(path) else Role.FOREIGN

    def live_paths(self, present: Collection[str]) -> tuple[str, ...]:
        del present
        return tuple(FILE_TYPES)

    def upkeep_paths(self, files: Mapping[str, FileSummary]) -> tuple[str, ...]:
        return self.live_paths(files)

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: Base) -> Document:
        if shipped.is_candidate(path):
            return shipped.parse(path, data, now=now, mtime=mtime)
        counted = path in FILE_TYPES
        kind = FILE_TYPES[path] if counted else upkeep.archived_type(path)
        return lines.parse_lines(path, data, kind, now=now, mtime=mtime, base=base, counted=counted)

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        return self.parse(path, data, now=now, mtime=0.0, base=Base()).quality

    def index(self, view: IndexView) -> IndexResult:
        return index.render(view)

    def keeps_index(self, path: str, content: bytes) -> bool:
        del path  # there is one
        return index.is_ours(content)

    def archive(self, view: UpkeepView, ids: Collection[str] | None) -> Plan:
        return upkeep.archive(view, ids)

    def enforce(self, view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
        return upkeep.enforce(view, limits)

    def prune(self, view: UpkeepView) -> Plan:
        del view
        return Plan()

    def dedupe(self, view: UpkeepView, threshold: float | None) -> Plan:
        del threshold  # equal but for access statistics, or not a duplicate
        return repair.dedupe(view)

    def recover(self, path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
        return repair.recover(path, loaded, backup, archived, now)

    def alarms(self, before: FileSummary | None, after: FileSummary) -> tuple[Finding, ...]:
        del before, after
        return ()

    def blocked(self, git: Callable[[], Collection[str]]) -> str | None:
        del git  # the store has a lock of its own
        return None

    def fixes(self, path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
        return repair.fixes(path, loaded, now)

    # --- storing

    def add(self, view: StoringView, asked: Asked) -> Stored:
        return storing.add(view, asked)

    def update(self, view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
        return storing.update(view, found, changes)

    def forget(self, view: StoringView, found: Found) -> Stored:
        return storing.forget(view, found)

    def unarchive(self, view: StoringView, found: Found) -> Stored:
        return storing.unarchive(view, found)

    def put_back(self, view: StoringView, path: str, kept: bytes) -> Stored:
        return storing.put_back(view, path, kept)

    def touch(self, path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
        return storing.touch(path, loaded, touches)

    def native(self, path: str, text: bytes) -> Mapping[str, Any]:
        del path
        return storing.native(text)
