"""Markdown notes, one memory per file, with optional front matter. Read-only, and never detected automatically."""

from __future__ import annotations

import re

from memoryd.core.dates import parse_stamp
from memoryd.core.findings import Finding
from memoryd.core.ignore import is_temp
from memoryd.core.records import FRESH_S, Document, ParseOffset, Record, Role
from memoryd.core.secrets import redact
from memoryd.core.spans import Span
from memoryd.layouts.front_matter import FrontMatter, read
from memoryd.layouts.protocol import Layout, Reader

_KNOWN = ("title", "created", "date", "updated", "modified", "tags")  # the other fields are native
_HEADING = re.compile(r"^#[ \t]+(.+)$", re.MULTILINE)


class NotesReader(Reader):
    """A reader of `.md` files outside hidden directories, each one note."""

    reads_any_text = True

    def role(self, path: str) -> Role:
        """Return SOURCE for notes, FOREIGN for everything else."""
        return Role.SOURCE if path.endswith(".md") and "/." not in f"/{path}" and not is_temp(path) else Role.FOREIGN

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse a note; its title is that of the front matter, the first heading or the file name."""
        del base
        front = read(data)
        try:
            text = data[front.end :].decode("utf-8")
        except UnicodeDecodeError:
            return Document(path, (), (Finding("corrupt-file", path, "not UTF-8"),), 1, 1, abs(now - mtime) < FRESH_S)
        if not data.strip(b"\0 \t\r\n\xef\xbb\xbf"):
            return Document(path, ())
        return Document(path, (_record(path, data, text, front),), units=1, facts={"by_type": {"note": 1}})


def _record(path: str, data: bytes, text: str, front: FrontMatter) -> Record:
    name, heading = _printable(path.removesuffix(".md")), _HEADING.search(text)
    title = _printable(front.text("title") or (heading[1].strip(" \t\r#") if heading else "")) or name
    created = parse_stamp(front.text("created", "date"))
    used = parse_stamp(front.text("updated", "modified")) or created
    times = created and created.seconds, used and used.seconds
    tags = tuple(_printable(tag) for tag in front.list("tags"))
    native = {key: value for key, value in front.fields.items() if key not in _KNOWN}
    return Record(Span(0, len(data)), 1, name, "note", title, *times, tags, False, native, text=text)


def _printable(text: str) -> str:
    """Return the text without secrets, control characters and invalid bytes."""
    valid = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return redact("".join(each if each.isprintable() else " " for each in valid)).strip()


NOTES = Layout("notes", "Markdown notes with optional front matter, one memory per file.", NotesReader())
