"""Backups on a real disk: made, verified, rotated, chosen; nothing hostile in the directory is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from memoryd.core.progress import ProgressMeter
from memoryd.core.retention import Quality
from memoryd.disk import atomic, backups
from memoryd.disk.backups import BackupDirectory, BackupInfo, CreateResult, choose, read_backup
from memoryd.disk.blobs import Blobs
from memoryd.disk.journal import Journal
from memoryd.disk.syscalls import NotBeneathError
from memoryd.disk.tree import Tree
from memoryd.errors import ConflictError, NotFoundError

NOW = 1_767_261_600.0  # 2026-01-01T10:00:00Z
FILE = "learnings.jsonl"
FILES = ("core_memories.jsonl", FILE, "tasks.jsonl")


def readable(content: bytes) -> Quality:
    """A line is a memory when it begins with a brace."""
    lines = [line for line in content.splitlines() if line.strip()]
    return Quality(len(lines), sum(line.startswith(b"{") for line in lines))


@dataclass
class Store:
    path: Path
    tree: Tree
    journal: Journal
    blobs: Blobs

    def save(self, content: bytes, now: float = NOW, limit: int = 5) -> CreateResult:
        (self.path / FILE).write_bytes(content)
        content, fingerprint = self.tree.read(FILE)
        return self.backups.create(FILE, content, fingerprint, readable(content), limit=limit, now=now)

    @property
    def backups(self) -> BackupDirectory:
        return BackupDirectory(self.tree, self.journal, FILES, quality_of=readable)

    @property
    def place(self) -> Path:
        return self.path / ".backup"

    def contents(self) -> list[bytes]:
        """Return the contents of the backups, newest first."""
        return [(self.path / each.path).read_bytes() for each in self.listed()]

    def listed(self, now: float = NOW + 10**6) -> list[BackupInfo]:
        return BackupDirectory(self.tree, self.journal, (FILE,), quality_of=readable).list_all(now)

    def verified(self) -> list[BackupInfo]:
        return self.backups.verify(NOW + 10**6)

    def foreign(self, name: str, content: bytes, mtime: float = NOW) -> Path:
        self.place.mkdir(mode=0o700, exist_ok=True)
        path = self.place / name
        path.write_bytes(content)
        os.utime(path, (mtime, mtime))
        return path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "root").mkdir()
    tree = Tree(str(tmp_path / "root"))
    journal, blobs = Journal(str(tmp_path / "state" / "journal")), Blobs(str(tmp_path / "state" / "blobs"))
    yield Store(tmp_path / "root", tree, journal, blobs)
    journal.close()
    blobs.close()
    tree.close()


def good(number: int) -> bytes:
    return b'{"id":%d}\n' % number * 3


def test_a_backup_is_a_private_plain_copy_restorable_with_cp(store: Store) -> None:
    result = store.save(good(1))
    assert result.outcome == "made"
    assert result.name == "learnings.jsonl.backup.20260101_100000"
    path = store.place / result.name
    assert path.read_bytes() == good(1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.place.stat().st_mode) == 0o700
    (listed,) = store.listed()
    assert (listed.id, listed.file, listed.path) == (result.name, FILE, f".backup/{result.name}")
    assert (listed.taken, listed.bytes, listed.sha256) == (NOW, 27, result.sha256)
    assert (listed.valid, listed.problem, listed.pinned) == (True, None, False)
    assert listed.seq is not None


def test_of_seven_with_three_old_style_names_five_remain(store: Store) -> None:
    store.foreign("learnings.jsonl.backup", good(1), mtime=NOW - 100)
    store.foreign("learning_memories.jsonl.backup.20260101_095830", good(2))
    store.foreign("learnings_memories.jsonl.backup.20260101_095840", good(3))
    for number in (4, 5, 6):
        store.save(good(number), now=NOW + number)
    result = store.save(good(7), now=NOW + 7)
    assert store.contents() == [good(number) for number in (7, 6, 5, 4, 1)]
    assert result.dropped == ("learnings_memories.jsonl.backup.20260101_095840",)


def test_seven_foreign_ones_are_rotated_also_when_nothing_new_is_made(store: Store) -> None:
    for number in range(7):
        store.foreign(f"learnings.jsonl.backup.20260101_09000{number}", good(number))
    result = store.save(good(6))
    assert (result.outcome, len(result.dropped)) == ("equal", 2)
    assert store.contents() == [good(number) for number in (6, 5, 4, 3, 0)]


def test_backups_of_one_second_keep_their_order(store: Store) -> None:
    made = [store.save(good(number)).name for number in range(8)]
    base = "learnings.jsonl.backup.20260101_100000"
    assert made == [base, *(f"{base}_00{n}" for n in range(1, 8))]
    assert store.contents() == [good(number) for number in (7, 6, 5, 4, 0)]


def test_a_verification_counts_the_bytes_it_has_read(store: Store) -> None:
    for number in range(3):
        store.save(good(number))
    sizes = [each.stat().st_size for each in store.place.iterdir()]
    meter, seen = ProgressMeter(), []
    meter.observer = lambda: seen.append(meter.current())
    assert len(store.backups.verify(NOW, progress=meter)) == 3
    assert [(each.total, each.step) for each in seen if each] == [(sum(sizes), "verifying")] * 3
    assert seen[-1] is not None
    assert (seen[-1].percent, meter.current()) == (100, None)


def test_identical_content_makes_no_new_one(store: Store) -> None:
    first = store.save(good(1))
    seen = {path.name: path.stat().st_mtime_ns for path in store.place.iterdir()}
    second = store.save(good(1), now=NOW + 50)
    assert (second.outcome, second.name) == ("equal", first.name)
    assert {path.name: path.stat().st_mtime_ns for path in store.place.iterdir()} == seen
    store.save(good(2), now=NOW + 60)
    assert store.save(good(1), now=NOW + 70).outcome == "made"  # equal to an older one only


def test_no_number_of_damaged_saves_pushes_out_the_one_with_the_most_memories(store: Store) -> None:
    for number in range(5):
        store.save(good(number), now=NOW + number)
    damaged = [b'{"id":9}\n' + b"torn\n" * (n + 1) for n in range(8)]
    for number, content in enumerate(damaged):
        assert store.save(content, now=NOW + 10 + number).outcome == "made"
    held = store.contents()
    assert held[0] == damaged[-1]
    assert good(4) in held  # the newest that holds all
    assert len(held) == 6


def test_a_torn_line_does_not_keep_what_comes_after_it_from_being_backed_up(store: Store) -> None:
    store.save(good(1))
    grown = good(1) + b"torn\n" + b"".join(good(n) for n in range(100))
    store.save(grown, now=NOW + 1)
    for number in range(7):
        store.save(good(2) + b"torn\n" * number, now=NOW + 2 + number)
    assert grown in store.contents()


def test_the_first_backup_may_be_of_a_damaged_file(store: Store) -> None:
    assert store.save(b"torn").outcome == "made"
    assert store.save(good(1) + b"torn", now=NOW + 1).outcome == "made"


def test_the_clock_jumping_back_keeps_the_order(store: Store) -> None:
    for number, now in enumerate((NOW, NOW + 4e7, 0.0, NOW - 5, NOW + 1, NOW - 86_400, NOW - 86_400)):
        assert store.save(good(number), now=now).outcome == "made"
    assert store.contents() == [good(number) for number in (6, 5, 4, 3, 2)]


def test_a_rotten_backup_is_noticed_and_never_counts_as_good(store: Store) -> None:
    made = [store.save(good(number), now=NOW + number).name for number in range(5)]
    newest = store.place / str(made[-1])
    newest.write_bytes(good(4).replace(b"id", b"xd"))
    assert store.listed()[0].valid  # size and name are right; only a look at the bytes tells
    assert [each.valid for each in store.verified()] == [False, True, True, True, True]
    assert [each.valid for each in store.listed()] == [False, True, True, True, True]
    assert choose(store.listed()).name == made[3]
    again = store.save(good(4), now=NOW + 10)  # equal to the rotten one's hash, but that is no backup
    assert again.outcome == "made"
    assert again.dropped == (made[4],)
    newest.write_bytes(good(4))


def test_a_backup_that_was_healed_is_valid_again(store: Store) -> None:
    name = str(store.save(good(1)).name)
    (store.place / name).write_bytes(b"")
    assert not store.verified()[0].valid
    (store.place / name).write_bytes(good(1))
    assert store.verified()[0].valid
    assert store.listed()[0].valid


def test_every_backup_of_the_rotation_can_be_restored(store: Store) -> None:
    for number in range(9):
        store.save(good(number), now=NOW + number)
    found = store.verified()
    assert len(found) == 5
    for each, number in zip(found, (8, 7, 6, 5, 0), strict=True):
        assert read_backup(store.tree, choose(found, each.id)) == good(number)


def test_a_pinned_backup_outlives_rotation(store: Store) -> None:
    name = str(store.save(good(0)).name)
    store.journal.backups.mark(name, pinned=True)
    for number in range(1, 9):
        store.save(good(number), now=NOW + number)
    assert store.contents() == [good(number) for number in (8, 7, 6, 5, 0)]


def test_hostile_things_in_the_place_are_ignored_and_never_followed(store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(good(1))
    store.place.mkdir()
    base = "learnings.jsonl.backup.20250101_00000"
    (store.place / f"{base}0").symlink_to(secret)
    os.mkfifo(store.place / f"{base}1")
    (store.place / f"{base}2").mkdir()
    (store.place / "notes.txt").write_bytes(b"mine")
    (store.place / os.fsdecode(b"learnings.jsonl.backup.\xff\n")).write_bytes(b"odd")
    (store.place / "learnings.jsonl.backup.20251399_000000").write_bytes(good(2))
    with (store.place / f"{base}3").open("wb") as sparse:
        sparse.truncate(2**40)
    for number in range(7):
        store.save(good(number), now=NOW + number)
    found = store.listed()
    assert [each.seq for each in found[:5]] == [7, 6, 5, 4, 1]
    assert [each.name for each in found[5:]] == [f"{base}3"]  # unread is no proof of damage: it stays
    assert not found[5].valid
    assert len(list(store.place.iterdir())) == 5 + 7
    assert secret.read_bytes() == good(1)


def test_a_link_in_the_place_of_the_directory_is_refused(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "learnings.jsonl.backup").write_bytes(good(1))
    store.place.symlink_to(elsewhere)
    assert store.listed() == []
    with pytest.raises(NotBeneathError):
        store.save(good(2))
    assert [path.name for path in elsewhere.iterdir()] == ["learnings.jsonl.backup"]


def test_a_name_taken_by_something_else_is_not_used(store: Store) -> None:
    store.place.mkdir()
    (store.place / "learnings.jsonl.backup.20260101_100000").mkdir()
    assert store.save(good(1)).name == "learnings.jsonl.backup.20260101_100000_001"


def test_backups_in_the_root_are_for_restoring_only(store: Store) -> None:
    (store.path / "learnings.jsonl.backup").write_bytes(good(8))
    (backup,) = store.listed()
    assert (backup.id, backup.in_root, backup.valid) == ("./learnings.jsonl.backup", True, True)
    assert choose([backup]) == backup
    for number in range(7):
        store.save(good(number), now=NOW + number)
    found = store.verified()
    assert len(found) == 6
    assert choose(found).seq == 7  # although the one in the root has the later modification time
    assert read_backup(store.tree, choose(found, "./learnings.jsonl.backup")) == good(8)


def test_foreign_ones_are_judged_by_what_can_be_read(store: Store) -> None:
    store.foreign("learnings.jsonl.backup.20250101_000000", good(1))
    store.foreign("learnings.jsonl.backup.20250102_000000", b"junk\njunk\n{}\n")
    store.foreign("learnings.jsonl.backup.20250103_000000", b"")
    found = store.listed()
    assert [each.valid for each in found] == [False, False, True]
    assert [each.problem for each in found[:2]] == ["it is empty", "2 of its 3 units cannot be read"]
    assert found[2].sha256 is not None
    cheap = BackupDirectory(store.tree, store.journal, FILES).list_all(NOW)
    assert [(each.valid, each.sha256) for each in cheap] == [(False, None), (True, None), (True, None)]


def test_choose_names_what_is_wrong(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no valid backup"):
        choose([])
    name = str(store.save(good(1)).name)
    store.save(good(2), now=NOW + 1)
    found = store.listed()
    assert choose(found, "20260101_100000").name == name
    with pytest.raises(NotFoundError, match="no backup has the id"):
        choose(found, "20260101")
    (store.place / name).write_bytes(b"x")
    with pytest.raises(ConflictError, match="damaged"):
        choose(store.listed(), name)
    with pytest.raises(ConflictError, match="has changed since it was made"):
        read_backup(store.tree, found[1])


def test_a_torn_read_is_not_backed_up(store: Store) -> None:
    (store.path / FILE).write_bytes(good(1))
    _, fingerprint = store.tree.read(FILE)
    with pytest.raises(ConflictError, match="changed while"):
        store.backups.create(FILE, good(1)[:5], fingerprint, Quality(1, 1), limit=5, now=NOW)
    assert not store.place.exists()


def test_a_full_disk_costs_no_older_backup(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        store.save(good(number), now=NOW + number)
    before = store.contents()

    def failing(*_: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "create", failing)
    with pytest.raises(OSError, match="No space"):
        store.save(good(9), now=NOW + 9)
    assert store.contents() == before


def test_a_disk_that_lies_is_caught_before_anything_goes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        store.save(good(number), now=NOW + number)
    before = store.contents()
    real = atomic.create

    def lying(tree: Tree, path: str, content: bytes, mode: int, *, private: bool) -> None:
        real(tree, path, content[:-1] + b"?", mode, private=private)

    monkeypatch.setattr(atomic, "create", lying)
    with pytest.raises(OSError, match="read-back does not match"):
        store.save(good(9), now=NOW + 9)
    assert store.contents() == before


def test_one_that_cannot_be_removed_is_reported_and_goes_next_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(store.save(good(number), now=NOW + number).name) for number in range(5)]

    def refusing(path: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    told: list[str] = []
    log = SimpleNamespace(warning=lambda _, path, **reason: told.append(path))
    with monkeypatch.context() as patched:
        patched.setattr(store.tree, "unlink", refusing)
        patched.setattr(backups, "log", log)
        result = store.save(good(5), now=NOW + 5)
    assert (result.outcome, result.dropped, told) == ("made", (), [str(store.path / ".backup" / names[1])])
    assert store.save(good(6), now=NOW + 6).dropped == (names[1], names[2])


@pytest.mark.parametrize("lost", ["row", "file"])
def test_a_crash_between_file_and_journal_is_healed(store: Store, lost: str) -> None:
    names = [str(store.save(good(number), now=NOW + number).name) for number in range(3)]
    if lost == "row":
        store.journal.backups.remove([names[2]])  # killed after the copy, before its number
    else:
        (store.place / names[2]).unlink()  # killed after the removal, before it was forgotten
    assert store.save(good(3), now=NOW + 3).outcome == "made"
    numbers = (3, 2, 1, 0) if lost == "row" else (3, 1, 0)
    assert store.contents() == [good(number) for number in numbers]
    assert len(store.journal.backups.rows()) == 3


def test_backups_can_live_in_a_state_directory(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    journal, blobs = Journal(str(tmp_path / "journal")), Blobs(str(tmp_path / "blobs"))
    (tmp_path / "x").write_bytes(good(1))
    _, fingerprint = tree.read("x")
    directory = BackupDirectory(tree, journal, ("topic/sub.md",), "backups/root")
    result = directory.create("topic/sub.md", good(1), fingerprint, Quality(1, 1), limit=5, now=NOW)
    assert result.name == "topic%2Fsub.md.backup.20260101_100000"
    (found,) = directory.list_all(NOW)
    assert (found.file, read_backup(tree, found)) == ("topic/sub.md", good(1))
    journal.close()
    blobs.close()
    tree.close()
