"""What a layout must tell the rest of the house.

Five laws hold for each layout, and one contract suite checks them for all:

- tiling: record spans lie in the text in order, without overlap; spans and gaps joined are the text;
- surgery: applying a plan changes nothing outside its edits;
- fixpoint: doing a thing twice is doing it once;
- conservation: no record vanishes from live, archive and quarantine together;
- patience: `parse` never raises, whatever the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from memoryd.core.digest import sha256
from memoryd.core.findings import Finding
from memoryd.core.plan import Plan
from memoryd.core.policy import Limit, Policy
from memoryd.core.records import Base, Document, Entry, Role
from memoryd.core.retention import Quality
from memoryd.core.text import Edit
from memoryd.layouts.folder import Folder

# Names that other programs give to files they are still writing (seen in real writers).
_FOREIGN_TEMP = re.compile(
    r"(\.tmp$|\.tmp\.|^\.tmp-|^\.fs-[0-9a-f]+\.tmp$|\.[0-9a-f]{32}\.tmp$|\.bak$|~$|^\.#|\.sw[px]$"
    r"|\.sync-conflict-|\(conflicted copy|^\.nfs[0-9a-f]+$)"
)


def is_temp(path: str) -> bool:
    """True for half-written or set-aside files of any program: never read, never indexed."""
    return _FOREIGN_TEMP.search(path.rpartition("/")[2]) is not None


class Loaded:
    """One file read from disk with what the layout makes of it and its digest, which both may wait until they are
    asked for; `mtime` in seconds."""

    __slots__ = ("_digest", "_document", "data", "mtime")

    def __init__(
        self,
        data: bytes,
        document: Document | Callable[[], Document],
        mtime: float = 0.0,
        *,
        digest: str | None = None,
    ) -> None:
        self.data = data
        self.mtime = mtime
        self._document = document
        self._digest = digest

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = sha256(self.data)
        return self._digest

    @property
    def document(self) -> Document:
        if not isinstance(self._document, Document):
            self._document = self._document()
        return self._document

    def narrowed(self, document: Document) -> Loaded:
        """The same file with a document that tells of some of its memories alone."""
        return Loaded(self.data, document, self.mtime, digest=self._digest)


class LockRule(NamedTuple):
    """A lock file the sweep looks after. `kind` is ".lock" (a flock on a file) or "soft" (its existence)."""

    name: str
    kind: Literal[".lock", "soft"]


class FileSummary(NamedTuple):
    """What the catalogue knows of one file; `facts` are those of its document."""

    path: str
    role: Role
    size: int
    units: int
    broken: int
    records: int
    facts: Mapping[str, Any]


class Fix(NamedTuple):
    """How one finding is healed: exact edits of the file it was found in. `safe` ones `repair` makes without
    being asked for the code by name. `remove` takes the whole file away; its bytes are in quarantine."""

    code: str
    edits: tuple[Edit, ...]
    why: str
    ids: tuple[str, ...] = ()
    safe: bool = True
    remove: bool = False


@dataclass(frozen=True, slots=True)
class IndexView:
    """All a layout may look at to render its indices: the records of the live files in order, and every
    source and archive file by path."""

    entries: Iterable[Entry]
    files: Mapping[str, FileSummary]
    previous: Mapping[str, bytes | None]
    now: float
    newer_index: str = "read-only"
    remembered: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexResult:
    """`files` holds the wanted content of each index file; a file whose meaning is unchanged is left out.
    `newer` names the version of an index that a newer program wrote: then nothing may be written.
    `unmanaged` says why no index file may be written: one of them is another program's.
    `remember` (plain JSON) is what only the replaced index told: the next view gets it back as `remembered`."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    memories: int = 0
    archived: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    newer: str | None = None
    unmanaged: str | None = None
    remember: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpkeepView:
    """What upkeep is decided on: the live files just read, the archives they would go to, and the digests
    of memories that an undo brought back, which no schedule moves again. `unattended`: nobody asked for it.
    `at_most`: how many memories one run of an age rule may move, the oldest first."""

    live: Mapping[str, Loaded]
    archive: Callable[[str], bytes | None]
    policy: Policy
    now: float
    held: frozenset[str] = frozenset()
    unattended: bool = False
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema change: `edits(text)` gives the edits of one record's text, in its own offsets; none
    for a record that has the new form, since a migration that was cut off is carried out again."""

    old: str
    new: str
    edits: Callable[[bytes], Iterable[Edit]]


class Layout(Protocol):
    """One on-disk layout. Every method is pure."""

    @property
    def name(self) -> str: ...

    @property
    def lock(self) -> str | None:
        """Relative path of the store's own lock file, or None."""

    @property
    def locks(self) -> tuple[LockRule, ...]:
        """Every lock file of the store, its own and those of other programs."""

    @property
    def backup_place(self) -> str | None:
        """Folder of the store's own backups, or None for snapshots in the state directory."""

    @property
    def keeps_every_change(self) -> bool:
        """True where an agent overwrites whole files from a cache: each good version is kept at once."""

    @property
    def index_paths(self) -> tuple[str, ...]: ...

    @property
    def limits(self) -> Mapping[str, Limit]: ...

    @property
    def appendable(self) -> bool:
        """True where files grow at their end, so that a grown file is parsed from its old end on."""

    @property
    def migrations(self) -> tuple[Migration, ...]:
        """In order of version; carried out at start where the index names the old version."""

    def index_version(self, content: bytes) -> str | None:
        """The schema version that an index file names."""

    @property
    def jobs(self) -> tuple[str, ...]:
        """The scheduled jobs that mean something here."""

    @property
    def private(self) -> bool:
        """True where the seed demands folders of mode 700 and files of mode 600."""

    def recognises(self, folder: Folder) -> str | None:
        """What shows that the folder is of this layout, for people; None where nothing does."""

    def role(self, path: str) -> Role: ...

    def live_paths(self, present: Collection[str]) -> tuple[str, ...]:
        """The source files, in the layout's own order; `present` are those known. Files with fixed names are
        named whether present or not."""

    def upkeep_paths(self, files: Mapping[str, FileSummary]) -> tuple[str, ...]:
        """The live files that scheduled upkeep has to read: where nothing can be due, none."""

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: Base) -> Document:
        """Read one file (or its appended tail, `base` telling where it begins). Never raises."""

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        """How much of a content of that file is readable, as parsing would tell it. Never raises."""

    def index(self, view: IndexView) -> IndexResult: ...

    def keeps_index(self, path: str, content: bytes) -> bool:
        """False where an index file, by what it says, is another program's: it is never replaced."""

    def archive(self, view: UpkeepView, ids: Collection[str] | None) -> Plan:
        """What is due for the archive (or exactly the named memories)."""

    def enforce(self, view: UpkeepView, limits: Mapping[str, Limit]) -> Plan:
        """What has to move for soft limits to hold."""

    def prune(self, view: UpkeepView) -> Plan:
        """What has to leave a file that grew too long (markdown topics)."""

    def dedupe(self, view: UpkeepView, threshold: float | None) -> Plan:
        """Merge duplicates by the layout's own rule; suggestions are notes of the plan."""

    def recover(self, path: str, loaded: Loaded, backup: bytes, archived: frozenset[str], now: float) -> Fix | None:
        """What a corrupt file lost and its newest good backup has: valid memories of today win, those whose id stands
        in `archived` stay away. Only on request."""

    def alarms(self, before: FileSummary | None, after: FileSummary) -> tuple[Finding, ...]:
        """What a change from one good reading of a file to the next should make somebody look up."""

    def blocked(self, git: Callable[[], Collection[str]]) -> str | None:
        """Why nothing may be written now. `git` looks for the names in the `.git` folder around the root (empty:
        none)."""

    def fixes(self, path: str, loaded: Loaded, now: float) -> tuple[Fix, ...]:
        """How the fixable findings of one file are healed. Edits of different fixes do not overlap."""
