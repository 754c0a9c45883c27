"""User documents: all memories of one user in one JSON file with their embeddings (seed 002, "ADR-001: Memory Storage
Format"), `{user_bucket}/__long-memories/data.json` at any depth.

The seed says both that no locking is needed and that there is no protection against concurrent writes; the second is
true, and the agents keep each document in memory and never read it again. So nothing is written here unattended: what
runs by itself reports, suggests and backs up. Users are strictly apart: no record, duplicate or backup crosses paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.plan import Plan
from memoryd.core.policy import Limit
from memoryd.core.records import Base, Document, Role
from memoryd.core.retention import Quality
from memoryd.core.text import Edit, Span
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
from memoryd.layouts.one_document import look
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch
from memoryd.layouts.user_document import merging, reading, storing
from memoryd.layouts.user_document.alarms import change_was_undone, shrink_alarm
from memoryd.layouts.user_document.cutting import taken_whole
from memoryd.layouts.user_document.shape import shape

__all__ = ["UserDocument", "change_was_undone", "shrink_alarm"]


class UserDocument:
    """See `memoryd.layouts.base.Layout`."""

    name = "user-document"
    lock: str | None = None
    locks: tuple[LockRule, ...] = ()
    backup_place: str | None = None
    index_paths: tuple[str, ...] = ()
    limits: Mapping[str, Limit] = {}
    keeps_every_change = True
    appendable = False
    private = False
    jobs: tuple[str, ...] = ("dedupe", "backup", "verify", "rescan")
    migrations: tuple[Migration, ...] = ()

    def index_version(self, content: bytes) -> str | None:
        del content
        return None

    def recognises(self, folder: Folder) -> str | None:
        return shape(folder)

    def role(self, path: str) -> Role:
        if is_temp(path):
            return Role.TEMP
        return Role.SOURCE if f"/{path}".endswith(f"/{reading.FILE}") else Role.FOREIGN

    def live_paths(self, present: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(path for path in present if self.role(path) is Role.SOURCE))

    def upkeep_paths(self, files: Mapping[str, FileSummary]) -> tuple[str, ...]:
        """Documents with two memories to compare."""
        return tuple(sorted(path for path, each in files.items() if each.records > 1))

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: Base) -> Document:
        del base  # one document: it is never read from its middle
        return reading.parse(path, data, now=now, mtime=mtime)

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        """A sound document is counted without its memories being read."""
        taken = taken_whole(data)
        if taken is None:
            return reading.parse(path, data, now=now, mtime=0.0).quality
        return Quality(len(taken.items), len(taken.items) - len(taken.reasons))

    def index(self, view: IndexView) -> IndexResult:
        """Counts only: no index file belongs to this layout."""
        by_type: Counter[str] = Counter()
        for each in view.files.values():
            by_type.update(each.facts.get("by_type", {}))
        return IndexResult({}, sum(each.records for each in view.files.values()), 0, dict(by_type))

    def keeps_index(self, path: str, content: bytes) -> bool:
        del path, content  # there is none
        return True

    def archive(self, view: UpkeepView, ids: Collection[str] | None) -> Plan:
        """There is no archive: what is forgotten lies in the journal."""
        del view, ids
        return Plan()

    def enforce(self, view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
        del view, limits
        return Plan()

    def prune(self, view: UpkeepView) -> Plan:
        del view
        return Plan()

    def dedupe(self, view: UpkeepView, threshold: float | None) -> Plan:
        return merging.dedupe(view, threshold)

    def recover(self, path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
        """A document in which no memory can be read gets its newest good backup back, whole."""
        del path, archived, now
        if loaded.document.pending or loaded.document.records or not loaded.document.broken:
            return None
        edits = (Edit(Span(0, len(loaded.data)), backup),)
        why = "nothing in it can be read; its newest good backup takes its place"
        return Fix("corrupt-file", edits, why, safe=False)

    def alarms(self, before: FileSummary | None, after: FileSummary) -> tuple[Finding, ...]:
        found = shrink_alarm(before, after)
        return () if found is None else (found,)

    def blocked(self, git: Callable[[], Collection[str]]) -> str | None:
        del git  # a bucket is no work tree
        return None

    def fixes(self, path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
        """The end of an older, longer text behind the document goes."""
        del path, now
        codes = {finding.code for finding in loaded.document.findings}
        whole = look(loaded.data)
        if "torn-file" not in codes or whole.rest is None:
            return ()
        return (Fix("torn-file", (Edit(whole.rest, b""),), "the end of an older text behind the document goes"),)

    def add(self, view: StoringView, asked: Asked) -> Stored:
        return storing.add(view, asked)

    def update(self, view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
        return storing.update(view, found, changes)

    def forget(self, view: StoringView, found: Found) -> Stored:
        return storing.forget(view, found)

    def unarchive(self, view: StoringView, found: Found) -> Stored:
        del view
        return storing.unarchive(found)

    def put_back(self, view: StoringView, path: str, kept: bytes) -> Stored:
        return storing.put_back(view, path, kept)

    def touch(self, path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
        del path, loaded, touches  # the program keeps no such count
        return ()

    def native(self, path: str, text: bytes) -> Mapping[str, Any]:
        del path
        return storing.native(text)
