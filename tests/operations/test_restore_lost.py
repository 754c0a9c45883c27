"""Restore only what a file has lost: exactly that, byte for byte, and never what was removed on purpose."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.core.json_spans import remove_elements
from memoryd.core.plan import Kind
from memoryd.core.records import Document, ParseOffset
from memoryd.core.spans import Edit, Span, splice
from memoryd.disk.blobs import quarantine
from memoryd.errors import BusyError, ConflictError, NotFoundError, UsageError
from memoryd.layouts.protocol import NewMemory
from memoryd.layouts.session_files.parser import read_session
from memoryd.layouts.user_document.split import parse_sound_document
from memoryd.operations import memories
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check
from memoryd.operations.file_versions import save_versions
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.operations.restore import RestoredFiles
from memoryd.operations.restore_lost import restore_lost
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe
from memoryd.store import commit
from memoryd.store.commit import Committed
from tests.examples import examples
from tests.operations.machine import MEMORY
from tests.operations.test_memory_deaths import BEFORE, CASES, LATER, Case, Site

JSONL, JSON_FILES, TOPICS, SESSIONS, DOCUMENT = CASES
MANY = [case for case in CASES if case is not JSON_FILES]  # layouts with many memories in one file
STAMP = re.compile(rb'"\d{4}-[^"]*"')


@contextmanager
def made(case: Case) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-", dir=MEMORY) as base:
        site = Site(Path(base), case)
        yield site
        site.kill()


@pytest.fixture(params=MANY, ids=lambda case: case.layout)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A root with three memories in one file, which is backed up."""
    with made(request.param) as found:
        for number in range(3):
            found.add(number)
        save_versions(found.store, BEFORE)
        create_backups(found.store, BEFORE)
        yield found


def read(site: Site, path: str) -> Document:
    data = site.contents().get(path, b"")
    return site.store.known_layout.reader.parse(path, data, now=LATER, mtime=0.0, base=ParseOffset())


def texts(site: Site, path: str) -> list[bytes]:
    return [each.span.of(site.contents().get(path, b"")) for each in read(site, path).records]


def sources(site: Site) -> list[str]:
    present = [str(path.relative_to(site.root)) for path in site.root.rglob("*") if path.is_file()]
    return [path for path in site.store.known_layout.reader.source_paths(present) if path in present]


def tear(site: Site, path: str, numbers: Sequence[int]) -> list[bytes]:
    """Write a file without some of its memories, as an agent does; return them. A file of one memory is deleted."""
    content, found = (site.root / path).read_bytes(), read(site, path).records
    edits: list[Edit] = []
    if site.case in (SESSIONS, DOCUMENT):
        parsed = read_session(content) if site.case is SESSIONS else parse_sound_document(content)
        assert parsed is not None
        edits = remove_elements(parsed.array, parsed.elements, numbers) if numbers else []
    else:
        spans = [found[each].span for each in numbers]
        ends = [span.end + (content[span.end :][:1] == b"\n") for span in spans]
        edits = [Edit(Span(span.start, end), b"") for span, end in zip(spans, ends, strict=True)]
    torn = [found[each].span.of(content) for each in numbers]
    if site.case is JSON_FILES and torn:
        (site.root / path).unlink()
    else:
        (site.root / path).write_bytes(splice(content, edits))
    settle(site)
    return torn


def settle(site: Site) -> None:
    refresh(site.store, None, LATER)
    save_versions(site.store, LATER)


def restored(site: Site, path: str, at: str | None = None, *, dry_run: bool = False) -> tuple[Committed, RestoredFiles]:
    found = restore_lost(site.store, LATER, file=path, at=at, dry_run=dry_run)
    refresh(site.store, None, LATER)
    return found


def the_file(site: Site) -> str:
    [path] = sources(site)
    return path


def everything(site: Site) -> dict[str, bytes]:
    return {path: (site.root / path).read_bytes() for path in sources(site)}


def backup(site: Site) -> str:
    [row] = create_backups(site.store, LATER, file=the_file(site))
    assert row.id
    return row.id


def notes(done: Committed) -> str:
    return "; ".join(each.why for each in done.plan.notes)


def with_text(case: Case, number: int, text: str) -> NewMemory:
    native = case.native(number)
    field = "context" if case is TOPICS else "content"
    return NewMemory({**native, field: f"{native[field]} {text}"}, case.where)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.layout)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_exactly_what_an_agent_tore_away_comes_back(case: Case, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.text('aé東"\\# -', max_size=9), min_size=2, max_size=6))
    some = st.sets(st.sampled_from(range(len(drawn))))
    with made(case) as site:
        ids = [
            site.took(memories.add(site.store, with_text(case, number, text), BEFORE, Context(number))).id
            for number, text in enumerate(drawn)
        ]
        create_backups(site.store, BEFORE)
        for number in data.draw(some):
            site.took(memories.forget(site.store, ids[number], BEFORE, Context()))
        before = {path: texts(site, path) for path in sources(site)}
        chosen = data.draw(some)
        torn = {path: tear(site, path, [n for n in range(len(held)) if n in chosen]) for path, held in before.items()}
        damaged = everything(site)
        receipts: list[str] = []
        for path, cut in torn.items():
            lost = [each for each in cut if b'"archived": true' not in each]  # json-files forgets by that flag
            planned, _ = restored(site, path, dry_run=True)
            assert receipts or everything(site) == damaged
            done, _ = restored(site, path)
            assert [done.plan.actions, notes(done)] == [planned.plan.actions, notes(planned)]
            assert (done.receipt is not None) == bool(lost)
            receipts += [done.receipt] if done.receipt else []
            after = texts(site, path)
            there = [each for each in before[path] if each not in cut]
            assert sorted(after) == sorted([*there, *lost])
            assert [each for each in after if each not in lost] == there
            for edit in (edit for action in done.plan.actions for edit in action.edits):
                old = edit.span.of(damaged[path])
                assert not old.strip(b"[] \n") or (case is DOCUMENT and STAMP.fullmatch(old))
            assert not restored(site, path)[0].receipt, "nothing is lost any more"
        for receipt in reversed(receipts):
            undo(site.store, receipt, LATER)
        assert everything(site) == damaged


def test_what_was_removed_on_purpose_stays_out_and_the_plan_says_why(site: Site) -> None:
    path, at = the_file(site), backup(site)
    first = read(site, path).records[0]
    done = site.took(memories.forget(site.store, first.id, LATER, Context()))
    [torn] = tear(site, path, [0])
    change, found = restored(site, path, at)
    assert torn in texts(site, path)
    assert len(read(site, path).records) == 2
    assert "archive" in notes(change) or "forgotten" in notes(change)
    assert [each.kind for each in change.plan.notes] == [Kind.NOTE]
    assert change.plan.notes[0].ids == (first.id,)
    assert found.file == path
    site.took(memories.unarchive(site.store, done.id, LATER, Context()))
    assert len(read(site, path).records) == 3
    tear(site, path, [0, 1, 2])
    restored(site, path, at)
    assert len(read(site, path).records) == 3, "it was live again"


def test_what_an_undo_removed_stays_out(site: Site) -> None:
    path = the_file(site)
    added = site.add(7, LATER)
    at = backup(site)
    assert added.receipt is not None
    undo(site.store, added.receipt, LATER)
    refresh(site.store, None, LATER)
    torn = tear(site, path, [1])
    change, _ = restored(site, path, at)
    assert len(read(site, path).records) == 3
    assert torn[0] in texts(site, path)
    assert "changed by undo; `memoryd undo" in notes(change)
    save_versions(site.store, LATER)
    again, _ = restored(site, path)
    assert (again.receipt, "changed by undo" in notes(again)) == (None, True)


def test_the_state_before_an_update_does_not_come_back(site: Site) -> None:
    path = the_file(site)
    identity = read(site, path).records[1].id
    changes = (
        {"title": "Another"} if site.case in (TOPICS, SESSIONS) else {"content": "another", "embedding": [3.0, 4.0]}
    )
    if site.case is JSONL:
        changes = {"content": "another"}
    site.took(memories.update(site.store, identity, changes, LATER, Context()))
    now = texts(site, path)
    change, _ = restored(site, path)
    assert (change.receipt, texts(site, path)) == (None, now)


def test_the_newest_backup_that_has_any_is_taken_and_the_others_are_named(site: Site) -> None:
    path = the_file(site)
    [older] = tear(site, path, [0])
    create_backups(site.store, BEFORE + 1)
    [newer] = tear(site, path, [0])
    change, found = restored(site, path)
    assert newer in texts(site, path)
    assert older not in texts(site, path)
    assert f"not in {found.backup}" in notes(change)
    [at] = re.findall(r"--at (\S+)`", notes(change))
    restored(site, path, at)
    assert older in texts(site, path)
    with pytest.raises(NotFoundError):
        restored(site, path, "v999")


def test_after_a_reported_loss_the_backup_has_as_many_as_the_file_had() -> None:
    with made(DOCUMENT) as site:
        for number in range(3):
            path = site.add(number).path
        create_backups(site.store, BEFORE)
        torn = tear(site, path, [0, 1])
        left, later = texts(site, path)[0], torn[0].replace(b"number 0", b"number 5")
        (site.root / path).write_bytes((site.root / path).read_bytes().replace(left, left + b"," + later))
        settle(site)
        assert tear(site, path, [1]) == [later]
        change, found = restored(site, path)
        assert texts(site, path) == [left, *torn]
        assert [f"also lost, and not in {found.backup}: " in each.why for each in change.plan.notes] == [True]


def test_a_loss_stays_reported_while_most_of_it_is_missing() -> None:
    with made(DOCUMENT) as site:
        path, early = site.add(0).path, backup(site)
        for number in range(1, 6):
            site.add(number)
        late = backup(site)
        tear(site, path, [0, 1, 2, 3, 4])
        for at, records in ((early, 2), (late, 6)):
            restored(site, path, at)
            assert len(texts(site, path)) == records
            assert ("shrunk" in {each.code for each in check(site.store, LATER)}) == (records < 6)


def test_a_deleted_file_comes_back_as_it_was(site: Site) -> None:
    path = the_file(site)
    whole = (site.root / path).read_bytes()
    (site.root / path).unlink()
    refresh(site.store, None, LATER)
    change, _ = restored(site, path)
    assert (site.root / path).read_bytes() == whole
    assert change.receipt is not None
    undo(site.store, change.receipt, LATER)
    assert not (site.root / path).exists()


def test_what_an_agent_brings_back_during_the_command_is_not_added_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = the_file(site)
    whole, begun = (site.root / path).read_bytes(), commit.commit
    tear(site, path, [2])

    def interrupted(*args: Any) -> str:
        monkeypatch.undo()
        (site.root / path).write_bytes(whole)
        return begun(*args)

    monkeypatch.setattr(commit, "commit", interrupted)
    change, _ = restored(site, path)
    assert (change.receipt, (site.root / path).read_bytes()) == (None, whole)


@pytest.mark.parametrize("case", [SESSIONS, DOCUMENT], ids=lambda case: case.layout)
def test_nothing_is_added_to_a_file_that_cannot_be_read(case: Case) -> None:
    with made(case) as site:
        path = site.add(0).path
        create_backups(site.store, BEFORE)
        half = (site.root / path).read_bytes()[:-9]
        (site.root / path).write_bytes(half)
        later = LATER + 3600
        refresh(site.store, None, later)
        with pytest.raises(ConflictError) as refused:
            restore_lost(site.store, later, file=path)
        assert "without --lost-only" in str(refused.value.hint)
        assert (site.root / path).read_bytes() == half


def test_a_file_that_is_being_written_is_left_alone() -> None:
    with made(JSONL) as site:
        path = site.add(0).path
        create_backups(site.store, BEFORE)
        (site.root / path).write_bytes(b'{"id":')
        with pytest.raises(BusyError):
            restore_lost(site.store, time.time(), file=path)
        restore_lost(site.store, time.time() + 60, file=path)
        assert (site.root / path).read_bytes().startswith(b'{"id":\n{"id":"')


def test_a_memory_whose_file_holds_another_one_gets_a_new_file() -> None:
    """The published server overwrites a file whose name is taken."""
    with made(JSON_FILES) as site:
        path = site.add(0).path
        create_backups(site.store, BEFORE)
        lost = (site.root / path).read_bytes()
        other = lost.replace(b"number 0", b"number 1").replace(b"mem_", b"mem_9")
        (site.root / path).write_bytes(other)
        refresh(site.store, None, LATER)
        restore_lost(site.store, LATER, file=path, zone=timezone(timedelta(hours=9)))
        refresh(site.store, None, LATER)
        assert sorted(site.contents()[each] for each in sources(site)) == sorted([lost, other])
        assert datetime.fromtimestamp(LATER + 9 * 3600, UTC).strftime("memory_%Y%m%d%H%M%S_1.json") in sources(site)
        (site.root / path).write_bytes(other[:-9])
        refresh(site.store, None, LATER)
        for each in sources(site):
            if site.contents()[each] == lost:
                (site.root / each).unlink()
        refresh(site.store, None, LATER)
        with pytest.raises(ConflictError, match="not a readable memory"):
            restored(site, path)


def test_an_archived_memory_comes_back_archived_and_not_as_it_was_before() -> None:
    with made(JSON_FILES) as site:
        added = site.add(0)
        create_backups(site.store, BEFORE)
        site.took(memories.forget(site.store, added.id, LATER, Context()))
        archived = (site.root / added.path).read_bytes()
        tear(site, added.path, [0])
        change, _ = restored(site, added.path)
        assert change.receipt is None
        assert "removed or changed by forget" in notes(change)
        (site.root / added.path).write_bytes(archived)
        refresh(site.store, None, LATER)
        create_backups(site.store, LATER)
        tear(site, added.path, [0])
        restored(site, added.path)
        assert (site.root / added.path).read_bytes() == archived


def test_memories_in_another_format_are_not_lost() -> None:
    with made(DOCUMENT) as site:
        path = site.add(0).path
        create_backups(site.store, BEFORE)
        formatted = json.dumps(json.loads((site.root / path).read_bytes()), indent=4).encode()
        (site.root / path).write_bytes(formatted)
        refresh(site.store, None, LATER)
        change, _ = restored(site, path)
        assert (change.receipt, (site.root / path).read_bytes()) == (None, formatted)


def test_a_memory_that_its_agent_changed_is_not_lost(site: Site) -> None:
    path = the_file(site)
    content = (site.root / path).read_bytes()
    word = b"**Context:** c" if site.case is TOPICS else b'"type"' if site.case is JSONL else b'"number 1"'
    changed = content.replace(word, b'"more":1,"type"' if site.case is JSONL else word[:-1] + b" changed" + word[-1:])
    (site.root / path).write_bytes(changed)
    settle(site)
    change, _ = restored(site, path)
    if site.case is DOCUMENT:  # whose ids are made of the content
        assert len(texts(site, path)) == 4
    else:
        assert (change.receipt, (site.root / path).read_bytes()) == (None, changed)


def test_what_is_in_quarantine_must_be_named(site: Site) -> None:
    path = the_file(site)
    content = (site.root / path).read_bytes()
    other = content.replace(b"umber 1", b"umber 8").replace(read(site, path).records[1].id.encode(), b"another-id")
    quarantine(site.store.journal, site.store.blobs, path, other, "before repair", now=LATER)
    assert restored(site, path)[0].receipt is None
    assert restored(site, path, "q1")[0].receipt is not None
    assert b"umber 8" in (site.root / path).read_bytes()


def test_merged_duplicates_stay_out_until_that_is_undone() -> None:
    with made(SESSIONS) as site:
        words = "one two three four five six seven eight nine ten eleven twelve thirteen"
        path = site.add(0).path
        content = (site.root / path).read_bytes()
        twins = [content[each.span.start : each.span.end] for each in read(site, path).records]
        twin = twins[0].replace(b"number 0", words.encode())
        better = twin.replace(b"thirteen", b"thirteen indeed").replace(b"70", b"90")
        (site.root / path).write_bytes(content.replace(twins[0], twin + b", " + better))
        refresh(site.store, None, LATER)
        at = backup(site)
        merged = dedupe(site.store, LATER, by="command")
        refresh(site.store, None, LATER)
        assert texts(site, path) == [better]
        change, _ = restored(site, path, at)
        assert (change.receipt, texts(site, path)) == (None, [better])
        assert "changed by dedupe" in notes(change)
        assert merged.receipt is not None
        undo(site.store, merged.receipt, LATER)
        refresh(site.store, None, LATER)
        tear(site, path, [0])
        restored(site, path)
        assert sorted(texts(site, path)) == sorted([twin, better])


def test_archived_memories_and_those_of_other_users_are_told_apart() -> None:
    with made(JSONL) as site:
        first = site.add(0)
        site.add(1)
        create_backups(site.store, BEFORE)
        archive(site.store, LATER, by="command", ids=[first.id])
        refresh(site.store, None, LATER)
        change, _ = restored(site, first.path)
        assert change.receipt is None
        assert "in the archive" in notes(change)
        [shelf] = (path for path in site.contents() if path.startswith("archive/"))
        with pytest.raises(UsageError, match="not a memory file"):
            restored(site, shelf)
    with made(DOCUMENT) as site:
        path = site.add(0).path
        site.took(memories.add(site.store, NewMemory(site.case.native(0), {"user": "other"}), BEFORE, Context()))
        create_backups(site.store, BEFORE)
        tear(site, path, [0])
        assert restored(site, path)[0].receipt is not None, "that another user has the same is no reason"


def test_wrong_files_are_refused(site: Site) -> None:
    with pytest.raises((UsageError, NotFoundError)):
        restored(site, "no/such.file")
    with pytest.raises((UsageError, NotFoundError)):
        restore_lost(site.store, LATER, file=None)
