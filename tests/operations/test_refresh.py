"""Indexing what changed: nothing more is read, and unreadable files stay in the catalogue."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memoryd.core.defaults import MB
from memoryd.core.findings import Finding
from memoryd.core.records import Document, ParseOffset
from memoryd.core.spans import COARSE_RECENT_S, sha256
from memoryd.disk.syscalls import PIECE, ChangingError
from memoryd.disk.tree import Tree
from memoryd.errors import ShuttingDownError
from memoryd.layouts.jsonl_store import JsonlReader
from memoryd.operations import whole_files
from memoryd.operations.check import all_findings
from memoryd.operations.index_files import update_index
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from memoryd.store.indexed_files import END_BYTES, FileEnds
from tests.index.records import EVERYTHING
from tests.layouts.samples import learning, line, lines, memory, task, uuid
from tests.operations.world import CORE, LEARNINGS, LIVE, Q3, TASKS, World, whole_reads


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files opened from here on."""
    names: list[str] = []
    real = os.open

    def counting(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        fd = real(path, flags, *rest, **more)
        if not flags & os.O_DIRECTORY:
            names.append(os.fspath(path))
        return fd

    monkeypatch.setattr(os, "open", counting)
    return names


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, ParseOffset]]:
    """(path, bytes, base) of everything parsed from here on."""
    seen: list[tuple[str, int, ParseOffset]] = []
    real = JsonlReader.parse

    def spying(self: JsonlReader, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        seen.append((path, len(data), base))
        return real(self, path, data, now=now, mtime=mtime, base=base)

    monkeypatch.setattr(JsonlReader, "parse", spying)
    return seen


def filled(world: World) -> None:
    world.write(CORE, lines(memory(1), memory(2)))
    world.write(LEARNINGS, lines(learning(11), learning(12)))
    world.write(TASKS, lines(task(21, "in-progress")))
    world.write(Q3, lines(learning(31, archived=True)))


def overwrite(path: Path, start: int, content: bytes) -> None:
    """Change some bytes of a file where it lies, as an editor of records does."""
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(content)


class TestTails:
    """What makes an appended line searchable at once: `tails` reads only the end of a file."""

    @pytest.fixture
    def read_whole(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The files read as a whole from here on."""
        return whole_reads(monkeypatch)

    def ids(self, world: World) -> list[str]:
        return [each.id for each in world.store.catalogue.entries([CORE])]

    def test_only_the_end_is_read_and_the_whole_later(self, world: World, read_whole: list[str]) -> None:
        world.write(CORE, lines(memory(1), memory(2)))
        world.look()
        read_whole.clear()
        for number in (3, 4):
            world.append(CORE, memory(number))
            assert world.look([CORE], tails=True).changed == (CORE,)
        assert read_whole == []
        row = world.store.catalogue.file(CORE)
        assert row is not None
        assert (row.digest, row.lines, row.records) == (sha256(world.read(CORE)), 4, 4)
        assert self.ids(world) == [uuid(each) for each in (1, 2, 3, 4)]
        assert world.look([CORE]).changed == ()
        assert read_whole == [CORE]

    def test_what_else_was_changed_is_found_when_the_root_has_settled(
        self, world: World, read_whole: list[str]
    ) -> None:
        """In place, with old times, and further from the end than is compared."""
        padding = memory(2, content="x" * 2 * END_BYTES)
        world.write(CORE, lines(memory(1, content="before"), padding))
        world.look()
        read_whole.clear()
        overwrite(world.root / CORE, world.read(CORE).index(b"before"), b"behind")
        world.append(CORE, memory(3))
        os.utime(world.root / CORE, (world.now - 900, world.now - 900))
        world.look([CORE], tails=True)
        assert read_whole == []
        world.look([CORE])
        row = world.store.catalogue.file(CORE)
        assert row is not None
        assert row.digest == sha256(world.read(CORE))
        assert "behind" in {each.body for each in world.store.catalogue.newest(EVERYTHING, 9)}

    def test_a_changed_piece_of_a_large_file_is_found_below_appended_lines(self, world: World) -> None:
        world.write(CORE, lines(memory(1, content="before"), memory(2, content="x" * 2 * PIECE)))
        world.look()
        world.append(CORE, memory(3))
        assert world.look([CORE]).changed == (CORE,)
        overwrite(world.root / CORE, world.read(CORE).index(b"before"), b"behind")
        world.append(CORE, memory(4))
        for changed in ((CORE,), ()):
            assert world.look([CORE]).changed == changed
            row = world.store.catalogue.file(CORE)
            assert row is not None
            assert row.digest == sha256(world.read(CORE))
            assert "behind" in {each.body for each in world.store.catalogue.newest(EVERYTHING, 9)}

    @pytest.mark.parametrize("change", ["end edited", "replaced", "shorter", "no newline", "unknown end"])
    def test_another_change_is_read_whole_at_once(self, world: World, read_whole: list[str], change: str) -> None:
        world.write(CORE, lines(memory(1, content="before")))
        world.look()
        path, content = world.root / CORE, world.read(CORE)
        grown = content.replace(b"before", b"behind") + lines(memory(2))
        if change == "end edited":
            overwrite(path, 0, grown)
        elif change == "replaced":
            (path.parent / "new").write_bytes(grown)
            (path.parent / "new").rename(path)
        elif change == "shorter":
            os.truncate(path, 0)
        elif change == "no newline":
            path.write_bytes(content + line(memory(2)))
        else:
            world.store.file_ends = FileEnds()
            world.append(CORE, memory(2))
        read_whole.clear()
        world.look([CORE], tails=True)
        assert read_whole == [CORE]
        assert self.ids(world) == ([] if change == "shorter" else [uuid(1), uuid(2)])


def fresh_findings(world: World, tmp_path: Path) -> list[Finding]:
    """Return the findings of a new store on the same files."""
    store = Store("fresh", str(world.root), "jsonl-store", world.policy, str(tmp_path / "fresh"))
    store.attach_read_only()
    try:
        refresh(store, None, world.now)
        return sorted(store.catalogue.findings(), key=repr)
    finally:
        store.close()


class TestCost:
    def test_an_unchanged_store_is_not_opened(self, world: World, opened: list[str]) -> None:
        filled(world)
        assert set(world.look().changed) == {*LIVE, Q3}
        opened.clear()
        assert world.look().changed == ()
        assert world.look([*LIVE, Q3]).changed == ()
        assert opened == []

    def test_new_files_are_indexed_in_the_order_of_their_names(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.write(TASKS, lines(task(3)))
        world.write(CORE, lines(memory(1)))
        world.write(LEARNINGS, lines(learning(2, "2025-07-01T00:00:00Z")))
        found = world.store.scan()
        backwards = replace(found, files=dict(sorted(found.files.items(), reverse=True)))
        monkeypatch.setattr(world.store, "scan", lambda: backwards)
        world.look()
        by_key = [text for _, text in world.store.catalogue.missing_vectors("model", 0, 9)]
        assert by_key == ["memory number 1", "memory number 2", "memory number 3"]

    def test_it_is_not_opened_after_a_restart_either(self, world: World, opened: list[str]) -> None:
        filled(world)
        world.look()
        world.restart()
        opened.clear()
        assert world.look().changed == ()
        assert [name for name in opened if name.endswith(".jsonl")] == []

    def test_only_what_changed_is_opened(self, world: World, opened: list[str]) -> None:
        filled(world)
        world.look()
        world.append(CORE, memory(3))
        opened.clear()
        assert world.look().changed == (CORE,)
        assert opened == [CORE]

    def test_only_the_tail_of_a_grown_file_is_parsed(
        self, world: World, parsed: list[tuple[str, int, ParseOffset]]
    ) -> None:
        filled(world)
        world.look()
        parsed.clear()
        size = len(world.read(CORE))
        world.append(CORE, memory(3))
        world.look([CORE])
        assert parsed == [(CORE, len(line(memory(3))) + 1, ParseOffset(size, 3))]
        records = list(world.store.catalogue.entries([CORE]))
        assert [(each.id, each.line) for each in records] == [(uuid(1), 1), (uuid(2), 2), (uuid(3), 3)]

    @pytest.mark.parametrize("change", ["edit", "shrink", "no newline", "emptied"])
    def test_any_other_changed_file_is_parsed_whole(
        self, world: World, parsed: list[tuple[str, int, ParseOffset]], change: str
    ) -> None:
        filled(world)
        if change == "no newline":
            world.write(CORE, line(memory(1)))
        world.look()
        parsed.clear()
        content = {
            "edit": lines(memory(1, content="other words"), memory(2), memory(3)),
            "shrink": lines(memory(1)),
            "no newline": lines(memory(1), memory(2)),
            "emptied": b"",
        }[change]
        world.write(CORE, content)
        world.look([CORE])
        assert parsed == [(CORE, len(content), ParseOffset())]

    def test_a_touched_file_of_equal_content_is_read_but_not_parsed(
        self, world: World, parsed: list[tuple[str, int, ParseOffset]]
    ) -> None:
        filled(world)
        world.look()
        parsed.clear()
        world.replace(CORE, world.read(CORE), age=60)
        assert world.look([CORE]).changed == ()
        assert parsed == []

    def test_a_recently_modified_file_is_hashed_again(self, world: World, opened: list[str]) -> None:
        """Two writes within one tick of the clock leave the same stamp."""
        filled(world)
        assert world.now.is_integer()
        world.write(CORE, lines(memory(1)), age=1.0)
        world.look()
        opened.clear()
        for wait, wanted in ((0.5, [CORE]), (0.25, [CORE]), (COARSE_RECENT_S, [CORE]), (1.0, [])):
            world.now += wait
            opened.clear()
            assert world.look().changed == ()
            assert opened == wanted

    @pytest.mark.parametrize(("age", "again"), [(0.25, False), (0.05, True), (-0.25, True), (-2.5, False)])
    def test_a_stamp_with_a_fraction_is_trusted_sooner(
        self, world: World, opened: list[str], age: float, again: bool
    ) -> None:
        filled(world)
        world.write(CORE, lines(memory(1)), age=age)
        world.look()
        world.now += 10
        opened.clear()
        world.look()
        assert opened == [CORE] * again

    @pytest.mark.parametrize("age", [0.05, 1.0])
    def test_two_writes_with_equal_stamps_are_distinguished_if_recent(self, world: World, age: float) -> None:
        world.write(CORE, lines(memory(1, content="AAAA")), age=age)
        world.look()
        row = world.store.catalogue.file(CORE)
        world.write(CORE, lines(memory(1, content="BBBB")), age=age)
        now_row = world.store.catalogue.file(CORE)
        assert row == now_row
        world.now += 1.0
        assert world.look([CORE]).changed == (CORE,)

    def test_verify_reads_files_that_look_unchanged(self, world: World, opened: list[str]) -> None:
        filled(world)
        world.look()
        opened.clear()
        assert world.look(verify=True).changed == ()
        assert sorted(opened) == sorted(os.path.basename(name) for name in (*LIVE, Q3))


class TestFindingsOfAGrownFile:
    """The catalogue is a cache: after any growth it equals a rebuilt one."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (b"{bad\n{bad\n" + lines(memory(1)), lines(memory(2), memory(3))),  # was corrupt, no longer is
            (lines(memory(1), memory(2)), b"{bad\n{bad\n{bad\n"),  # becomes corrupt
            (lines(memory(1)), line(memory(2)) + b"\r\n"),  # the first CRLF comes late
            (line(memory(1)) + b"\r\n", line(memory(2)) + b"\r\n"),  # and is reported once
            (lines(memory(1)), b"{torn"),
            (lines(memory(1)), lines(memory(1)) + line(memory(2)) + line(memory(3))),
            (b"\xef\xbb\xbf" + lines(memory(1)), b"\0\0\n" + lines(memory(2, tags="x"))),
        ],
    )
    def test_equal_those_of_a_rebuild(self, world: World, tmp_path: Path, before: bytes, after: bytes) -> None:
        world.write(CORE, before)
        world.look()
        world.write(CORE, before + after)
        world.look([CORE])
        assert sorted(world.store.catalogue.findings(), key=repr) == fresh_findings(world, tmp_path)
        row = world.store.catalogue.file(CORE)
        assert row is not None
        whole = world.layout.reader.parse(
            CORE, before + after, now=world.now, mtime=world.now - 3600, base=ParseOffset()
        )
        assert (row.units, row.broken, row.records) == (whole.units, whole.broken, len(whole.records))


class TestHalfWritten:
    def test_a_fresh_torn_tail_waits_and_is_completed(self, world: World) -> None:
        whole = lines(memory(1), memory(2))
        world.write(CORE, whole[:-40], age=0.2)
        done = world.look([CORE])
        assert (done.changed, done.waiting) == ((CORE,), (CORE,))
        assert [each.id for each in world.store.catalogue.entries([CORE])] == [uuid(1)]
        assert world.store.catalogue.findings() == []
        world.now += 0.5
        world.write(CORE, whole, age=0.0)
        assert world.look([CORE]).waiting == ()
        assert [each.id for each in world.store.catalogue.entries([CORE])] == [uuid(1), uuid(2)]

    def test_an_old_torn_tail_is_reported(self, world: World) -> None:
        world.write(CORE, lines(memory(1)) + b'{"id":', age=0.2)
        assert world.look().waiting == (CORE,)
        world.now += 2.0
        assert world.look().waiting == ()
        assert [each.code for each in world.store.catalogue.findings()] == ["torn-tail"]

    def test_torn_and_joined_in_observe_mode(self, world: World) -> None:
        """Readable parts are indexed, the files are not touched."""
        world.write(CORE, line(memory(1)) + line(memory(2)) + b"\n")
        world.write(LEARNINGS, lines(learning(11)) + line(learning(12))[:60])
        before = world.everything()
        world.look()
        assert [each.id for each in world.store.catalogue.entries([CORE, LEARNINGS])] == [uuid(1), uuid(2), uuid(11)]
        assert [(each.code, each.path) for each in world.store.catalogue.findings()] == [
            ("joined-lines", CORE),
            ("torn-tail", LEARNINGS),
        ]
        assert world.everything() == before

    def test_a_file_that_keeps_changing_is_read_again_later(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(world)
        world.look()
        world.append(CORE, memory(3))

        def changing(self: Tree, path: str, *args: Any, **more: Any) -> Any:
            raise ChangingError(path)

        with monkeypatch.context() as patch:
            patch.setattr(Tree, "read", changing)
            patch.setattr(Tree, "read_grown", changing)
            done = world.look([CORE])
        assert (done.changed, done.waiting) == ((), (CORE,))
        assert len(list(world.store.catalogue.entries([CORE]))) == 2
        assert world.look([CORE]).changed == (CORE,)


class TestDeletions:
    def test_a_deleted_file_leaves_the_catalogue(self, world: World) -> None:
        filled(world)
        world.look()
        world.path(LEARNINGS).unlink()
        assert world.look([LEARNINGS]).deleted == (LEARNINGS,)
        world.path(TASKS).unlink()
        assert world.look().deleted == (TASKS,)
        assert sorted(world.store.catalogue.files()) == sorted([CORE, Q3])

    def test_a_sudden_loss_without_events_stops_indexing(self, world: World) -> None:
        world.write(CORE, lines(*(memory(n) for n in range(1, 25))))
        world.write(TASKS, lines(task(100), task(101)))
        world.look()
        world.path(CORE).unlink()
        done = world.look(deletions_observed=False)
        assert done.loss is not None
        assert "24 of 26" in done.loss
        assert CORE in world.store.catalogue.files()
        assert world.look(deletions_observed=True).deleted == (CORE,)

    @pytest.mark.parametrize(
        ("lost", "left", "stops"), [(20, 0, False), (21, 0, True), (21, 21, False), (22, 21, True)]
    )
    def test_the_bounds_of_a_sudden_loss(self, world: World, lost: int, left: int, stops: bool) -> None:
        world.write(CORE, lines(*(memory(n) for n in range(1, lost + 1))))
        world.write(LEARNINGS, lines(*(learning(n) for n in range(100, left + 100))))
        world.look()
        world.path(CORE).unlink()
        assert (world.look(deletions_observed=False).loss is not None) is stops

    def test_a_file_of_more_than_64_mb_stays_indexed_and_is_reported(self, world: World) -> None:
        filled(world)
        world.look()
        os.truncate(world.path(CORE), 64 * MB + 1)
        world.age(CORE, 60)
        world.look()
        assert len(list(world.store.catalogue.entries([CORE]))) == 2
        assert [each.code for each in all_findings(world.store)] == ["too-large"]
        world.replace(CORE, lines(memory(1)))
        world.look()
        assert all_findings(world.store) == []

    @pytest.mark.parametrize(("kind", "again"), [("EIO", True), ("EMFILE", True), ("ESTALE", True), ("EACCES", False)])
    def test_a_file_that_cannot_be_read_for_a_moment_is_read_again_without_an_event(
        self, world: World, monkeypatch: pytest.MonkeyPatch, kind: str, again: bool
    ) -> None:
        """Another mode, which makes it readable, causes one."""

        def refuse(*_: object, **__: object) -> None:
            raise OSError(getattr(errno, kind), kind)

        world.write(CORE, lines(memory(1)))
        waiting = (CORE,) if again else ()
        with monkeypatch.context() as failing:
            failing.setattr(Tree, "read", refuse)
            assert [world.look([CORE]).waiting for _ in range(3)] == [waiting] * 3
            world.now += 61
            assert world.look([CORE]).waiting == (), "left to the scans"
        assert [each.code for each in all_findings(world.store)] == ["unreadable"]
        assert world.look([CORE]).waiting == ()
        assert [each.id for each in world.store.catalogue.entries([CORE])] == [uuid(1)]
        world.write(CORE, lines(memory(2)))
        with monkeypatch.context() as failing:
            failing.setattr(Tree, "read", refuse)
            assert world.look([CORE]).waiting == waiting
        assert [each.id for each in world.store.catalogue.entries([CORE])] == [uuid(1)]

    def test_the_catalogue_may_be_deleted_at_any_time(self, world: World) -> None:
        filled(world)
        world.sync()
        before = world.index()
        world.store.close()
        for path in world.state.glob("catalogue.sqlite*"):
            path.unlink()
        world.rise()
        world.now += 1000
        assert world.sync().written == ()
        assert world.index() == before


class TestIrregularFiles:
    """Irregular files are never opened: a pipe would block the worker forever."""

    def test_a_pipe_a_link_and_a_directory_in_place_of_files(self, world: World, tmp_path: Path) -> None:
        outside = tmp_path / "outside.jsonl"
        outside.write_bytes(lines(memory(99)))
        os.mkfifo(world.path(CORE))
        world.path(LEARNINGS).symlink_to(outside)
        world.path(TASKS).mkdir()
        for paths in (None, LIVE):
            world.look(paths)
            assert world.store.catalogue.files() == {}
            found = {(each.code, each.path) for each in world.store.root_findings["files"]}
            assert found == {("not-a-regular-file", path) for path in LIVE}
        assert world.sync().result.memories == 0

    def test_an_event_of_the_file_is_enough_to_report_and_clear_it(self, world: World, tmp_path: Path) -> None:
        world.write(LEARNINGS, lines(learning(1)))
        world.look()
        elsewhere = tmp_path / "elsewhere.jsonl"
        world.path(LEARNINGS).rename(elsewhere)
        world.path(LEARNINGS).symlink_to(elsewhere)
        world.look([LEARNINGS])
        [finding] = world.store.root_findings["files"]
        assert (finding.code, finding.path) == ("not-a-regular-file", LEARNINGS)
        elsewhere.replace(world.path(LEARNINGS))
        world.look([LEARNINGS])
        assert world.store.root_findings["files"] == ()

    def test_a_linked_archive_directory_is_not_followed(self, world: World, tmp_path: Path) -> None:
        filled(world)
        outside = tmp_path / "elsewhere"
        outside.mkdir()
        (outside / "learnings_2024_Q1.jsonl").write_bytes(lines(learning(1)))
        world.path("archive/2024").symlink_to(outside)
        world.look()
        [finding] = world.store.root_findings["files"]
        assert (finding.code, finding.path) == ("not-a-regular-file", "archive/2024")
        assert sorted(world.store.catalogue.files()) == sorted([*LIVE, Q3])

    def test_a_link_in_place_of_the_archive_is_reported(self, world: World, tmp_path: Path) -> None:
        world.write(LEARNINGS, lines(learning(1)))
        (tmp_path / "elsewhere").mkdir()
        world.path("archive").symlink_to(tmp_path / "elsewhere")
        world.path("notes").symlink_to(tmp_path / "elsewhere")
        world.look()
        [finding] = world.store.root_findings["files"]
        assert (finding.code, finding.path) == ("not-a-regular-file", "archive")

    @pytest.mark.parametrize(
        ("kind", "directory"), [("markdown-topics", "a/b"), ("session-files", "2026-01-30"), ("user-document", "al")]
    )
    def test_a_link_in_place_of_a_directory_of_memories_is_reported(
        self, kind: str, directory: str, tmp_path: Path
    ) -> None:
        world = World(tmp_path / "world", kind=kind)
        world.path("inside").mkdir()
        linked = world.path(directory)
        linked.parent.mkdir(exist_ok=True)
        linked.symlink_to(tmp_path)
        linked.with_name("README.txt").symlink_to(tmp_path)
        linked.with_name("inner").symlink_to("../" * directory.count("/") + "inside")
        linked.with_name("absolute").symlink_to(world.path("inside"))
        linked.with_name("back").symlink_to("../" * (directory.count("/") + 1) + f"{world.root.name}/inside")
        world.look()
        [finding] = world.store.root_findings["files"]
        assert (finding.code, finding.path) == ("not-a-regular-file", directory)
        assert "memories below it are not read" in finding.message
        linked.unlink()
        linked.mkdir()
        world.look()
        assert world.store.root_findings["files"] == ()
        world.store.close()

    def test_a_link_that_is_replaced_while_it_is_read_ends_no_scan(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = World(tmp_path / "world", kind="markdown-topics")
        world.path("topic").symlink_to(tmp_path)

        def replaced(*_: object, **__: object) -> str:
            raise OSError(errno.EINVAL, "Invalid argument")

        monkeypatch.setattr(os, "readlink", replaced)
        world.look()
        assert world.store.root_findings["files"] == ()
        world.store.close()

    @pytest.mark.parametrize("is_link", [True, False])
    def test_what_is_in_place_of_an_archive_file_is_reported_alike_by_event_and_scan(
        self, world: World, is_link: bool
    ) -> None:
        world.write(LEARNINGS, lines(learning(1)))
        place = world.path(Q3)
        place.parent.mkdir(parents=True)
        place.symlink_to("nowhere") if is_link else place.mkdir()
        found = []
        for paths in ([Q3], None):
            world.look(paths)
            found.append([(each.path, each.message) for each in world.store.root_findings["files"]])
        message = "a link, directory or special file in place of a file; not opened: replace it with a file"
        assert found == [[(Q3, message)]] * 2

    def test_names_are_data(self, world: World) -> None:
        filled(world)
        for name in ("it's.json", "new\nline.json", "東京.json", os.fsdecode(b"bad\xff.json"), '"q".json', " "):
            world.write(name, b'{"core_memories":[{"content":"x"}]}')
        world.sync()
        assert os.fsdecode(b"bad\xff.json") in world.store.catalogue.files()
        assert len(world.store.catalogue.files()) == 9

    def test_half_written_files_of_others_are_ignored(self, world: World) -> None:
        filled(world)
        for name in ("core_memories.jsonl.tmp", "core_memories.jsonl~", ".core_memories.jsonl.swp", "x.json.bak"):
            world.write(name, lines(memory(77)))
        world.look()
        assert sorted(world.store.catalogue.files()) == sorted([*LIVE, Q3])


def test_a_large_file_indexed_in_chunks_equals_one_parsed_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a chunk, records, findings and line numbers are equal."""
    good = lines(*(learning(number) for number in range(40)))
    data = good + b"not json\r\n" + lines(learning(41), learning(41)) + b"\n" + line(learning(42)) + line(learning(43))
    (world.root / LEARNINGS).write_bytes(data)
    world.look()
    row = world.store.catalogue.file(LEARNINGS)
    assert row is not None
    wanted = (list(world.store.catalogue.entries([LEARNINGS])), world.store.catalogue.findings(), row.units, row.digest)
    for size in (1, 300, 5000):
        monkeypatch.setattr(whole_files, "CHUNK_SIZE", size)
        world.store.catalogue.clear()
        world.look()
        row = world.store.catalogue.file(LEARNINGS)
        assert row is not None
        found = list(world.store.catalogue.entries([LEARNINGS]))
        assert (found, world.store.catalogue.findings(), row.units, row.digest) == wanted


class TestStopping:
    """A shutdown does not wait for the first indexing of a large store."""

    MANY = 3000

    def stopped_after(self, parts: int, world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Shut down during the part of that number; return what was parsed until then."""
        seen: list[str] = []
        real = JsonlReader.parse

        def parse(self: JsonlReader, path: str, data: bytes, **more: Any) -> Document:
            seen.append(path)
            if len(seen) == parts:
                world.store.stopping.set()
            return real(self, path, data, **more)

        with monkeypatch.context() as patched:
            patched.setattr(JsonlReader, "parse", parse)
            with pytest.raises(ShuttingDownError):
                world.look()
        return seen

    def test_between_the_chunks_of_a_file(self, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        world.write(LEARNINGS, lines(*(learning(number) for number in range(self.MANY))))
        assert self.stopped_after(2, world, monkeypatch) == [LEARNINGS] * 2
        world.restart()
        world.look()
        assert sum(each.records for each in world.store.files().values()) == self.MANY
        assert sorted(world.store.catalogue.findings(), key=repr) == fresh_findings(world, tmp_path)

    def test_between_two_files(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        filled(world)
        assert len(self.stopped_after(1, world, monkeypatch)) == 1
        world.restart()
        assert len(world.look().changed) == len(LIVE)

    def test_while_the_index_is_rendered(self, world: World) -> None:
        filled(world)
        world.look()
        world.store.stopping.set()
        with pytest.raises(ShuttingDownError):
            update_index(world.store, world.now)
        world.restart()
        assert world.sync().written == ("index.json",)
