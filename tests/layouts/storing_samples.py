"""A store as a plain dictionary, read and changed as the daemon would, for tests of storing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from memoryd.core.defaults import Policy
from memoryd.core.records import FileStats, Record
from memoryd.errors import InvalidMemoryError
from memoryd.layouts.protocol import Layout, LoadedFile, Located, WritePlan, WriteView
from tests.layouts.contract import NOW, OLD, Files, carried_out, document

Embed = Callable[[str, int], Sequence[float] | None]


def view_of(
    layout: Layout, files: Files, *, now: float = NOW, embed: Embed | None = None, number: int = 7
) -> WriteView:
    def load(path: str, ids: Collection[str] | None = None) -> LoadedFile | None:
        return LoadedFile(files[path], document(layout, path, files[path], now=now), OLD) if path in files else None

    summaries = {}
    for path in files:
        read = document(layout, path, files[path], now=now)
        counts = (read.units, read.broken, len(read.records))
        summaries[path] = FileStats(path, layout.reader.role(path), len(files[path]), *counts, read.facts)
    view = WriteView(load, files.get, summaries, Policy(), layout.files.limits, now, number)
    if embed is None:
        return view
    return WriteView(load, files.get, summaries, Policy(), layout.files.limits, now, number, embed)


def records_of(layout: Layout, files: Files, *, archived: bool = False) -> dict[str, tuple[str, Record]]:
    """Return every memory by its id, with the path of its file; ids are unique in these samples."""
    records: dict[str, tuple[str, Record]] = {}
    for path in sorted(files):
        for record in document(layout, path, files[path]).records:
            if record.archived == archived:
                records[record.id] = (path, record)
    return records


def find(layout: Layout, files: Files, identity: str, *, archived: bool = False) -> Located:
    path, record = records_of(layout, files, archived=archived)[identity]
    return Located(path, LoadedFile(files[path], document(layout, path, files[path]), OLD), record)


def done(layout: Layout, files: Files, stored: WritePlan, *, archived: bool = False) -> Files:
    """Return the store after the plan, and check that it holds the memory with the path and id of the plan."""
    after = carried_out(files, stored.plan)
    ids = [each.id for each in document(layout, stored.path, after[stored.path]).records if each.archived == archived]
    assert stored.id in ids
    return after


def rules(error: InvalidMemoryError) -> list[tuple[str, str]]:
    """Return the field and rule of each violation; the message names the first."""
    findings: list[dict[str, Any]] = error.data["findings"]
    assert error.message.startswith(f"{findings[0]['field']}: {findings[0]['rule']}")
    return [(each["field"], each["rule"]) for each in findings]
