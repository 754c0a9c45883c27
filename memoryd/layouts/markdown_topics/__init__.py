"""Topic markdown: dated entries in `<topic>/<subtopic>.md`, `index.md`, and a yearly archive of each topic
(seed 001, "Memory Operations").

A folder of a person's repository: files stay plain text, differences small, nothing else is put beside them. Where the
seed's pruning rules disagree, ten entries are kept, fewer only for the sake of size, never fewer than five. Files
that do not keep to the form are listed and read as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.git import blocked_by_git
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
from memoryd.layouts.markdown_topics import changing, index, leaving, repair, storing, upkeep
from memoryd.layouts.markdown_topics.naming import ARCHIVE, INDEX, SUFFIX
from memoryd.layouts.markdown_topics.reading import read_document
from memoryd.layouts.markdown_topics.shape import shape
from memoryd.layouts.storing import Asked, Found, Stored, StoringView, Touch


class MarkdownTopics:
    """See `memoryd.layouts.base.Layout`. `sensitive_words` also reports the seed's general words on disk."""

    name = "markdown-topics"
    lock: str | None = None
    locks: tuple[LockRule, ...] = ()
    backup_place: str | None = None
    index_paths: tuple[str, ...] = (INDEX,)
    keeps_every_change = False
    appendable = False
    private = False
    jobs: tuple[str, ...] = ("prune", "backup", "verify", "rescan")
    limits: Mapping[str, Limit] = {}
    migrations: tuple[Migration, ...] = ()

    def __init__(self, *, sensitive_words: bool = False) -> None:
        self.sensitive_words = sensitive_words

    def index_version(self, content: bytes) -> str | None:
        del content  # the index names none
        return None

    def recognises(self, folder: Folder) -> str | None:
        return shape(folder)

    def role(self, path: str) -> Role:
        if is_temp(path):
            return Role.TEMP
        if not path.endswith(SUFFIX) or any(part.startswith(".") for part in path.split("/")):
            return Role.FOREIGN
        if path == INDEX:
            return Role.INDEX
        return Role.ARCHIVE if path.startswith(ARCHIVE) else Role.SOURCE

    def live_paths(self, present: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(path for path in present if self.role(path) is Role.SOURCE))

    def upkeep_paths(self, files: Mapping[str, FileSummary]) -> tuple[str, ...]:
        return tuple(path for path in self.live_paths(files) if upkeep.may_be_due(files[path]))

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: Base) -> Document:
        del base  # files grow at their top: always read whole
        return read_document(path, data, now=now, mtime=mtime, words=self.sensitive_words)

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        return self.parse(path, data, now=now, mtime=0.0, base=Base()).quality

    def index(self, view: IndexView) -> IndexResult:
        return index.render(view)

    def keeps_index(self, path: str, content: bytes) -> bool:
        del path, content  # what it says is kept, around a part of its own
        return True

    def archive(self, view: UpkeepView, ids: Collection[str] | None) -> Plan:
        return upkeep.archive(view, ids)

    def enforce(self, view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
        del view, limits  # the only limit of a file is that of pruning
        return Plan()

    def prune(self, view: UpkeepView) -> Plan:
        return upkeep.prune(view)

    def dedupe(self, view: UpkeepView, threshold: float | None) -> Plan:
        del view, threshold
        return Plan()

    def recover(self, path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
        return repair.recover(path, loaded, backup, archived, now)

    def alarms(self, before: FileSummary | None, after: FileSummary) -> tuple[Finding, ...]:
        del before, after
        return ()

    def blocked(self, git: Callable[[], Collection[str]]) -> str | None:
        return blocked_by_git(git())

    def fixes(self, path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
        del now
        return repair.fixes(path, loaded)

    def add(self, view: StoringView, asked: Asked) -> Stored:
        return storing.add(view, asked)

    def update(self, view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
        del view
        return changing.update(found, changes)

    def forget(self, view: StoringView, found: Found) -> Stored:
        return leaving.forget(view, found)

    def unarchive(self, view: StoringView, found: Found) -> Stored:
        return leaving.unarchive(view, found)

    def put_back(self, view: StoringView, path: str, kept: bytes) -> Stored:
        return leaving.put_back(view, path, kept)

    def touch(self, path: str, loaded: Loaded, touches: Mapping[str, Touch]) -> tuple[Edit, ...]:
        del path, loaded, touches  # how often a memory was read is kept outside: nothing volatile in a repository
        return ()

    def native(self, path: str, text: bytes) -> Mapping[str, Any]:
        del path
        return {"text": text.decode("utf-8", "replace")}
