"""Files that another program made lose most of their memories: reported until they are back, and restorable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from memoryd.core.defaults import Policy
from memoryd.errors import NotFoundError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check
from memoryd.operations.file_versions import save_versions
from memoryd.operations.memories import Context
from memoryd.operations.refresh import RefreshResult, refresh
from memoryd.operations.repair import repair
from memoryd.operations.restore import restore
from memoryd.operations.restore_lost import restore_lost
from memoryd.operations.root_check import accept_all
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, prune
from memoryd.store import Store
from tests.layouts import session_samples
from tests.layouts.contract import NOW
from tests.layouts.samples import learning, line, uuid
from tests.layouts.session_samples import session
from tests.layouts.test_markdown_topics import entry


class Case(NamedTuple):
    """A layout: two of its files, the content for memories with these numbers, and the content with a torn piece."""

    layout: str
    path: str
    other: str
    content: Callable[[list[int]], bytes]
    torn: Callable[[list[int]], bytes]


def learnings(numbers: list[int]) -> bytes:
    return b"".join(line(learning(number)) + b"\n" for number in numbers)


def topic(numbers: list[int]) -> bytes:
    return b"# Topic\n\n" + b"".join(entry("2026-01-30", f"number {number}") for number in numbers)


def native(number: int) -> object:
    return session_samples.memory(f"Title {number}", f"This is about subject {number}.")


def sessions(numbers: list[int]) -> bytes:
    return session_samples.text(session(*map(native, numbers)))


JSONL = Case(
    "jsonl-store", "learnings.jsonl", "core_memories.jsonl", learnings, lambda n: learnings(n) + b'{"id": "x\n'
)
TOPICS = Case(
    "markdown-topics", "auth/jwt.md", "auth/other.md", topic, lambda n: topic(n) + b"## 2026-13-99: torn\n**Con\n"
)
SESSIONS = Case(
    "session-files",
    "2026-01-30/14-30-00-fix-bug.json",
    "2026-01-30/15-00-00-other.json",
    sessions,
    lambda n: session_samples.text(session("torn", *map(native, n))),
)
CASES = [JSONL, TOPICS, SESSIONS]


class Site:
    """One store with its own clock. Other programs write its files a minute before they are indexed."""

    def __init__(self, base: Path, case: Case) -> None:
        self.base = base
        self.case = case
        self.root = base / "root"
        self.root.mkdir()
        self.now = NOW
        self.store = self.open()

    def open(self) -> Store:
        limits = {"learnings.jsonl": None}
        store = Store("m", str(self.root), self.case.layout, Policy(limits=limits), str(self.base / "state"))
        store.attach()
        return store

    def restart(self) -> None:
        self.store.close()
        self.store = self.open()
        self.look()

    def put(self, content: bytes, path: str | None = None, age: float = 60.0) -> None:
        """Write a file as another program does, without indexing it."""
        self.now += 100
        file = self.root / (path or self.case.path)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name("new")
        new.write_bytes(content)
        os.utime(new, (self.now - age, self.now - age))
        new.rename(file)

    def write(self, *numbers: int, path: str | None = None, age: float = 60.0) -> RefreshResult:
        self.put(self.case.content(list(numbers)), path, age)
        return self.look()

    def look(self) -> RefreshResult:
        """Index what changed, as when the root has settled."""
        done = refresh(self.store, None, self.now)
        save_versions(self.store, self.now)
        return done

    def losses(self) -> list[str]:
        found = check(self.store, self.now)
        return [f"{each.path}: {each.message}" for each in found if each.code == "shrunk"]

    def records(self, path: str | None = None) -> int:
        row = self.store.catalogue.file(path or self.case.path)
        return 0 if row is None else row.records


@pytest.fixture(params=CASES, ids=lambda case: case.layout)
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, request.param)
    yield made
    made.store.close()


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, TOPICS)
    yield made
    made.store.close()


@pytest.fixture
def jsonl(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, JSONL)
    yield made
    made.store.close()


def test_a_loss_is_reported_and_a_reason_of_the_root(site: Site) -> None:
    site.write(*range(30))
    assert (site.losses(), site.store.losses.reasons) == ([], ())
    site.write(1)
    (loss,) = site.losses()
    assert loss.startswith(f"{site.case.path}: 30 memories became 1")
    assert site.store.losses.reasons == (f"{site.case.path}: 30 memories became 1; see `memoryd check`",)


@pytest.mark.parametrize(("before", "after"), [(30, 15), (30, 21), (18, 9), (9, 0)])
def test_a_small_loss_is_none(site: Site, before: int, after: int) -> None:
    site.write(*range(before))
    site.write(*range(after))
    assert site.losses() == []


def torn(site: Site) -> None:
    site.put(site.case.content(list(range(30)))[:60])
    site.look()


def emptied(site: Site) -> None:
    site.put(b"")
    site.look()


def removed(site: Site) -> None:
    (site.root / site.case.path).unlink()
    assert site.look().waiting == (site.case.path,)
    site.now += 5
    site.look()
    assert len(site.losses()) == 1


def nothing(site: Site) -> None:
    """The agent writes over the good file directly."""


@pytest.mark.parametrize("meanwhile", [torn, emptied, removed, nothing])
def test_a_loss_stays_reported_whatever_caused_it_and_is_stored_later(
    site: Site, meanwhile: Callable[[Site], None]
) -> None:
    site.write(*range(30))
    meanwhile(site)
    for number in range(8):
        site.write(*range(100, 101 + number))
        assert len(site.losses()) == 1, number
    site.restart()
    assert len(site.losses()) == 1
    site.write(*range(100, 130))
    assert site.losses() == []


def test_a_reindex_does_not_hide_a_loss(site: Site) -> None:
    site.write(*range(30))
    site.write(1)
    site.store.catalogue.clear()
    site.look()
    assert len(site.losses()) == 1


def test_a_loss_while_the_index_is_rebuilt_is_found_by_the_backups(site: Site) -> None:
    site.write(*range(30))
    create_backups(site.store, site.now)
    site.store.catalogue.clear()
    site.write(1)
    assert len(site.losses()) == 1


def test_an_accepted_loss_is_no_longer_reported(site: Site) -> None:
    site.write(*range(30))
    create_backups(site.store, site.now)
    site.write(1)
    repair(site.store, site.now, codes=["shrunk"])
    assert (site.losses(), site.store.losses.reasons) == ([], ())
    site.store.catalogue.clear()
    site.write(1, 2)
    assert site.losses() == []
    site.write(*range(40))
    site.write(3)
    assert len(site.losses()) == 1


def test_what_is_written_again_is_not_lost(site: Site) -> None:
    """Fewer than ten memories that are still missing are not worth an alarm."""
    site.write(*range(30))
    site.write(1)
    site.write(*range(20))
    assert len(site.losses()) == 1
    site.write(*range(21))
    assert site.losses() == []


def test_a_file_that_is_being_written_raises_no_alarm(site: Site) -> None:
    site.write(*range(30))
    assert site.write(1, age=0.5).waiting == (site.case.path,)
    assert (site.losses(), site.store.losses.reasons) == ([], ())
    site.write(*range(30), age=0.5)
    site.now += 5
    assert site.look().waiting == ()
    assert site.losses() == []


def test_an_agent_that_goes_on_writing_does_not_put_the_alarm_off(site: Site) -> None:
    site.write(*range(30))
    site.write(1, age=0.5)
    site.write(1, 2, age=0.5)  # a hundred seconds later
    assert len(site.losses()) == 1


@pytest.mark.parametrize("first", ["source", "target"])
def test_memories_moved_to_another_file_are_not_lost(site: Site, first: str) -> None:
    numbers = list(range(30))
    site.write(*numbers)
    site.put(site.case.content(numbers[1:]), site.case.other, age=60)
    if first == "target":
        site.look()
    site.write(0, age=60)
    assert site.losses() == []


def test_memories_moved_some_seconds_later_are_not_lost_for_long(site: Site) -> None:
    site.write(*range(30))
    site.write(0)
    assert len(site.losses()) == 1
    site.write(*range(1, 30), path=site.case.other)
    assert site.losses() == []


def test_a_renamed_file_lost_nothing(site: Site) -> None:
    site.write(*range(30))
    (site.root / site.case.path).rename(site.root / site.case.other)
    site.now += 100
    site.look()
    assert (site.losses(), site.records(site.case.other)) == ([], 30)


def test_half_of_them_moved_and_the_rest_gone_is_judged_by_the_rest(site: Site) -> None:
    site.write(*range(40))
    site.put(site.case.content(list(range(1, 12))), site.case.other)
    site.write(0)
    assert len(site.losses()) == 1


def test_accepting_a_suspect_root_accepts_its_losses(site: Site) -> None:
    site.write(*range(30))
    create_backups(site.store, site.now)
    site.put(site.case.content([1]))
    accept_all(site.store)
    site.look()
    assert site.losses() == []


# --- changes of memoryd


def test_forgetting_most_memories_through_memoryd_is_no_loss(site: Site) -> None:
    site.write(*range(14))
    for each in [each.id for each in site.store.catalogue.entries([site.case.path])][1:]:
        memories.forget(site.store, each, site.now, Context())
        refresh(site.store, [site.case.path], site.now)
    assert site.records() == 1
    assert site.losses() == []


def test_an_archive_run_is_no_loss_even_if_an_agent_writes_at_once(jsonl: Site) -> None:
    jsonl.write(*range(30))
    archive(jsonl.store, jsonl.now, by="command", ids=[uuid(number) for number in range(25)])
    with (jsonl.root / jsonl.case.path).open("ab") as agent:
        agent.write(line(learning(500)) + b"\n")
    jsonl.look()
    assert (jsonl.records(), jsonl.losses()) == (6, [])


def test_pruning_is_no_loss(topics: Site) -> None:
    """The pruned entries are in the archive."""
    content = b"".join(entry(f"2024-0{1 + n % 9}-{10 + n % 18}", f"number {n}", 400) for n in range(40))
    topics.put(content)
    topics.look()
    assert prune(topics.store, topics.now, by="schedule").receipt is not None
    topics.look()
    assert topics.records() < 20
    assert topics.losses() == []


def test_undoing_an_import_is_no_loss(site: Site) -> None:
    site.write(*range(30))
    create_backups(site.store, site.now)
    site.write(*range(60))
    old = [each.id for each in site.store.vault.versions(site.case.path) if each.quality.records == 30]
    at = old[0] if old else site.store.journal.backups.rows(site.case.path)[-1].id
    done, _ = restore(site.store, site.now, file=site.case.path, at=at)
    site.look()
    undo(site.store, done.receipt or "", site.now)
    site.look()
    restore(site.store, site.now, file=site.case.path, at=at)
    site.look()
    assert (site.records(), site.losses()) == (30, [])


def test_an_older_state_that_equals_one_of_memoryd_is_a_loss(topics: Site) -> None:
    """An agent with the first version in its cache overwrites everything that was added since."""
    new = NewMemory(
        {"title": "First", "context": "a", "problem": "b", "solution": "c"}, {"topic": "auth", "subtopic": "jwt"}
    )
    memories.add(topics.store, new, topics.now, Context())
    topics.look()
    first = (topics.root / topics.case.path).read_bytes()
    topics.put(first + topic(list(range(30))))
    topics.look()
    topics.put(first)
    topics.look()
    assert len(topics.losses()) == 1


# --- restoring


@pytest.mark.parametrize(
    ("case", "count"), [(TOPICS, 304), (SESSIONS, 54)], ids=lambda each: getattr(each, "layout", "")
)
def test_appends_after_a_torn_piece_are_restored_without_a_backup(tmp_path: Path, case: Case, count: int) -> None:
    site = Site(tmp_path, case)
    for last in range(4, count + 1, 10):
        site.put(case.torn(list(range(last))))
        site.look()
    site.put(case.torn(list(range(count))))
    site.look()
    assert site.records() == count
    site.put(case.torn(list(range(count)))[:40])
    site.look()
    assert len(site.losses()) == 1
    assert f"brings back {count}" in site.losses()[0]
    for number in range(9):  # the agent goes on
        site.write(*range(900, 901 + number))
    restore(site.store, site.now, file=case.path)
    site.look()
    assert (site.records(), site.losses()) == (count, [])
    site.store.close()


def test_the_command_in_the_message_restores_the_memories(site: Site) -> None:
    site.write(*range(30))
    create_backups(site.store, site.now)
    site.write(1)
    (loss,) = site.losses()
    backup = loss.partition("--at ")[2].partition("`")[0]
    assert "brings back 30" in loss
    restore(site.store, site.now, file=None, at=backup)
    site.look()
    assert (site.records(), site.losses()) == (30, [])


def test_a_loss_stays_reported_while_most_of_it_is_missing(site: Site) -> None:
    site.write(*range(6))
    early = str(create_backups(site.store, site.now)[0].id)
    site.write(*range(30))
    late = str(create_backups(site.store, site.now)[0].id)
    site.write(29)
    for at, records in ((early, 7), (late, 30)):
        restore_lost(site.store, site.now, file=site.case.path, at=at)
        site.look()
        assert (site.records(), bool(site.losses())) == (records, records < 30)


def test_the_message_says_what_no_backup_holds(jsonl: Site) -> None:
    jsonl.write(*range(20))
    create_backups(jsonl.store, jsonl.now)
    jsonl.write(*range(30))
    jsonl.write(1)
    assert "the best backup has only 20" in jsonl.losses()[0]
    restore(jsonl.store, jsonl.now, file=jsonl.case.path)
    jsonl.look()
    assert (jsonl.records(), jsonl.losses()) == (20, []), "restored, as far as that goes"


def test_the_message_says_that_there_is_no_backup(jsonl: Site) -> None:
    jsonl.write(*range(30))
    jsonl.write(1)
    assert "no backup has more" in jsonl.losses()[0]
    with pytest.raises(NotFoundError):
        restore(jsonl.store, jsonl.now, file=jsonl.case.path)


def test_a_version_is_saved_only_once_the_root_has_settled(topics: Site) -> None:
    topics.put(topic(list(range(30))))
    refresh(topics.store, None, topics.now)
    assert topics.store.vault.versions() == []
    topics.put(topic([1]))
    topics.look()
    assert [each.quality.records for each in topics.store.vault.versions()] == [1, 30], "a loss before that hides none"


def test_a_large_file_is_left_to_the_scheduled_backups(topics: Site) -> None:
    topics.put(topic(list(range(30))) + entry("2025-01-01", "large", 300_000))
    topics.look()
    assert topics.store.vault.versions() == []
