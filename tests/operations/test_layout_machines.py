"""Anything in any order, for each layout but the JSONL store (which has test_store_machine.py).

After every step the index files are what a rebuild from nothing but the files would write, a second pass writes
nothing, and every memory that no agent took out itself stands in live files, archive or quarantine.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from memoryd.core.dates import iso_ms
from memoryd.core.defaults import DAY, Policy
from memoryd.index.sqlite import SqliteIndex
from memoryd.layouts.json_files import JSON_FILES
from tests.examples import DEEP
from tests.layouts.contract import NOW, index_of
from tests.layouts.json_samples import identity, memory, name, pretty
from tests.layouts.session_samples import TWENTY, path_of, session, text
from tests.layouts.session_samples import memory as session_memory
from tests.operations import faults
from tests.operations.machine import LayoutMachine

pytestmark = pytest.mark.slow


def _json(content: bytes) -> Any:
    """Return the JSON object in a text; None if there is none."""
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class JsonFilesMachine(LayoutMachine):
    layout = "json-files"
    jobs = ("archive", "dedupe")
    policy = Policy(archive_flag=True, backups=3)
    places = (*map(name, range(5)), "memory_20250609163800_1.json")
    foreign_index = (
        ("_index.json", b"{"),
        ("_index.json", b"{}"),
        ("_index.json", None),
        ("_index.json", pretty({"fileIndex": {"mem_1_a": name(0)}, "mine": [1.0]})),
        ("_stats.json", b'{"totalMemories": 99, "mine": {}}'),
        ("_stats.json", None),
    )

    def compose(self, path: str, data: st.DataObject) -> bytes:
        told = f"remember {self.new_word()}"
        old = data.draw(st.sampled_from((91, 0, 89, None)))
        return pretty(
            memory(
                self.written,
                content=told,
                type=data.draw(st.sampled_from(("decision", "pattern", "mine", None))),
                projectId=data.draw(st.sampled_from(("p", "q", None))),
                tags=data.draw(st.sampled_from((["a"], ["a", "b"], [], None))),
                relevanceScore=data.draw(st.sampled_from((0.1, 1))),
                created=None if old is None else iso_ms(NOW - old * DAY),
                metadata=data.draw(st.sampled_from(({}, {"much": "more " * 9}))),
            )
        )

    def edited(self, path: str, content: bytes, data: st.DataObject) -> bytes:
        native = _json(content)
        if native is None:
            return self.compose(path, data)
        how = data.draw(st.sampled_from(("access", "tags", "shorter", "other id")))
        changes: dict[str, dict[str, Any]] = {
            "access": {"accessCount": 3, "lastAccessed": iso_ms(self.now)},
            "tags": {"tags": ["c"], "version": 2},
            "shorter": {"metadata": {}, "summary": ""},
            "other id": {"id": identity(data.draw(st.integers(900, 901)))},
        }
        return pretty({**native, **changes[how]})

    def depends_on_the_index(self) -> bool:
        """Two files with one id: the one that the index names counts."""
        ids = [each.id for each in self.store.catalogue.entries(self.sources())]
        return len(set(ids)) < len(ids)

    def meaning(self, root: Path) -> Any:
        empty = index_of(JSON_FILES, {"_index.json": b"{}"}).files  # where no memory ever was there is no index
        index, stats = (
            json.loads((root / each).read_bytes() if (root / each).exists() else empty[each])
            for each in ("_index.json", "_stats.json")
        )
        assert "temporalIndex" in index
        times = [(each["timestamp"], each["id"]) for each in index["temporalIndex"]]
        assert [when for when, _ in times] == sorted((when for when, _ in times), reverse=True)
        return (
            [_filled(index[key]) for key in ("projectIndex", "typeIndex", "tagIndex", "entityIndex")],
            sorted(times),
            index["fileIndex"],
            [
                stats["totalMemories"],
                stats["averageRelevanceScore"],
                *map(_filled, (stats["byType"], stats["byProject"])),
            ],
        )


def _filled(buckets: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty buckets, and the order in the others: neither has a meaning."""
    return {key: sorted(each) if isinstance(each, list) else each for key, each in buckets.items() if each}


class MarkdownTopicsMachine(LayoutMachine):
    layout = "markdown-topics"
    jobs = ("prune",)
    copies_ahead = True
    policy = Policy(backups=3)
    places = ("a/b.md", "a/c.md", "a/d/e.md", "notes.md", "x y/z.md")
    foreign_index = (
        ("index.md", None),
        ("index.md", b""),
        ("index.md", b"# Memory Index\n\n## Topics\n### A\n- `gone.md` - By hand\n- `b.md` - By hand"),
        ("index.md", b"My own words.\n"),
        ("index.md", b"# Memory Index\n\n## Topics\n\n```\nopen\n"),
        ("index.md", b"# Memory Index\r\n\r\n## Topics\r\n\r\n## Others\r\nMine.\r\n"),
    )

    def compose(self, path: str, data: st.DataObject) -> bytes:
        count = data.draw(st.sampled_from((11, 13, 3, 1, 0)))
        head = data.draw(st.sampled_from((b"", b"# Title\n\nIntroduction.\n\n", b"---\ntags: a\n---\n")))
        size = data.draw(st.sampled_from((0, 600)))
        return head + b"".join(self.entry(data, size) for _ in range(count)) + (b"" if count else b"Just a note.\n")

    def entry(self, data: st.DataObject, size: int = 0) -> bytes:
        day = data.draw(st.sampled_from(("2026-01-02", "2025-06-01", "2025-05-31", "2024-12-15")))
        title = data.draw(st.sampled_from(("One", "Other")))
        lines = ["**Context:** c", "**Problem:** p", f"**Solution:** {self.new_word()} {'s' * size}", "---"]
        return f"## {day}: {title}\n{chr(10).join(lines)}\n".encode()

    def edited(self, path: str, content: bytes, data: st.DataObject) -> bytes:
        how = data.draw(st.sampled_from(("top", "end", "cut", "bare", "fence", "crlf")))
        if how == "top":
            at = content.find(b"## ")
            at = len(content) if at < 0 else at
            return content[:at] + self.entry(data) + content[at:]
        if how == "end":
            return content + self.entry(data)  # glued to what stands there without its newline
        if how == "cut":
            starts = [match.start() for match in re.finditer(rb"^## ", content, re.MULTILINE)]
            at = data.draw(st.sampled_from(starts)) if starts else 0
            return content[:at] + content[at:].partition(b"---\n")[2]
        return {
            "bare": content.rstrip(b"\n"),
            "fence": content + b"```\n",
            "crlf": content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
        }[how]

    def meaning(self, root: Path) -> Any:
        found = root / "index.md"
        return Counter(re.findall(rb"^- `([^`]+)`", found.read_bytes() if found.exists() else b"", re.MULTILINE))

    def depends_on_the_index(self) -> bool:
        """An index that memoryd cannot manage stays unchanged."""
        return any(each.code == "index-unmanaged" for each in self.store.root_findings["index"])


class SessionFilesMachine(LayoutMachine):
    layout = "session-files"
    copies_ahead = True
    jobs = ("archive", "dedupe")
    policy = Policy(archive_sessions=True, backups=3)
    places = tuple(
        path_of(each)
        for each in (
            "2025-10-01-09-00-00-one",
            "2025-10-01-09-00-00-two",
            "2025-10-31-23-59-59-three",
            "2025-11-01-00-00-00-four",
            "2026-01-30-14-30-00-five",
        )
    )
    foreign_index = (
        ("archive/aggregate/2025-10.json", b"{"),
        ("archive/aggregate/2025-10.json", b'{\n  "month": "2025-10",\n  "sessions": [],\n  "mine": 1.0\n}\n'),
        ("archive/aggregate/2025-10.json", None),
        ("archive/aggregate/2025-11.json", b"[]"),
        ("archive/aggregate/2025-11.json", None),
        ("archive.log", b"archived 1 session\n"),
    )

    def one(self, data: st.DataObject) -> dict[str, Any]:
        title = data.draw(st.sampled_from(("Use msgspec", "Use msgspec", "Pin it")))
        told = data.draw(st.sampled_from((TWENTY, TWENTY, "Something short:")))
        score = data.draw(st.sampled_from((60, 80, 90, None)))
        return session_memory(title, f"{told} {self.new_word()}", confidence_score=score)

    def compose(self, path: str, data: st.DataObject) -> bytes:
        told = path.removesuffix(".json").replace("/", "-")
        memories: list[Any] = [self.one(data) for _ in range(data.draw(st.sampled_from((3, 4, 2, 1, 0))))]
        memories += data.draw(st.sampled_from(([], [], ["no object"])))
        fields: dict[str, Any] = data.draw(
            st.sampled_from(({}, {"session_id": "twice"}, {"timestamp": None, "last_updated": None}))
        )
        return text(session(*memories, name=told, **fields))

    def edited(self, path: str, content: bytes, data: st.DataObject) -> bytes:
        native = _json(content)
        if native is None or not isinstance(native.get("memories"), list):
            return self.compose(path, data)
        memories = list(native["memories"])
        how = data.draw(st.sampled_from(("add", "drop", "again", "wrong shape")))
        if how == "wrong shape":
            return b"[]\n"
        if how == "add" or not memories:
            memories.append(self.one(data))
        elif how == "drop":
            del memories[data.draw(st.integers(0, len(memories) - 1))]
        else:
            memories.append(memories[0])
        return text({**native, "memories": memories})


class UserDocumentMachine(LayoutMachine):
    layout = "user-document"
    jobs = ("dedupe",)
    policy = Policy(backups=3)
    places = tuple(f"{each}__long-memories/data.json" for each in ("", "files/alice/", "files/bob/app/agent/"))

    def one(self, data: st.DataObject) -> dict[str, Any]:
        told = {
            "id": 1_767_225_600,
            "content": f"likes {self.new_word()}",
            "importance": data.draw(st.sampled_from((0.2, 0.5, 0.9))),
            "category": data.draw(st.sampled_from(("general", "work"))),
            "topics": data.draw(st.sampled_from(([], ["tea"], ["tea", "Ü"]))),
        }
        vectors = ([1.0, 0.0, 0.0], [0.99, 0.1, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0], None)
        return {"data": told, "embedding": data.draw(st.sampled_from(vectors))}

    def compose(self, path: str, data: st.DataObject) -> bytes:
        items: list[Any] = [self.one(data) for _ in range(data.draw(st.sampled_from((3, 5, 2, 1, 0))))]
        items += data.draw(st.sampled_from(([], [], [{"data": {}}])))
        stamp = data.draw(st.sampled_from(("2025-12-31T12:00:00Z", "2026-11-21T22:02:47.113258+00:00")))
        return _compact({"memories": items, "updated_at": stamp, "last_deduplicated_at": None})

    def edited(self, path: str, content: bytes, data: st.DataObject) -> bytes:
        native = _json(content)
        if native is None or not isinstance(native.get("memories"), list):
            return self.compose(path, data)
        items = list(native["memories"])
        how = data.draw(st.sampled_from(("add", "drop", "again", "clear")))
        if how == "add" or not items:
            items.append(self.one(data))
        elif how == "drop":
            del items[data.draw(st.integers(0, len(items) - 1))]
        else:
            items = [*items, items[0]] if how == "again" else []
        return _compact({**native, "memories": items})


def _compact(native: Any) -> bytes:
    return json.dumps(native, separators=(",", ":"), ensure_ascii=False).encode()


def _settings(examples: int, steps: int = 20) -> settings:
    """Return small, reproducible settings, or those of the profile `deep` if it is selected."""
    if DEEP:
        deep = settings.get_profile("deep")
        examples, steps = deep.max_examples, deep.stateful_step_count
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not DEEP,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


MACHINES: list[type[LayoutMachine]] = [
    JsonFilesMachine,
    MarkdownTopicsMachine,
    SessionFilesMachine,
    UserDocumentMachine,
]


def _forget_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqliteIndex, "forget", lambda *_: None)


FAULTS: dict[str, tuple[type[LayoutMachine], Callable[[pytest.MonkeyPatch], None]]] = {
    "forgets no file": (JsonFilesMachine, _forget_nothing),
    "takes any index for right": (JsonFilesMachine, partial(faults.never_rewrite_index, name="json-files")),
    "archives without a copy": (MarkdownTopicsMachine, faults.move_without_copy),
    "lists what is gone": (MarkdownTopicsMachine, _forget_nothing),
    "moves without a copy": (SessionFilesMachine, faults.move_without_copy),
    "merges without keeping": (UserDocumentMachine, faults.merge_without_quarantine),
    "rolls nothing back": (SessionFilesMachine, partial(faults.keep_copies, kind="create")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_canary(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """The machines must detect that memoryd loses, doubles or forgets."""
    machine, put_in = FAULTS[fault]
    put_in(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(machine, settings=_settings(600))  # it ends with the first that is found


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.layout)
def test_any_history(machine: type[LayoutMachine]) -> None:
    run_state_machine_as_test(machine, settings=_settings(18))
