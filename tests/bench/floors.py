"""Floors: the least work that answers the same question, without memoryd.

Files are parsed by plain readers that know no rules of a layout: of JSON msgspec decodes only what is indexed, topic
files are cut at their headings.
What is indexed goes into one FTS5 table (`unicode61`) of title, labels and text.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from memoryd.core.words import tokens
from tests.bench.inotify import Inotify

LIMIT = 10  # hits of a search
EVENT_S = 10.0  # how long an event is waited for

Text = tuple[str, str, str]
"""Title, labels and text of one memory."""


# --- plain readers


class _Memory(msgspec.Struct):
    """What is indexed of a JSON object; msgspec skips the rest."""

    content: str
    summary: str = ""
    title: str = ""
    category: str = ""
    tags: list[str] = []
    topics: list[str] = []


class _Session(msgspec.Struct):
    memories: list[_Memory]


class _Item(msgspec.Struct):
    data: _Memory


class _User(msgspec.Struct):
    memories: list[_Item]


_decode_memory = msgspec.json.Decoder(_Memory).decode
_decode_session = msgspec.json.Decoder(_Session).decode
_decode_user = msgspec.json.Decoder(_User).decode


def _json_file(content: bytes) -> Iterator[Text]:
    native = _decode_memory(content)
    yield native.summary, " ".join(native.tags), native.content


def _lines(content: bytes) -> Iterator[Text]:
    for line in content.splitlines():
        if line:
            native = _decode_memory(line)
            yield "", " ".join(native.tags), native.content


def _topic_file(content: bytes) -> Iterator[Text]:
    for entry in content.decode().split("\n## ")[1:]:
        title, _, body = entry.partition("\n")
        yield title, "", body


def _session(content: bytes) -> Iterator[Text]:
    for native in _decode_session(content).memories:
        yield native.title, native.category, native.content


def _user(content: bytes) -> Iterator[Text]:
    for native in _decode_user(content).memories:
        yield "", " ".join(native.data.topics), native.data.content


READERS: dict[str, Callable[[bytes], Iterator[Text]]] = {
    "json-files": _json_file,
    "jsonl-store": _lines,
    "markdown-topics": _topic_file,
    "session-files": _session,
    "user-document": _user,
}


def is_source(layout: str, name: str) -> bool:
    """Whether a file of a generated store holds memories: neither an index file nor hidden."""
    if layout == "markdown-topics":
        return name.endswith(".md") and name != "index.md"
    return name.endswith((".json", ".jsonl")) and not name.startswith((".", "_")) and name != "index.json"


# --- an index of nothing but FTS5


class FtsTable:
    """A table of SQLite's own with the texts of a store, in a new database."""

    def __init__(self, place: Path) -> None:
        self._db = sqlite3.connect(place, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = wal")
        self._db.execute("PRAGMA synchronous = normal")
        self._db.execute("CREATE VIRTUAL TABLE raw USING fts5(title, labels, text)")

    def insert(self, texts: Iterable[Text]) -> None:
        """Insert all in one transaction."""
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO raw VALUES (?,?,?)", texts)
        self._db.execute("COMMIT")

    def search(self, question: str) -> list[tuple[Any, ...]]:
        """Ask for all words of the question: the ten best rows, each with a snippet."""
        words = " AND ".join(f'"{word}"' for word in dict.fromkeys(tokens(question)))
        query = "SELECT rowid, title, snippet(raw, 2, '', '', '…', 20), bm25(raw) FROM raw WHERE raw MATCH ?"
        return self._db.execute(f"{query} ORDER BY bm25(raw) LIMIT {LIMIT}", (words,)).fetchall()

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def read_texts(layout: str, root: Path) -> Iterator[Text]:
    """Read and parse every file of a store."""
    read = READERS[layout]
    for folder, _, names in os.walk(root):
        for name in names:
            if is_source(layout, name):
                with open(os.path.join(folder, name), "rb") as file:
                    yield from read(file.read())


def scan(root: Path) -> int:
    """List every directory below the root and stat every file; return how many there are."""
    count, waiting = 0, [os.fspath(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count


# --- one change


class MinimalIndexer:
    """What has to happen between a close and a search that finds the change: the event, read, parse, insert, query.

    It works on a directory and a table of its own. `carry_out` does the same to a file there as an agent did."""

    def __init__(self, place: Path, layout: str) -> None:
        place.mkdir()
        self.root = place / "root"
        self.root.mkdir()
        self._read = READERS[layout]
        self._table = FtsTable(place / "minimal.sqlite")
        self._events: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self._inotify = Inotify(str(self.root))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopping.is_set():
            for at, _, name in self._inotify.wait(0.1):
                self._events.put((at, name))

    def measure(self, carry_out: Callable[[Path], float], name: str, word: str, offset: int) -> tuple[float, float]:
        """Milliseconds from the close to the event, and to the answer with the memory that has `word`. Of the file
        only what follows `offset` is read. `carry_out` returns when the close returned (monotonic seconds); an event
        that was read before that counts as nothing waited."""
        closed = carry_out(self.root)
        event = self._event(name)
        with open(self.root / name, "rb") as file:
            file.seek(offset)
            content = file.read()
        self._table.insert(each for each in self._read(content) if word in each[2])
        found = self._table.search(word)
        if len(found) != 1:
            raise AssertionError(f"{len(found)} rows of FTS5 have {word}")
        return max(0.0, event - closed) * 1000, (time.monotonic() - closed) * 1000

    def _event(self, name: str) -> float:
        """When the event of this name was read; a temporary name before it does not count."""
        while True:
            at, seen = self._events.get(timeout=EVENT_S)
            if seen == name:
                return at

    def close(self) -> None:
        """Stop watching and close the table."""
        self._stopping.set()
        self._thread.join()
        self._inotify.close()
        self._table.close()
