"""Reading one memory whole, as its agent wrote it. For any thread: beside the worker, and never through its inbox.

While the file is as it was read, only the memory's own bytes are read; else the file is parsed as it is now. Of a file
of lines the one line tells by itself whether it is still that memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from memoryd.catalogue.rows import Place
from memoryd.core.digest import sha256
from memoryd.core.records import Base
from memoryd.core.text import Span
from memoryd.disk.tree import ChangingError, NotBeneathError, NotRegularError, TooLargeError, Tree
from memoryd.errors import RootMissingError
from memoryd.layouts.base import Layout
from memoryd.operations.locate import in_file, in_order, the_one
from memoryd.store import Store
from memoryd.store.storing import layout_of

PART = 100_000  # characters; in the worst of escapes they fill half a line of the protocol


class Memory(NamedTuple):
    """`native` is the object as written, or `{"text": ...}` of a memory that is none; `written` are its bytes."""

    id: str
    path: str
    line: int
    archived: bool
    layout: str
    native: Mapping[str, Any]
    written: bytes

    def public(self, root: str) -> dict[str, Any]:
        text = {"text": self.native["text"]} if self.native.keys() == {"text"} else {}
        return {**self._place(root), "memory": self.native, **text}

    def part(self, root: str, offset: int) -> dict[str, Any]:
        """Some of the text that it is written in, from that character on; `next_offset` where there is more. Parts
        of one `sha256` fit together."""
        text = self.written.decode("utf-8", "replace")
        part, end = text[offset : offset + PART], offset + PART
        more = {"next_offset": end} if end < len(text) else {}
        return {**self._place(root), "part": part, "sha256": sha256(self.written), "offset": offset, **more}

    def _place(self, root: str) -> dict[str, Any]:
        told = {"root": root, "id": self.id, "path": self.path, "line": self.line, "layout": self.layout}
        return {**told, "archived": self.archived}


class _Read(NamedTuple):
    text: bytes
    line: int


def read_memory(store: Store, asked: str, now: float) -> Memory | None:
    """None where no memory has the id. Raises ConflictError for a bare id of several, RootMissingError."""
    layout = store.layout
    if layout is None:
        return None
    with store.catalogue.reader() as catalogue:
        places = in_order(layout, catalogue.places(asked))
    if not places:
        return None
    live = [each for each in places if each.live]
    try:
        with store.tree.twin() as tree:
            for place in the_one(store.name, asked, live or places):
                found = _read(layout, tree, place, now)
                if found is not None:
                    return _memory(store, layout, place, found)
    except FileNotFoundError as error:
        raise RootMissingError(f"root {store.name}: {store.path} is not there", hint="see `memoryd status`") from error
    return None


def _memory(store: Store, layout: Layout, place: Place, found: _Read) -> Memory:
    native = layout_of(store).native(place.path, found.text)
    return Memory(place.id, place.path, found.line, not place.live, layout.name, native, found.text)


def _read(layout: Layout, tree: Tree, place: Place, now: float) -> _Read | None:
    line = _its_line(layout, tree, place, now) if layout.appendable else None
    if line is not None:
        return line
    if not place.young and place.digest:
        try:
            text, found = tree.read_span(place.path, place.start, place.end - place.start)
        except (FileNotFoundError, NotADirectoryError, NotBeneathError, NotRegularError):
            return None  # gone, or something else stands there: the worker will notice
        except ChangingError:
            return _look_through(layout, tree, place, now)
        if found.same_content(place.fingerprint) and found.ctime_ns == place.fingerprint.ctime_ns:
            return _Read(text, place.line)
    return _look_through(layout, tree, place, now)


def _its_line(layout: Layout, tree: Tree, place: Place, now: float) -> _Read | None:
    """A whole line, where it stood, that reads as a memory of that id; None where it is not so any more."""
    begin = max(place.start - 1, 0)
    try:
        found = tree.read_range(place.path, begin, place.end + 1 - begin)
    except (FileNotFoundError, NotADirectoryError, NotBeneathError, NotRegularError):
        return None
    before, text, after = found[: place.start - begin], found[place.start - begin : place.end - begin], found[-1:]
    whole = before in (b"", b"\n") and (len(found) == place.end - begin or after in (b"\n", b"\r"))
    if not whole or b"\n" in text:
        return None
    read = layout.parse(place.path, text, now=now, mtime=0.0, base=Base(place.start, place.line))
    same = [each for each in read.records if (each.id, each.span) == (place.id, Span(place.start, place.end))]
    return _Read(text, place.line) if same else None


def _look_through(layout: Layout, tree: Tree, place: Place, now: float) -> _Read | None:
    """The file as it is now. Where it still begins as it was read, what stood there stands there."""
    try:
        content, found = tree.read(place.path, growing=True)
    except (FileNotFoundError, NotADirectoryError, NotBeneathError, NotRegularError, TooLargeError):
        return None
    size = place.fingerprint.size
    known = content if len(content) == size else content[:size] if layout.appendable else b""
    if place.digest and len(known) == size and sha256(known) == place.digest:
        return _Read(content[place.start : place.end], place.line)
    document = layout.parse(place.path, content, now=now, mtime=found.mtime_ns / 1e9, base=Base())
    record = in_file(document.records, place)
    return _Read(record.span.of(content), record.line) if record is not None else None
