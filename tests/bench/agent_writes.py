"""How agents write without memoryd, in each layout: one memory more, carried by a word that no other memory has.

The content is made before the clock starts: a change only opens, writes, closes and, where the layout's programs do so,
renames.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec

from memoryd.core.dates import iso
from tests.bench.corpora import Corpus
from tests.bench.draft import Draft, pretty, private
from tests.bench.gathered import entry_text, session_memory, user_document, user_memory
from tests.bench.wording import Wording
from tests.bench.writing import json_file, json_name, jsonl_line

Form = Literal["append", "write", "rename"]
FIRST_S = 1_767_312_000  # 2026-01-02: after everything that was generated
FIRST_NUMBER = 10**9  # ids are made from numbers: no generated memory has one so high
WORD_LETTERS = 5  # of 20: enough for three million words
LARGE = 2_350  # memories of a user document of 7 MB
LARGE_USER = "user-large/__long-memories/data.json"


class Change(NamedTuple):
    """One write to one file: `path` below the root, and the word by which the new memory is found. Of an append
    `content` is the line."""

    path: str
    content: bytes
    form: Form
    word: str

    @property
    def name(self) -> str:
        """The path as a single file name, for a directory that holds copies."""
        return self.path.replace("/", "-")

    def carry_out(self, root: Path) -> float:
        """Change the file below a root; return when the last call returned (monotonic seconds)."""
        return self._put(os.path.join(root, self.path))

    def copy_to(self, folder: Path) -> float:
        """Do the same to a copy of the file in a flat directory."""
        return self._put(os.path.join(folder, self.name))

    def _put(self, path: str) -> float:
        target = f"{path}.tmp" if self.form == "rename" else path
        with open(target, "ab" if self.form == "append" else "wb", buffering=0, opener=private) as file:
            file.write(self.content)
        if self.form == "rename":
            os.replace(target, path)
        return time.monotonic()


def word(number: int) -> str:
    """A word that stands nowhere else: the vocabulary of the generated texts has neither `q` nor `z`. Each letter
    stands in it twice: two words that differ by one letter would be found for each other, as misspelt."""
    letters = ""
    for _ in range(WORD_LETTERS):
        number, digit = divmod(number, 20)
        letters += "bcdfghjklmnprstvwxyz"[digit]
    return f"zq{letters}{letters}qz"


class Agent:
    """Makes one change after the other for a store. `new_files` makes a new file each time, where the layout's index
    file lists files and not memories."""

    def __init__(self, corpus: Corpus, seed: str, *, new_files: bool = False, first: int = 0) -> None:
        self._numbers = count(first)
        self._wording = Wording(Random(seed))
        makers = {
            "json-files": _json_files,
            "jsonl-store": _jsonl_store,
            "markdown-topics": _new_topic_files if new_files else _topic_files,
            "session-files": _sessions,
            "user-document": _large_document,
        }
        self._make: Callable[[Draft, str], Change] = makers[corpus.layout](corpus.root)

    def next(self) -> Change:
        """Prepare the next change; those before it must have been carried out."""
        at = next(self._numbers)
        text = f"{' '.join(self._wording.sentences(300))} {word(at)}."
        draft = Draft(FIRST_NUMBER + at, FIRST_S + at, self._wording.title(), text, self._wording.tags())
        return self._make(draft, word(at))


Make = Callable[[Draft, str], Change]


def _jsonl_store(root: Path) -> Make:
    return lambda draft, new: Change("learnings.jsonl", jsonl_line(draft, "learning"), "append", new)


def _json_files(root: Path) -> Make:
    def make(draft: Draft, new: str) -> Change:
        return Change(json_name(draft.created), pretty(json_file(draft)), "write", new)

    return make


def _topic_files(root: Path) -> Make:
    """A new entry at the head of one of the files in turn."""
    paths = cycle(sorted(str(each.relative_to(root)) for each in (root / "Backend").glob("*.md"))[:50])

    def make(draft: Draft, new: str) -> Change:
        path = next(paths)
        head, _, entries = (root / path).read_text().partition("\n## ")
        content = f"{head}\n{entry_text(draft)}\n## {entries}"
        return Change(path, content.encode(), "write", new)

    return make


def _new_topic_files(root: Path) -> Make:
    def make(draft: Draft, new: str) -> Change:
        content = f"# {draft.title}\n\n{entry_text(draft)}"
        return Change(f"Backend/{new}.md", content.encode(), "write", new)

    return make


def _sessions(root: Path) -> Make:
    """A memory more at the end of one of the sessions of the first days in turn."""
    paths = cycle(sorted(str(each.relative_to(root)) for each in root.glob("*/*.json"))[:50])

    def make(draft: Draft, new: str) -> Change:
        path = next(paths)
        native: dict[str, Any] = msgspec.json.decode((root / path).read_bytes())
        native["memories"].append(session_memory(draft))
        native["extraction_count"] += 1
        return Change(path, pretty(native) + b"\n", "write", new)

    return make


def _large_document(root: Path) -> Make:
    """A memory more at the end of the document of 7 MB, which is replaced as a whole."""
    memories = [user_memory(draft) for draft in _large_drafts()]

    def make(draft: Draft, new: str) -> Change:
        memories.append(user_memory(draft))
        return Change(LARGE_USER, user_document(memories, iso(draft.created)), "rename", new)

    return make


def _large_drafts() -> Iterator[Draft]:
    """The memories of the document of 7 MB before any change."""
    wording = Wording(Random("large document"))
    for number in range(LARGE):
        yield Draft(number, FIRST_S - LARGE + number, "", " ".join(wording.sentences(300)), wording.tags())


def put_large_document(root: Path) -> int:
    """Write the document of 7 MB into a store of user documents; return how many memories it has."""
    path = root / LARGE_USER
    path.parent.mkdir(parents=True)
    path.write_bytes(user_document(map(user_memory, _large_drafts()), iso(FIRST_S - 1)))
    return LARGE


INDEX_FILES: Mapping[str, str] = {
    "json-files": "_index.json",
    "jsonl-store": "index.json",
    "markdown-topics": "index.md",
}
"""The index file of each layout that has one."""


def index_token(layout: str, change: Change) -> bytes:
    """What the index file has once it lists the change: the file, or the memory's id."""
    if layout == "jsonl-store":
        native: dict[str, Any] = msgspec.json.decode(change.content)
        return str(native["id"]).encode()
    return Path(change.path).name.encode()
