"""From the fields somebody gives to the text of an entry, and what is wrong with them. Any further field is taken in
as a labelled line of its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from memoryd.layouts.asked import Breach, refuse
from memoryd.layouts.markdown_topics.writing import checked_entry, fits_a_line, label_of, render_entry

TEXT, TITLE, DATE = "text", "title", "date"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LABEL = re.compile(r"[^\W_][\w .,/&()+'-]{0,79}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ANY_DAY = date(2000, 1, 1)


def entry_of(memory: Mapping[str, Any], now: float) -> bytes:
    """The entry as it will stand in the file, with `\\n` for line ends. Without a date it is today's, in UTC.

    InvalidMemoryError names every field that does not fit."""
    if TEXT in memory:
        return whole_entry(memory)
    broken: list[Breach] = []
    if memory.get(TITLE) is None:
        broken.append(Breach(TITLE, "is missing; an entry has a title"))
    else:
        title_of(memory[TITLE], broken)
    day = datetime.fromtimestamp(now, UTC).date()
    if memory.get(DATE) is not None:
        day = day_of(memory[DATE], broken) or day
    fields = {key: value for key, value in memory.items() if key not in (TITLE, DATE)}
    texts = texts_of(fields, broken)
    refuse(broken)
    return render_entry(memory[TITLE], day, texts)


def whole_entry(memory: Mapping[str, Any]) -> bytes:
    """`text` stands alone: it is an entry as somebody wrote it."""
    broken = [Breach(key, "has no place beside `text`, which is the whole entry") for key in memory if key != TEXT]
    text = unspoiled(TEXT, memory[TEXT], broken)
    entry = b""
    if text is not None:
        try:
            entry = checked_entry(text.replace("\r\n", "\n").encode("utf-8"))
        except ValueError as error:
            broken.append(Breach(TEXT, str(error)))
    refuse(broken)
    return entry


def title_of(value: object, broken: list[Breach]) -> str | None:
    """In one line. None, and a line in `broken`, where it is no title."""
    text = unspoiled(TITLE, value, broken)
    if text is None:
        return None
    title = " ".join(text.split())
    if not title:
        broken.append(Breach(TITLE, "must not be empty"))
    elif not title.isprintable() and any(unicodedata.category(each) == "Cc" for each in title):
        broken.append(Breach(TITLE, "must not hold control characters"))
    else:
        return title
    return None


def day_of(value: object, broken: list[Breach]) -> date | None:
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # a date that the calendar does not have is told as any other
    broken.append(Breach(DATE, "must be a date of the calendar as YYYY-MM-DD"))
    return None


def texts_of(fields: Mapping[str, Any], broken: list[Breach]) -> dict[str, str | None]:
    """Each field as text (None and empty ones as None), each proved to stay inside one entry."""
    texts: dict[str, str | None] = {}
    known: set[str] = set()
    for key, value in fields.items():
        label = label_of(key)
        if not _LABEL.fullmatch(label):
            broken.append(Breach(key, "the name of a field is made of words, at most 80 characters"))
        elif label.casefold() in known:
            broken.append(Breach(key, "is given twice"))
        else:
            texts[key] = _text(key, value, broken)
        known.add(label.casefold())
    return texts


def _text(key: str, value: object, broken: list[Breach]) -> str | None:
    text = unspoiled(key, _plain(value), broken) if value is not None else None
    if text is None or not text.strip():
        return None
    if fits_a_line(text):
        return text
    try:
        render_entry("T", _ANY_DAY, {key: text})
    except ValueError as error:
        broken.append(Breach(key, str(error)))
    return text


def _plain(value: object) -> object:
    """Numbers and lists of plain values as people write them; anything else as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(str(_plain(each)) for each in value)
    return value


def unspoiled(field: str, value: object, broken: list[Breach]) -> str | None:
    """A text that UTF-8 can hold and a line-based file can show."""
    if not isinstance(value, str):
        broken.append(Breach(field, "must be a text"))
    elif _SURROGATE.search(value):
        broken.append(Breach(field, "must be valid Unicode"))
    elif "\0" in value:
        broken.append(Breach(field, "must not hold NUL characters"))
    else:
        return value
    return None
