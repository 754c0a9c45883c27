"""The layout markdown-topics on a real disk: a real directory, pruning with its undo, crashes, git, emptied files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memoryd.disk import atomic
from memoryd.disk.temps import is_our_temp
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.engine.worker import Worker
from memoryd.errors import NotFoundError
from memoryd.layouts.protocol import AccessCount
from memoryd.operations import memories
from memoryd.operations.access_counts import count_reads
from memoryd.operations.check import check
from memoryd.operations.lookup import find_live, read_memory
from memoryd.operations.memories import Context
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, plan_row, prune
from memoryd.service.daemon import Daemon
from memoryd.service.handlers.base import Handlers
from tests.layouts.test_markdown_topics import CORPUS, TOKEN, entries, entry
from tests.operations.death import dying
from tests.operations.world import World

LONG = b"# T\n\n" + entries(10, 3000) + entry("2024-12-15", "old") + entry("2023-06-01", "older", end="")


class Site(World):
    """A store of topic files."""

    kind = "markdown-topics"

    def codes(self) -> list[str]:
        return [finding.code for finding in check(self.store, self.now)]

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Return all files except inodes that a commit just replaced, to which a program may still append."""
        files = [path for path in self.root.rglob("*") if path.is_file() and not is_our_temp(path.name)]
        return {str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    def contents(self) -> dict[str, bytes]:
        return {path: content for path, (content, _) in self.files().items()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def real(site: Site) -> Site:
    shutil.copytree(CORPUS, site.root, dirs_exist_ok=True)
    return site


class TestRealDirectory:
    def test_one_pass_lists_everything_and_a_second_one_writes_nothing(self, real: Site) -> None:
        before = real.contents()
        assert real.sync().written == ("index.md",)
        assert real.codes() == []
        after = real.contents()
        assert {path for path in after if after[path] != before[path]} == {"index.md"}
        lines = [line for line in after["index.md"].splitlines() if line not in before["index.md"].splitlines()]
        assert sum(line.startswith(b"- `") for line in lines) == 10
        assert (real.store.index.result.memories, real.store.catalogue.totals()[0]) == (16, 12)
        seen = real.files()
        real.now += 100
        assert real.sync().written == ()
        assert prune(real.store, real.now, by="schedule").receipt is None
        real.restart()
        assert real.sync().written == ()
        assert real.files() == seen

    def test_the_index_follows_added_and_deleted_files(self, real: Site) -> None:
        real.sync()
        (real.root / "roles" / "assignment-process.md").unlink()
        real.write("new-topic/deep/x.md", b"# A new one\n\n" + entry("2025-01-01"))
        assert real.sync().written == ("index.md",)
        text = real.read("index.md")
        assert b"`assignment-process.md`" not in text
        assert text.endswith(b"\n\n### New Topic Deep\n- `x.md` - A new one\n")
        assert b"- `execution-context.md` - Claude Code validation patterns\n" in text


class TestUses:
    def test_access_counts_follow_a_memory_whose_title_and_id_change(self, site: Site) -> None:
        site.write("a/b.md", entry("2026-01-02", "One"))
        site.sync()
        count_reads(site.store, "a/b.md", {"a/b#2026-01-02:one": AccessCount(2, site.now)}, site.now)
        for title, counted in (("Two", "a/b#2026-01-02:two"), ("Three", "a/b#2026-01-02:three")):
            [known] = site.store.access_counts["a/b.md"]
            assert memories.update(site.store, known, {"title": title}, site.now, Context()).id == counted
            assert site.store.access_counts == site.store.journal.access.counts() == {"a/b.md": {counted: 2}}
            site.sync()


def test_an_emptied_topic_file_is_no_memory(site: Site) -> None:
    site.write("a/b.md", entry("2026-01-02", "one"))
    site.sync()
    found = read_memory(site.store, "a/b", site.now)
    assert found is not None
    assert found.entries == ("a/b#2026-01-02:one",)
    with pytest.raises(NotFoundError, match=r"no memory with id a/b$") as caught:
        find_live(site.store, "a/b", site.now)
    hint = "it is a whole topic file; name one of its entries, as a/b#2026-01-02:one"
    daemon = cast(Daemon, SimpleNamespace(roots=None))
    worker = cast(Worker, SimpleNamespace(store=site.store, name="m"))
    assert caught.value.hint == Handlers(daemon).not_found("a/b", [worker]).hint == hint
    memories.forget(site.store, "a/b#2026-01-02:one", site.now, Context())
    site.sync()
    assert site.read("a/b.md") == b""
    assert b"`b.md`" in site.read("index.md"), "the file is still there"
    assert read_memory(site.store, "a/b", site.now) is None


class TestPruning:
    def test_pruned_entries_are_indexed_and_restored_to_the_byte(self, site: Site) -> None:
        site.write("a/b.md", LONG)
        site.write("a/c.md", LONG.replace(b"# T", b"# U"))
        site.write("archive/a/2024.md", entry("2024-01-01", "there"))
        site.sync()
        before = site.contents()
        done = prune(site.store, site.now, by="schedule")
        assert done.receipt is not None
        site.sync()
        assert site.store.index.result.archived == 5
        assert site.read("a/b.md") == b"# T\n\n" + entries(10, 3000)
        assert site.read("archive/a/2023.md") == b"".join(
            b"<!-- from: " + name + b" -->\n" + entry("2023-06-01", "older") for name in (b"b.md", b"c.md")
        )
        assert prune(site.store, site.now, by="schedule").receipt is None
        undo(site.store, done.receipt, site.now)
        site.sync()
        assert site.contents() == before
        assert prune(site.store, site.now, by="schedule").receipt is None  # it would undo the undo

    @pytest.mark.parametrize("topic", ["a", "my own topic", "a/b c", "caf\udce9"])
    def test_an_undo_removes_directories_created_for_the_archive(self, site: Site, topic: str) -> None:
        site.write(f"{topic}/b.md", LONG)
        site.sync()
        receipt = prune(site.store, site.now, by="schedule").receipt
        assert receipt is not None
        assert (site.root / "archive" / topic / "2024.md").exists()
        undo(site.store, receipt, site.now)
        assert not (site.root / "archive").exists()
        assert site.read(f"{topic}/b.md") == LONG

    def test_the_command_archive_prunes_as_the_schedule_does(self, site: Site) -> None:
        site.write("a/b.md", LONG)
        site.sync()
        planned: Any = OPERATIONS["plan"](site.store, Job("plan"), site.now)
        done: Any = OPERATIONS["archive"](site.store, Job("archive"), site.now)
        assert done.receipt
        assert [each.path for each in done.plan.actions] == [each.path for each in planned.actions]
        assert (site.root / "archive/a/2024.md").exists()

    def test_an_undo_preserves_later_writes(self, site: Site) -> None:
        """The agent adds a new entry on top, and memoryd restores the old ones where they belong."""
        site.write("a/b.md", LONG)
        site.sync()
        done = prune(site.store, site.now, by="schedule")
        newer = site.read("a/b.md").replace(b"# T\n\n", b"# T\n\n" + entry("2026-01-30", "new"), 1)
        site.write("a/b.md", newer)
        site.sync()
        undo(site.store, done.receipt or "", site.now)
        wanted = LONG.replace(b"# T\n\n", b"# T\n\n" + entry("2026-01-30", "new"), 1)
        assert site.read("a/b.md").rstrip() == wanted.rstrip()
        assert not (site.root / "archive").exists()
        site.sync()
        prune(site.store, site.now, by="schedule")
        assert b"## 2024-12-15: old" in site.read("a/b.md"), "no schedule undoes the undo"

    def test_named_entries_can_be_archived(self, site: Site) -> None:
        site.write("a/b.md", LONG)
        site.sync()
        archive(site.store, site.now, by="command", ids=["a/b#2024-12-15:old"])
        assert site.read("archive/a/2024.md") == b"<!-- from: b.md -->\n" + entry("2024-12-15", "old")
        site.sync()
        with pytest.raises(NotFoundError):
            archive(site.store, site.now, by="command", ids=["a/b#2024-12-15:old"])

    @pytest.mark.parametrize("failing", [1, 2, 3])
    def test_a_failure_anywhere_loses_nothing_and_the_next_run_finishes(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        """At the second archive, at the topic file, and at the topic file of the second group."""
        site.write("a/b.md", LONG)
        site.write("a/c.md", LONG)
        for year in (2023, 2024):
            site.write(f"archive/a/{year}.md", entry(f"{year}-01-01", "there"))
        site.sync()
        genuine, calls = atomic.replace, []

        def replace(*args: object, **how: object) -> object:
            calls.append(args)
            if len(calls) == failing + 1:
                raise OSError(28, "No space left on device")
            return genuine(*args, **how)  # type: ignore[arg-type]  # passed on as they came

        with monkeypatch.context() as patch:
            patch.setattr(atomic, "replace", replace)
            with pytest.raises(OSError, match="No space"):
                prune(site.store, site.now, by="schedule")
        held = b"".join(site.contents().values())
        for text in (entry("2024-12-15", "old"), entry("2023-06-01", "older", end="")):
            assert held.count(text) >= 2
        site.restart()
        site.sync()
        prune(site.store, site.now, by="schedule")
        assert site.read("a/b.md") == site.read("a/c.md") == b"# T\n\n" + entries(10, 3000)
        for year, title in ((2024, "old"), (2023, "older")):
            assert site.read(f"archive/a/{year}.md").count(f": {title}\n".encode()) == 2

    def test_an_undo_that_dies_leaves_no_entry_in_two_places(self, tmp_path: Path) -> None:
        """Two files share their archives, written by the group of the first: the undo is all or nothing."""
        own = LONG.replace(b": old", b": other old").replace(b": number", b": other number")
        for at in range(1, 200):
            (tmp_path / str(at)).mkdir()
            site = Site(tmp_path / str(at))
            site.write("a/b.md", LONG)
            site.write("a/c.md", own)
            site.sync()
            receipt = prune(site.store, site.now, by="schedule").receipt
            assert receipt is not None
            pruned = site.contents()
            with dying(at) as death:
                undo(site.store, receipt, site.now)
            site.kill()
            site.restart()
            after = site.contents()
            held = b"".join(after.values())
            for title in (b"old", b"older", b"other old", b"other older"):
                assert held.count(b": " + title + b"\n") == 1, (at, death.call, title)
            site.store.close()
            if not death.reached:
                assert after["a/b.md"] == LONG
                assert "archive/a/2024.md" not in after
                return
            assert after == pruned or (after["a/b.md"], after["a/c.md"]) == (LONG, own), (at, death.call)
        raise AssertionError("it never ended")


class TestGit:
    def test_nothing_is_written_during_a_merge_and_all_of_it_afterwards(self, real: Site) -> None:
        git = real.root.parent / ".git"
        git.mkdir()
        (git / "MERGE_HEAD").touch()
        assert "merge" in (real.store.blocked() or "")
        before = real.files()
        assert real.sync().written == ()
        assert real.files() == before
        (git / "MERGE_HEAD").unlink()
        real.store.index.dirty = True
        assert real.sync().written == ("index.md",)


class TestRepair:
    def test_a_glued_entry_becomes_one(self, site: Site) -> None:
        site.write("a/b.md", entry("2025-02-02", end="") + entry("2025-01-01"))
        site.sync()
        assert site.codes() == ["glued-heading"]
        repair(site.store, site.now)
        site.sync()
        assert site.codes() == []
        assert site.store.index.result.memories == 2
        assert repair(site.store, site.now).receipt is None


def test_no_secret_leaves_the_memory(site: Site) -> None:
    """SqliteIndex, findings, index and journal texts name the pattern; the archive keeps the bytes."""
    site.write("a/b.md", f"# Use {TOKEN}\n\n".encode() + entries(10, 3000) + entry("2024-12-15", f"a {TOKEN}"))
    site.sync()
    done = prune(site.store, site.now, by="schedule")
    site.sync()
    assert site.codes().count("secret-shape") == 2
    assert TOKEN in site.read("archive/a/2024.md").decode()
    told = [repr(check(site.store, site.now)), repr(plan_row(done.plan)), site.read("index.md").decode()]
    told += [
        repr(site.store.journal.entries(10)),
        repr(list(site.store.catalogue.entries(["a/b.md", "archive/a/2024.md"]))),
    ]
    assert [text for text in told if TOKEN.lower() in text.lower()] == []
    site.store.close()
    kept = b"".join(path.read_bytes() for path in site.state.glob("catalogue.sqlite*"))
    assert b"[redacted:github-token]" in kept
    assert TOKEN.encode() not in kept
    site.store = site.open()
