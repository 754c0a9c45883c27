"""Anything in any order: agents that write well and badly, upkeep, crashes at any call, clocks that jump.

After every step the index must be what a rebuild says, and no memory that an agent did not remove itself may be
missing from the live files, the archive and the quarantine together.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, find, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from memoryd.core.dates import iso
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.records import Role
from memoryd.disk.journal import Entry
from memoryd.errors import ConflictError, GuardError, NotFoundError, UsageError
from memoryd.index.sqlite import SqliteIndex
from memoryd.operations.backup import create_backups
from memoryd.operations.permissions import tighten
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, enforce_limits
from tests.examples import DEEP, examples
from tests.layouts.samples import DAY, learning, line, memory, task, uuid
from tests.operations import faults
from tests.operations.conftest import memory_disk
from tests.operations.death import dying
from tests.operations.world import CORE, LEARNINGS, LIVE, TASKS, World, same_meaning

UUID = re.compile(rb"550e8400-e29b-41d4-a716-[0-9a-f]{12}")
SOFT = {LEARNINGS: Limit(LimitKind.SOFT, None, 6), TASKS: Limit(LimitKind.SOFT, 2500, 5)}

files = st.sampled_from(LIVE)
scraps = st.sampled_from((b"{scrap\n", b"\xff\n", b"\0\0\0\n", b"\r\n", b"[1]\n", b"\xef\xbb\xbf\n"))
ages = st.sampled_from((0.3, 60.0, 3600.0))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="memoryd-machine-", dir=memory_disk()))
        self.world = World(self.base, Policy(limits={**SOFT}, backups=3, lock_wait_s=5.0))
        self.written = 0
        self.alive: set[bytes] = set()
        self.fresh: set[bytes] = set()  # ids that the agent's next change brings

    def teardown(self) -> None:
        try:
            self.world.settle()
            self.world.settle()
            assert self.world.temps() == []
        finally:
            self.world.store.close()
            shutil.rmtree(self.base)

    # --- observing

    def stored(self) -> Counter[bytes]:
        """Count each id in live files and archives."""
        found: Counter[bytes] = Counter()
        for name in self.world.names():
            if self.world.store.role(name) in (Role.SOURCE, Role.ARCHIVE):
                found.update(UUID.findall(self.world.read(name)))
        return found

    def set_aside(self) -> set[bytes]:
        store = self.world.store
        contents = [store.blobs.get(each.blob) for each in store.journal.quarantine.entries()]
        return {each for content in contents for each in UUID.findall(content)}

    def by_agent(self, act: Callable[[], object]) -> None:
        """Run a change by an agent: memories that it removes are not missed."""
        act()
        self.alive = (self.alive | self.fresh) & self.stored().keys()
        self.fresh = set()

    def by_memoryd(self, act: Callable[[], object]) -> None:
        """Run a change by memoryd: no memory may be doubled or lost."""
        before = self.stored()
        act()
        after = self.stored()
        more = {each: (before[each], count) for each, count in after.items() if count > before[each]}
        assert not more, f"memoryd made copies: {more}"

    def native(self, name: str, data: st.DataObject) -> dict[str, Any]:
        """Return a new memory; some are due at once."""
        self.written += 1
        self.fresh.add(uuid(self.written).encode())
        old = iso(self.world.now - data.draw(st.sampled_from((0, 10, 89, 91, 400))) * DAY)
        marked = data.draw(st.sampled_from((False, False, False, True)))
        if name == CORE:
            return memory(self.written, created_at=old, updated_at=old, accessed_at=old, archived=marked)
        if name == LEARNINGS:
            return learning(self.written, old, archived=marked)
        status = data.draw(st.sampled_from(("completed", "in-progress", None)))
        return task(self.written, status, old if status == "completed" else None, created_at=old, updated_at=old)

    # --- agents

    @rule(name=files, age=ages, data=st.data(), newline=st.booleans())
    def agent_appends(self, name: str, age: float, data: st.DataObject, newline: bool) -> None:
        text = line(self.native(name, data)) + (b"\n" if newline else b"")

        def act() -> None:
            with self.world.path(name).open("ab") as file:
                file.write(text)
            self.world.age(name, age)

        self.by_agent(act)

    @rule(name=files, data=st.data())
    def agent_writes_half_a_line(self, name: str, data: st.DataObject) -> None:
        text = line(self.native(name, data))
        cut = data.draw(st.integers(1, len(text) - 1))

        def act() -> None:
            with self.world.path(name).open("ab") as file:
                file.write(text[:cut])
            self.world.age(name, 0.3)

        self.by_agent(act)

    @rule(name=files, age=ages, data=st.data())
    def agent_rewrites_the_file(self, name: str, age: float, data: st.DataObject) -> None:
        """Some lines go, one changes, the last newline may go too."""
        path = self.world.path(name)
        pieces: list[bytes] = path.read_bytes().split(b"\n") if path.exists() else []
        kept = [piece for piece in pieces if piece and data.draw(st.integers(0, 4)) > 0]
        edited: bool = data.draw(st.booleans())
        if kept and edited:
            kept[0] = kept[0].replace(b"memory number", b"memory numero")
        content = b"\n".join(kept) + data.draw(st.sampled_from((b"", b"\n"))) if kept else b""
        self.by_agent(lambda: self.world.replace(name, content, age))

    @rule(name=files)
    def agent_deletes_the_file(self, name: str) -> None:
        self.by_agent(lambda: self.world.path(name).unlink(missing_ok=True))

    @rule(name=files, scrap=scraps)
    def agent_writes_rubbish(self, name: str, scrap: bytes) -> None:
        def act() -> None:
            with self.world.path(name).open("ab") as file:
                file.write(scrap)
            self.world.age(name, 60)

        self.by_agent(act)

    @rule(content=st.sampled_from((b"", b"{", b"{}", b'{"version":"0.1"}', b'{"tags_index":{},"mine":[1.0]}')))
    def another_program_writes_the_index(self, content: bytes) -> None:
        self.world.write("index.json", content, 0.3)

    @rule(name=files, data=st.data())
    def agent_appends_to_a_file_just_replaced(self, name: str, data: st.DataObject) -> None:
        """The agent had the file open before the rename by memoryd."""
        if not self.world.path(name).exists():
            return
        text = line(self.native(name, data)) + b"\n"
        with self.world.path(name).open("ab") as file:
            scheduled_archive(self.world)
            enforce_limits(self.world.store, self.world.now, by="schedule")
            file.write(text)
        self.world.settle()
        self.by_agent(lambda: None)
        assert uuid(self.written).encode() in self.stored()

    @rule(seconds=st.sampled_from((1, 3, 3600, DAY, 40 * DAY, 100 * DAY, -1, -3600, -2 * DAY)))
    def the_clock_jumps(self, seconds: int) -> None:
        self.world.now += seconds
        self.world.store.late_writes.merge(self.world.store.tree, self.world.now)

    # --- memoryd

    @rule()
    def archive_runs(self) -> None:
        self.by_memoryd(lambda: scheduled_archive(self.world))
        assert scheduled_archive(self.world) is None

    @rule()
    def limits_run(self) -> None:
        self.by_memoryd(lambda: enforce_limits(self.world.store, self.world.now, by="schedule"))
        assert enforce_limits(self.world.store, self.world.now, by="schedule").receipt is None

    @rule(data=st.data())
    def a_command_archives(self, data: st.DataObject) -> None:
        known = sorted({each.id for each in self.world.store.catalogue.entries(LIVE)})
        if known:
            ids = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
            self.by_memoryd(lambda: archive(self.world.store, self.world.now, by="command", ids=ids))

    @rule()
    def backup_runs(self) -> None:
        self.by_memoryd(lambda: create_backups(self.world.store, self.world.now))
        for name in LIVE:
            assert len(self.world.backups(f"{name}.")) <= 3 + 1  # one may be pinned

    @rule()
    def permissions_run(self) -> None:
        tighten(self.world.store, self.world.now, by="schedule")
        assert tighten(self.world.store, self.world.now, by="schedule").receipt is None

    @rule(name=files)
    def a_command_restores(self, name: str) -> None:
        """Later memories leave the live file because the user restores a backup, and can be recovered."""
        before = self.world.memories()
        try:
            done, messages = restore(self.world.store, self.world.now, file=name)
        except NotFoundError:
            return
        if done.receipt is None:
            return
        kept = self.world.path(f".backup/{messages.backup}")  # rotation may have taken it since
        assert not kept.exists() or self.world.read(name) in (kept.read_bytes(), kept.read_bytes() + b"\n")
        undo(self.world.store, done.receipt, self.world.now)
        assert {key: value for key, (value, _) in self.world.memories().items()} == {
            key: value for key, (value, _) in before.items()
        }

    @rule(data=st.data())
    def a_command_undoes(self, data: st.DataObject) -> None:
        done = [each for each in self.world.store.journal.entries() if _is_move(each)]
        if not done:
            return
        entry = data.draw(st.sampled_from(done))
        before = self.world.everything()

        refused: list[str] = []

        def act() -> None:
            try:
                undo(self.world.store, entry.receipt, self.world.now)
            except ConflictError as error:
                refused.extend(error.data["changed"])

        act()  # it may double: what was only taken out because its copy was there already comes back
        if refused:
            assert set(refused) <= {step.path for step in entry.steps}
            after = self.world.everything()
            assert {name for name in before if before[name] != after.get(name)} <= {"."}  # the lock came and went

    @rule()
    def memoryd_restarts(self) -> None:
        self.world.restart()
        assert self.world.temps() == []

    @rule(at=st.integers(1, 70), name=files, data=st.data(), meanwhile=st.booleans())
    def memoryd_dies(self, at: int, name: str, data: st.DataObject, meanwhile: bool) -> None:
        world = self.world
        due = {**self.native(name, data), "archived": True}
        self.by_agent(lambda: world.append(name, due))
        moves = [each for each in world.store.journal.entries() if _is_move(each)]
        acts: list[Callable[[], object]] = [
            lambda: scheduled_archive(world),
            lambda: enforce_limits(world.store, world.now, by="schedule"),
            lambda: create_backups(world.store, world.now),
            world.sync,
            lambda: undo(world.store, moves[0].receipt, world.now) if moves else None,
        ]
        act = data.draw(st.sampled_from(acts))
        may_double = act is acts[-1]
        before = self.stored()
        with dying(at) as death, suppress(ConflictError, UsageError):  # what it undoes may have changed meanwhile
            act()
        if currently_in_test_context():
            note(f"died: {death.call}")
        world.kill()
        if meanwhile:
            self.agent_appends(name=name, age=60.0, data=data, newline=True)
            before[uuid(self.written).encode()] = 1
        world.rise()
        assert world.temps() == []
        assert world.store.journal.unfinished() == []
        if not (meanwhile or may_double):
            assert not _more(before, self.stored())

    # --- invariants

    @invariant()
    def nothing_is_lost(self) -> None:
        missing = self.alive - self.stored().keys() - self.set_aside()
        assert not missing

    @invariant()
    def the_index_is_that_of_a_rebuild(self) -> None:
        self.world.sync()
        names = self.world.names()
        if "index.json" in names or any(name.endswith(".jsonl") for name in names):  # else there is nothing to index
            assert same_meaning(self.world.index(), self.world.rebuilt())
        assert self.world.sync().written == ()

    @invariant()
    def every_archive_line_parses(self) -> None:
        for name in self.world.names():
            if self.world.store.role(name) is Role.ARCHIVE:
                for text in self.world.read(name).splitlines():
                    assert json.loads(text)["archived"] is True


def scheduled_archive(world: World) -> str | None:
    """Return the receipt. While the clock is behind a recorded time, nothing is moved."""
    try:
        return archive(world.store, world.now, by="schedule").receipt
    except GuardError:
        assert any(entry.at > world.now for entry in world.store.journal.entries(1))
        return None


def _is_move(entry: Entry) -> bool:
    return entry.state == "done" and entry.operation in ("archive", "limits")


def _more(before: Counter[bytes], after: Counter[bytes]) -> Iterable[bytes]:
    return [each for each, count in after.items() if count > before[each]]


def _settings(number: int) -> settings:
    """Return reproducible settings, unless exploring; a failing history is not shrunk, which would take hours."""
    return settings(
        max_examples=examples(number),
        stateful_step_count=30,
        deadline=None,
        derandomize=not DEEP,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = _settings(15)


@pytest.mark.slow
def test_many_more_histories() -> None:
    run_state_machine_as_test(StoreMachine, settings=_settings(80))


class Simplest:
    """A source that draws the simplest of everything: the first act, no age, no mark."""

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return find(strategy, lambda _: True)


def test_canary_a_store_that_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.move_without_copy(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(StoreMachine, settings=_settings(60))


def test_canary_a_store_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories that left a file stay in the catalogue, where several then have an id."""
    monkeypatch.setattr(SqliteIndex, "replace", SqliteIndex.append)
    with pytest.raises((AssertionError, ConflictError, BaseExceptionGroup)):
        run_state_machine_as_test(StoreMachine, settings=_settings(60))


def test_canary_a_store_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that a death left in the archive stay there. Few histories die at the right call: each is tried."""
    faults.keep_copies(monkeypatch, "append")
    machine, simplest = StoreMachine(), cast("st.DataObject", Simplest())

    def each_death() -> None:
        for at in range(1, 70):
            machine.memoryd_dies(at=at, name=LEARNINGS, data=simplest, meanwhile=False)

    with pytest.raises(AssertionError):
        each_death()
    machine.teardown()
