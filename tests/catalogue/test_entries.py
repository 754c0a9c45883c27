"""Entries come file by file in the order asked for, however they are fetched."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from memoryd.catalogue import Catalogue, FileRow
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, Record
from memoryd.core.text import Span


def _document(path: str, count: int) -> Document:
    records = (
        Record(Span(n * 10, n * 10 + 5), n + 1, f"{path}#{n}", "t", "", None, None, (), False, {}, {"n": n})
        for n in range(count)
    )
    return Document(path, tuple(records))


@pytest.mark.parametrize("files", [5, 400])
@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled"])
def test_order_of_files_and_places(tmp_path: Path, files: int, order: str) -> None:
    """Also for files without records, unknown ones, and such as nobody asks for."""
    catalogue = Catalogue(str(tmp_path / "c.sqlite"))
    counts = {f"memory_{number}_é\udcff.json": number % 4 for number in range(files)}
    for path, count in counts.items():
        row = FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "")
        catalogue.replace(row, _document(path, count))
    wanted = sorted([*counts, "unknown", "memory_x"])[2:]
    if order == "reversed":
        wanted.reverse()
    if order == "shuffled":
        random.Random(7).shuffle(wanted)
    found = [(each.path, each.id, each.line, dict(each.facts)) for each in catalogue.entries(wanted)]
    catalogue.close()
    assert found == [
        (path, f"{path}#{n}".encode("utf-8", "replace").decode(), n + 1, {"n": n})
        for path in wanted
        for n in range(counts.get(path, 0))
    ]
