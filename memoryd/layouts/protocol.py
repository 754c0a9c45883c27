"""The parts of a layout, and the values they exchange with the rest of memoryd. Each part stands below the values that
it takes and returns; `Layout`, at the end, has all of them.

Every layout obeys five laws, which one contract suite checks:

- tiling: record spans are in order and do not overlap; spans and gaps together are the text;
- surgery: applying a plan changes nothing outside its edits;
- fixpoint: every operation is idempotent;
- conservation: no record vanishes from live files, archive and quarantine together;
- patience: `parse` never raises, whatever the bytes.

All parts are pure: they take views of files and return plans of changes. The operations decide whether a text may be
stored at all (secrets). A memory that does not fit its layout raises `InvalidMemoryError`, whose `data["findings"]`
lists every violation as `{"field", "rule"}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.core.defaults import MB, Limit, Policy
from memoryd.core.findings import Code, Finding
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import (
    Document,
    DocumentChange,
    Entry,
    FileChange,
    FileCounts,
    FileStats,
    JsonObject,
    NativeMemory,
    ParseOffset,
    Pieces,
    Record,
    Role,
)
from memoryd.core.retention import Quality
from memoryd.core.spans import Content, Edit, sha256
from memoryd.errors import UsageError
from memoryd.layouts.directory import Directory
from memoryd.layouts.exchange import Exchange
from memoryd.layouts.validation import FieldSpec


class LoadedFile:
    """A file read from disk, with its parsed document and its digest, both computed on first use. `mtime` is in
    seconds."""

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
        """The SHA-256 of the bytes, in hex."""
        if self._digest is None:
            self._digest = sha256(self.data)
        return self._digest

    @property
    def document(self) -> Document:
        """The document that the layout parsed from the bytes."""
        if not isinstance(self._document, Document):
            self._document = self._document()
        return self._document

    def with_document(self, document: Document) -> LoadedFile:
        """Return this file with a document that holds only some of its memories."""
        return LoadedFile(self.data, document, self.mtime, digest=self._digest)


class Reader(ABC):
    """The part of a layout that recognises directories and parses files. Every method is pure."""

    # True if any file with the right name parses as a memory; only the directory's structure then shows the layout.
    reads_any_text = False
    parses_fragments = False  # True if a part of a file that holds complete memories parses like a file
    separates_users = False  # True if each memory belongs to one user, and no other user may see it

    def recognise(self, directory: Directory) -> str | None:
        """Return the evidence that a directory has this layout, as text for people; None if there is none."""
        del directory
        return None  # unless a layout says otherwise, it must be named in the configuration

    @abstractmethod
    def role(self, path: str) -> Role:
        """Return the role of the file at this path, relative to the root."""

    @abstractmethod
    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse a whole file, or its appended tail that begins at `base`. Never raises."""

    def pieces(self, data: bytes, document: Document) -> Pieces | None:
        """Return the pieces of a file that was parsed whole, so that a change of it can be parsed by itself; None where
        that is not possible."""
        del data, document
        return None

    def parse_change(self, path: str, data: bytes, before: Pieces) -> DocumentChange | None:
        """Return what changed in a file since it had these pieces; None where it must be parsed whole."""
        del path, data, before
        return None

    def configured(self, policy: Policy) -> Reader:
        """Return the reader with the options of `policy` applied."""
        del policy
        return self

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        """Return how much of this content is readable. Never raises."""
        return self.parse(path, data, now=now, mtime=0.0, base=ParseOffset()).quality

    def source_paths(self, present: Collection[str]) -> tuple[str, ...]:
        """Return the source files among `present`, in the order of the layout. A layout with fixed file names returns
        all of them, present or not."""
        return tuple(sorted(path for path in present if self.role(path) is Role.SOURCE))

    def whole_file(self, identity: str) -> str | None:
        """Return the path of the file that `get` shows as a whole for this id, or None."""
        del identity
        return None

    def native(self, path: str, text: bytes) -> NativeMemory:
        """Return the memory in `text`, the bytes of its span, as its agent wrote it; `{"text": ...}` if it is not an
        object."""
        del path
        return {"text": text.decode("utf-8", "replace")}


class LockRule(NamedTuple):
    """A lock file that the lock sweep checks. `kind` is ".lock" (a flock on it) or "soft" (it locks by existing)."""

    name: str
    kind: Literal[".lock", "soft"]


MAX_BYTES = 64 * MB  # the largest file that is read, unless the layout sets its own bound


class FileRules(Struct, frozen=True):
    """Rules for locking, backing up and limiting files."""

    lock: str | None = None  # relative path of the lock file that writers take
    locks: tuple[LockRule, ...] = ()  # every lock file in the root, those of other programs included
    backup_dir: str | None = None  # backup directory in the root; None: snapshots in the state directory
    append_only: bool = False  # files grow at the end, so only the appended tail is parsed
    owner_only: bool = False  # directories have mode 700 and files mode 600
    agent_caches_file: bool = False  # the agent overwrites files from its cache, so each good version is saved
    keeps_versions: bool = False  # each version of a small file is saved once the root has settled
    waits_for_git: bool = False  # no writes while a git operation is running
    limits: Mapping[str, Limit] = field(default_factory=dict)  # by path
    max_bytes: int = MAX_BYTES  # larger files are not read

    @property
    def saves_versions(self) -> bool:
        """True if versions of files are saved between backups."""
        return self.agent_caches_file or self.keeps_versions


class IndexView(Struct, frozen=True):
    """The input of an index render. `entries` are the records of the live files in order, read again by each pass;
    `files` all source and archive files by path, `previous` the present index files (None: missing), `state` the
    `next_state` of the last render; `pause` is called between the steps of a render that takes long."""

    entries: Iterable[Entry]
    files: Mapping[str, FileStats]
    previous: Mapping[str, bytes | None]
    now: float
    newer_index: str = "read-only"
    state: JsonObject = field(default_factory=dict)
    pause: Callable[[], None] = lambda: None


UpdateIndex = Callable[[Mapping[str, FileChange], float], "IndexResult | None"]


class IndexResult(Struct, frozen=True):
    """The result of an index render. `files` holds the new content of each index file whose meaning changed. `newer` is
    the version of an index that a newer program wrote, which must not be replaced; `replaced_version` that of an index
    which is rebuilt because it has another version ("" if it has none). `next_state` (plain JSON) holds data
    of the replaced index that no file has; the next view gets it back as `state`. `update` renders the
    next change from the entries of each changed file and the time, unless another program has written an index file
    since; it returns None if only a full render will do. It is called once at most."""

    files: Mapping[str, Content] = field(default_factory=dict)
    memories: int = 0
    archived: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    newer: str | None = None
    replaced_version: str | None = None
    unmanaged: str | None = None
    next_state: JsonObject = field(default_factory=dict)
    update: UpdateIndex | None = None


def count_memories(view: IndexView) -> IndexResult:
    """Count memories by type from the facts of the files, for a layout without index files."""
    counts = FileCounts(view.files)

    def counted() -> IndexResult:
        return IndexResult({}, counts.memories, counts.archived, counts.types(), update=update)

    def update(changed: Mapping[str, FileChange], now: float) -> IndexResult:
        del now
        for path, change in changed.items():
            counts.replace(path, change.file)
        return counted()

    return counted()


class Migration(Struct, frozen=True):
    """One step of a schema change. `edits(text)` returns the edits of one record, as offsets in its text, and none for
    a record that has the new form already: an interrupted migration runs again."""

    old: str
    new: str
    edits: Callable[[bytes], Iterable[Edit]]


class IndexRenderer(Struct, frozen=True):
    """The index files of a layout and how they are rendered. Without `paths` it only counts memories."""

    paths: tuple[str, ...] = ()
    render: Callable[[IndexView], IndexResult] = count_memories
    # False if the content of an index file shows that another program owns it; it is then never replaced.
    is_managed: Callable[[str, bytes], bool] = lambda *_: True
    version: Callable[[bytes], str | None] = lambda _: None  # the schema version in an index file
    migrations: tuple[Migration, ...] = ()  # in ascending order of version
    # By code of a finding that a person can accept: the next `IndexView.state` from the present one.
    acceptances: Mapping[str, Callable[[JsonObject], JsonObject]] = field(default_factory=dict)


class UpkeepView(Struct, frozen=True):
    """The input of upkeep. `live` are the live files just read, `archive` returns the bytes of an archive
    file (None: missing). `pinned` are digests of texts that an undo restored, which no schedule moves again.
    `unattended` is True for scheduled runs. `max_moves` bounds how many memories an age rule moves in one run, oldest
    first."""

    live: Mapping[str, LoadedFile]
    archive: Callable[[str], bytes | None]
    policy: Policy
    now: float
    pinned: frozenset[str] = frozenset()
    unattended: bool = False
    max_moves: int | None = None

    def is_pinned(self, text: bytes) -> bool:
        """True if an undo restored exactly this text; only a command or a change moves it again."""
        return bool(self.pinned) and sha256(text) in self.pinned


def empty_plan(view: UpkeepView, *_: object) -> Plan:
    """Return the empty plan of a layout that does not support this kind of upkeep."""
    del view
    return Plan()


def disabled_plan(view: UpkeepView, key: str) -> Plan:
    """Return a plan without actions, for an age rule that is turned off; if the run was requested, a note says how."""
    why = f"archiving by age is off for this root; `{key} = true` in the configuration turns it on"
    return Plan(notes=() if view.unattended else (Action(Kind.NOTE, "", why),))


class Upkeep(Struct, frozen=True):
    """Archiving, pruning and merging of memories. `jobs` run by schedule; the rest runs only on request."""

    jobs: tuple[str, ...] = ()
    # The live files that scheduled upkeep must read; none if nothing can be due.
    paths: Callable[[Mapping[str, FileStats]], tuple[str, ...]] = lambda _: ()
    # The memories that are due, or exactly those named.
    archive: Callable[[UpkeepView, Collection[str] | None], Plan] = empty_plan
    enforce: Callable[[UpkeepView, Mapping[str, Limit]], Plan] = empty_plan  # moves memories until soft limits hold
    prune: Callable[[UpkeepView], Plan] = empty_plan  # shortens files that grew too long
    dedupe: Callable[[UpkeepView, float | None], Plan] = empty_plan  # merges duplicates; suggestions are notes


class Fix(NamedTuple):
    """The repair of one finding: exact edits of the file that has it. `repair` applies `safe` fixes by default and
    others only when their code is named. `remove` deletes the whole file, whose bytes go to quarantine."""

    code: str
    edits: tuple[Edit, ...]
    why: str
    ids: tuple[str, ...] = ()
    safe: bool = True
    remove: bool = False


class Recover(Protocol):
    """Return a fix that restores the missing memories of a corrupt file from its newest good backup, or None. Valid
    memories of the present file win; ids in `archived` are not restored. Runs only on request."""

    def __call__(
        self, path: str, loaded: LoadedFile, backup: bytes, archived: frozenset[str], now: float, /
    ) -> Fix | None: ...


class Repair(Struct, frozen=True):
    """Detection and repair of damage."""

    # The fixes for the findings of one file. Edits of different fixes do not overlap.
    fixes: Callable[[str, LoadedFile, float], tuple[Fix, ...]] = lambda *_: ()
    recover: Recover = lambda *_: None
    # Findings about the difference between two consecutive readable versions of a file.
    alarms: Callable[[FileStats | None, FileStats], tuple[Finding, ...]] = lambda *_: ()
    # The live files that are missing, empty or damaged (the paths given) while the archive has memories of them.
    lost_files: Callable[[Mapping[str, FileStats], Collection[str]], tuple[str, ...]] = lambda *_: ()
    # Moves archived memories back into the lost files; None: the archive cannot replace a file.
    rebuild: Callable[[WriteView, Collection[str]], Plan] | None = None


class NewMemory(NamedTuple):
    """A memory to store: its native fields as given, and its location (`topic`, `subtopic`, `user`, `session`)."""

    memory: NativeMemory
    location: Mapping[str, str] = {}


class Load(Protocol):
    """Read one file from disk; returns None if it is missing. With `ids`, the document may hold only these memories."""

    def __call__(self, path: str, ids: Collection[str] | None = None, /) -> LoadedFile | None: ...


def no_embedding(text: str, size: int) -> None:
    """Return None: no embedder is configured."""
    del text, size


class WriteView(Struct, frozen=True):
    """The input of storing or changing a memory. `content` returns the bytes of a file (None: missing), `files` are the
    statistics in the index, `number` is random (64 bits), `embed(text, size)` returns a vector of that size, or None
    if no embedder makes one. `zone` is the local time zone, used in the names of some files. `pinned` are digests of
    restored memories, which no pruning removes. `position` is the number of this memory among those stored in one
    call."""

    load: Load
    content: Callable[[str], bytes | None]
    files: Mapping[str, FileStats]
    policy: Policy
    limits: Mapping[str, Limit]
    now: float
    number: int = 0
    embed: Callable[[str, int], Sequence[float] | None] = no_embedding
    zone: tzinfo = UTC
    pinned: frozenset[str] = frozenset()
    position: int = 0


class Located(Struct, frozen=True):
    """A memory to change: its file, read afresh, and its record there. The document may hold only the memories with
    this id (see `Load`). `unique_id` differs from the id of the record if other memories have that id."""

    path: str
    loaded: LoadedFile
    record: Record
    unique_id: str = ""

    @property
    def is_shared(self) -> bool:
        """True if other memories have its id."""
        return self.unique_id not in ("", self.record.id)


class WritePlan(NamedTuple):
    """The plan of a change, with the id and path of the memory after it. `removed` are bytes that leave the store
    without being archived; the caller saves them so that the memory can be restored. `warnings` describe what `check`
    will report about the memory."""

    plan: Plan
    id: str
    path: str
    removed: bytes | None = None
    warnings: tuple[str, ...] = ()


class AccessCount(NamedTuple):
    """A number of reads of one memory, and the time of the last one in seconds."""

    times: int
    at: float


def _count_nothing(path: str, loaded: LoadedFile, reads: Mapping[str, AccessCount]) -> tuple[Edit, ...]:
    del path, loaded, reads
    return ()


class Writer(Struct, frozen=True):
    """Storing and changing single memories.

    Errors: `InvalidMemoryError` (does not fit the layout), `LimitExceededError` (a hard limit), `UsageError` (the
    location is missing or unknown here), `ConflictError` (the present content prevents the change), `BusyError`
    (another program is writing the file), `NotFoundError`.

    - `add`: store a new memory by the rules of the layout. An append that does not depend on the content of the file
      has the base `ANY_CONTENT`; the commit adds a missing newline before it.
    - `update`: change only the named fields; None removes a field. Derived fields (`updated_at`, `version`) follow;
      everything else keeps its bytes.
    - `forget`: move a memory to the archive of the layout; without one, remove it and return its bytes in `removed`.
    - `unarchive`: move an archived memory back to the live files.
    - `restore`: insert memories that were removed from the file, byte for byte, in the order given; all or none.
    - `count_reads`: update the access statistics of the memories read, by id, where the layout has them.
    """

    add: Callable[[WriteView, NewMemory], WritePlan]
    update: Callable[[WriteView, Located, NativeMemory], WritePlan]
    forget: Callable[[WriteView, Located], WritePlan]
    unarchive: Callable[[WriteView, Located], WritePlan]
    restore: Callable[[WriteView, str, Sequence[bytes]], WritePlan]
    count_reads: Callable[[str, LoadedFile, Mapping[str, AccessCount]], tuple[Edit, ...]] = _count_nothing
    stores_id: bool = False  # the id is a field of the memory, so `add` may be given one


class Ranking(Struct, frozen=True):
    """The ranking of a layout's memories in search: `by_points` uses the weights of seed 001 (the keys `score_*`),
    `substrings` also matches parts of words."""

    by_points: bool = False
    substrings: bool = False


class Option(NamedTuple):
    """A configuration key that only one layout reads; its default is that of the field in `Policy`.

    `kind` is the type of the value; `low` and `high` bound a number.
    """

    kind: Literal["flag", "number"]
    help: str
    low: float = 0
    high: float = 1000


class Layout(Struct, frozen=True):
    """One on-disk layout, composed of its parts; an absent part means "not supported". All parts are pure.

    `summary` describes in one sentence how memories are stored. `fields` are those that `add` and `update` know; others
    are stored as given. `exchange` maps them to those of other layouts. Only this layout reports `findings` and reads
    the configuration keys `options`. `location` names the parameters of `add` that choose the file. `secrets` is the
    default check of new memories: token shapes, or also the seed's list of words, applied to whole entries. `sentence`
    is the memory that `add` makes of a sentence, which stands for `{}`. `types` are the known types of memories.
    """

    name: str
    summary: str
    reader: Reader
    files: FileRules = FileRules()
    index: IndexRenderer = IndexRenderer()
    upkeep: Upkeep = Upkeep()
    repair: Repair = Repair()
    writer: Writer | None = None  # None: read-only
    exchange: Exchange = Exchange()
    fields: Mapping[str, FieldSpec] = field(default_factory=dict)
    findings: Mapping[str, Code] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    sentence: Mapping[str, str] = field(default_factory=lambda: {"content": "{}"})
    location: tuple[str, ...] = ()
    ranking: Ranking = Ranking()
    secrets: Literal["shapes", "seed"] = "shapes"

    @property
    def jobs(self) -> tuple[str, ...]:
        """The scheduled jobs that apply to this layout."""
        locks = ("locks",) if self.files.locks else ()
        permissions = ("permissions",) if self.files.owner_only else ()
        return (*self.upkeep.jobs, "backup", *locks, *permissions, "verify", "rescan")

    def require_writer(self) -> Writer:
        """Return the writer; raises UsageError where the layout is read-only."""
        if self.writer is None:
            raise UsageError(
                f"the layout {self.name} is read-only", hint="change the files with the program that owns them"
            )
        return self.writer

    def configured(self, policy: Policy) -> Layout:
        """Return the layout with the options of `policy` applied to its reader."""
        return replace(self, reader=self.reader.configured(policy))
