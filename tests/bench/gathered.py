"""Drafts of memories into files that hold several of them: topic files, sessions, documents of users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from memoryd.core.dates import iso
from tests.bench.draft import Draft, Place, Write, Written, pretty, put
from tests.bench.planting import Where

TOPICS = ("Backend", "Frontend", "Deployment", "Testing", "Pattern/2025/08", "Review", "Incident", "Learning")
ENTRIES, ENTRY_BYTES = 10, 5_000  # of a topic file; below what is pruned
EXTRACTED = ("decision", "insight", "learning", "correction", "workflow_note")
SESSION = 12  # memories of a session at most
KINDS = ("preference", "fact", "project", "goal")
USER = 500  # memories of a user, where no number of users is asked for
DIMENSION, VECTORS = 384, 256
_DOCUMENT = b'{"memories":[%b],"updated_at":"%b","last_deduplicated_at":null}'


# --- markdown-topics


def markdown(root: Path, *_: object) -> Write:
    def write(drafts: Iterable[Draft]) -> Written:
        for topic in TOPICS:
            (root / topic).mkdir(parents=True)
        for number, group in enumerate(_topic_files(drafts)):
            path = f"{TOPICS[number % len(TOPICS)]}/{_subtopic(group[0], number)}.md"
            entries = [entry_text(draft) for draft in reversed(group)]
            put(root / path, f"# {group[0].title}\n\n".encode() + "\n".join(entries).encode())
            yield from ((draft, Place(path)) for draft in group)

    return write


def _topic_files(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    """A long entry, or one whose tag is the name of its file, has a file of its own."""
    group: list[Draft] = []
    size = 0
    for draft in drafts:
        own = len(entry_text(draft).encode())
        if _alone(draft):
            yield [draft]
            continue
        if group and (len(group) == ENTRIES or size + own > ENTRY_BYTES):
            yield group
            group, size = [], 0
        group.append(draft)
        size += own + 1
    if group:
        yield group


def _alone(draft: Draft) -> bool:
    return draft.needle is not None and draft.needle.where in (Where.TAG, Where.TAIL)


def _subtopic(draft: Draft, number: int) -> str:
    if draft.needle is not None and draft.needle.where is Where.TAG:
        return draft.needle.planted
    return f"{draft.tags[0]}-{'-'.join(draft.title.lower().split()[:2])}-{number}"


def entry_text(draft: Draft) -> str:
    """One entry of a topic file, parted after the first sentences: context, problem, solution."""
    parts = draft.body.split(". ", 2)
    labels = ("Context", "Problem", "Solution")[-len(parts) :]
    said = "\n".join(f"**{label}:** {part}" for label, part in zip(labels, parts, strict=True))
    return f"## {iso(draft.created)[:10]}: {draft.title}\n\n{said}\n\n---\n"


# --- session-files


def sessions(root: Path, *_: object) -> Write:
    def write(drafts: Iterable[Draft]) -> Written:
        waiting: list[Draft] = []
        for draft in drafts:
            waiting.append(draft)
            if len(waiting) > waiting[0].number % SESSION:
                yield from _session(root, waiting)
                waiting = []
        if waiting:
            yield from _session(root, waiting)

    return write


def _session(root: Path, drafts: list[Draft]) -> Written:
    path, content = session_file(drafts, iso(drafts[0].created)[:10])
    (root / path).parent.mkdir(exist_ok=True)
    put(root / path, content)
    return ((draft, Place(path)) for draft in drafts)


def session_file(drafts: list[Draft], day: str) -> tuple[str, bytes]:
    """The path and the content of a session of one day, at the time of its first memory."""
    stamp = f"{day}{iso(drafts[0].created)[10:]}"
    name = f"{stamp[:19].replace('T', '-').replace(':', '-')}-{drafts[0].tags[0]}-{drafts[0].number}"
    native = {
        "session_id": name,
        "timestamp": stamp,
        "last_updated": stamp,
        "extraction_count": 1,
        "memories": [session_memory(draft) for draft in drafts],
        "suggestions": [],
    }
    return f"{name[:10]}/{name[11:]}.json", pretty(native) + b"\n"


def session_memory(draft: Draft) -> dict[str, Any]:
    """One memory of a session."""
    first = draft.body.split(". ", 1)[0][:80] if draft.needle is None else "what was said"
    return {
        "type": EXTRACTED[draft.number % 5],
        "category": "technical",
        "title": draft.title[:100],
        "content": draft.body,
        "source_chunk": f"**User:** {first}?\n**Assistant:** noted.",
        "reasoning": "measured",
        "alternatives": [{"option": "leave it", "why_not": "slower"}],
        "selected_option": "change it",
        "confidence_score": 50 + draft.number % 51,
        "related_entities": [{"type": "project", "raw": "memoryd", "slug": "memoryd", "resolved": True}],
        "tools_mentioned": list(draft.tags),
        "urls_mentioned": [],
        "target_agents": ["reviewer"],
    }


# --- user-document


def documents(root: Path, count: int, users: int | None, embeddings: bool) -> Write:
    users = users or max(1, -(-count // USER))

    def write(drafts: Iterable[Draft]) -> Written:
        at, waiting = 0, list[Draft]()
        for draft in drafts:
            user = draft.number * users // count
            if user != at:
                yield from _document(root, at, waiting, embeddings=embeddings)
                at, waiting = user, []
            waiting.append(draft)
        yield from _document(root, at, waiting, embeddings=embeddings)

    return write


def _document(root: Path, user: int, drafts: list[Draft], *, embeddings: bool) -> Written:
    path = f"user-{user:04}/__long-memories/data.json"
    (root / path).parent.mkdir(parents=True)
    memories = [user_memory(draft, embeddings=embeddings) for draft in drafts]
    stamp = iso(drafts[-1].created)
    put(root / path, user_document(memories, stamp))
    return (
        (draft, Place(path, user_document([memory], stamp) if draft.needle else None))
        for draft, memory in zip(drafts, memories, strict=True)
    )


def user_document(memories: Iterable[bytes], stamp: str) -> bytes:
    """The document of a user with these memories."""
    return _DOCUMENT % (b",".join(memories), stamp.encode())


def user_memory(draft: Draft, *, embeddings: bool = True) -> bytes:
    """One memory of a user's document."""
    said = msgspec.json.encode(_remembered(draft))
    if not embeddings:
        return b'{"data":%b}' % said
    return b'{"data":%b,"embedding":%b}' % (said, _vectors()[draft.number % VECTORS])


def _remembered(draft: Draft) -> dict[str, Any]:
    needle = draft.needle
    return {
        "id": draft.created,
        "content": f"{draft.title}. {draft.body}" if needle and needle.where is Where.TITLE else draft.body,
        "importance": draft.number % 11 / 10,
        "category": KINDS[draft.number % 4],
        "topics": draft.tags,
    }


@cache
def _vectors() -> list[bytes]:
    """Meaningless ones, with few digits: what counts is that they are there and how many."""
    random = Random("vectors")
    return [msgspec.json.encode([round(random.gauss(0, 0.05), 3) for _ in range(DIMENSION)]) for _ in range(VECTORS)]
