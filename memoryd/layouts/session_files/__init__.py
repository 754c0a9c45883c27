"""Session files: one JSON file for each session of an agent, in a folder for each day (seed 003, "Storage & Schema",
Cursor Memory).

Where the seed is open: similarity is Jaccard's over `content`, in integers, and never equals texts with different
numbers; names have dashes, colons are read and reported; only `YYYY-MM-DD` folders hold sessions. `archive/`,
`archive/aggregate/`, `.quarantine/`, `archive.log` and `.archive.lock` belong to the archiver that shares the folder:
its archived sessions are read, its aggregate is a derived file, and archiving by memoryd is off until it is wanted.
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
from memoryd.layouts.folder import Folder
from memoryd.layouts.session_files import archiving, index, merging, naming, reading, repair, storing
from memoryd.layouts.session_files.shape import shape
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch

_LOOKED_AT = 2 * archiving.AT_ONCE  # the oldest sessions: more than one run can move, also when some are held back


class SessionFiles:
    """See `memoryd.layouts.base.Layout` and `memoryd.layouts.storing.Storing`."""

    name = "session-files"
    lock: str | None = None
    locks: tuple[LockRule, ...] = (LockRule(naming.LOCK, "soft"),)
    backup_place: str | None = None
    index_paths: tuple[str, ...] = ()
    limits: Mapping[str, Limit] = {}
    keeps_every_change = False
    appendable = False
    private = False
    jobs: tuple[str, ...] = ("dedupe", "archive", "backup", "locks", "verify", "rescan")
    migrations: tuple[Migration, ...] = ()

    def index_version(self, content: bytes) -> str | None:
        del content
        return None

    def recognises(self, folder: Folder) -> str | None:
        return shape(folder)

    def role(self, path: str) -> Role:
        if path == naming.LOCK:
            return Role.LOCK
        if is_temp(path):
            return Role.TEMP
        if naming.session_path(path):
            return Role.SOURCE
        if naming.is_aggregate(path):
            return Role.INDEX  # derived from the archived sessions: its memories are counted there
        return Role.ARCHIVE if naming.is_archived(path) else Role.FOREIGN

    def live_paths(self, present: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(path for path in present if self.role(path) is Role.SOURCE))

    def upkeep_paths(self, files: Mapping[str, FileSummary]) -> tuple[str, ...]:
        """Sessions that may say something twice, and the oldest, which may be due for the archive."""
        live = [each for path, each in files.items() if self.role(path) is Role.SOURCE and "basis" in each.facts]
        oldest = sorted(live, key=lambda each: (each.facts["basis"], each.path))[:_LOOKED_AT]
        twins = [each for each in live if each.facts.get("twins")]
        return tuple(sorted({each.path for each in (*oldest, *twins)}))

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: Base) -> Document:
        del base  # a session is one document: it is never read from its middle
        archived = self.role(path) is Role.ARCHIVE
        return reading.parse(path, data, now=now, mtime=mtime, archived=archived)

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        return self.parse(path, data, now=now, mtime=0.0, base=Base()).quality

    def index(self, view: IndexView) -> IndexResult:
        return index.counts(view)

    def keeps_index(self, path: str, content: bytes) -> bool:
        del path, content  # there is none
        return True

    def archive(self, view: UpkeepView, ids: Collection[str] | None) -> Plan:
        return archiving.archive(view, ids)

    def enforce(self, view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
        del view, limits
        return Plan()

    def prune(self, view: UpkeepView) -> Plan:
        del view
        return Plan()

    def dedupe(self, view: UpkeepView, threshold: float | None) -> Plan:
        return merging.dedupe(view, threshold)

    def recover(self, path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
        del path, archived, now
        return repair.recover(loaded, backup)

    def alarms(self, before: FileSummary | None, after: FileSummary) -> tuple[Finding, ...]:
        del before, after
        return ()

    def blocked(self, git: Callable[[], Collection[str]]) -> str | None:
        del git  # the archiver does not stop for git either
        return None

    def fixes(self, path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
        del path, now
        return repair.fixes(loaded)

    # --- storing

    def add(self, view: StoringView, asked: Asked) -> Stored:
        return storing.add(view, asked)

    def update(self, view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
        return storing.update(view, found, changes)

    def forget(self, view: StoringView, found: Found) -> Stored:
        del view
        return storing.forget(found)

    def unarchive(self, view: StoringView, found: Found) -> Stored:
        return storing.unarchive(view, found)

    def put_back(self, view: StoringView, path: str, kept: bytes) -> Stored:
        return storing.put_back(view, path, kept)

    def touch(self, path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
        del path, loaded, touches  # the layout counts no reads
        return ()

    def native(self, path: str, text: bytes) -> Mapping[str, Any]:
        del path
        return storing.native(text)
