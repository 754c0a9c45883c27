"""One JSON file a memory, with `_index.json` and `_stats.json` (seed 000, "Memory Storage System").

The root is the folder `memories` itself. The server behind the layout writes memories and indices without lock,
temporary name or rename, names files by the second and overwrites what is there; reading a memory rewrites its file.
So memoryd reads patiently, compares by meaning, and writes the two index files only when they are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.plan import Plan
from memoryd.core.policy import Limit
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
from memoryd.layouts.folder import Folder, says_other
from memoryd.layouts.json_files import index, names, reading, similar, stats, storing, upkeep
from memoryd.layouts.json_files.shape import shape
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch


class JsonFiles:
    """See `memoryd.layouts.base.Layout` and `memoryd.layouts.storing.Storing`."""

    name = "json-files"
    lock: str | None = None
    locks: tuple[LockRule, ...] = ()
    backup_place: str | None = None
    index_paths: tuple[str, ...] = (names.INDEX, names.STATS)
    keeps_every_change = False
    appendable = False
    private = False
    jobs: tuple[str, ...] = ("archive", "backup", "verify", "rescan")
    limits: Mapping[str, Limit] = {}
    migrations: tuple[Migration, ...] = ()

    def index_version(self, content: bytes) -> str | None:
        del content  # neither file names a version
        return None

    def recognises(self, folder: Folder) -> str | None:
        return shape(folder)

    def role(self, path: str) -> Role:
        if path in self.index_paths:
            return Role.INDEX
        if is_temp(path):
            return Role.TEMP
        # Left-overs of older versions are read as sources without memories, so that they can be reported.
        return Role.SOURCE if names.is_memory(path) or names.is_legacy(path) else Role.FOREIGN

    def live_paths(self, present: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(filter(names.is_memory, present), key=names.order))

    def upkeep_paths(self, files: Mapping[str, FileSummary]) -> tuple[str, ...]:
        return self.live_paths([path for path, each in files.items() if each.facts.get("idle")])

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: Base) -> Document:
        del base  # never appended to
        if names.is_memory(path):
            return reading.parse(path, data, now=now, mtime=mtime)
        if path.startswith(f"{names.LEGACY_FOLDER}/"):
            return Document(path, (), facts={"legacy": True})  # one finding for all of them, from the index
        told = "a collection of the time before one file a memory; not indexed, left alone"
        return Document(path, (), (Finding("legacy-file", path, told),))

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        return self.parse(path, data, now=now, mtime=0.0, base=Base()).quality

    def index(self, view: IndexView) -> IndexResult:
        return index.render(view)

    def keeps_index(self, path: str, content: bytes) -> bool:
        return not says_other(content, stats.KEYS if path == names.STATS else index.KEYS)

    def archive(self, view: UpkeepView, ids: Collection[str] | None) -> Plan:
        return upkeep.archive(view, ids)

    def enforce(self, view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
        del view, limits  # the seed names none
        return Plan()

    def prune(self, view: UpkeepView) -> Plan:
        del view
        return Plan()

    def dedupe(self, view: UpkeepView, threshold: float | None) -> Plan:
        return similar.suggest(view, threshold)

    def recover(self, path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
        del path, archived, now  # the flag moves nothing, so no memory lies elsewhere
        return upkeep.recover(loaded, backup)

    def alarms(self, before: FileSummary | None, after: FileSummary) -> tuple[Finding, ...]:
        del before, after
        return ()

    def blocked(self, git: Callable[[], Collection[str]]) -> str | None:
        del git  # the server does not stop for git either
        return None

    def fixes(self, path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
        del now
        return upkeep.fixes(path, loaded)

    # --- storing

    def add(self, view: StoringView, asked: Asked) -> Stored:
        return storing.add(view, asked)

    def update(self, view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
        return storing.update(view, found, changes)

    def forget(self, view: StoringView, found: Found) -> Stored:
        del view
        return storing.forget(found)

    def unarchive(self, view: StoringView, found: Found) -> Stored:
        del view
        return storing.unarchive(found)

    def put_back(self, view: StoringView, path: str, kept: bytes) -> Stored:
        return storing.put_back(view, path, kept)

    def touch(self, path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
        del path
        return storing.touch(loaded, touches)

    def native(self, path: str, text: bytes) -> Mapping[str, Any]:
        del path
        return storing.native(text)
