"""What tests put into a catalogue."""

from __future__ import annotations

from memoryd.catalogue import Catalogue, FileRow
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, Record


def put(catalogue: Catalogue, path: str, *records: Record) -> None:
    """The file at `path` has these memories and no others."""
    row = FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "0", records=len(records))
    catalogue.replace(row, Document(path, records))
