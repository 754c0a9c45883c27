"""A JSONL store as one finds it after a year: some of it old, some of it broken, its index long out of date."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

DAY = 86_400
HOUR = 3600

CORE = (
    ("preference", "The user prefers pytest over unittest.", "high"),
    ("fact", "The project formats with black, line length 88.", "medium"),
    ("preference", "Answers in German, code and comments in English.", "high"),
    ("fact", "Releases go out on Thursdays, never on a Friday.", "medium"),
)
LEARNINGS = (  # days since the last use
    (2, "The staging database resets every Monday at 06:00 UTC."),
    (5, "Retry the payment gateway twice, then report; the third time it locks the account."),
    (9, "`make docs` needs graphviz, or it fails without a word."),
    (14, "Time zones: the importer writes local time, the API wants UTC."),
    (21, "The CI cache key must hold the Python version."),
    (33, "pandas 2 changed the default of group_keys."),
    (48, "The mail server refuses attachments above 20 MB."),
    (95, "The old API answered 200 even for errors."),
    (140, "Feature flag `new-checkout` was for the summer test."),
    (203, "Node 18 was pinned because of the sharp build."),
    (260, "The first data import took nine hours on the small machine."),
)
TASKS = (  # status, days since it was worked on or completed
    ("completed", 36, "Move the nightly job to the new runner."),
    ("completed", 58, "Write the post-mortem of the login outage."),
    ("completed", 120, "Rename the package."),
    ("completed", 6, "Upgrade to PostgreSQL 17."),
    ("in-progress", 170, "Replace the hand-made date parser."),
    ("blocked", 40, "Turn on two-factor login for the team."),
)


class Damage(NamedTuple):
    """One thing broken on purpose: the finding that names it, where it is, and what it is in plain words."""

    code: str
    path: str
    line: int | None
    words: str


def memory(kind: str, content: str, *, days: float, now: float, **more: Any) -> dict[str, Any]:
    """One memory by the seed's schema, last used so many days ago."""
    used = _stamp(now - days * DAY)
    return {
        "id": str(uuid.uuid4()),
        "type": kind,
        "content": content,
        "created_at": _stamp(now - (days + 3) * DAY),
        "updated_at": used,
        "accessed_at": used,
        "access_count": 1,
        "tags": [],
        "importance": "medium",
        "archived": False,
        **more,
    }


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _line(native: dict[str, Any]) -> bytes:
    return json.dumps(native, separators=(",", ":"), ensure_ascii=False).encode()


def build(directory: str, now: float | None = None) -> tuple[Damage, ...]:
    """Make the store in `directory` (which is made); returns what is wrong with it."""
    at = time.time() if now is None else now
    os.mkdir(directory)
    core, learnings, tasks = _core(at), _learnings(at), _tasks(at)
    _put(directory, "core_memories.jsonl", b"\n".join(core), 0o644)
    _put(directory, "learnings.jsonl", b"\n".join(learnings) + b"\n", 0o644)
    _put(directory, "tasks.jsonl", b"\n".join(tasks) + b"\n", 0o600)
    _put(directory, "index.json", _stale_index(json.loads(core[0]), at), 0o644)
    for name in os.listdir(directory):
        os.utime(os.path.join(directory, name), (at - HOUR, at - HOUR))
    os.chmod(directory, 0o755)  # noqa: S103 - too wide on purpose: memoryd is to find it
    wide = ("", "core_memories.jsonl", "learnings.jsonl", "index.json")
    return (
        Damage("torn-tail", "core_memories.jsonl", len(core), "is cut off: its writer died half-way"),
        Damage("invalid-encoding", "learnings.jsonl", 4, "is not UTF-8"),
        Damage("joined-lines", "learnings.jsonl", 6, "holds two memories glued together"),
        Damage("duplicate-id", "learnings.jsonl", len(learnings), "has an id that stands above already"),
        Damage("invalid-json", "tasks.jsonl", 3, "is no JSON: a line was written into another"),
        *(Damage("wide-permissions", path, None, "lets other users in") for path in wide),
    )


def _put(directory: str, name: str, content: bytes, mode: int) -> None:
    path = os.path.join(directory, name)
    with open(path, "xb") as file:
        file.write(content)
    os.chmod(path, mode)


def _core(now: float) -> list[bytes]:
    lines = [
        _line(memory("core", content, days=20 + 9 * at, now=now, category=category, importance=importance))
        for at, (category, content, importance) in enumerate(CORE)
    ]
    torn = _line(memory("core", "The user works from Lisbon in winter.", days=1, now=now))
    return [*lines, torn[: len(torn) // 2]]


def _learnings(now: float) -> list[bytes]:
    natives = [memory("learning", content, days=days, now=now, tags=["ops"]) for days, content in LEARNINGS]
    lines = [_line(native) for native in natives]
    latin = memory("learning", "Das Café am Markt hat WLAN.", days=3, now=now)
    lines.insert(3, json.dumps(latin, separators=(",", ":"), ensure_ascii=False).encode("latin-1"))
    lines[5:7] = [lines[5] + lines[6]]
    again = {**natives[0], "content": "The staging database resets on Mondays.", "updated_at": _stamp(now - HOUR)}
    return [*lines, _line(again)]


def _tasks(now: float) -> list[bytes]:
    lines = [_line(_task(status, days, content, now)) for status, days, content in TASKS]
    stray = _line(_task("in-progress", 80, "Tidy up the wiki.", now))
    return [*lines[:2], stray[:90] + stray[40:200], *lines[2:]]


def _task(status: str, days: float, content: str, now: float) -> dict[str, Any]:
    about: dict[str, Any] = {"status": status}
    if status == "completed":
        about |= {"completed_at": _stamp(now - days * DAY), "outcome": "done"}
    if status == "blocked":
        about |= {"blockers": ["waiting for the hardware keys"]}
    return memory("task", content, days=days, now=now, category="work", task_metadata=about)


def _stale_index(first: dict[str, Any], now: float) -> bytes:
    """Written once, a hundred days ago, when there were two memories; one of them is long gone."""
    ids = [first["id"], str(uuid.uuid4())]
    index = {
        "version": "1.0.0",
        "last_updated": _stamp(now - 100 * DAY),
        "statistics": {
            "total_memories": 2,
            "by_type": {"core": 2, "learning": 0, "task": 0},
            "archived_count": 0,
            "total_storage_bytes": 640,
        },
        "tags_index": {},
        "category_index": {"preference": ids},
        "importance_index": {"high": ids, "medium": [], "low": []},
    }
    return json.dumps(index, indent=2).encode()


def new_memories(kind: str, contents: Iterable[str], **more: Any) -> list[dict[str, Any]]:
    """What an agent of the demo is going to write; it stamps them itself."""
    return [memory(kind, content, days=0, now=time.time(), **more) for content in contents]
