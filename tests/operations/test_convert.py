"""`convert`: what is read is carried or listed, whatever the layouts; the source stays as it is; all or nothing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.config.settings import Config, RootConfig
from memoryd.core.dates import iso, iso_ms
from memoryd.core.progress import ProgressMeter
from memoryd.core.records import ParseOffset, Record
from memoryd.disk import atomic
from memoryd.errors import ConflictError, DiskError, UsageError
from memoryd.layouts.registry import LAYOUTS
from memoryd.operations import convert
from memoryd.operations.convert import ConvertResult, Options, plan_conversion
from memoryd.operations.offline import check_path
from memoryd.operations.refresh import READ_ROLES
from tests.examples import DEEP, examples
from tests.layouts import json_samples, samples, session_samples
from tests.layouts.contract import NOW, OLD, Files

WRITABLE = [name for name, layout in LAYOUTS.items() if layout.writer is not None]
VECTOR = [0.5, 0.25, -1.0]
# What a text can do to a format: another entry, fences, labels, secrets, limits, line ends, white space, controls.
SHARDS = (
    "## 2026-01-01: Another", "---", "```", "~~~\ncode\n~~~", "**Solution:** none", "# Title", "password: x", " ", "\n",
    "\r\n", "\x01", "\0", "ghp_" + "a1B2" * 9, "é" * 40, "東京", "x" * 5001, '"quoted"\\', "plain words", "<!-- -->",
)  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(SHARDS), st.text(max_size=30)), min_size=1, max_size=3).map("\n".join)
NAMES = st.one_of(st.sampled_from(("", "deploy", "archive", "a/b", "Long " * 30, "é")), st.text(max_size=12))


class Memory(NamedTuple):
    text: str
    title: str = "A title"
    type: str = "decision"
    category: str = ""
    tags: tuple[str, ...] = ()
    created: float = OLD
    importance: str = "medium"
    archived: bool = False


MEMORIES = st.lists(
    st.builds(
        Memory,
        text=TEXTS,
        title=NAMES,
        type=st.one_of(st.sampled_from(("learning", "task", "decision")), NAMES),
        category=NAMES,
        tags=st.lists(NAMES, max_size=3).map(tuple),
        created=st.one_of(st.sampled_from((OLD, OLD - 0.25, NOW - 90_000)), st.integers(1, 1_700_000_000).map(float)),
        importance=st.sampled_from(("high", "medium", "low")),
        archived=st.booleans(),
    ),
    max_size=14,
)


def json_files(memories: Sequence[Memory]) -> Files:
    files = {
        json_samples.name(number): json_samples.file(
            number, content=each.text, summary=each.title, type=each.type, tags=[*each.tags], archived=each.archived,
            created=iso_ms(each.created), lastAccessed=iso_ms(each.created), confidence=0.9, accessCount=number,
        )
        for number, each in enumerate(memories)
    }  # fmt: skip
    return files | {json_samples.name(99): b'{"id": "mem_1', json_samples.name(98): json_samples.file(98) + b"e\n}"}


def jsonl_store(memories: Sequence[Memory]) -> Files:
    files: Files = {"learnings.jsonl": b"{broken\n"}
    for number, each in enumerate(memories):
        kind = each.type if each.type == "task" else "learning"
        path = {"task": "tasks.jsonl", "learning": "learnings.jsonl"}[kind]
        path = f"archive/2025/{path[:-6]}_2025_Q4.jsonl" if each.archived else path
        native = samples.memory(
            number, kind, content=each.text or "x", category=each.category or None, tags=[*each.tags], mood="odd",
            created_at=iso_ms(each.created), importance=each.importance, archived=each.archived,
        )  # fmt: skip
        files[path] = files.get(path, b"") + samples.line(native) + b"\n"
    return files


def session_files(memories: Sequence[Memory]) -> Files:
    by_path: dict[str, list[Any]] = {}
    for each in memories:
        session = iso(each.created)[:19].replace("T", "-").replace(":", "-") + "-work"
        path = f"archive/{session[:7]}/{session}.json" if each.archived else session_samples.path_of(session)
        native = session_samples.memory(each.title, each.text, type=each.type, category=each.category)
        by_path.setdefault(f"{path}\n{session}", []).append(native)
    return {
        key.partition("\n")[0]: session_samples.text(session_samples.session(*natives, "no memory", name=name))
        for key, natives in by_path.items()
        if (name := key.partition("\n")[2])
    }


def user_document(memories: Sequence[Memory]) -> Files:
    users: dict[str, list[Any]] = {"alice": [{"data": {}}], "bob": []}
    for number, each in enumerate(memories):
        data = {"id": int(each.created), "content": each.text, "category": each.category, "topics": [*each.tags]}
        vector = VECTOR[: 2 + number % 2] if number % 5 else VECTOR
        users["alice" if number % 3 else "bob"].append({"data": data, "embedding": vector})
    return {
        f"{user}/__long-memories/data.json": json.dumps({"memories": items, "updated_at": iso(OLD)}, indent=1).encode()
        for user, items in users.items()
    }


def markdown_topics(memories: Sequence[Memory]) -> Files:
    files: Files = {"notes/plain.md": b"# Plain\n\nNo entries here.\n"}
    for each in memories:
        title = " ".join(each.title.split()).replace("\0", "") or "T"
        path = "archive/work/2025.md" if each.archived else f"work/{len(each.type) % 3}.md"
        entry = f"## {iso(each.created)[:10]}: {title}\n\n**Context:** {each.text}\n\n---\n\n".encode()
        files[path] = files.get(path, b"# Work\n\n") + (b"<!-- from: 1.md -->\n" if each.archived else b"") + entry
    return files


def notes(memories: Sequence[Memory]) -> Files:
    files: Files = {"bad.md": b"\xff\xfe"}
    for number, each in enumerate(memories):
        head = f"---\ntitle: t{number}\ncreated: {iso(each.created)}\nmood: odd\n---\n" if number % 2 else ""
        files[f"{'deep/' if number % 3 else ''}n{number}.md"] = (head + each.text).encode()
    return files


MAKERS = {
    "json-files": json_files,
    "jsonl-store": jsonl_store,
    "session-files": session_files,
    "user-document": user_document,
    "markdown-topics": markdown_topics,
    "notes": notes,
}


def write(directory: Path, files: Files) -> Path:
    directory.mkdir(parents=True)
    for path, data in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, (OLD, OLD))
    return directory


def contents(directory: Path) -> Files:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


def state_of(directory: Path) -> list[tuple[object, ...]]:
    """The names, inodes, times of change and modes of everything below."""
    found = [directory, *sorted(directory.rglob("*"))]
    return [(str(each), s.st_ino, s.st_mtime_ns, s.st_ctime_ns, s.st_mode) for each in found for s in [each.lstat()]]


def run(source: Path, target: Path, layout: str, *, dry_run: bool = False, **options: Any) -> ConvertResult:
    config = options.pop("config", Config())
    chosen = Options(layout=layout, **options)
    with plan_conversion(str(source), str(target), chosen, NOW, ProgressMeter(), config) as work:
        if not dry_run:
            work.write(NOW, ProgressMeter())
        return work.result


def read(layout: str, directory: Path) -> Iterator[tuple[str, Record, str]]:
    """The memories of a store as its own reader reads them, and their texts."""
    reader, export = LAYOUTS[layout].reader, LAYOUTS[layout].exchange.export
    for path, data in sorted(contents(directory).items()):
        if reader.role(path) in READ_ROLES:
            for record in reader.parse(path, data, now=NOW, mtime=OLD, base=ParseOffset()).records:
                yield path, record, export(record, record.span.of(data)).text


def lost(done: ConvertResult, effect: str) -> dict[str, int]:
    return {each.kind: each.count for each in done.losses if each.effect == effect}


def embed(text: str, size: int) -> Sequence[float]:
    return [1.0, len(text) / 100, *[0.5] * (size - 2)]


# One of each shape, so that each pair of layouts meets them in the usual tests too.
ALL = [
    *(Memory(text, created=OLD - number * 3600) for number, text in enumerate(SHARDS)),
    *(Memory(f"archived {number}", created=OLD, archived=True) for number in range(3)),
    *(Memory(f"of one day {number} " + "word " * 100, category="deploy", created=1e9 + number) for number in range(12)),
    Memory("one of a pair, of the same type and title", created=OLD),
    Memory("one of a pair, of the same type and title!", created=OLD),
    Memory("many tags", type="task", tags=tuple(f"tag {number}" for number in range(12)), importance="high"),
    Memory("a long title", title="long " * 30, category="c" * 60, tags=("t" * 31, "archive"), created=OLD - 0.25),
    Memory("before the epoch", created=-1e9, type="archive"),
]


@pytest.mark.parametrize("source", MAKERS)
@pytest.mark.parametrize("target", WRITABLE)
def test_every_pair_of_layouts(source: str, target: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "EXAMPLES", 1000)
    require_conserved(source, target, ALL, quick_path, allow_words=True)


@pytest.mark.slow
@pytest.mark.parametrize("source", MAKERS)
@pytest.mark.parametrize("target", WRITABLE)
def test_what_is_read_is_carried_or_listed(
    source: str, target: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "EXAMPLES", 1000)
    counter = iter(range(1_000_000))

    @settings(max_examples=examples(5), deadline=None, suppress_health_check=list(HealthCheck), derandomize=not DEEP)
    @given(MEMORIES, st.booleans())
    def conserved(memories: list[Memory], allow_words: bool) -> None:
        require_conserved(source, target, memories, quick_path / str(next(counter)), allow_words=allow_words)

    conserved()


def require_conserved(source: str, target: str, memories: Sequence[Memory], place: Path, *, allow_words: bool) -> None:
    """Convert, twice, and look at everything."""
    origin = write(place / "source", MAKERS[source](memories))
    before = state_of(origin), contents(origin)
    options: dict[str, Any] = {"source_layout": source, "allow_words": allow_words, "embed": embed}
    done = run(origin, place / "one", target, **options)
    assert sorted(os.listdir(place)) == (["one", "source"] if done.carried else ["source"])
    assert done.read == done.carried + sum(lost(done, "memory").values())
    if done.carried:
        check_carried(done, origin, place / "one")
    again = run(origin, place / "two", target, **options)
    assert replace(again, target=done.target) == done
    assert not done.carried or contents(place / "two") == contents(place / "one")
    assert (state_of(origin), contents(origin)) == before, "the source is only read"


def check_carried(done: ConvertResult, source: Path, target: Path) -> None:
    """Every memory that is not listed as left out is found by the reader of the new store: its whole text, and the time
    of its creation."""
    found = [*read(done.layout, target)]
    assert len(found) == done.carried
    assert sum(record.archived for _, record, _ in found) == done.archived
    left = {(each.path, each.line) for loss in done.losses if loss.effect == "memory" for each in loss.examples}
    changed = {(e.path, e.line) for loss in done.losses if loss.kind == "white-space" for e in loss.examples}
    undated = {(e.path, e.line) for loss in done.losses if loss.kind in ("created", "date") for e in loss.examples}
    texts = [text for _, _, text in found]
    exact = LAYOUTS[done.layout].exchange.precision_s
    times = [record.created or 0.0 for _, record, _ in found]
    carried = [each for each in read(done.source_layout, source) if (each[0], each[1].line) not in left]
    assert len(carried) == done.carried
    for path, record, text in carried:
        whole = text.strip().replace("\r\n", "\n") if (path, record.line) in changed else text
        assert any(whole in each for each in texts)
        if (path, record.line) not in undated:
            assert record.created is not None
            assert min(abs(record.created - each) for each in times) < exact
    named = Config(roots=(RootConfig("new", str(target), str(target), layout=done.layout),))
    assert check_path(str(target), NOW, ProgressMeter(), named).summary.error == 0


# -- what is carried


def natives(directory: Path, path: str) -> list[Any]:
    return [json.loads(row) for row in (directory / path).read_text().splitlines()]


def test_fields_with_a_counterpart_are_carried(tmp_path: Path) -> None:
    stamps = {"created": iso_ms(OLD - 0.25), "lastAccessed": iso_ms(OLD + 5), "lastUpdated": iso_ms(OLD + 1)}
    memory = json_samples.file(1, content="Use it", type="decision", relevanceScore=0, accessCount=7, **stamps)
    origin = write(tmp_path / "source", {json_samples.name(1): memory})
    done = run(origin, tmp_path / "new", "jsonl-store")
    [native] = natives(tmp_path / "new", "learnings.jsonl")
    expected = {
        "type": "learning",
        "category": "decision",
        "content": "number 1\n\nUse it",
        "created_at": iso_ms(OLD - 0.25),
        "updated_at": iso_ms(OLD + 1),
        "accessed_at": iso_ms(OLD + 5),
        "access_count": 7,
        "tags": ["typescript"],
        "importance": "low",
    }
    assert {key: native[key] for key in expected} == expected
    assert lost(done, "part") == {"field:entities": 1, "field:projectId": 1, "field:author": 1}
    assert not done.complete
    assert [(each.path, each.line) for each in done.losses[0].examples] == [(json_samples.name(1), 1)]


def test_all_fields_survive_in_the_same_layout(tmp_path: Path) -> None:
    session = session_samples.session(session_samples.memory())
    origin = write(tmp_path / "source", {session_samples.path_of(session["session_id"]): session_samples.text(session)})
    done = run(origin, tmp_path / "new", "session-files")
    assert done.complete
    assert contents(tmp_path / "new") == contents(origin)


def entry(day: str, title: str, text: str = "c") -> str:
    return f"## 2026-01-{day}: {title}\n\n**Context:** {text}\n**Problem:** p\n\n---\n\n"


def test_entries_come_back_as_they_were_and_in_their_order(tmp_path: Path) -> None:
    entries = "".join(entry(day, title) for day, title in (("03", "a"), ("02", "b"), ("02", "c"), ("01", "d"))).encode()
    origin = write(tmp_path / "source", {"deploy/nginx.md": entries})
    assert run(origin, tmp_path / "lines", "jsonl-store").complete
    for source in (origin, tmp_path / "lines"):
        target = tmp_path / f"back from {source.name}"
        assert run(source, target, "markdown-topics", allow_words=True).carried == 4
        if source is origin:
            assert (target / "deploy/nginx.md").read_bytes().split() == entries.split()


def test_every_archived_entry_stays_archived_whatever_the_others_say(tmp_path: Path) -> None:
    """An archive has each entry of a file once, and marks of its own above each."""
    same = entry("01", "same")
    texts = (same, same, entry("02", "marked", "x\n<!-- from: other.md -->\nmore"), entry("03", "plain"))
    rows = [samples.learning(n, iso(OLD - n), content=text.strip(), archived=True) for n, text in enumerate(texts)]
    files = {"archive/2026/learnings_2026_Q1.jsonl": samples.lines(*rows)}
    done = run(write(tmp_path / "source", files), tmp_path / "new", "markdown-topics", source_layout="jsonl-store")
    assert (done.read, done.carried, done.archived) == (4, 4, 4)


def test_a_further_field_that_breaks_a_rule_is_left_out_alone(tmp_path: Path) -> None:
    row = samples.memory(1, "task", task_metadata={"status": "completed"}, mood="odd")
    done = run(write(tmp_path / "source", {"tasks.jsonl": samples.lines(row)}), tmp_path / "new", "jsonl-store")
    [native] = natives(tmp_path / "new", "tasks.jsonl")
    assert (native["mood"], native.keys() & {"task_metadata"}) == ("odd", set())
    assert lost(done, "part") == {"field:task_metadata": 1}


def test_a_full_topic_file_is_continued_in_another_one_and_nothing_is_archived(tmp_path: Path) -> None:
    rows = [samples.learning(number, iso(OLD + number), tags=["ci"]) for number in range(25)]
    origin = write(tmp_path / "source", {"learnings.jsonl": samples.lines(*rows)})
    done = run(origin, tmp_path / "new", "markdown-topics", allow_words=True)
    assert (done.carried, done.archived) == (25, 0)
    assert {*contents(tmp_path / "new")} == {"index.md", "fact/ci.md", "fact/ci-2.md", "fact/ci-3.md"}


def test_users_and_embeddings_stay_as_they_are(tmp_path: Path) -> None:
    documents = {"alice": [0.1, -1e-05, 3.0], "x/alice": [0.25, 0.5, 1.0]}
    files = {
        f"{user}/__long-memories/data.json": json.dumps(
            {"memories": [{"data": {"id": 1_700_000_000 - len(user), "content": user}, "embedding": vector}]}
        ).encode()
        for user, vector in documents.items()
    }
    origin = write(tmp_path / "source", files)
    assert run(origin, tmp_path / "new", "user-document").complete
    for path in files:
        assert (
            json.loads((tmp_path / "new" / path).read_bytes())["memories"][0]["embedding"]
            == documents[path.removesuffix("/__long-memories/data.json")]
        )
    together = run(origin, tmp_path / "lines", "jsonl-store")
    assert lost(together, "part") == {"owner": 2, "embedding": 2}


def test_what_the_new_layout_refuses_is_listed_with_the_reason(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    texts = ["fine", "x" * 5001, f"the token is {token}", " "]
    files = {json_samples.name(n): json_samples.file(n, content=text) for n, text in enumerate(texts)}
    origin = write(tmp_path / "source", files)
    done = run(origin, tmp_path / "new", "jsonl-store")
    assert lost(done, "memory") == {"invalid": 1, "sensitive": 1}
    assert "5,000 characters" in next(each for each in done.losses if each.kind == "invalid").examples[0].detail
    assert token not in str(done)
    assert run(origin, tmp_path / "without", "user-document").written is False, "no embedder"
    assert not (tmp_path / "without").exists()


def test_a_hard_limit_is_kept(tmp_path: Path) -> None:
    rows = [samples.memory(number, "core") for number in range(1003)]
    origin = write(tmp_path / "source", {"core_memories.jsonl": samples.lines(*rows)})
    done = run(origin, tmp_path / "new", "jsonl-store", dry_run=True)
    assert (done.carried, lost(done, "memory")) == (1000, {"limit": 3})
    assert not (tmp_path / "new").exists()


# -- where it reads and writes


def store_of(directory: Path) -> Path:
    return write(directory, {"learnings.jsonl": samples.lines(samples.learning(1))})


def test_one_file_is_converted_alone(tmp_path: Path) -> None:
    origin = write(
        tmp_path / "source",
        {
            "2026-01-30/14-30-00-a.json": session_samples.text(
                session_samples.session(session_samples.memory(), name="2026-01-30-14-30-00-a")
            ),
            "2026-01-31/14-30-00-b.json": b"{}",
        },
    )
    done = run(origin / "2026-01-30/14-30-00-a.json", tmp_path / "new", "json-files")
    assert (done.source_layout, done.read, done.carried) == ("session-files", 1, 1)
    with pytest.raises(UsageError, match="no file of"):
        run(origin / "2026-01-31/14-30-00-b.json", tmp_path / "other", "json-files")
    with pytest.raises(ConflictError, match="inside the source"):
        run(origin / "2026-01-30/14-30-00-a.json", origin / "new", "json-files")


def test_only_a_new_or_empty_directory_outside_source_and_roots_is_written(tmp_path: Path) -> None:
    origin, other = store_of(tmp_path / "source"), store_of(tmp_path / "other")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir(mode=0o750)
    empty = RootConfig("empty", str(tmp_path / "empty"), str(tmp_path / "empty"))
    config = Config(roots=(RootConfig("other", str(other), str(other)), empty))
    (other / "inner").mkdir()
    refused = {
        other: "not empty",
        origin: "not empty",
        origin / "new": "inside the source",
        other / "inner": "inside the root other",
        tmp_path / "file": "not a directory",
        tmp_path / "missing/new": "is not a directory",
    }
    for target, reason in refused.items():
        with pytest.raises(ConflictError, match=reason):
            run(origin, target, "json-files", config=config)
    assert run(origin, tmp_path / "empty", "json-files", config=config).written
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o750
    run(origin, tmp_path / "new", "json-files", config=config)
    assert {each.stat().st_mode & 0o077 for each in (tmp_path / "new", *(tmp_path / "new").iterdir())} == {0}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    origin = write(tmp_path / "source", json_samples.store(1, 2, 3))
    calls = iter((None, error))
    real = atomic.create

    def failing(*arguments: Any, **options: Any) -> object:
        if (raised := next(calls)) is not None:
            raise raised
        return real(*arguments, **options)

    monkeypatch.setattr(atomic, "create", failing)
    with pytest.raises(DiskError if isinstance(error, OSError) else KeyboardInterrupt):
        run(origin, tmp_path / "new", "json-files")
    assert os.listdir(tmp_path) == ["source"]


def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    origin = store_of(tmp_path / "source")
    (origin / "tasks.jsonl").symlink_to("learnings.jsonl")
    done = run(origin, tmp_path / "new", "json-files")
    assert lost(done, "part")["unreadable-file"] == 1
    assert done.carried == 1
