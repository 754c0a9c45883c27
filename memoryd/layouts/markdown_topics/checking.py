"""What is wrong in a topic file. Findings name a line and what is wrong there, never what the memory says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memoryd.core.findings import Finding
from memoryd.core.policy import DAY, KB
from memoryd.core.secrets import BLOCK, Secret, find_secrets, find_words
from memoryd.layouts.markdown_topics.blocks import BOM, Line, Outline, Section, heading_of, seconds_of

MOST_ENTRIES = 10  # seed 001: prune above ten entries or 5 KB of the whole file, keep the most recent five to ten
FEWEST_ENTRIES = 5
MOST_BYTES = 5 * KB

_LABELS = (b"Context", b"Problem", b"Solution")
_LABEL = re.compile(rb"\*\*([A-Za-z]+):\*\*")
# A separator without its newline, or an italic closing line, and the next entry glued to it.
_GLUED = re.compile(rb"(?:-{3,}|\*[^*]+\*)[ \t]*(?=## (\d{4}-\d{2}-\d{2}): \S)")
# What every such line has in it.
_INSIDE = re.compile(rb"## \d{4}-\d{2}-\d{2}: ")
_BEFORE = b"-* \t"
_UNDATED = ("invalid-date", "the date does not exist, so that no entry begins")
_GLUE = ("glued-heading", "an entry is glued to the line before it and not seen")


def findings_of(path: str, data: bytes, found: Outline, *, shelved: bool, now: float, words: bool) -> Iterator[Finding]:
    yield from _of_bytes(path, data)
    yield from _of_headings(path, found)
    yield from _of_sections(path, found, now)
    if found.open_fence is not None:
        line = data.count(b"\n", 0, found.open_fence) + 1
        yield Finding("unclosed-fence", path, "the code fence that begins here never ends", line)
    if not shelved:
        yield from _of_order(path, found)
        if len(data) > MOST_BYTES and len(found.sections) <= FEWEST_ENTRIES:
            what = f"{len(data)} bytes in {len(found.sections)} entries; only a person can shorten it"
            yield Finding("oversize", path, what)
    yield from _of_secrets(path, data, words=words)


def _of_bytes(path: str, data: bytes) -> Iterator[Finding]:
    if data.startswith(BOM):
        yield Finding("byte-order-mark", path, "the file begins with a byte order mark", 1)
    newline = data.find(b"\r\n")
    if newline >= 0:
        yield Finding("crlf-newlines", path, "lines end in CRLF", data.count(b"\n", 0, newline) + 1)
    nul = data.find(b"\0")
    if nul >= 0:
        yield Finding("nul-bytes", path, "NUL bytes, as a power cut leaves them", data.count(b"\n", 0, nul) + 1)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        yield Finding("invalid-encoding", path, "bytes that are not UTF-8; the rest of the file is read", line)


def _of_headings(path: str, found: Outline) -> Iterator[Finding]:
    wrong = dict.fromkeys(found.undated, _UNDATED) | dict.fromkeys((line.number for line, _ in glued(found)), _GLUE)
    for number, (code, what) in sorted(wrong.items()):
        yield Finding(code, path, what, number)


def glued(found: Outline) -> Iterator[tuple[Line, int]]:
    """The lines with an entry glued to what they begin with, and where in them it begins."""
    if any(match.start() and found.data[match.start() - 1] in _BEFORE for match in _INSIDE.finditer(found.data)):
        yield from ((line, at) for line in found.lines if (at := glue_at(line)) is not None)


def glue_at(line: Line) -> int | None:
    """Where in the line a glued entry begins."""
    match = None if line.quoted else _GLUED.match(line.text)
    heading = heading_of(line.text[match.end() :]) if match is not None else None
    return match.end() if match is not None and heading is not None and heading.day is not None else None


def _of_sections(path: str, found: Outline, now: float) -> Iterator[Finding]:
    for section in found.sections:
        named = {label for text in unquoted(found, section) for label in _LABEL.findall(text)}
        missing = [label.decode() for label in _LABELS if label not in named]
        if missing:
            yield Finding("missing-labels", path, f"the entry has no {', '.join(missing)}", section.line)
        if seconds_of(section.day) > now + DAY:  # tomorrow has begun elsewhere on earth
            yield Finding("future-stamp", path, "the entry is dated in the future", section.line)


def unquoted(found: Outline, section: Section) -> Iterator[bytes]:
    """What of an entry stands outside of code fences."""
    at = section.start
    for quoted in found.quoted:
        if at <= quoted.start < section.end:
            yield found.data[at : quoted.start]
            at = quoted.end
    yield found.data[at : section.end]


def _of_order(path: str, found: Outline) -> Iterator[Finding]:
    """Told once a file, at the first entry that is newer than the one above it; never reordered unasked."""
    above: Section | None = None
    for section in found.sections:
        if above is not None and section.day > above.day:
            yield Finding("not-newest-first", path, "the entry is newer than the one above it", section.line)
            return
        above = section


def _of_secrets(path: str, data: bytes, *, words: bool) -> Iterator[Finding]:
    text = data.decode("utf-8", "replace")
    for line, secret in _by_line(text, find_secrets(text, BLOCK)):
        yield Finding("secret-shape", path, f"something shaped like a secret: {secret.pattern}", line)
    if words:
        for line, secret in _by_line(text, find_words(text)):
            yield Finding("sensitive-word", path, f"the word {secret.pattern}", line)


def _by_line(text: str, secrets: Iterator[Secret]) -> Iterator[tuple[int, Secret]]:
    """Each pattern once a line."""
    at, line = 0, 1
    told: set[tuple[int, str]] = set()
    for secret in sorted(secrets, key=lambda each: each.start):
        line += text.count("\n", at, secret.start)
        at = secret.start
        if (line, secret.pattern) not in told:
            told.add((line, secret.pattern))
            yield line, secret
