"""`index.md`: a list of all topic files, kept current around what people write into it.

The form is that of the one real index known: `# Memory Index`, `## Topics`, `### Topic`, ``- `file.md` - description``.
A new line gets the title of the file, else that of its newest entry; `index_list` has the rules for the list. In an
index of another form only a block between two markers is managed. The archive is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from memoryd.core.findings import Finding
from memoryd.core.records import FileChange, FileStats, Role
from memoryd.core.spans import is_encodable
from memoryd.layouts.markdown_topics.index_list import generated_headings, update_list
from memoryd.layouts.markdown_topics.names import INDEX, is_listable, printable, topic_path
from memoryd.layouts.markdown_topics.outline import Outline, newline_of, outline
from memoryd.layouts.markdown_topics.parser import DOCUMENT, ENTRY
from memoryd.layouts.protocol import IndexResult, IndexView

BEGIN, END = b"<!-- memoryd:begin -->", b"<!-- memoryd:end -->"
_NEW = b"# Memory Index\n\n## Topics\n"
_HIGH_HEADING = re.compile(rb"#{1,2}[ \t]+.*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Region(NamedTuple):
    """The offsets of the part of an index that memoryd keeps current."""

    start: int
    end: int


def render(view: IndexView) -> IndexResult:
    """Render `index.md`; it is left unchanged where a code fence or a marker is not closed."""
    archived = sum(each.records for each in view.files.values() if each.role is Role.ARCHIVE)
    sources = {path: _topic_file(each) for path, each in view.files.items() if each.role is Role.SOURCE}
    files = {path: each.description for path, each in sources.items() if is_listable(path)}
    previous = view.previous.get(INDEX) or b""
    generated = view.state.get("headings", ())
    view.pause()
    content = update_index(previous, files, generated)
    view.pause()
    findings = [*_unlistable(sources)]
    if content is None:
        why = "unclosed code fence or memoryd marker; the index is not updated"
        findings.append(Finding("index-unmanaged", INDEX, why))
    written = {INDEX: content} if content is not None and content != previous else {}
    headings = {*_headings(previous, files, generated)}  # this index stays where the write is delayed
    headings.update(_headings(content, files, generated) if written and content is not None else ())
    view.pause()
    next_state = {"headings": sorted(headings)} if headings else {}
    counted = _count(sources, archived)
    update = None if findings else counted.update
    return replace(counted, files=written, findings=tuple(findings), next_state=next_state, update=update)


class _TopicFile(NamedTuple):
    """All of a topic file that the index and its counts depend on."""

    description: str
    memories: int
    entries: int


def _topic_file(file: FileStats) -> _TopicFile:
    title = file.facts.get("h1") or file.facts.get("newest") or printable(topic_path(file.path).subtopic)
    return _TopicFile(str(title).strip(), file.records, file.facts.get("entries", 0))


def _count(sources: dict[str, _TopicFile], archived: int) -> IndexResult:
    """Return the counts of these files, without any index."""
    memories, entries = sum(each.memories for each in sources.values()), sum(each.entries for each in sources.values())
    by_type = {ENTRY: entries, DOCUMENT: memories - entries}
    return IndexResult(
        memories=memories, archived=archived, by_type=by_type, update=partial(_update, sources, archived)
    )


def _update(
    sources: dict[str, _TopicFile], archived: int, changed: Mapping[str, FileChange], now: float
) -> IndexResult | None:
    """Count the memories after a change that leaves the list as it is; None for any other change."""
    del now
    for path, change in changed.items():
        before = sources.get(path)
        if before is None or change.file is None:
            return None
        sources[path] = _topic_file(change.file)
        if sources[path].description != before.description:
            return None
    return _count(sources, archived)


def update_index(content: bytes, files: Mapping[str, str], generated: Collection[str] = ()) -> bytes | None:
    """Return the index that lists exactly these files (path -> description), or None where it must not be changed.
    `generated` are the headings that memoryd wrote."""
    if not content.strip():
        if not files:
            return content
        content = _NEW
    structure = outline(content)
    if structure.open_fence is not None:
        return None
    marks = _marks(structure)
    region = _between(marks) if marks else _topics(structure, len(content))
    if region is None and not marks:
        if not files:
            return content
        content = _add_block(content)
        structure = outline(content)
        region = _between(_marks(structure))
    return _listing(content, structure, region, files, generated) if region is not None else None


def _headings(content: bytes, files: Mapping[str, str], generated: Collection[str]) -> list[str]:
    """Return the headings that memoryd wrote, for the next render: a removed directory no longer shows which they
    were."""
    structure = outline(content)
    marks = _marks(structure)
    region = _between(marks) if marks else _topics(structure, len(content))
    if region is None:
        return []
    lines, quoted = _inside(content, structure, region)
    return sorted(generated_headings(lines, quoted, files, generated))


def _inside(content: bytes, structure: Outline, region: Region) -> tuple[list[str], set[int]]:
    """Return the lines of the region, and the numbers of those in a code fence."""
    inside = [line for line in structure.lines if region.start <= line.start < region.end]
    quoted = {at for at, line in enumerate(inside) if line.quoted}
    return _LINE.findall(content[region.start : region.end].decode("utf-8", "surrogateescape")), quoted


def _listing(
    content: bytes, structure: Outline, region: Region, files: Mapping[str, str], generated: Collection[str]
) -> bytes:
    before, quoted = _inside(content, structure, region)
    after = update_list(before, quoted, files, newline_of(content).decode(), generated)
    # The line before the region may end the file without a newline.
    lead = newline_of(content) if after and region.start == len(content) and not content.endswith(b"\n") else b""
    text = "".join(after).encode("utf-8", "surrogateescape")
    return content[: region.start] + lead + text + content[region.end :]


def _topics(structure: Outline, size: int) -> Region | None:
    """Return the section `## Topics` of an index in the known form, or None."""
    high = [line for line in structure.lines if not line.quoted and _HIGH_HEADING.fullmatch(line.text.rstrip())]
    names = [line.text.strip(b"# \t\r").lower() for line in high]
    if b"memory index" not in names or b"topics" not in names:
        return None
    at = names.index(b"topics")
    start = high[at].start + len(high[at].text) + 1
    return Region(min(start, size), high[at + 1].start if at + 1 < len(high) else size)


def _marks(structure: Outline) -> list[tuple[bytes, int, int]]:
    """Return our markers that are alone on a line, with the offsets of the line."""
    lines = ((line.text.strip(), line) for line in structure.lines if not line.quoted)
    return [(text, line.start, line.start + len(line.text) + 1) for text, line in lines if text in (BEGIN, END)]


def _between(marks: list[tuple[bytes, int, int]]) -> Region | None:
    if [text for text, *_ in marks] != [BEGIN, END]:
        return None
    return Region(marks[0][2], marks[1][1])


def _add_block(content: bytes) -> bytes:
    newline = newline_of(content)
    lead = newline if content.endswith(b"\n") else newline * 2
    return content + lead + BEGIN + newline + END + newline


def _unlistable(paths: Iterable[str]) -> Iterator[Finding]:
    for path in sorted(paths):
        if not is_listable(path):
            why = "contains a backtick or control character" if is_encodable(path) else "is not valid UTF-8"
            yield Finding("unlistable-name", path, f"the name {why}, so it cannot be listed")
