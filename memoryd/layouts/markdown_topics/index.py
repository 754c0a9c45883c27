"""`index.md`: a list of all topic files, kept current around whatever people wrote into it.

The form is `# Memory Index`, `## Topics`, `### Topic`, ``- `file.md` - description``. New lines take the title of the
file, else that of its newest entry; lines that are there keep theirs. An index of any other form gets a block of its
own between two markers and is not touched outside of it. The archive is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memoryd.core.findings import Finding
from memoryd.core.records import Role
from memoryd.layouts.base import FileSummary, IndexResult, IndexView
from memoryd.layouts.markdown_topics.blocks import Outline, newline_of, outline
from memoryd.layouts.markdown_topics.listing import listable, updated
from memoryd.layouts.markdown_topics.naming import INDEX, place_of, plain
from memoryd.layouts.markdown_topics.reading import DOCUMENT, ENTRY

BEGIN, END = b"<!-- memoryd:begin -->", b"<!-- memoryd:end -->"
_NEW = b"# Memory Index\n\n## Topics\n"
_HIGH_HEADING = re.compile(rb"#{1,2}[ \t]+.*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Region(NamedTuple):
    """The part of an index that memoryd keeps current, in offsets."""

    start: int
    end: int


def render(view: IndexView) -> IndexResult:
    by_type = {ENTRY: 0, DOCUMENT: 0}
    for entry in view.entries:
        by_type[entry.type] += 1
    archived = sum(each.records for each in view.files.values() if each.role is Role.ARCHIVE)
    sources = {path: each for path, each in view.files.items() if each.role is Role.SOURCE}
    files = {path: _description(each) for path, each in sources.items() if listable(path)}
    previous = view.previous.get(INDEX) or b""
    content = wanted(previous, files)
    findings = [*_unlistable(sources)]
    if content is None:
        why = "a code fence or a memoryd marker without its end: the index is left as it is"
        findings.append(Finding("index-unmanaged", INDEX, why))
    written = {INDEX: content} if content is not None and content != previous else {}
    return IndexResult(written, sum(by_type.values()), archived, by_type, tuple(findings))


def wanted(content: bytes, files: Mapping[str, str]) -> bytes | None:
    """The index that lists exactly these files (path -> description), or None where it must be left alone."""
    if not content.strip():
        if not files:
            return content
        content = _NEW
    found = outline(content)
    if found.open_fence is not None:
        return None
    marks = _marks(found)
    region = _between(marks) if marks else _topics(found, len(content))
    if region is None and not marks:
        if not files:
            return content
        content = _with_block(content)
        found = outline(content)
        region = _between(_marks(found))
    return _listing(content, found, region, files) if region is not None else None


def _listing(content: bytes, found: Outline, region: Region, files: Mapping[str, str]) -> bytes:
    inside = [line for line in found.lines if region.start <= line.start < region.end]
    quoted = {at for at, line in enumerate(inside) if line.quoted}
    before = _LINE.findall(content[region.start : region.end].decode("utf-8", "surrogateescape"))
    after = updated(before, quoted, files, newline_of(content).decode())
    # A heading or marker just before the region may be the end of the file, without its newline.
    lead = newline_of(content) if after and region.start == len(content) and not content.endswith(b"\n") else b""
    text = "".join(after).encode("utf-8", "surrogateescape")
    return content[: region.start] + lead + text + content[region.end :]


def _topics(found: Outline, size: int) -> Region | None:
    """The section `## Topics` of an index in the known form."""
    high = [line for line in found.lines if not line.quoted and _HIGH_HEADING.fullmatch(line.text.rstrip())]
    names = [line.text.strip(b"# \t\r").lower() for line in high]
    if b"memory index" not in names or b"topics" not in names:
        return None
    at = names.index(b"topics")
    start = high[at].start + len(high[at].text) + 1
    return Region(min(start, size), high[at + 1].start if at + 1 < len(high) else size)


def _marks(found: Outline) -> list[tuple[bytes, int, int]]:
    """Our markers where they stand alone on a line, with the offsets of the line."""
    lines = ((line.text.strip(), line) for line in found.lines if not line.quoted)
    return [(text, line.start, line.start + len(line.text) + 1) for text, line in lines if text in (BEGIN, END)]


def _between(marks: list[tuple[bytes, int, int]]) -> Region | None:
    if [text for text, *_ in marks] != [BEGIN, END]:
        return None
    return Region(marks[0][2], marks[1][1])


def _with_block(content: bytes) -> bytes:
    newline = newline_of(content)
    lead = newline if content.endswith(b"\n") else newline * 2
    return content + lead + BEGIN + newline + END + newline


def _description(file: FileSummary) -> str:
    told = file.facts.get("h1") or file.facts.get("newest")
    return str(told or plain(place_of(file.path).subtopic)).strip()


def _unlistable(paths: Mapping[str, FileSummary]) -> Iterator[Finding]:
    for path in sorted(paths):
        if not listable(path):
            yield Finding("unlistable-name", path, "a name with a backtick or a control character cannot be listed")
