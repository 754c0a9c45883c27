"""Fields of an entry: checking them, rendering a new entry, and editing single fields of an existing one. Pure.

A new entry has the form of the seed and goes to the top of its file, below the title. Any further field becomes a
separate labelled line. Editing a field changes only its lines; everything else stays byte for byte.

A field is a line `**Label:** value` with the lines below it, up to the next such line, a heading, a separator or the
end of the entry, without trailing blank lines. If two lines have the same label, the first is used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from memoryd.core.dates import iso
from memoryd.core.records import JsonObject, NativeMemory, Record
from memoryd.core.spans import Edit, Span
from memoryd.layouts.exchange import DEFAULT_NAME, Draft, Portable
from memoryd.layouts.markdown_topics.lint import glued_headings
from memoryd.layouts.markdown_topics.names import DEFAULT_SUBTOPIC, slug
from memoryd.layouts.markdown_topics.outline import Heading, Line, Outline, newline_of, outline, parse_heading
from memoryd.layouts.validation import FieldSpec, Violation, reject

TEXT, TITLE, DATE = "text", "title", "date"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LABEL = re.compile(r"[^\W_][\w .,/&()+'-]{0,79}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ANY_DAY = date(2000, 1, 1)

# The fields that `add` and `update` take.
FIELD_SPECS: Mapping[str, FieldSpec] = {
    "title": FieldSpec("text", "the title of the entry"),
    "context": FieldSpec("text", "when the entry applies"),
    "problem": FieldSpec("text", "what was wrong"),
    "solution": FieldSpec("text", "what helped"),
    "code": FieldSpec("text", "an example"),
    "date": FieldSpec("text", "YYYY-MM-DD; today by default"),
    "text": FieldSpec("text", "a whole entry that begins with `## YYYY-MM-DD: Title`, instead of the other fields"),
}


def build_entry(memory: NativeMemory, today: date) -> bytes:
    """Return the text of a new entry, with `\\n` line breaks; the date defaults to `today`.

    Raises InvalidMemoryError that names every field that does not fit.
    """
    if TEXT in memory:
        return entry_from_text(memory)
    violations: list[Violation] = []
    if memory.get(TITLE) is None:
        violations.append(Violation(TITLE, "missing; an entry needs a title"))
    else:
        parse_title(memory[TITLE], violations)
    day = today
    if memory.get(DATE) is not None:
        day = parse_day(memory[DATE], violations) or day
    fields = {key: value for key, value in memory.items() if key not in (TITLE, DATE)}
    texts = field_texts(fields, violations)
    reject(violations)
    return render_entry(memory[TITLE], day, texts)


def entry_from_text(memory: NativeMemory) -> bytes:
    """Return the whole entry given as `text`; no other field may be given with it."""
    violations = [
        Violation(key, "must not be given with `text`, which is the whole entry") for key in memory if key != TEXT
    ]
    text = valid_text(TEXT, memory[TEXT], violations)
    entry = b""
    if text is not None:
        try:
            entry = require_one_entry(text.replace("\r\n", "\n").encode("utf-8"))
        except ValueError as error:
            violations.append(Violation(TEXT, str(error)))
    reject(violations)
    return entry


def parse_title(value: object, violations: list[Violation]) -> str | None:
    """Return the title as one line. Appends to `violations` and returns None where it is not a title."""
    text = valid_text(TITLE, value, violations)
    if text is None:
        return None
    title = " ".join(text.split())
    if not title:
        violations.append(Violation(TITLE, "must not be empty"))
    elif not title.isprintable() and any(unicodedata.category(each) == "Cc" for each in title):
        violations.append(Violation(TITLE, "must not contain control characters"))
    else:
        return title
    return None


def parse_day(value: object, violations: list[Violation]) -> date | None:
    """Return the date. Appends to `violations` and returns None where it is not a valid date."""
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # an impossible date is reported like any other
    violations.append(Violation(DATE, "must be a valid date as YYYY-MM-DD"))
    return None


def field_texts(fields: NativeMemory, violations: list[Violation]) -> dict[str, str | None]:
    """Return each field as text (empty ones as None), checked to stay inside one entry."""
    texts: dict[str, str | None] = {}
    labels: set[str] = set()
    for key, value in fields.items():
        label = label_for(key)
        if not _LABEL.fullmatch(label):
            violations.append(Violation(key, "field names must be words, at most 80 characters"))
        elif label.casefold() in labels:
            violations.append(Violation(key, "given twice"))
        else:
            texts[key] = _text(key, value, violations)
        labels.add(label.casefold())
    return texts


def _text(key: str, value: object, violations: list[Violation]) -> str | None:
    text = valid_text(key, _plain(value), violations) if value is not None else None
    if text is None or not text.strip():
        return None
    if fits_a_line(text):
        return text
    try:
        render_entry("T", _ANY_DAY, {key: text})
    except ValueError as error:
        violations.append(Violation(key, str(error)))
    return text


def _plain(value: object) -> object:
    """Return numbers and lists of plain values as readable text, anything else unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(str(_plain(each)) for each in value)
    return value


def valid_text(field: str, value: object, violations: list[Violation]) -> str | None:
    """Return a text that UTF-8 can hold and a line-based file can show; else append to `violations` and return None."""
    if not isinstance(value, str):
        violations.append(Violation(field, "must be a text"))
    elif _SURROGATE.search(value):
        violations.append(Violation(field, "must be valid Unicode"))
    elif "\0" in value:
        violations.append(Violation(field, "must not contain NUL characters"))
    else:
        return value
    return None


LABELS = ("Context", "Problem", "Solution", "Code")
_RUN = re.compile(r"`{3,}")
_FENCES = ("```", "~~~")  # fences begin on their own line


def render_entry(title: str, day: date, fields: Mapping[str, str | None]) -> bytes:
    """Return `## YYYY-MM-DD: Title`, a line for each field, `---`; the four fields of the seed come first.

    `fields` are keyed by label in any case (`context` -> `**Context:**`); empty ones are left out. Code of several
    lines goes into a fence. Raises ValueError (a sentence) where the text would not be exactly one entry.
    """
    present = {key.casefold(): (key, value) for key, value in fields.items() if value}
    seed_lines = [(label, present.pop(label.casefold())[1]) for label in LABELS if label.casefold() in present]
    others = [(label_for(key), value) for key, value in present.values()]
    lines = [f"## {day.isoformat()}: {' '.join(title.split())}"]
    lines += [field_line(label, value or "") for label, value in [*seed_lines, *others]]
    return require_one_entry("\n".join([*lines, "---", ""]).encode("utf-8"))


def field_line(label: str, value: str) -> str:
    """Return `**Context:** value`; the value may continue on further lines."""
    text = value.replace("\r\n", "\n").strip()
    if label == "Code":
        return _code(text)
    return f"**{label}:**\n{text}" if text.startswith(_FENCES) else f"**{label}:** {text}"


def fits_a_line(value: str) -> bool:
    """Return True for a single-line value that cannot begin an entry or a fence."""
    text = value.strip()
    return "\n" not in text and not text.startswith(_FENCES)


def require_one_entry(text: bytes) -> bytes:
    """Return a whole entry that ends in a newline; raises ValueError where the text is not exactly one entry."""
    structure = outline(text)
    first = parse_heading(text.lstrip().partition(b"\n")[0])
    if not structure.sections or text[: structure.sections[0].start].strip():
        raise ValueError(_start_problem(first))
    if len(structure.sections) > 1:
        number = structure.sections[1].line
        raise ValueError(f"line {number} begins another entry; put examples into a code fence")
    if structure.open_fence is not None:
        raise ValueError("a code fence is never closed and would hide the entries below")
    glued_line = next((line.number for line, _ in glued_headings(structure)), None)
    if glued_line is not None:
        raise ValueError(
            f"line {glued_line} looks like another entry glued to a separator; put examples into a code fence"
        )
    return text[structure.sections[0].start :].rstrip() + b"\n"


def insert_on_top(structure: Outline, entry: bytes) -> Edit:
    """Return the edit that inserts an entry above all others, below title and introduction, with the file's line
    breaks. Raises ValueError where an unclosed fence would hide it."""
    data = structure.data
    newline = newline_of(data)
    text = entry.replace(b"\r\n", b"\n").rstrip(b"\n").replace(b"\n", newline) + newline
    if structure.sections:
        at = structure.sections[0].start
        return Edit(Span(at, at), text + newline)
    if structure.open_fence is not None:
        raise ValueError("a code fence in the file is never closed and would hide a new entry")
    end = len(data)
    if not data.strip():
        return Edit(Span(end, end), text if not data or data.endswith(b"\n") else newline + text)
    lead = b"" if data.endswith((b"\n\n", b"\r\n\r\n")) else newline if data.endswith(b"\n") else newline * 2
    return Edit(Span(end, end), lead + text)


def _start_problem(first: Heading | None) -> str:
    if first is not None and first.day is None:
        return "the date of the entry does not exist"
    return "an entry must begin with a line of the form `## YYYY-MM-DD: Title`"


def label_for(key: str) -> str:
    """Return the label of a key: `root_cause` -> `Root Cause`; a key with capitals stays as it is."""
    text = " ".join(key.replace("_", " ").split())
    return text.title() if text.islower() else text


def _code(text: str) -> str:
    if "\n" not in text or text.startswith("```"):
        return f"**Code:** {text}" if not text.startswith("```") else f"**Code:**\n{text}"
    longest = max((len(run) for run in _RUN.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"**Code:**\n{fence}\n{text}\n{fence}"


_LABELLED = re.compile(rb"\*\*([^*\n]+?):\*\*")
_BOUNDARY = re.compile(rb"#{1,6}(?:[ \t].*)?|-{3,}|\*{3,}|_{3,}")
_HEADING = re.compile(rb"## (\d{4}-\d{2}-\d{2}):[ \t]+(.*\S)")


class Field(NamedTuple):
    """A field of an entry, in offsets of its text: where its line begins, where its value begins, and where its last
    line ends without and with its line break."""

    label: str
    start: int
    value: int
    end: int
    after: int


def heading_edits(entry: bytes, title: str | None, day: date | None) -> Iterator[Edit]:
    """Yield the edits of date and title in the first line of the entry, where given."""
    match = _HEADING.match(entry)
    assert match is not None, "an entry begins with its heading"
    if day is not None:
        yield Edit(Span(*match.span(1)), day.isoformat().encode())
    if title is not None:
        yield Edit(Span(*match.span(2)), title.encode())


def field_edits(entry: bytes, texts: Mapping[str, str | None], newline: bytes) -> Iterator[Edit]:
    """Yield the edits that set, add or (None) remove fields; added fields follow the order of the seed."""
    fields, top = fields_of(entry)
    present = {field.label.casefold(): field for field in reversed(fields)}
    for key in sorted(texts, key=_rank):
        label, text = label_for(key), texts[key]
        label = next((each for each in LABELS if each.casefold() == label.casefold()), label)
        field = present.get(label.casefold())
        if text is None:
            yield from [Edit(Span(field.start, field.after), b"")] if field is not None else []
            continue
        line = field_line(label, text).replace("\n", newline.decode()).encode()
        if field is not None:
            yield Edit(Span(field.value, field.end), line.removeprefix(f"**{label}:**".encode()))
        else:
            at = _insertion_offset(entry, fields, top, label)
            lead = b"" if entry[:at].endswith(b"\n") else newline
            yield Edit(Span(at, at), lead + line + (b"" if lead else newline))


def _rank(key: str) -> int:
    names = [label.casefold() for label in LABELS]
    label = label_for(key).casefold()
    return names.index(label) if label in names else len(names)


def _insertion_offset(entry: bytes, fields: Sequence[Field], top: int, label: str) -> int:
    """Return the offset after the last field that comes before this one, or right below the heading."""
    before = [field.after for field in fields if field.start < top and _rank(field.label) <= _rank(label)]
    first = entry.find(b"\n") + 1
    return max(before, default=first or len(entry))


def fields_of(entry: bytes) -> tuple[list[Field], int]:
    """Return the fields in order, and where the first part of the entry ends: a heading, a separator or the end."""
    lines = outline(entry).lines[1:]
    starts = [(line, _label(line)) for line in lines if _label(line) is not None or _is_boundary(line)]
    fields: list[Field] = []
    for number, (line, match) in enumerate(starts):
        if match is not None:
            limit = starts[number + 1][0].start if number + 1 < len(starts) else len(entry)
            body = entry[line.start : limit].rstrip()
            end = line.start + max(len(body), match.end())
            after = entry.find(b"\n", end, limit) + 1 or limit
            fields.append(
                Field(match[1].decode("utf-8", "replace").strip(), line.start, line.start + match.end(), end, after)
            )
    top = next((line.start for line, match in starts if match is None), len(entry))
    return fields, top


def _label(line: Line) -> re.Match[bytes] | None:
    return None if line.quoted else _LABELLED.match(line.text)


def _is_boundary(line: Line) -> bool:
    return not line.quoted and _BOUNDARY.fullmatch(line.text.rstrip()) is not None


def newline_style(entry: bytes, data: bytes) -> bytes:
    """Return the line break of the entry, or of its file where the entry is a single line."""
    return newline_of(entry if b"\n" in entry else data)


def export(record: Record, text: bytes) -> Portable:
    """Return an entry or a document in terms of all layouts: its whole text, with heading and labels."""
    topic, _, subtopic = record.id.partition("#")[0].rpartition("/")
    location = {"topic": topic, "subtopic": subtopic} if topic else {}
    return Portable(
        text.decode("utf-8", "surrogateescape").rstrip(),
        title=record.title,
        category=topic,
        tags=(subtopic,),
        created=record.created,
        archived=record.archived,
        location=location,
    )


def outside(data: bytes) -> JsonObject:
    """Return the introduction above the entries of a file."""
    sections = outline(data).sections
    text = data[: sections[0].start].strip() if sections else b""
    return {"introduction": text.decode("utf-8", "replace")} if text and not text.startswith(b"<!--") else {}


def draft(memory: Portable, created: float) -> Draft:
    """Return the new entry of a memory from another layout: its text if that is a whole entry, else an entry with the
    text as its context. The topic is its category or type, the subtopic its first tag."""
    is_placed = "topic" in memory.location
    topic, subtopic = slug(memory.kind or DEFAULT_NAME), slug(next(iter(memory.tags), DEFAULT_SUBTOPIC))
    location = memory.location if is_placed else {"topic": topic, "subtopic": subtopic}
    fallback = {"topic": DEFAULT_NAME, "subtopic": DEFAULT_SUBTOPIC}
    carried = {"title", "category"} | ({"type"} if memory.type == memory.kind else set())
    title = " ".join("".join(each if each.isprintable() else " " for each in memory.headline).split())
    text = memory.titled_text if memory.title and title != memory.title else memory.text
    key = (text,) if memory.archived else ()  # an archive has each entry of a file once
    plain = text.strip().replace("\r\n", "\n")
    changes = {"white-space": "white space around the text, and CRLF line breaks"} if plain != text else {}
    if not is_placed and topic != (memory.kind or DEFAULT_NAME):
        changes["topic"] = "categories and types, as names of topics"
    if _is_entry(plain):
        carried |= {"tags"} if is_placed or len(memory.tags) < 2 else set()
        if not plain.startswith(f"## {iso(created)[:10]}"):
            changes["date"] = "whole entries, which keep the date in their heading"
        return Draft({TEXT: plain}, carried, created, location, fallback, key, changes)
    native = {TITLE: title, "context": text, DATE: iso(created)[:10]}
    native |= {} if is_placed else {"tags": ", ".join(memory.tags)}
    return Draft(native, carried | {"tags"}, created, location, fallback, key, changes)


def _is_entry(text: str) -> bool:
    """Return True for exactly one whole entry, which is stored as it is."""
    try:
        return require_one_entry(text.encode()) == f"{text}\n".encode()
    except ValueError:
        return False
