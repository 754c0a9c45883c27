"""The layout markdown-topics on a real disk: the real folder, pruning with its undo, crashes, git, emptied files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.policy import Policy
from memoryd.disk import atomic
from memoryd.disk.temps import is_our_temp
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.errors import NotFoundError
from memoryd.layouts.markdown_topics import MARKDOWN_TOPICS
from memoryd.layouts.protocol import AccessCount
from memoryd.layouts.registry import LAYOUTS
from memoryd.operations import memories
from memoryd.operations.access_counts import count_reads
from memoryd.operations.check import check
from memoryd.operations.index_files import IndexUpdate, update_index
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, plan_row, prune
from memoryd.store import Store
from memoryd.store.recovery import recover
from tests.layouts.contract import NOW
from tests.layouts.test_markdown_topics import CORPUS, TOKEN, entries, entry
from tests.operations.death import dying

LONG = b"# T\n\n" + entries(10, 3000) + entry("2024-12-15", "old") + entry("2023-06-01", "older", end="")


class Folder:
    """One store with a clock of its own; files are an hour old."""

    def __init__(self, base: Path) -> None:
        self.root = base / "memory"
        self.root.mkdir()
        self.state = base / "state"
        self.now = NOW
        self.store = self.open()

    def open(self) -> Store:
        store = Store("m", str(self.root), "markdown-topics", Policy(), str(self.state))
        store.attach()
        return store

    def restart(self) -> list[str]:
        self.store.close()
        self.store = self.open()
        return recover(self.store, self.now)

    def kill(self) -> None:
        """What the kernel does when the process dies: descriptors go, files stay as they are."""
        for late in self.store.late_writes.waiting:
            late.replaced.detach()
        self.store.late_writes.waiting.clear()

    def write(self, path: str, content: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)
        at = int((self.now - 3600) * 1e9)
        os.utime(self.root / path, ns=(at, at))

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def sync(self) -> IndexUpdate:
        done = refresh(self.store, None, self.now)
        if done.changed or done.deleted:
            self.store.index.dirty = True
        return update_index(self.store, self.now, force=True)

    def codes(self) -> list[str]:
        return [finding.code for finding in check(self.store, self.now)]

    def everything(self) -> dict[str, tuple[bytes, int]]:
        """All but the inodes that a commit replaced a moment ago: somebody may still append to them."""
        files = [path for path in self.root.rglob("*") if path.is_file() and not is_our_temp(path.name)]
        return {str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    def contents(self) -> dict[str, bytes]:
        return {path: content for path, (content, _) in self.everything().items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.setattr("memoryd.store.store.LAYOUTS", {**LAYOUTS, "markdown-topics": MARKDOWN_TOPICS})
    made = Folder(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def real(folder: Folder) -> Folder:
    shutil.copytree(CORPUS, folder.root, dirs_exist_ok=True)
    return folder


class TestRealFolder:
    def test_one_pass_lists_everything_and_a_second_one_writes_nothing(self, real: Folder) -> None:
        before = real.contents()
        assert real.sync().written == ("index.md",)
        assert real.codes() == []
        after = real.contents()
        assert {path for path in after if after[path] != before[path]} == {"index.md"}
        lines = [line for line in after["index.md"].splitlines() if line not in before["index.md"].splitlines()]
        assert sum(line.startswith(b"- `") for line in lines) == 10
        assert (real.store.index.result.memories, real.store.catalogue.totals()[0]) == (16, 12)
        seen = real.everything()
        real.now += 100
        assert real.sync().written == ()
        assert prune(real.store, real.now, by="schedule").receipt is None
        real.restart()
        assert real.sync().written == ()
        assert real.everything() == seen

    def test_the_index_follows_what_comes_and_goes(self, real: Folder) -> None:
        real.sync()
        (real.root / "roles" / "assignment-process.md").unlink()
        real.write("new-topic/deep/x.md", b"# A new one\n\n" + entry("2025-01-01"))
        assert real.sync().written == ("index.md",)
        text = real.read("index.md")
        assert b"`assignment-process.md`" not in text
        assert text.endswith(b"\n\n### New Topic Deep\n- `x.md` - A new one\n")
        assert b"- `execution-context.md` - Claude Code validation patterns\n" in text


class TestUses:
    def test_they_follow_a_memory_that_gets_another_title_and_so_another_id(self, folder: Folder) -> None:
        folder.write("a/b.md", entry("2026-01-02", "One"))
        folder.sync()
        count_reads(folder.store, "a/b.md", {"a/b#2026-01-02:one": AccessCount(2, folder.now)}, folder.now)
        for title, counted in (("Two", "a/b#2026-01-02:two"), ("Three", "a/b#2026-01-02:three")):
            [known] = folder.store.uses["a/b.md"]
            assert memories.update(folder.store, known, {"title": title}, folder.now, Context()).id == counted
            assert folder.store.uses == folder.store.journal.access.counts() == {"a/b.md": {counted: 2}}
            folder.sync()


class TestPruning:
    def test_moved_read_in_and_taken_back_to_the_byte(self, folder: Folder) -> None:
        folder.write("a/b.md", LONG)
        folder.write("a/c.md", LONG.replace(b"# T", b"# U"))
        folder.write("archive/a/2024.md", entry("2024-01-01", "there"))
        folder.sync()
        before = folder.contents()
        done = prune(folder.store, folder.now, by="schedule")
        assert done.receipt is not None
        folder.sync()
        assert folder.store.index.result.archived == 5
        assert folder.read("a/b.md") == b"# T\n\n" + entries(10, 3000)
        assert folder.read("archive/a/2023.md") == b"".join(
            b"<!-- from: " + name + b" -->\n" + entry("2023-06-01", "older") for name in (b"b.md", b"c.md")
        )
        assert prune(folder.store, folder.now, by="schedule").receipt is None
        undo(folder.store, done.receipt, folder.now)
        folder.sync()
        assert folder.contents() == before
        assert prune(folder.store, folder.now, by="schedule").receipt is None  # it would undo the undo

    @pytest.mark.parametrize("topic", ["a", "my own topic", "a/b c", "caf\udce9"])
    def test_folders_made_for_the_archive_go_with_the_undo(self, folder: Folder, topic: str) -> None:
        folder.write(f"{topic}/b.md", LONG)
        folder.sync()
        receipt = prune(folder.store, folder.now, by="schedule").receipt
        assert receipt is not None
        assert (folder.root / "archive" / topic / "2024.md").exists()
        undo(folder.store, receipt, folder.now)
        assert not (folder.root / "archive").exists()
        assert folder.read(f"{topic}/b.md") == LONG

    def test_the_command_archive_prunes_as_the_schedule_does(self, folder: Folder) -> None:
        folder.write("a/b.md", LONG)
        folder.sync()
        planned: Any = OPERATIONS["plan"](folder.store, Job("plan"), folder.now)
        done: Any = OPERATIONS["archive"](folder.store, Job("archive"), folder.now)
        assert done.receipt
        assert [each.path for each in done.plan.actions] == [each.path for each in planned.actions]
        assert (folder.root / "archive/a/2024.md").exists()

    def test_an_undo_beside_what_was_written_since(self, folder: Folder) -> None:
        """The agent puts a new entry on top, and memoryd puts the old ones back where they belong."""
        folder.write("a/b.md", LONG)
        folder.sync()
        done = prune(folder.store, folder.now, by="schedule")
        newer = folder.read("a/b.md").replace(b"# T\n\n", b"# T\n\n" + entry("2026-01-30", "new"), 1)
        folder.write("a/b.md", newer)
        folder.sync()
        undo(folder.store, done.receipt or "", folder.now)
        wanted = LONG.replace(b"# T\n\n", b"# T\n\n" + entry("2026-01-30", "new"), 1)
        assert folder.read("a/b.md").rstrip() == wanted.rstrip()
        assert not (folder.root / "archive").exists()
        folder.sync()
        prune(folder.store, folder.now, by="schedule")
        assert b"## 2024-12-15: old" in folder.read("a/b.md"), "no schedule undoes the undo"

    def test_named_entries_can_be_archived(self, folder: Folder) -> None:
        folder.write("a/b.md", LONG)
        folder.sync()
        archive(folder.store, folder.now, by="command", ids=["a/b#2024-12-15:old"])
        assert folder.read("archive/a/2024.md") == b"<!-- from: b.md -->\n" + entry("2024-12-15", "old")
        folder.sync()
        with pytest.raises(NotFoundError):
            archive(folder.store, folder.now, by="command", ids=["a/b#2024-12-15:old"])

    @pytest.mark.parametrize("failing", [1, 2, 3])
    def test_a_failure_anywhere_leaves_no_hole_and_the_next_run_finishes(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        """At the second archive, at the topic file, and at the topic file of the second group."""
        folder.write("a/b.md", LONG)
        folder.write("a/c.md", LONG)
        for year in (2023, 2024):
            folder.write(f"archive/a/{year}.md", entry(f"{year}-01-01", "there"))
        folder.sync()
        genuine, calls = atomic.replace, []

        def replace(*args: object, **how: object) -> object:
            calls.append(args)
            if len(calls) == failing + 1:
                raise OSError(28, "No space left on device")
            return genuine(*args, **how)  # type: ignore[arg-type]  # passed on as they came

        with monkeypatch.context() as patch:
            patch.setattr(atomic, "replace", replace)
            with pytest.raises(OSError, match="No space"):
                prune(folder.store, folder.now, by="schedule")
        held = b"".join(folder.contents().values())
        for text in (entry("2024-12-15", "old"), entry("2023-06-01", "older", end="")):
            assert held.count(text) >= 2
        folder.restart()
        folder.sync()
        prune(folder.store, folder.now, by="schedule")
        assert folder.read("a/b.md") == folder.read("a/c.md") == b"# T\n\n" + entries(10, 3000)
        for year, title in ((2024, "old"), (2023, "older")):
            assert folder.read(f"archive/a/{year}.md").count(f": {title}\n".encode()) == 2

    def test_an_undo_that_dies_leaves_no_entry_in_two_places(self, tmp_path: Path) -> None:
        """Two files share their archives, written by the group of the first: the undo is done whole or not."""
        own = LONG.replace(b": old", b": other old").replace(b": number", b": other number")
        for at in range(1, 200):
            (tmp_path / str(at)).mkdir()
            folder = Folder(tmp_path / str(at))
            folder.write("a/b.md", LONG)
            folder.write("a/c.md", own)
            folder.sync()
            receipt = prune(folder.store, folder.now, by="schedule").receipt
            assert receipt is not None
            pruned = folder.contents()
            with dying(at) as death:
                undo(folder.store, receipt, folder.now)
            folder.kill()
            folder.restart()
            after = folder.contents()
            held = b"".join(after.values())
            for title in (b"old", b"older", b"other old", b"other older"):
                assert held.count(b": " + title + b"\n") == 1, (at, death.call, title)
            folder.store.close()
            if not death.came:
                assert after["a/b.md"] == LONG
                assert "archive/a/2024.md" not in after
                return
            assert after == pruned or (after["a/b.md"], after["a/c.md"]) == (LONG, own), (at, death.call)
        raise AssertionError("it never ended")


class TestGit:
    def test_nothing_is_written_during_a_merge_and_all_of_it_afterwards(self, real: Folder) -> None:
        git = real.root.parent / ".git"
        git.mkdir()
        (git / "MERGE_HEAD").touch()
        assert "merge" in (real.store.blocked() or "")
        before = real.everything()
        assert real.sync().written == ()
        assert real.everything() == before
        (git / "MERGE_HEAD").unlink()
        real.store.index.dirty = True
        assert real.sync().written == ("index.md",)


class TestRepair:
    def test_a_glued_entry_becomes_one(self, folder: Folder) -> None:
        folder.write("a/b.md", entry("2025-02-02", end="") + entry("2025-01-01"))
        folder.sync()
        assert folder.codes() == ["glued-heading"]
        repair(folder.store, folder.now)
        folder.sync()
        assert folder.codes() == []
        assert folder.store.index.result.memories == 2
        assert repair(folder.store, folder.now).receipt is None


def test_no_secret_gets_out_of_the_memory_itself(folder: Folder) -> None:
    """SqliteIndex, findings, index and journal texts name the pattern; the archive keeps the bytes."""
    folder.write("a/b.md", f"# Use {TOKEN}\n\n".encode() + entries(10, 3000) + entry("2024-12-15", f"a {TOKEN}"))
    folder.sync()
    done = prune(folder.store, folder.now, by="schedule")
    folder.sync()
    assert folder.codes().count("secret-shape") == 2
    assert TOKEN in folder.read("archive/a/2024.md").decode()
    told = [repr(check(folder.store, folder.now)), repr(plan_row(done.plan)), folder.read("index.md").decode()]
    told += [
        repr(folder.store.journal.entries(10)),
        repr(list(folder.store.catalogue.entries(["a/b.md", "archive/a/2024.md"]))),
    ]
    assert [text for text in told if TOKEN.lower() in text.lower()] == []
    folder.store.close()
    kept = b"".join(path.read_bytes() for path in folder.state.glob("catalogue.sqlite*"))
    assert b"[redacted:github-token]" in kept
    assert TOKEN.encode() not in kept
    folder.store = folder.open()
