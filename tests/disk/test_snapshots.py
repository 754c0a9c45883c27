"""Blobs are whole, verified and kept once; the quarantine is bounded."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.core.plan import Kind
from memoryd.disk import atomic
from memoryd.disk.blobs import BlobError, Blobs, quarantine
from memoryd.disk.journal import Journal, Step
from tests.crowd import by_threads

NOW = 1_767_261_600.0
CONTENT = b'{"id":"1"}\n\xff\x00' * 1000


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[Blobs]:
    opened = Blobs(str(tmp_path / "blobs"))
    yield opened
    opened.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(str(tmp_path / "journal"))
    yield opened
    opened.close()


def only_file(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "blobs").iterdir()
    return path


@pytest.mark.parametrize("content", [b"", b"a", CONTENT])
def test_what_goes_in_comes_out(blobs: Blobs, content: bytes) -> None:
    digest = blobs.put(content)
    assert digest == hashlib.sha256(content).hexdigest()
    assert blobs.has(digest)
    assert blobs.get(digest) == content


def test_equal_content_is_stored_once_and_private(tmp_path: Path, blobs: Blobs) -> None:
    blobs.put(CONTENT)
    first = only_file(tmp_path).stat()
    blobs.put(CONTENT)
    assert only_file(tmp_path).stat().st_ino == first.st_ino
    assert first.st_size < len(CONTENT)
    assert stat.S_IMODE(first.st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "fifo", "link"])
def test_a_damaged_blob_is_noticed_and_healed_by_the_next_put(tmp_path: Path, blobs: Blobs, damage: str) -> None:
    digest = blobs.put(CONTENT)
    path = only_file(tmp_path)
    stored = bytearray(path.read_bytes())
    other = tmp_path / "other"
    other.write_bytes(stored)
    if damage == "flip":
        stored[len(stored) // 2] ^= 1
        path.write_bytes(stored)
    elif damage == "cut":
        path.write_bytes(stored[: len(stored) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        other_digest = blobs.put(b"other content")
        path.write_bytes((tmp_path / "blobs" / f"{other_digest}.z").read_bytes())
    else:
        path.unlink()
        os.mkfifo(path) if damage == "fifo" else path.symlink_to(other)
    with pytest.raises(BlobError, match="damaged") as caught:
        blobs.get(digest)
    assert caught.value.data == {"sha256": digest}
    assert caught.value.hint is not None
    assert blobs.put(CONTENT) == digest
    assert blobs.get(digest) == CONTENT


def test_a_missing_blob_and_a_wild_name_are_said_plainly(tmp_path: Path, blobs: Blobs) -> None:
    (tmp_path / "secret.z").write_bytes(b"x")
    with pytest.raises(BlobError, match="missing"):
        blobs.get("a" * 64)
    for name in ("../secret", "", "A" * 64, "a" * 63):
        with pytest.raises(BlobError, match="is not a valid hash"):
            blobs.get(name)
    blobs.drop(["a" * 64])


def test_threads_may_put_the_same_content_at_once(tmp_path: Path, blobs: Blobs) -> None:
    by_threads(lambda _: [blobs.put(b"%d" % n * 100) for n in range(20)], range(4))
    assert len(list((tmp_path / "blobs").iterdir())) == 20


def test_sweep_removes_left_overs_and_orphans_only(tmp_path: Path, blobs: Blobs) -> None:
    used, orphan = blobs.put(b"used"), blobs.put(b"orphan")
    left_over = f"{'a' * 64}.z.memoryd-4711-3.tmp"
    for name in (left_over, "README", "notes.tmp"):
        (tmp_path / "blobs" / name).write_bytes(b"x")
    assert blobs.sweep({used, orphan}) == [left_over]
    assert blobs.sweep({used}) == [f"{orphan}.z"]
    assert {path.name for path in (tmp_path / "blobs").iterdir()} == {f"{used}.z", "README", "notes.tmp"}


def test_a_failing_disk_leaves_no_blob(tmp_path: Path, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "create", failing)
    with pytest.raises(OSError, match="No space"):
        blobs.put(CONTENT)
    assert list((tmp_path / "blobs").iterdir()) == []


def test_quarantine_holds_each_content_once(journal: Journal, blobs: Blobs) -> None:
    for now in (NOW, NOW + 1):
        quarantine(journal, blobs, "learnings.jsonl", b"torn", "less readable than its backup", now=now)
    (held,) = journal.quarantine.entries()
    assert (held.file, held.bytes, held.at) == ("learnings.jsonl", 4, NOW)
    assert blobs.get(held.blob) == b"torn"


def test_quarantine_is_bounded_by_number_and_by_size(journal: Journal, blobs: Blobs) -> None:
    digests = [quarantine(journal, blobs, "a", b"%d" % n, "bad", now=NOW, max_entries=3) for n in range(5)]
    assert [held.sha256 for held in journal.quarantine.entries()] == digests[2:]
    assert [blobs.has(digest) for digest in digests] == [False, False, True, True, True]
    large = quarantine(journal, blobs, "a", b"x" * 50, "bad", now=NOW, max_bytes=10)
    assert [held.sha256 for held in journal.quarantine.entries()] == [large]


def test_what_leaves_the_quarantine_stays_for_an_undo_that_needs_it(journal: Journal, blobs: Blobs) -> None:
    shared = quarantine(journal, blobs, "a", b"old", "bad", now=NOW)
    journal.begin("repair", "command", "1 line", [Step(Kind.REWRITE, "a", blob=shared)], NOW)
    quarantine(journal, blobs, "a", b"new", "bad", now=NOW, max_entries=1)
    assert len(journal.quarantine.entries()) == 1
    assert blobs.get(shared) == b"old"
