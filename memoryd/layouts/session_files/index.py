"""The counts of a folder of sessions. No index file belongs to this layout; what is known lies in the catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from memoryd.core.findings import Finding
from memoryd.core.records import Role
from memoryd.layouts.base import FileSummary, IndexResult, IndexView


def counts(view: IndexView) -> IndexResult:
    by_type: Counter[str] = Counter()
    memories = archived = 0
    for each in view.files.values():
        if each.role is Role.ARCHIVE:
            archived += each.records
        elif each.role is Role.SOURCE:
            memories += each.records
            by_type.update(each.facts.get("by_type", {}))
    return IndexResult({}, memories, archived, dict(by_type), tuple(_repeated(view.files)))


def _repeated(files: Mapping[str, FileSummary]) -> Iterator[Finding]:
    """One session is one file."""
    first: dict[str, str] = {}
    for path, each in sorted(files.items()):
        session = each.facts.get("session")
        if each.role is not Role.SOURCE or not isinstance(session, str):
            continue
        if first.setdefault(session, path) != path:
            message = f"holds the same session as {first[session]}; merge or rename one by hand"
            yield Finding("duplicate-session", path, message)
