"""Checks of topic files. A finding names a line and a problem, never the text of a memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memoryd.core.defaults import DAY, KB
from memoryd.core.findings import Finding
from memoryd.core.secrets import BLOCK, Secret, find_secrets, find_words
from memoryd.core.spans import BOM
from memoryd.layouts.markdown_topics.outline import Line, Outline, Section, parse_heading, seconds_of

MAX_ENTRIES = 10  # seed 001: prune above 10 entries or 5 KB, keep the latest 5 to 10
MIN_ENTRIES = 5
MAX_BYTES = 5 * KB

_LABELS = (b"Context", b"Problem", b"Solution")
_LABEL = re.compile(rb"\*\*([A-Za-z]+):\*\*")
# A separator without its newline, or an italic closing line, and the next entry glued to it.
_GLUED = re.compile(rb"(?:-{3,}|\*[^*]+\*)[ \t]*(?=## (\d{4}-\d{2}-\d{2}): \S)")
# A quick test: every such line contains this.
_INSIDE = re.compile(rb"## \d{4}-\d{2}-\d{2}: ")
_BEFORE = b"-* \t"
_UNDATED = ("invalid-date", "the date does not exist, so the line does not begin an entry")
_GLUE = ("glued-heading", "an entry is glued to the line before it, so it is not read")


def lint_file(
    path: str, data: bytes, structure: Outline, *, archived: bool, now: float, words: bool
) -> Iterator[Finding]:
    """Yield the findings about one file; archives are not checked for order and size."""
    yield from _lint_bytes(path, data)
    yield from _lint_headings(path, structure)
    yield from _lint_sections(path, structure, now)
    if structure.open_fence is not None:
        line = data.count(b"\n", 0, structure.open_fence) + 1
        yield Finding("unclosed-fence", path, "the code fence that begins here is never closed", line)
    if not archived:
        yield from _lint_order(path, structure)
        if len(data) > MAX_BYTES and len(structure.sections) <= MIN_ENTRIES:
            entries = len(structure.sections)
            what = f"{len(data)} bytes in {entries} {'entry' if entries == 1 else 'entries'}; shorten it by hand"
            yield Finding("oversize", path, what)
    yield from _lint_secrets(path, data, words=words)


def _lint_bytes(path: str, data: bytes) -> Iterator[Finding]:
    if data.startswith(BOM):
        yield Finding("byte-order-mark", path, "the file begins with a byte order mark", 1)
    newline = data.find(b"\r\n")
    if newline >= 0:
        yield Finding("crlf-newlines", path, "lines end in CRLF", data.count(b"\n", 0, newline) + 1)
    nul = data.find(b"\0")
    if nul >= 0:
        yield Finding("nul-bytes", path, "NUL bytes, as left by a power cut", data.count(b"\n", 0, nul) + 1)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        yield Finding("invalid-encoding", path, "invalid UTF-8; the rest of the file is read", line)


def _lint_headings(path: str, structure: Outline) -> Iterator[Finding]:
    problems = dict.fromkeys(structure.undated, _UNDATED) | dict.fromkeys(
        (line.number for line, _ in glued_headings(structure)), _GLUE
    )
    for number, (code, what) in sorted(problems.items()):
        yield Finding(code, path, what, number)


def glued_headings(structure: Outline) -> Iterator[tuple[Line, int]]:
    """Yield each line with another entry glued to its beginning, and the offset in the line at which that starts."""
    if any(
        match.start() and structure.data[match.start() - 1] in _BEFORE for match in _INSIDE.finditer(structure.data)
    ):
        yield from ((line, at) for line in structure.lines if (at := glued_heading_at(line)) is not None)


def glued_heading_at(line: Line) -> int | None:
    """Return the offset in the line at which a glued entry starts, or None."""
    match = None if line.quoted else _GLUED.match(line.text)
    heading = parse_heading(line.text[match.end() :]) if match is not None else None
    return match.end() if match is not None and heading is not None and heading.day is not None else None


def _lint_sections(path: str, structure: Outline, now: float) -> Iterator[Finding]:
    for section in structure.sections:
        if missing := missing_labels(structure, section):
            yield Finding("missing-labels", path, missing, section.line)
        if seconds_of(section.day) > now + DAY:  # it may be tomorrow in another time zone
            yield Finding("future-stamp", path, "the entry is dated in the future", section.line)


def missing_labels(structure: Outline, section: Section) -> str:
    """Return a sentence that names the labels of the seed that an entry lacks; "" if it has them all."""
    named = {label for text in unquoted(structure, section) for label in _LABEL.findall(text)}
    missing = [label.decode() for label in _LABELS if label not in named]
    return f"the entry lacks {' and '.join(filter(None, (', '.join(missing[:-1]), missing[-1])))}" if missing else ""


def unquoted(structure: Outline, section: Section) -> Iterator[bytes]:
    """Yield the parts of an entry that are outside code fences."""
    at = section.start
    for quoted in structure.quoted:
        if at <= quoted.start < section.end:
            yield structure.data[at : quoted.start]
            at = quoted.end
    yield structure.data[at : section.end]


def _lint_order(path: str, structure: Outline) -> Iterator[Finding]:
    """Report the first entry that is newer than the one above it; entries are reordered only on request."""
    above: Section | None = None
    for section in structure.sections:
        if above is not None and section.day > above.day:
            yield Finding("not-newest-first", path, "the entry is newer than the one above it", section.line)
            return
        above = section


def _lint_secrets(path: str, data: bytes, *, words: bool) -> Iterator[Finding]:
    text = data.decode("utf-8", "replace")
    for line, secret in _by_line(text, find_secrets(text, BLOCK)):
        yield Finding("secret-shape", path, f"text shaped like a secret: {secret.pattern}", line)
    if words:
        for line, secret in _by_line(text, find_words(text)):
            yield Finding("sensitive-word", path, f"sensitive word: {secret.pattern}", line)


def _by_line(text: str, secrets: Iterator[Secret]) -> Iterator[tuple[int, Secret]]:
    """Yield each pattern once per line."""
    at, line = 0, 1
    seen: set[tuple[int, str]] = set()
    for secret in sorted(secrets, key=lambda each: each.start):
        line += text.count("\n", at, secret.start)
        at = secret.start
        if (line, secret.pattern) not in seen:
            seen.add((line, secret.pattern))
            yield line, secret
