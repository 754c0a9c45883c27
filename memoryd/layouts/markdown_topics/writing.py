"""New entries as the seed shows them, and the place where they go: on top, below the file's own title. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date

from memoryd.core.text import Edit, Span
from memoryd.layouts.markdown_topics.blocks import Heading, Outline, heading_of, newline_of, outline
from memoryd.layouts.markdown_topics.checking import glued

LABELS = ("Context", "Problem", "Solution", "Code")
_RUN = re.compile(r"`{3,}")
_FENCES = ("```", "~~~")  # a fence begins on a line of its own


def render_entry(title: str, day: date, fields: Mapping[str, str | None]) -> bytes:
    """`## YYYY-MM-DD: Title`, a line for each field, `---`; the four fields of the seed first, others as labelled.

    `fields` are told by label in any case (`context` -> `**Context:**`); empty ones are left out. Code of several
    lines goes into a fence of its own. ValueError (a sentence) where the text would not be one entry."""
    known = {key.casefold(): (key, value) for key, value in fields.items() if value}
    own = [(label, known.pop(label.casefold())[1]) for label in LABELS if label.casefold() in known]
    others = [(label_of(key), value) for key, value in known.values()]
    lines = [f"## {day.isoformat()}: {' '.join(title.split())}"]
    lines += [field_line(label, value or "") for label, value in [*own, *others]]
    return checked_entry("\n".join([*lines, "---", ""]).encode("utf-8"))


def field_line(label: str, value: str) -> str:
    """`**Context:** value`, which may go on over further lines."""
    text = value.replace("\r\n", "\n").strip()
    if label == "Code":
        return _code(text)
    return f"**{label}:**\n{text}" if text.startswith(_FENCES) else f"**{label}:** {text}"


def fits_a_line(value: str) -> bool:
    """Is it a line with its label, which begins neither an entry nor a fence, nor has an entry glued to it?"""
    text = value.strip()
    return "\n" not in text and not text.startswith(_FENCES)


def checked_entry(text: bytes) -> bytes:
    """A whole entry as somebody wrote it, ended by a newline; ValueError where it is not exactly one."""
    found = outline(text)
    first = heading_of(text.lstrip().partition(b"\n")[0])
    if not found.sections or text[: found.sections[0].start].strip():
        raise ValueError(_begin(first))
    if len(found.sections) > 1:
        number = found.sections[1].line
        raise ValueError(f"line {number} would begin another entry; put examples into a code fence")
    if found.open_fence is not None:
        raise ValueError("a code fence is never closed; the entries below would be hidden in it")
    glue = next((line.number for line, _ in glued(found)), None)
    if glue is not None:
        raise ValueError(f"line {glue} looks like another entry glued to a separator; put examples into a code fence")
    return text[found.sections[0].start :].rstrip() + b"\n"


def insert_on_top(found: Outline, entry: bytes) -> Edit:
    """How an entry comes above all others of a file: below title and introduction, with the file's line ends, and
    never glued to anything. ValueError where an unclosed fence would hide it."""
    data = found.data
    newline = newline_of(data)
    text = entry.replace(b"\r\n", b"\n").rstrip(b"\n").replace(b"\n", newline) + newline
    if found.sections:
        at = found.sections[0].start
        return Edit(Span(at, at), text + newline)
    if found.open_fence is not None:
        raise ValueError("a code fence in the file is never closed; a new entry would be hidden in it")
    end = len(data)
    if not data.strip():
        return Edit(Span(end, end), text if not data or data.endswith(b"\n") else newline + text)
    lead = b"" if data.endswith((b"\n\n", b"\r\n\r\n")) else newline if data.endswith(b"\n") else newline * 2
    return Edit(Span(end, end), lead + text)


def _begin(first: Heading | None) -> str:
    if first is not None and first.day is None:
        return "the date of the entry does not exist"
    return "an entry begins with a line of the form `## YYYY-MM-DD: Title`"


def label_of(key: str) -> str:
    """`root_cause` -> `Root Cause`; what has capitals already stays."""
    text = " ".join(key.replace("_", " ").split())
    return text.title() if text.islower() else text


def _code(text: str) -> str:
    if "\n" not in text or text.startswith("```"):
        return f"**Code:** {text}" if not text.startswith("```") else f"**Code:**\n{text}"
    longest = max((len(run) for run in _RUN.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"**Code:**\n{fence}\n{text}\n{fence}"
