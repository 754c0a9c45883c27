"""`memoryd convert`: copy the memories of one directory or file into a new store of another layout, without a daemon.

The source is only read. The new store is planned in memory, which shows what cannot be carried, then written beside its
place under a temporary name, checked, and renamed: it is there whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.config.settings import Config, RootConfig
from memoryd.control.methods.status import Counts
from memoryd.core.defaults import DAY, Mode
from memoryd.core.findings import Severity
from memoryd.core.progress import ProgressMeter
from memoryd.core.records import Document, JsonObject, NativeMemory, Record
from memoryd.core.spans import sha256
from memoryd.disk import atomic, syscalls
from memoryd.disk.disk_errors import refusal, remedy
from memoryd.disk.temps import temp_name
from memoryd.disk.tree import Tree
from memoryd.errors import (
    ConflictError,
    DeniedError,
    DiskError,
    InvalidMemoryError,
    LimitExceededError,
    MemorydError,
    SensitiveError,
    UsageError,
)
from memoryd.layouts.codes import severity
from memoryd.layouts.directory import HEAD_SIZE, Directory
from memoryd.layouts.exchange import Draft, Portable
from memoryd.layouts.protocol import Layout, no_embedding
from memoryd.layouts.registry import LAYOUTS, recognise
from memoryd.operations.check import check, count_findings
from memoryd.operations.index_files import update_index
from memoryd.operations.new_store import Added, NewStore
from memoryd.operations.offline import layout_of, observed_store
from memoryd.operations.recognition import existing_directory
from memoryd.operations.refresh import READ_ROLES, refresh
from memoryd.store import Store

EXAMPLES = 5  # of each kind
FIRST, LAST = 1.0, 4_102_444_800.0  # times of creation that every layout can hold: the years 1970 to 2099
_UNREADABLE = "files and directories that cannot be read"
_DEPTH = 3  # directories between a file and its root
# The attributes of a memory that a layout may have no place for.
_ATTRIBUTES: Mapping[str, str] = {
    "title": "the title",
    "type": "the type",
    "category": "the category or topic",
    "tags": "tags",
    "importance": "the importance",
    "confidence": "the confidence",
    "updated": "the time of the last change",
    "used": "the time of the last access",
    "uses": "the number of accesses",
    "owner": "the user whose memory it is; the new store keeps users together",
    "embedding": "the embedding",
}

_NOTHING: Mapping[str, tuple[object, ...]] = dict.fromkeys(_ATTRIBUTES, (None, "", ())) | {"uses": (0,)}


Effect = Literal["memory", "part", "change"]


class Example(Struct):
    """A place in the source, relative to it, and what is special about it there."""

    path: str
    line: int | None = None
    detail: str = ""


class Loss(Struct):
    """A kind of what is not carried as it is. `effect`: a whole `memory` is left out, or a `part` of memories or files,
    or something is stored differently (`change`). `count`: how many memories (or files). `hint`: what helps."""

    kind: str
    effect: Effect
    message: str
    count: int = 0
    examples: list[Example] = field(default_factory=list)
    hint: str = ""


class ConvertResult(Struct, kw_only=True):
    """The result of a conversion, or of its dry run. `read` memories are `carried` or left out, and `archived` of those
    carried are in the archive of the new store, whose `files` are counted without index files. `findings` are those of
    `check` there; all 0 if it was not `written`."""

    source: str
    source_layout: str
    target: str
    layout: str
    read: int = 0
    carried: int = 0
    archived: int = 0
    files: int = 0
    losses: list[Loss] = field(default_factory=list)
    findings: Counts = field(default_factory=Counts)
    written: bool = False

    @property
    def complete(self) -> bool:
        """True if no memory and no part of one is left out."""
        return all(each.effect == "change" for each in self.losses)


class Options(Struct, frozen=True, kw_only=True):
    """The choices of the caller: the new layout and that of the source (None: recognised), and whether the five general
    words are stored. `embed` makes missing vectors."""

    layout: str
    source_layout: str | None = None
    allow_words: bool = False
    embed: Callable[[str, int], Sequence[float] | None] = no_embedding


class _Source(NamedTuple):
    """The root where memories are read, its layout, and the one file that was named, if not the whole root."""

    root: RootConfig
    layout: Layout
    file: str | None = None


class _Item(NamedTuple):
    """A memory of the source. `created` is the time that it is stored with."""

    path: str
    record: Record
    memory: Portable
    created: float


class Conversion(NamedTuple):
    """A conversion that is planned. `place` is the real path of the new store."""

    result: ConvertResult
    store: Store
    place: str
    files: Mapping[str, bytes]

    def write(self, now: float, progress: ProgressMeter) -> None:
        """Write the new store, unless no memory can be carried. Raises DiskError, DeniedError, ConflictError; then
        nothing is left."""
        if self.files:
            with _disk_errors(self.result.target):
                self.result.findings = _write(self, now, progress)
            self.result.written = True


@contextmanager
def plan_conversion(
    source: str, target: str, options: Options, now: float, progress: ProgressMeter, config: Config
) -> Iterator[Conversion]:
    """Plan to copy the memories at `source` into a new store at `target`. Raises ConflictError if the target cannot be
    used, UsageError if the layout of the source is not recognised or the new one is read-only."""
    layout = options.layout
    LAYOUTS[layout].require_writer()
    found = _find_source(os.path.realpath(source), options.source_layout, config)
    place = _require_new(target, found.root.path, config)
    result = ConvertResult(source=source, source_layout=found.layout.name, target=target, layout=layout)
    losses = _Losses(result)
    items = _read(found, now, progress, losses)
    root = config.root_at(place)
    with tempfile.TemporaryDirectory(prefix="memoryd-") as state:
        store = Store(root.name, place, layout, replace(root.policy, mode=Mode.MAINTAIN), state)
        store.embed = options.embed
        try:
            new = NewStore(store, allow_words=options.allow_words)
            files = _Planner(new, store.known_layout, found.layout, losses).plan(items, now, progress)
            result.files = len(files)
            yield Conversion(result, store, place, files)
        finally:
            store.close()


class _Losses:
    """The list of what is not carried, by effect and kind."""

    def __init__(self, result: ConvertResult) -> None:
        self.result = result
        self._by_kind: dict[tuple[Effect, str], Loss] = {}

    def add(self, effect: Effect, kind: str, message: str, example: Example | None, count: int = 1) -> Loss:
        """Count something, with a place where it is, and return what is listed of its kind."""
        loss = self._by_kind.get((effect, kind))
        if loss is None:
            loss = self._by_kind[effect, kind] = Loss(kind, effect, message)
            self.result.losses.append(loss)
        loss.count += count
        if example is not None and len(loss.examples) < EXAMPLES:
            loss.examples.append(example)
        return loss


# --- the target


def _require_new(target: str, source: str, config: Config) -> str:
    """Return the real path of the new store. Raises ConflictError if something is there, if it would be written into
    the source or a root of the configuration, or if its parent directory is missing."""
    place, origin = os.path.realpath(target), os.path.realpath(source)
    parent = os.path.dirname(place)
    root = next((each.name for each in config.roots if _is_below(place, each.path)), None)
    if os.path.lexists(place) and not os.path.isdir(place):
        reason, hint = "it exists and is not a directory", "name a directory that does not exist yet"
    elif os.path.isdir(place) and os.listdir(place):
        reason, hint = "it is not empty", "name a directory that does not exist yet, or an empty one"
    elif place == origin or _is_below(place, origin):
        reason, hint = "it is inside the source, which is only read", "name a directory outside it"
    elif root is not None:
        reason, hint = f"it is inside the root {root}", "name a directory outside every root; `memoryd root list`"
    elif not os.path.isdir(parent):
        reason, hint = f"{parent} is not a directory", "make that directory first"
    else:
        return place
    raise ConflictError(f"{target} was not written: {reason}", hint=hint)


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(f"{directory.rstrip('/')}/")


@contextmanager
def _disk_errors(target: str) -> Iterator[None]:
    """Translate what the disk refuses."""
    try:
        yield
    except PermissionError as error:
        raise DeniedError(f"{target} was not written: {error.strerror}", hint="check owner and mode") from error
    except OSError as error:
        code = refusal(error)
        if code is None:
            raise ConflictError(
                f"{target} was not written: {error.strerror}", hint="nothing was left behind"
            ) from error
        hint = f"{remedy(error)}, then try again; nothing was left behind"
        raise DiskError(f"{target} was not written: {error.strerror}", hint=hint, data={"code": code}) from error


def _write(new: Conversion, now: float, progress: ProgressMeter) -> Counts:
    """Write the new store under a temporary name, and rename it once it is whole; return its findings by severity."""
    store, place, memories = new.store, new.place, new.result.carried
    is_private = store.file_rules.owner_only or not os.path.isdir(place)
    mode = 0o700 if is_private else os.stat(place).st_mode & 0o777
    parent, name = os.path.split(place)
    store.path = os.path.join(parent, temp_name(name))
    try:
        os.mkdir(store.path, 0o700)
        os.chmod(store.path, mode)
        store.attach()
        with store.locked(store.policy.lock_wait_s):
            for path, data in progress.track("writing", list(new.files.items()), lambda each: len(each[1])):
                if directory := os.path.dirname(path):
                    store.tree.mkdir(directory, store.mode_for_directory)
                atomic.create(store.tree, path, data, store.mode_for(path))
        refresh(store, None, now)
        update_index(store, now, force=True)
        present = store.index.result.memories + store.index.result.archived
        if present != memories:
            raise MemorydError(f"{new.result.target} was not written: {present} of {memories} memories are readable")
        counts = count_findings(check(store, now))
        store.detach()
        with Tree(parent) as tree:
            os.rename(store.path, place)
            syscalls.sync_directory(tree.fd)
    finally:
        shutil.rmtree(store.path, ignore_errors=True)  # it is gone if it was renamed
    return counts


# --- the source


def _find_source(path: str, layout: str | None, config: Config) -> _Source:
    """Return the root and layout of what a person named. Raises UsageError where it is not recognised."""
    if not os.path.isfile(path):
        root = config.root_at(existing_directory(path))
        hint = "choose its layout with --from; `memoryd help layouts` describes them"
        return _Source(root, LAYOUTS[layout or layout_of(root, hint)])
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_SIZE)
    except OSError as error:
        raise DeniedError(f"{path} cannot be read: {error.strerror}", hint="check its owner and mode") from error
    directory, parts = path, ""
    for _ in range(_DEPTH):
        directory, name = os.path.split(directory)
        parts = os.path.join(name, parts).rstrip("/")
        names = [layout] if layout else [*recognise(Directory([parts], (), lambda _: head))]
        if len(names) == 1 and LAYOUTS[names[0]].reader.role(parts) in READ_ROLES:
            return _Source(config.root_at(directory), LAYOUTS[names[0]], parts)
    hint = "choose its layout with --from, or name the directory of the store"
    raise UsageError(f"{path} is no file of {layout or 'a known layout'}", hint=hint)


def _read(source: _Source, now: float, progress: ProgressMeter, losses: _Losses) -> list[_Item]:
    """Read every memory of the source."""
    items: list[_Item] = []
    with observed_store(source.root, source.layout.name, progress) as store:
        sizes = {source.file: 1} if source.file else _scan(store, losses)
        for path in progress.track("reading", list(sizes), lambda path: sizes[path]):
            items += _read_file(store, path, now, losses)
    return items


def _scan(store: Store, losses: _Losses) -> dict[str, int]:
    """Return the files with memories and their sizes, and list what cannot be read."""
    scan = store.scan()
    for path in (*scan.unreadable, *(each for each in scan.irregular if store.role(each) in READ_ROLES)):
        losses.add("part", "unreadable-file", _UNREADABLE, Example(path))
    return {path: found.size for path, found in sorted(scan.files.items()) if store.role(path) in READ_ROLES}


def _read_file(store: Store, path: str, now: float, losses: _Losses) -> Iterator[_Item]:
    loaded = store.load(path, now)
    if loaded is None:
        losses.add("part", "unreadable-file", _UNREADABLE, Example(path))
        return
    data, document, exchange = loaded.loaded.data, loaded.loaded.document, store.known_layout.exchange
    _note_damage(document, path, losses)
    for name in exchange.outside(data):
        losses.add("part", f"file:{name}", f"the {name} of a file, which belong to no memory", Example(path))
    for record in document.records:
        memory = exchange.export(record, record.span.of(data))
        losses.result.read += 1
        created = memory.created
        if created is None or not FIRST <= created < LAST:
            created = min(max(loaded.loaded.mtime, FIRST), LAST - 1)
            message = "no time of creation, or out of range; the time of the file is used"
            losses.add("change", "created", message, Example(path, record.line))
        yield _Item(path, record, memory, created)


def _note_damage(document: Document, path: str, losses: _Losses) -> None:
    """List the memories of a file that cannot be parsed, and other damage."""
    errors = [each for each in document.findings if severity(each) is Severity.ERROR]
    tails = [each for each in errors if each.code == "torn-file"]  # of an older text, counted as a unit
    unread = max(document.units - len(document.records) - len(tails), int(document.pending and not document.records))
    losses.result.read += unread
    places = [Example(path, each.line, each.message) for each in errors if each not in tails]
    for number, place in enumerate((places or [Example(path)])[:unread]):
        count = 1 if number else unread - len(places[1:unread])  # what has no finding of its own counts with the first
        losses.add("memory", "unreadable", "memories that cannot be parsed", place, count)
    for each in tails if unread else errors:
        losses.add("part", "damage", "damage, as `memoryd check` reports it", Example(path, each.line, each.message))


# --- what becomes of each memory


class _Planner:
    """Carries memories into a new store, and lists what is lost on the way."""

    def __init__(self, new: NewStore, layout: Layout, source: Layout, losses: _Losses) -> None:
        self._new = new
        self._layout = layout
        self._source = source
        self._losses = losses

    def plan(self, items: list[_Item], now: float, progress: ProgressMeter) -> dict[str, bytes]:
        """Plan every memory that can be carried, the archived ones first, then by time of creation; return the files of
        the new store."""
        result, ordered = self._losses.result, sorted(items, key=lambda each: each.created)
        if self._layout.exchange.newest_first:  # of one time, those on top are added last
            ordered = sorted(items, key=lambda each: each.created, reverse=True)[::-1]
        archived = [each for each in ordered if each.memory.archived]
        live = [each for each in ordered if not each.memory.archived]
        if not self._new.has_archive:
            for item in archived:
                self._leave(item, "archived", "archived memories, for which the layout has no archive")
            archived = []
        with progress.measure("converting", "memories", len(archived) + len(live)):
            self._carry_all(archived, progress)
            left = self._new.archive(now)
            result.archived = result.carried - left
            self._carry_all(live, progress)
        if left:
            self._losses.add("change", "archived", "archived memories that are live in the new store", None, left)
        if result.carried:
            self._losses.add("change", "id", "each memory gets a new id", None, result.carried)
        return self._new.files()

    def _carry_all(self, items: Sequence[_Item], progress: ProgressMeter) -> None:
        for number, item in enumerate(items, progress.done + 1):
            self._carry(item)
            progress.reach(number)

    def _carry(self, item: _Item) -> None:
        """Plan one memory, or list it with the reason."""
        draft = self._layout.exchange.draft(item.memory, item.created)
        kept, left = self._details(item.memory.details, draft.memory)
        try:
            added, rejected = self._store(item, draft, kept)
        except SensitiveError as error:
            detail = f"{error.data.get('field')}: {error.data.get('pattern')}"
            message = "memories with what must not be stored: secrets, or words beside them"
            self._leave(item, "sensitive", message, detail, error.hint)
        except LimitExceededError as error:
            self._leave(item, "limit", "memories beyond a hard limit", error.message)
        except (InvalidMemoryError, UsageError, ConflictError) as error:
            self._leave(item, "invalid", "memories that break a rule of the layout", error.message, error.hint)
        else:
            self._losses.result.carried += 1
            self._note_parts(item, draft, [*left, *rejected])
            self._note_changes(item, draft, added)

    def _details(self, details: NativeMemory, memory: JsonObject) -> tuple[JsonObject, list[str]]:
        """Split the further fields into those that the layout has too, with their names there, and the rest."""
        same = self._source.name == self._layout.name
        kept = {name: value for name, value in details.items() if name not in memory}
        kept = {name: value for name, value in kept.items() if same or name in self._layout.fields}
        return kept, [name for name in details if name not in kept]

    def _store(self, item: _Item, draft: Draft, kept: JsonObject) -> tuple[Added, list[str]]:
        """Store a memory; return also the names of the further fields that break a rule of the layout, without which it
        is stored."""
        number = int(sha256(f"{item.path}:{item.record.span.start}".encode("utf-8", "surrogateescape"))[:16], 16)
        rejected: list[str] = []
        while True:
            whole = replace(draft, memory={**kept, **draft.memory})
            try:
                return self._new.add(whole, number), rejected
            except InvalidMemoryError as error:
                wrong = {str(each["field"]).partition(".")[0] for each in error.data["findings"]} & kept.keys()
                if not wrong:
                    raise
                rejected += wrong
                kept = {name: value for name, value in kept.items() if name not in wrong}

    def _leave(self, item: _Item, kind: str, message: str, detail: str = "", hint: str | None = None) -> None:
        place = Example(item.path, item.record.line, detail)
        self._losses.add("memory", kind, message, place).hint = hint or ""

    def _note_parts(self, item: _Item, draft: Draft, fields: Sequence[str]) -> None:
        place = Example(item.path, item.record.line)
        for name, what in _ATTRIBUTES.items():
            if name not in draft.carried and getattr(item.memory, name) not in _NOTHING[name]:
                self._losses.add("part", name, what, place)
        for name in sorted(fields):
            self._losses.add("part", f"field:{name}", f"the field {name}", place)

    def _note_changes(self, item: _Item, draft: Draft, added: Added) -> None:
        place, precision = Example(item.path, item.record.line), self._layout.exchange.precision_s
        changes = dict(draft.changes)
        if abs(item.created - round(item.created / precision) * precision) > precision / 1000:
            unit = {1.0: "second", float(DAY): "day"}.get(precision, "millisecond")
            changes["precision"] = f"times of creation are stored to the {unit}"
        if added.moved:
            changes["location"] = "names of topics, sessions or users that are not valid"
        for kind, message in changes.items():
            self._losses.add("change", kind, message, place)
        for warning in added.warnings:
            self._losses.add("change", "possible-secret", "what may be a secret", replace(place, detail=warning))
