"""Reading a user's document: its memories with their spans, the embeddings inspected and left where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.digest import sha256
from memoryd.core.findings import Finding
from memoryd.core.json_elements import last
from memoryd.core.records import Document, Record
from memoryd.core.secrets import headed
from memoryd.layouts.one_document import FRESH_S, marks, sound, text_of, unread
from memoryd.layouts.user_document import schema
from memoryd.layouts.user_document.cutting import Item, Taken, decoded, looked_at
from memoryd.layouts.user_document.embeddings import ABSENT, Embedding, common_size, looked_into, problem_of
from memoryd.layouts.user_document.vectors import Vector, vector

FILE = "__long-memories/data.json"
STAMPS = ("updated_at", "last_deduplicated_at")


class _Text(NamedTuple):
    """A file under reading; `embeddings` by the number of their element, with their vectors where these are known
    already; `common` is the length most of them have."""

    path: str
    data: bytes
    taken: Taken
    embeddings: Mapping[int, tuple[Embedding, Vector | None]]
    common: int


def user_of(path: str) -> str:
    """Whose document this is: the path before `__long-memories/`; "" for the root itself."""
    return path.removesuffix(FILE).rstrip("/")


def parse(path: str, data: bytes, *, now: float, mtime: float) -> Document:
    whole, taken = looked_at(data)
    if whole.value is None:
        return unread(path, whole, "corrupt-file", now=now, mtime=mtime)
    if whole.rest is not None and (taken is None or abs(now - mtime) < FRESH_S):
        why = "the document is followed by other bytes"
        return unread(path, whole._replace(problem=why), "corrupt-file", now=now, mtime=mtime)
    if taken is None:
        message = "is no object with a list of memories; the program would begin an empty one over it"
        return Document(path, (), (Finding("wrong-shape", path, message),), 1, 1)
    embeddings = {n: _embedding(data, item) for n, item in enumerate(taken.items) if item is not None}
    text = _Text(path, data, taken, embeddings, common_size(each.size for each, _ in embeddings.values()))
    records = list(_records(text))
    stamps = _stamps(data, taken)
    findings = [*marks(path, data, whole), *_findings(text, records, stamps)]
    facts = _facts(path, records, text.common, stamps) | {"damaged": whole.rest is not None}
    units = len(taken.elements)
    return Document(path, tuple(records), tuple(findings), units, units - len(records), facts=facts)


def _embedding(data: bytes, item: Item) -> tuple[Embedding, Vector | None]:
    return looked_into(data, item.embedding) if item.embedding is not None else (ABSENT, None)


def _stamps(data: bytes, taken: Taken) -> list[Any]:
    """`updated_at` and `last_deduplicated_at` as they stand, None where missing."""
    found = (last(taken.members, key) for key in STAMPS)
    return [decoded(member.value.of(data)) if member else None for member in found]


def _records(text: _Text) -> Iterator[Record]:
    user, data = user_of(text.path), text.data
    seen: Counter[str] = Counter()
    line, at = 1, 0
    for number, item in enumerate(text.taken.items):
        if item is None:
            continue
        line, at = line + data.count(b"\n", at, item.span.start), item.span.start
        identity = _id(user, item.data.value.of(data), seen)
        yield _record(item, user, line, identity, _vector(text, item, *text.embeddings[number]))


def _vector(text: _Text, item: Item, embedding: Embedding, known: Vector | None) -> Vector | None:
    """None where no vector work may use it."""
    if item.embedding is None or problem_of(embedding, text.common) is not None:
        return None
    return known if known is not None else vector(item.embedding.of(text.data))


def _record(item: Item, user: str, line: int, identity: str, embedding: Vector | None) -> Record:
    native = item.native
    category, topics = text_of(native, "category") or schema.CATEGORY, tuple(map(sound, schema.topics(native)))
    level, (title, said) = schema.importance(native), headed(native["content"])
    facts = {
        "user": user,
        "number": schema.number_of(native),
        "importance": level,
        "embedding": len(embedding) if embedding is not None else 0,
    }
    return Record(
        item.span,
        line,
        identity,
        category,
        sound(title),
        schema.created(native),
        None,
        topics,
        False,
        native,
        facts,
        text=sound(said),
        labels=(category, *topics),
        weight=level,
        owner=sound(user),
        embedding=embedding,
    )


def _id(user: str, text: bytes, seen: Counter[str]) -> str:
    identity = identity_of(user, text)
    seen[identity] += 1
    return told_apart(identity, seen[identity])


def identity_of(user: str, text: bytes) -> str:
    """`user/<hash of the data's bytes>`: it does not depend on where the memory stands."""
    digest = digest_of(text)
    return sound(f"{user}/{digest}" if user else digest)


def digest_of(text: bytes) -> str:
    return sha256(text)[:12]


def told_apart(identity: str, number: int) -> str:
    """Of equal bytes the second is `.2`, the third `.3`."""
    return identity if number == 1 else f"{identity}.{number}"


def _findings(text: _Text, records: Sequence[Record], stamps: Sequence[Any]) -> Iterator[Finding]:
    path, data, taken = text.path, text.data, text.taken
    for problem in (*schema.check_stamps(*stamps), *schema.check_size(len(taken.elements))):
        yield Finding(problem.code, path, problem.message)
    if len({member.key for member in taken.members}) < len(taken.members):
        yield Finding("duplicate-key", path, "the document names one key twice; the last value counts")
    for number, reason in taken.reasons.items():
        line = data.count(b"\n", 0, taken.elements[number].start) + 1
        yield Finding("invalid-schema", path, f"memories[{number}]: {reason}; skipped and kept", line)
    known = iter(records)
    for number, item in enumerate(taken.items):
        if item is not None:
            yield from _of_memory(path, number, item, next(known), problem_of(text.embeddings[number][0], text.common))


def _of_memory(path: str, number: int, item: Item, record: Record, vector: tuple[str, str] | None) -> Iterator[Finding]:
    problems = [*schema.check(item.native), *([schema.Problem(*vector)] if vector else [])]
    for problem in problems:
        yield Finding(problem.code, path, f"memories[{number}]: {problem.message}", record.line, record.id)


def _facts(path: str, records: Sequence[Record], common: int, stamps: Sequence[Any]) -> dict[str, Any]:
    updated, deduplicated = (parse_stamp(each) for each in stamps)
    return {
        "user": user_of(path),
        "dimension": common,
        "updated": updated.seconds if updated else None,
        "deduplicated": deduplicated.seconds if deduplicated else None,
        "by_type": dict(Counter(record.type for record in records)),
    }
