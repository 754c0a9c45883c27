"""What the tests of storing into user documents share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memoryd.layouts.protocol import NewMemory, WritePlan
from memoryd.layouts.user_document import USER_DOCUMENT
from tests.layouts.contract import NOW, Files, carried_out
from tests.layouts.storehouse import Embed, done, find, records_of, view_of
from tests.layouts.test_user_document import ALICE, doc, item, text

STORE = USER_DOCUMENT
STAMP = "2026-01-31T10:00:00Z"  # what NOW is in the seed's form
VECTOR = [0.25, -1e-05, 3]
PLAIN = text(doc(item("likes tea"), item("has a dog", (0.0, 1.0, 0.0), id=2)))
# Everything that a rewrite by a parser would change: spaces, number forms, escapes, repeated and unknown keys.
ODD = (
    b'\xef\xbb\xbf{\n "version" : 1.0, "memories": [ {"embedding" : [1.0, 0.10e0, -0], "data":\t'
    b'{"content": "caf\\u00e9", "id": 12345678901234567890, "extra": {"a" : 1E2}, "importance": 0.50} } ,\n\n'
    b'  {"data": {}},  {"data": {"content":"b","id":1,"topics":[ "x" ] ,"content":"c"},"embedding":[0.5,0.5,5e-1],'
    b'"x":[]} ],\n "updated_at": "2026-01-21 22:02:47.113258+02:00", "last_deduplicated_at": null }\n'
)


def embedder(text: str, size: int) -> Sequence[float] | None:
    """One model of vectors of 3 numbers, by the length and the first letters of a text."""
    return [len(text) / 10, ord(text[0]) / 100, ord(text[-1]) / 100] if size == 3 else None


def add(files: Files, memory: dict[str, Any], user: str = "", *, embed: Embed | None = None) -> WritePlan:
    return STORE.require_writer().add(
        view_of(STORE, files, embed=embed), NewMemory(memory, {"user": user} if user else {})
    )


def added(files: Files, memory: dict[str, Any], user: str = "", *, embed: Embed | None = None) -> bytes:
    stored = add(files, memory, user, embed=embed)
    return done(STORE, files, stored)[stored.path]


def one(files: Files, content: str) -> str:
    """The id of the first memory that says this."""
    return next(each.id for _, each in records_of(STORE, files).values() if each.native["content"] == content)


def updated(data: bytes, content: str, changes: dict[str, Any], *, embed: Embed | None = None) -> bytes:
    files = {ALICE: data}
    found = find(STORE, files, one(files, content))
    stored = STORE.require_writer().update(view_of(STORE, files, embed=embed), found, changes)
    return done(STORE, files, stored)[ALICE]


def forgotten(files: Files, identity: str) -> tuple[WritePlan, Files]:
    stored = STORE.require_writer().forget(view_of(STORE, files), find(STORE, files, identity))
    return stored, carried_out(files, stored.plan)


def put_back(files: Files, stored: WritePlan) -> tuple[WritePlan, Files]:
    assert stored.removed is not None
    again = STORE.require_writer().restore(view_of(STORE, files, now=NOW + 60), stored.path, [stored.removed])
    return again, done(STORE, files, again)


def last_of(data: bytes) -> Any:
    return json.loads(data.removeprefix(b"\xef\xbb\xbf"))["memories"][-1]
