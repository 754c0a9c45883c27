"""The base of the state machines of all layouts: agents that write well and badly, memoryd at work, deaths, clocks.

Each memory contains a unique word, so that its bytes can be found wherever they are: changes by agents may remove
words, changes by memoryd may not. The machine of a layout defines the form of its files.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memoryd.core.defaults import DAY, Policy
from memoryd.core.plan import Plan
from memoryd.core.records import Role
from memoryd.disk.journal import Entry
from memoryd.disk.temps import is_our_temp
from memoryd.errors import ConflictError, GuardError, NotFoundError, UsageError
from memoryd.operations.backup import create_backups
from memoryd.operations.index_files import update_index
from memoryd.operations.locks import sweep_locks
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe, prune
from memoryd.store import Store
from memoryd.store.commit import Committed
from memoryd.store.recovery import recover
from tests.layouts.contract import NOW
from tests.operations.death import dying
from tests.operations.world import kill

WORD = re.compile(rb"zq[a-j]{6}qz")
UPKEEP = ("archive", "prune", "dedupe")
# These depend on more than the files: on their earlier content, and on the time when they were read.
TOLD_BY_HISTORY = ("shrunk", "change-was-undone", "emptied-file", "lost-to-name-collision", "future-stamp")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of stores; deaths are simulated
DEAD_PID = 2**22 - 1  # the kernel's largest; no live process has it

ages = st.sampled_from((0.3, 60.0, 3600.0))


def word(number: int) -> str:
    """Return a word of letters only: a text with a number is no duplicate of any other."""
    return f"zq{number:06}qz".translate(str.maketrans("0123456789", "abcdefghij"))


class LayoutMachine(RuleBasedStateMachine):
    """The base class; subclasses name the layout and its files. `places` are the paths that agents use."""

    layout: ClassVar[str]
    places: ClassVar[Sequence[str]]
    foreign_index: ClassVar[Sequence[tuple[str, bytes | None]]] = ()
    jobs: ClassVar[Sequence[str]]  # those that may change files of the layout
    copies_ahead: ClassVar[bool] = False  # files share an archive, which is written once for all of them
    policy: ClassVar[Policy] = Policy()

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="memoryd-machine-", dir=MEMORY))
        self.root = self.base / "root"
        self.root.mkdir()
        self.now = NOW
        self.store = self.opened(self.root, "state")
        self.written = 0
        self.alive: set[bytes] = set()
        self.most: Counter[bytes] = Counter()  # the highest count of each word after a change by an agent or user
        self.looks = 0

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.base)

    # --- defined by a layout

    def compose(self, path: str, data: st.DataObject) -> bytes:
        """Return a new file with new memories."""
        raise NotImplementedError

    def edited(self, path: str, content: bytes, data: st.DataObject) -> bytes:
        """Return a file as an agent edits it: something added, changed or removed."""
        raise NotImplementedError

    def meaning(self, root: Path) -> Any:
        """Return the meaning of the index files, without parts that may differ between two equal ones."""
        return None

    # --- the disk

    def opened(self, root: Path, state: str) -> Store:
        store = Store("m", str(root), self.layout, self.policy, str(self.base / state))
        store.attach()
        return store

    def new_word(self) -> str:
        self.written += 1
        return word(self.written)

    def names(self) -> list[str]:
        found = (Path(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        return sorted(str(path.relative_to(self.root)) for path in found)

    def sources(self) -> list[str]:
        return [name for name in self.names() if self.store.role(name) is Role.SOURCE]

    def temps(self) -> list[str]:
        return [name for name in self.names() if is_our_temp(name)]

    def stored(self) -> Counter[bytes]:
        """Count each word in live files and archives."""
        found: Counter[bytes] = Counter()
        for name in self.names():
            if self.store.role(name) in (Role.SOURCE, Role.ARCHIVE):
                found.update(WORD.findall((self.root / name).read_bytes()))
        return found

    def set_aside(self) -> set[bytes]:
        contents = [self.store.blobs.get(each.blob) for each in self.store.journal.quarantine.entries()]
        return {each for content in contents for each in WORD.findall(content)}

    def everything(self) -> dict[str, tuple[bytes, int]]:
        paths = {name: self.root / name for name in self.names()}
        return {name: (path.read_bytes(), path.stat().st_mtime_ns) for name, path in paths.items()}

    def age(self, name: str, seconds: float) -> None:
        at = int((self.now - seconds) * 1e9)
        os.utime(self.root / name, ns=(at, at))

    def write(self, name: str, content: bytes, age: float, way: str) -> None:
        """Write in place (truncate and write), over (a shorter text over a longer one), or by a rename."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if way == "rename":
            temp = path.with_name(path.name + ".tmp")
            temp.write_bytes(content)
            temp.rename(path)
        elif way == "over" and path.exists():
            with path.open("r+b") as file:
                file.write(content)
        else:
            path.write_bytes(content)
        self.age(name, age)

    def pick(self, data: st.DataObject) -> str | None:
        there = self.sources()
        return data.draw(st.sampled_from(there)) if there else None

    # --- who made a change

    def by_user(self, act: Callable[[], object]) -> None:
        """Run a change by an agent, or one that a user requested: memories that it removes are not missed."""
        before = self.stored()
        act()
        after = self.stored()
        self.alive = (self.alive | after.keys()) - (before.keys() - after.keys())
        self.most |= after

    def by_memoryd(self, act: Callable[[], object], *, moves: bool = False) -> None:
        """Run a change by memoryd: no memory may be there more often than ever, and after `moves` just as often."""
        before = self.stored()
        act()
        after = self.stored()
        more = {each: count for each, count in after.items() if count > max(before[each], self.most[each])}
        assert not more, f"memoryd made copies: {more}"
        if moves:  # equal entries of one file become one in an archive
            lost = {each for each, count in before.items() if not after[each] or (count == 1 and after[each] != 1)}
            assert not lost, f"memoryd lost {lost}"

    # --- agents

    @initialize(data=st.data())
    def agents_made_some_files(self, data: st.DataObject) -> None:
        for name in data.draw(st.lists(st.sampled_from(self.places), min_size=1, max_size=3, unique=True)):
            content = self.compose(name, data)
            self.by_user(partial(self.write, name, content, 60.0, "in place"))

    @rule(data=st.data(), age=ages, way=st.sampled_from(("in place", "rename")))
    def agent_makes_a_file(self, data: st.DataObject, age: float, way: str) -> None:
        name = data.draw(st.sampled_from(self.places))
        content = self.compose(name, data)
        self.by_user(lambda: self.write(name, content, age, way))

    @rule(data=st.data(), age=ages, way=st.sampled_from(("in place", "rename", "over")))
    def agent_edits_a_file(self, data: st.DataObject, age: float, way: str) -> None:
        name = self.pick(data)
        if name is not None:
            content = self.edited(name, (self.root / name).read_bytes(), data)
            self.by_user(lambda: self.write(name, content, age, way))

    @rule(data=st.data(), age=ages)
    def agent_is_cut_off(self, data: st.DataObject, age: float) -> None:
        """Truncate a file and write half of it."""
        name = data.draw(st.sampled_from(self.places))
        content = self.compose(name, data)
        half = content[: data.draw(st.integers(0, len(content) - 1))]
        self.by_user(lambda: self.write(name, half, age, "in place"))

    @rule(data=st.data(), copy=st.booleans())
    def agent_moves_a_file(self, data: st.DataObject, copy: bool) -> None:
        name = self.pick(data)
        if name is None:
            return
        target = self.root / data.draw(st.sampled_from((*self.places, "elsewhere.txt")))

        def act() -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            if copy and target != self.root / name:
                shutil.copy2(self.root / name, target)
            else:
                (self.root / name).rename(target)

        self.by_user(act)

    @rule(data=st.data())
    def agent_deletes_a_file(self, data: st.DataObject) -> None:
        name = self.pick(data)
        if name is not None:
            self.by_user(lambda: (self.root / name).unlink())

    @rule(data=st.data(), age=ages)
    def another_program_writes_the_index(self, data: st.DataObject, age: float) -> None:
        if not self.foreign_index:
            return
        name, content = data.draw(st.sampled_from(self.foreign_index))
        if content is None:
            (self.root / name).unlink(missing_ok=True)
        else:
            self.write(name, content, age, "in place")

    @rule(data=st.data())
    def events_tell_of_some_paths(self, data: st.DataObject) -> None:
        told = data.draw(st.lists(st.sampled_from((*self.places, *self.names())), unique=True, max_size=3))
        self.look(told)

    @rule(seconds=st.sampled_from((1, 3, 3600, DAY, 40 * DAY, 100 * DAY, -1, -3600, -2 * DAY)))
    def the_clock_jumps(self, seconds: int) -> None:
        self.now += seconds
        self.store.late_writes.merge(self.store.tree, self.now)

    # --- memoryd

    def look(self, touched: Sequence[str] | None = None) -> None:
        done = refresh(self.store, touched, self.now)
        if done.changed or done.deleted:
            self.store.index.dirty = True

    def sync(self) -> tuple[str, ...]:
        self.look()
        return update_index(self.store, self.now, force=True).written

    def upkeep(self, job: str, by: str) -> Committed:
        """Run upkeep by schedule; while the clock is behind a recorded time, nothing is moved."""
        act: Callable[..., Committed] = {"archive": archive, "prune": prune, "dedupe": dedupe}[job]
        try:
            return act(self.store, self.now, by=by)
        except GuardError:
            assert (job, by) == ("archive", "schedule")
            assert any(entry.at > self.now for entry in self.store.journal.entries(1))
            return Committed(Plan(), None)

    @rule(data=st.data(), by=st.sampled_from(("schedule", "command")))
    def upkeep_runs(self, data: st.DataObject, by: str) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        self.by_memoryd(lambda: self.upkeep(job, by), moves=job != "dedupe")
        self.look()
        assert self.upkeep(job, by).receipt is None

    @rule(data=st.data())
    def a_command_archives(self, data: st.DataObject) -> None:
        catalogue, sources = self.store.catalogue, self.sources()
        places = [place for each in catalogue.entries(sources) for place in catalogue.places(each.id)]
        known = sorted({place.unique_id for place in places if place.path in sources})
        if not known:
            return
        ids = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))

        def act() -> None:
            try:
                archive(self.store, self.now, by="command", ids=ids)
            except NotFoundError as error:
                note(f"refused: {error}")

        self.by_memoryd(act, moves=True)

    @rule()
    def repair_runs(self) -> None:
        self.by_memoryd(lambda: repair(self.store, self.now))
        self.look()
        assert not repair(self.store, self.now).plan

    @rule()
    def a_snapshot_is_taken(self) -> None:
        before = self.everything()
        create_backups(self.store, self.now)
        assert self.everything() == before
        # Besides those that the limit counts, the rotation keeps the pinned ones and the one with the most memories.
        counted = [each for each in self.store.vault.snapshots() if not each.pinned]
        assert len(counted) <= self.policy.backups + 1

    @rule(data=st.data(), whole=st.booleans(), back=st.booleans())
    def a_command_restores(self, data: st.DataObject, whole: bool, back: bool) -> None:
        name = None if whole else data.draw(st.sampled_from(self.places))
        before = {each: content for each, (content, _) in self.everything().items()}
        made: list[Committed] = []

        def act() -> None:
            try:
                made.append(restore(self.store, self.now, file=name)[0])
            except NotFoundError as error:
                note(f"refused: {error}")

        self.by_user(act)
        receipt = made[0].receipt if made else None
        if back and receipt is not None:
            self.by_user(lambda: undo(self.store, receipt, self.now))
            self.settle()
            assert {each: content for each, (content, _) in self.everything().items()} == before

    @rule(data=st.data())
    def a_command_undoes(self, data: st.DataObject) -> None:
        done = [each for each in self.store.journal.entries() if _can_be_undone(each)]
        if not done:
            return
        entry = data.draw(st.sampled_from(done))
        before = self.everything()
        refused: list[str] = []

        def act() -> None:
            try:
                undo(self.store, entry.receipt, self.now)
            except ConflictError as error:
                refused.extend(error.data["changed"])

        self.by_memoryd(act)
        if refused:
            assert set(refused) <= {step.path for step in entry.steps}
            assert self.everything() == before

    @rule()
    def memoryd_restarts(self) -> None:
        self.store.close()
        self.rise()

    @rule(at=st.integers(1, 60), data=st.data(), meanwhile=st.booleans())
    def memoryd_dies(self, at: int, data: st.DataObject, meanwhile: bool) -> None:
        self.agent_makes_a_file(data=data, age=3600.0, way="in place")
        self.look()
        act = data.draw(st.sampled_from(self.acts()))
        before = self.stored()
        with dying(at) as death:
            try:
                act()
            except (ConflictError, UsageError, NotFoundError) as error:
                note(f"refused: {error}")
        note(f"died: {death.call}")
        self.killed()
        if meanwhile:
            self.agent_edits_a_file(data=data, age=60.0, way="in place")
        self.rise()
        assert self.store.journal.unfinished() == []
        taken_back = [each.state for each in self.store.journal.entries(1)] == ["rolled_back"]
        if self.copies_ahead and not taken_back and self._copied(before) and isinstance(act, partial):
            # Copied ahead for a later file of the same run: the next run finds the copy and only removes.
            self.sync()
            act()
        assert not self._copied(before), "the recovery left copies"

    def _copied(self, before: Mapping[Any, int]) -> dict[Any, int]:
        return {each: n for each, n in self.stored().items() if n > max(before[each], self.most[each])}

    def runs(self) -> list[Callable[[], object]]:
        return [partial(self.upkeep, job, by) for job in self.jobs for by in ("command", "schedule")]

    def acts(self) -> list[Callable[[], object]]:
        """Return the operations in which memoryd may die."""
        done = [each for each in self.store.journal.entries() if _can_be_undone(each)]
        return [
            *self.runs(),
            lambda: repair(self.store, self.now),
            lambda: create_backups(self.store, self.now),
            self.sync,
            lambda: undo(self.store, done[0].receipt, self.now) if done else None,
        ]

    def killed(self) -> None:
        kill(self.store)

    def rise(self) -> None:
        self.store = self.opened(self.root, "state")
        recover(self.store, self.now)
        assert self.temps() == []
        for rule_ in self.store.layout.files.locks if self.store.layout else ():
            lock = self.root / rule_.name
            if lock.exists():  # its holder is this process, which counts as dead
                lock.write_text(f'{{"pid": {DEAD_PID}}}')
                self.age(rule_.name, 3600)
                sweep_locks(self.store, self.now)
                assert not lock.exists()

    def settle(self) -> None:
        """Let time pass until no process can have a replaced file open or be writing."""
        self.now += 3.0
        self.store.late_writes.merge(self.store.tree, self.now)
        assert self.temps() == []

    # --- invariants

    @invariant()
    def nothing_is_lost(self) -> None:
        missing = self.alive - self.stored().keys()
        assert not missing - self.set_aside()

    @invariant()
    def what_memoryd_knows_is_what_a_rebuild_knows(self) -> None:
        self.sync()
        self.settle()
        self.sync()
        before = self.everything()
        self.store.index.dirty = True
        assert self.sync() == ()
        assert self.everything() == before
        self.looks += 1
        copy = self.base / f"copy-{self.looks}"
        shutil.copytree(self.root, copy)
        try:
            self._compare(copy)
        finally:
            shutil.rmtree(copy)

    def _compare(self, copy: Path) -> None:
        fresh = self.opened(copy, f"fresh-{self.looks}")
        try:
            refresh(fresh, None, self.now)
            assert update_index(fresh, self.now, force=True).written == ()
            assert known(self.store) == known(fresh)
        finally:
            fresh.close()
        paths = [copy / path for path in fresh.layout.index.paths] if fresh.layout else []
        if not any(path.exists() for path in paths) or self.depends_on_the_index():
            return
        for path in paths:
            path.unlink(missing_ok=True)
        bare = self.opened(copy, f"bare-{self.looks}")
        try:
            refresh(bare, None, self.now)
            update_index(bare, self.now, force=True)
        finally:
            bare.close()
        if any(path.exists() for path in paths):
            assert self.meaning(self.root) == self.meaning(copy)
        else:  # an index is first made with the first memory
            assert list(self.store.catalogue.entries(self.sources())) == []

    def depends_on_the_index(self) -> bool:
        """True if the current index contains what no file does."""
        return False


def known(store: Store) -> dict[str, Any]:
    """Return all that memoryd has recorded of the files and that depends on the files alone."""
    rows = store.catalogue.files()
    entries = [(*each[:5], repr(sorted(each.facts.items()))) for each in store.catalogue.entries(sorted(rows))]
    found = [*store.catalogue.findings(), *store.root_findings.get("index", ()), *store.root_findings.get("files", ())]
    result = store.index.result
    return {
        "files": {path: (r.role, r.digest, r.units, r.broken, r.records, r.pending) for path, r in rows.items()},
        "entries": entries,
        "findings": sorted(map(repr, (each for each in found if each.code not in TOLD_BY_HISTORY))),
        "counts": (result.memories, result.archived, dict(result.by_type)),
    }


def _can_be_undone(entry: Entry) -> bool:
    return entry.state == "done" and entry.operation in (*UPKEEP, "repair")
