"""A store in memory, in which a layout stores as the daemon lets it: look, plan, carry out, and read what came of it.

Every plan is carried out as a commit would, refused where the content is not the one it was decided on; after each
the memory that `Stored` names must be read at its place, under exactly its id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any

from msgspec.structs import replace

from memoryd.core.defaults import Policy
from memoryd.core.plan import ANY_CONTENT, Action, Kind
from memoryd.core.records import Document, FileStats, Record, Role
from memoryd.core.spans import splice
from memoryd.errors import InvalidMemoryError
from memoryd.layouts.protocol import (
    AccessCount,
    Layout,
    LoadedFile,
    Located,
    NewMemory,
    WritePlan,
    WriteView,
)
from tests.layouts.contract import NOW, OLD, Files, carried_out, document, perform


class Storehouse:
    """`opened` names the files that were read since it was last emptied."""

    def __init__(self, layout: Layout, files: Mapping[str, bytes] = {}, **fields: Any) -> None:
        self.layout = layout
        self.files: Files = dict(files)
        self.now: float = fields.pop("now", NOW)
        self.policy: Policy = fields.pop("policy", Policy())
        self.limits = fields.pop("limits", layout.files.limits)
        self.zone: tzinfo = UTC
        self.held: frozenset[str] = frozenset()
        self.number = 0
        self.opened: list[str] = []
        assert not fields

    # --- what the daemon gives a layout

    def view(self) -> WriteView:
        self.number += 1
        number = self.number * 0x9E3779B97F4A
        files = self.summaries()
        view = WriteView(self._load, self._content, files, self.policy, self.limits, self.now, number)
        return replace(view, zone=self.zone, pinned=self.held)

    def read(self, path: str) -> Document:
        return document(self.layout, path, self.files[path], now=self.now, mtime=OLD)

    def summaries(self) -> dict[str, FileStats]:
        found = {}
        for path, data in self.files.items():
            role = self.layout.reader.role(path)
            if role in (Role.SOURCE, Role.ARCHIVE):
                d = self.read(path)
                found[path] = FileStats(path, role, len(data), d.units, d.broken, len(d.records), d.facts)
        return found

    def _load(self, path: str, ids: Collection[str] | None = None) -> LoadedFile | None:
        self.opened.append(path)
        return LoadedFile(self.files[path], self.read(path), OLD) if path in self.files else None

    def _content(self, path: str) -> bytes | None:
        self.opened.append(path)
        return self.files.get(path)

    # --- storing

    def found(self, identity: str, path: str | None = None) -> Located:
        """Live files come first."""
        live = [each for each in self.layout.reader.source_paths(self.files) if each in self.files]
        archives = sorted(each for each in self.files if self.layout.reader.role(each) is Role.ARCHIVE)
        others = sorted(
            each for each in self.files if self.layout.reader.role(each) is Role.SOURCE and each not in live
        )
        for each in [path] if path is not None else [*live, *archives, *others]:
            read = self.read(each)
            for record in read.records:
                if record.id == identity:
                    return Located(each, LoadedFile(self.files[each], read, OLD), record)
        raise AssertionError(f"{identity} is nowhere")

    def record(self, identity: str, path: str | None = None) -> Record:
        return self.found(identity, path).record

    def text(self, identity: str, path: str | None = None) -> bytes:
        found = self.found(identity, path)
        return found.record.span.of(found.loaded.data)

    def native(self, identity: str) -> Mapping[str, Any]:
        found = self.found(identity)
        return self.layout.reader.native(found.path, found.record.span.of(found.loaded.data))

    def add(self, memory: Mapping[str, Any], **where: str) -> WritePlan:
        return self.stored(self.layout.require_writer().add(self.view(), NewMemory(memory, where)))

    def update(self, identity: str, **changes: Any) -> WritePlan:
        return self.stored(self.layout.require_writer().update(self.view(), self.found(identity), changes))

    def forget(self, identity: str) -> WritePlan:
        return self.carried_out(self.layout.require_writer().forget(self.view(), self.found(identity)))

    def unarchive(self, identity: str) -> WritePlan:
        return self.stored(self.layout.require_writer().unarchive(self.view(), self.found(identity)))

    def put_back(self, path: str, kept: bytes) -> WritePlan:
        return self.stored(self.layout.require_writer().restore(self.view(), path, [kept]))

    def touch(self, **times: Any) -> None:
        """Each identity's `Touch`, in every file that holds it."""
        touches = {identity: AccessCount(*touch) for identity, touch in times.items()}
        for path in list(self.files):
            if self.layout.reader.role(path) in (Role.SOURCE, Role.ARCHIVE):
                loaded = LoadedFile(self.files[path], self.read(path), OLD)
                self.files[path] = splice(loaded.data, self.layout.require_writer().count_reads(path, loaded, touches))

    # --- carrying out

    def stored(self, stored: WritePlan) -> WritePlan:
        """Carried out; the memory is there then."""
        self.carried_out(stored)
        assert stored.id in [record.id for record in self.read(stored.path).records], stored
        return stored

    def carried_out(self, stored: WritePlan) -> WritePlan:
        for action in stored.plan.actions:
            self.perform(action)
        return stored

    def perform(self, action: Action) -> None:
        before = self.files.get(action.path)
        if action.kind is Kind.APPEND and action.base == ANY_CONTENT:
            lead = b"\n" if before and not before.endswith(b"\n") else b""
            self.files[action.path] = (before or b"") + lead + action.data
            return
        perform(self.files, action)


Embed = Callable[[str, int], Sequence[float] | None]


def view_of(layout: Layout, files: Files, *, now: float = NOW, embed: Embed | None = None) -> WriteView:
    view = Storehouse(layout, files, now=now).view()
    return view if embed is None else replace(view, embed=embed)


def records_of(layout: Layout, files: Files, *, archived: bool = False) -> dict[str, tuple[str, Record]]:
    """Every memory by its id, with the path of its file; ids are unique in these samples."""
    read = {path: document(layout, path, files[path]).records for path in sorted(files)}
    return {each.id: (path, each) for path, records in read.items() for each in records if each.archived == archived}


def find(layout: Layout, files: Files, identity: str, *, archived: bool = False) -> Located:
    path, record = records_of(layout, files, archived=archived)[identity]
    return Located(path, LoadedFile(files[path], document(layout, path, files[path]), OLD), record)


def done(layout: Layout, files: Files, stored: WritePlan, *, archived: bool = False) -> Files:
    """The store after the plan, which holds the memory with the path and id of the plan."""
    after = carried_out(files, stored.plan)
    ids = [each.id for each in document(layout, stored.path, after[stored.path]).records if each.archived == archived]
    assert stored.id in ids
    return after


def rules(error: BaseException) -> dict[str, str]:
    """Field and rule of every finding of an InvalidMemoryError, whose message names the first."""
    assert isinstance(error, InvalidMemoryError)
    findings = error.data["findings"]
    assert error.message.startswith(f"{findings[0]['field']}: {findings[0]['rule']}")
    return {each["field"]: each["rule"] for each in findings}
