"""Snapshots by content: five kept, the last good version of a file is never lost, order is by number."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.core.progress import ProgressMeter
from memoryd.core.retention import Quality
from memoryd.disk.snapshots import FileState, Vault
from memoryd.errors import NotFoundError

GOOD = Quality(1, 1)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    held = Vault(str(tmp_path / "snapshots.sqlite"))
    yield held
    held.close()


def state(file: str, content: bytes, quality: Quality = GOOD, *, known: bool = False) -> FileState:
    digest = hashlib.sha256(content).hexdigest()
    return FileState(file, digest, 0o600, quality, None if known else content)


def test_a_snapshot_gives_every_file_back(vault: Vault) -> None:
    """Contents and modes come back as they were, also names that are not UTF-8."""
    names = {"a.json": b"one", "b/c.json": b"two" * 1000, "\udcff.json": b""}
    made = vault.take([state(name, content) for name, content in names.items()], 10.0, keep=5)
    assert made is not None
    assert {v.file: vault.content(v) for v in vault.files(made.seq)} == names


def test_files_with_versions(vault: Vault) -> None:
    """Also before there is any version, as during most first indexes."""
    assert vault.files_with_versions(["a", "\udcff"]) == frozenset()
    vault.add_versions([state("a", b"one"), state("\udcff", b"two"), state("c", b"three")], 1.0, keep=5)
    assert vault.files_with_versions(["a", "b", "\udcff"]) == {"a", "\udcff"}
    assert vault.files_with_versions([]) == frozenset()


def test_equal_stores_make_no_new_snapshot(vault: Vault) -> None:
    assert vault.take([state("a", b"1")], 1.0, keep=5) is not None
    assert vault.take([state("a", b"1", known=True)], 2.0, keep=5) is None
    assert len(vault.snapshots()) == 1


def test_five_snapshots_stay_and_contents_go_with_the_last_that_names_them(vault: Vault) -> None:
    for number in range(8):
        vault.take([state("a", b"%d" % number), state("same", b"same")], float(number), keep=5)
    assert [s.id for s in vault.snapshots()] == ["s8", "s7", "s6", "s5", "s1"]
    assert not vault.has_content(hashlib.sha256(b"1").hexdigest())
    assert vault.has_content(hashlib.sha256(b"same").hexdigest())


def test_of_each_file_five_versions_stay_however_often_others_change(vault: Vault) -> None:
    """One busy user cannot push out the versions of a quiet one."""
    for number in range(3):
        vault.add_version(state("quiet", b"q%d" % number), float(number), keep=5)
    for number in range(50):
        vault.add_version(state("busy", b"b%d" % number), float(number), keep=5)
    assert len(vault.versions("quiet")) == 3
    assert [vault.content(v) for v in vault.versions("busy")] == [b"b%d" % n for n in (49, 48, 47, 46, 0)]


def test_any_number_of_damaged_versions_leave_the_one_with_the_most_memories(vault: Vault) -> None:
    vault.take([state("a", b"good", Quality(10, 10))], 0.0, keep=5)
    for number in range(7):
        vault.take([state("a", b"bad%d" % number, Quality(10, 1)), state("b", b"%d" % number)], float(number), keep=5)
    versions = {vault.content(v) for v in vault.versions("a")}
    assert {b"good", b"bad6"} <= versions
    newest = vault.snapshots()[0]
    assert {v.file: vault.content(v) for v in vault.files(newest.seq)} == {"a": b"bad6", "b": b"6"}


def test_a_file_that_grew_next_to_a_torn_line_gets_a_version(vault: Vault) -> None:
    vault.take([state("a", b"few", Quality(4, 4))], 0.0, keep=5)
    vault.take([state("a", b"many and a torn line", Quality(305, 304))], 1.0, keep=5)
    assert vault.content(vault.versions("a")[0]) == b"many and a torn line"


def test_order_is_by_number_when_the_clock_goes_back(vault: Vault) -> None:
    vault.take([state("a", b"first")], 1000.0, keep=5)
    vault.take([state("a", b"second")], 10.0, keep=5)
    assert vault.content(vault.versions("a")[0]) == b"second"


def test_what_is_pinned_does_not_rotate_out(vault: Vault) -> None:
    vault.take([state("a", b"before the loss")], 0.0, keep=5)
    vault.pin_newest()
    for number in range(9):
        vault.take([state("a", b"%d" % number)], float(number), keep=5)
    assert vault.snapshots()[-1].pinned
    assert b"before the loss" in [vault.content(v) for v in vault.versions("a")]


def test_damage_is_detected_and_reported(vault: Vault, tmp_path: Path) -> None:
    """A flipped content is no longer valid and is never given out."""
    vault.take([state("a", b"precious")], 0.0, keep=5)
    with sqlite3.connect(tmp_path / "snapshots.sqlite") as other:
        other.execute("UPDATE contents SET deflated = x'00'")
    other.close()
    assert [v.file for v in vault.verify(ProgressMeter())] == ["a"]
    assert not vault.snapshots()[0].valid
    with pytest.raises(NotFoundError, match="damaged"):
        vault.content(vault.versions("a")[0])


def test_a_verification_counts_the_bytes_it_has_read(vault: Vault) -> None:
    vault.take([state("a", b"1234"), state("b", b"12")], 0.0, keep=5)
    meter, seen = ProgressMeter(), []
    meter.observer = lambda: seen.append(meter.current())
    assert vault.verify(meter) == []
    assert [(each.step, each.unit, each.total) for each in seen if each] == [("verifying", "bytes", 6)] * 2
    assert seen[-1] is not None
    assert (seen[-1].done, meter.current()) == (6, None)


def test_a_damaged_version_is_replaced_by_the_same_content(vault: Vault, tmp_path: Path) -> None:
    vault.take([state("a", b"precious")], 0.0, keep=5)
    with sqlite3.connect(tmp_path / "snapshots.sqlite") as other:
        other.execute("UPDATE contents SET deflated = x'00'")
    other.close()
    vault.verify(ProgressMeter())
    assert vault.take([state("a", b"precious")], 1.0, keep=5) is not None
    assert vault.content(vault.versions("a")[0]) == b"precious"


def test_a_file_of_the_same_meaning_needs_no_second_version(vault: Vault) -> None:
    """Reading a memory rewrites its file; that is no change worth a backup."""
    digests = [hashlib.sha256(content).hexdigest() for content in (b"used once", b"used twice", b"other")]
    vault.take([FileState("a", digests[0], 0o600, GOOD, b"used once", "m1")], 1.0, keep=5)
    assert vault.take([FileState("a", digests[1], 0o600, GOOD, b"used twice", "m1")], 2.0, keep=5) is None
    assert vault.take([FileState("a", digests[2], 0o600, GOOD, b"other", "m2")], 3.0, keep=5) is not None
    assert vault.take([FileState("a", digests[0], 0o600, GOOD, b"used once", "")], 4.0, keep=5) is not None


def test_a_pinned_version_outlives_rotation_and_gives_way_only_to_a_richer_one(vault: Vault) -> None:
    def put(content: bytes, records: int) -> str:
        vault.add_version(state("a", content, Quality(records, records)), 1.0, keep=2)
        return hashlib.sha256(content).hexdigest()

    vault.pin_version("a", put(b"many", 9))
    vault.pin_version("a", put(b"fewer", 5))
    for number in range(4):
        put(b"%d" % number, 1)
    assert [vault.content(each) for each in vault.versions("a")] == [b"3", b"2", b"many"]
    vault.pin_version("a", put(b"most", 20))
    put(b"x", 1)
    put(b"y", 1)
    assert [vault.content(each) for each in vault.versions("a")] == [b"y", b"x", b"most"]
