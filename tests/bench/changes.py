"""What a client asks for when it stores, changes and forgets a memory, in each layout's own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.corpora import Corpus
from tests.bench.gathered import DIMENSION
from tests.bench.rig import Rig
from tests.bench.wording import Wording

# What each change does to the files: the targets are set by that.
FORMS: Mapping[str, Mapping[str, str]] = {
    "jsonl-store": {"add": "append", "update": "rewrite", "forget": "rewrite"},
    "json-files": {"add": "create", "update": "rewrite", "forget": "rewrite"},
    "markdown-topics": {"add": "rewrite", "update": "rewrite", "forget": "rewrite"},
    "session-files": {"add": "rewrite", "update": "rewrite", "forget": "rewrite"},
    "user-document": {"add": "rewrite", "update": "rewrite", "forget": "rewrite"},
}

# Words that are made up may hold one of those that the topic files' own list refuses.
ANY_WORDS = {"allow_sensitive_words": True}


class Changes:
    """Memories are added where some are already: to a learning's file, a topic, a session, a user."""

    def __init__(self, rig: Rig, corpus: Corpus) -> None:
        self._rig = rig
        self._layout = corpus.layout
        self.root: Path = corpus.root
        chance = Random("changes")
        self._wording = Wording(chance)
        self._vector = [round(chance.gauss(0, 0.05), 3) for _ in range(DIMENSION)]
        self._where = _PLACES[self._layout](corpus)

    def add(self, number: int) -> dict[str, Any]:
        return self._told("memory.add", memory=self._memory(number), **self._where, **ANY_WORDS)

    def update(self, identity: str, number: int) -> dict[str, Any]:
        """Other words; of a user's memory its importance, since words would need a new embedding."""
        said = f"{self._said()} Changed the {number}th time."
        changes = {"markdown-topics": {"solution": said}, "user-document": {"importance": number % 10 / 10}}
        return self._told(
            "memory.update", id=identity, changes=changes.get(self._layout, {"content": said}), **ANY_WORDS
        )

    def forget(self, identity: str) -> dict[str, Any]:
        return self._told("memory.forget", id=identity)

    def _told(self, method: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._rig.call(method, root=self._layout, **params)
        return result

    def _said(self) -> str:
        return " ".join(self._wording.sentences(300))

    def _memory(self, number: int) -> dict[str, Any]:
        title, said = f"{self._wording.title()} {number}", self._said()
        made: dict[str, dict[str, Any]] = {
            "jsonl-store": {"type": "learning", "content": said, "tags": ["testing"]},
            "json-files": {"type": "decision", "content": said, "summary": title, "tags": ["testing"]},
            "markdown-topics": {"title": title, "context": "measured", "problem": said, "solution": "none yet"},
            "session-files": {"type": "decision", "title": title, "content": said, "confidence_score": 80},
            "user-document": {"content": said, "topics": ["testing"], "embedding": self._vector},
        }
        return made[self._layout]


def _anywhere(corpus: Corpus) -> dict[str, str]:
    """The layout knows the place."""
    return {}


def _topic(corpus: Corpus) -> dict[str, str]:
    """A file of the generated ones, as full as they are."""
    path = min((corpus.root / "Backend").glob("*.md"))
    return {"topic": "Backend", "subtopic": path.stem}


def _session(corpus: Corpus) -> dict[str, str]:
    """The largest of the first day."""
    folder = min(each for each in corpus.root.iterdir() if each.is_dir())
    path = max(folder.glob("*.json"), key=lambda each: (each.stat().st_size, each.name))
    return {"session": f"{folder.name}-{path.stem}"}


def _user(corpus: Corpus) -> dict[str, str]:
    return {"user": min(each.name for each in corpus.root.iterdir() if each.is_dir())}


_PLACES: Mapping[str, Callable[[Corpus], dict[str, str]]] = {
    "jsonl-store": _anywhere,
    "json-files": _anywhere,
    "markdown-topics": _topic,
    "session-files": _session,
    "user-document": _user,
}
