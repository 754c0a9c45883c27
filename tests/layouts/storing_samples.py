"""What storing is tried with: a store as a plain dictionary, looked at and changed as the daemon would."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from memoryd.core.policy import Policy
from memoryd.core.records import Record
from memoryd.errors import InvalidMemoryError
from memoryd.layouts.protocol import FileStats, Layout, LoadedFile, Located, WritePlan, WriteView
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
    """Every memory by its id, with the file it stands in; ids are unique in what is tried here."""
    found: dict[str, tuple[str, Record]] = {}
    for path in sorted(files):
        for record in document(layout, path, files[path]).records:
            if record.archived == archived:
                found[record.id] = (path, record)
    return found


def find(layout: Layout, files: Files, identity: str, *, archived: bool = False) -> Located:
    path, record = records_of(layout, files, archived=archived)[identity]
    return Located(path, LoadedFile(files[path], document(layout, path, files[path]), OLD), record)


def done(layout: Layout, files: Files, stored: WritePlan, *, archived: bool = False) -> Files:
    """The store after the plan, in which the memory stands where and under the id that the plan says."""
    after = carried_out(files, stored.plan)
    ids = [each.id for each in document(layout, stored.path, after[stored.path]).records if each.archived == archived]
    assert stored.id in ids
    return after


def rules(error: InvalidMemoryError) -> list[tuple[str, str]]:
    """What was refused, as told; the message names the first."""
    told: list[dict[str, Any]] = error.data["findings"]
    assert error.message.startswith(f"{told[0]['field']}: {told[0]['rule']}")
    return [(each["field"], each["rule"]) for each in told]
