"""The hash of the start of a file that grows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.core.spans import sha256
from memoryd.disk.syscalls import PIECE
from memoryd.store import indexed_files
from memoryd.store.indexed_files import MAX_FILES, FileEnds, StartHash

CONTENT = b"".join(b"line %d\n" % number for number in range(60_000))
assert 2 * PIECE < len(CONTENT) < 3 * PIECE


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """An open file with the content."""
    path = tmp_path / "grown.jsonl"
    path.write_bytes(CONTENT)
    opened = os.open(path, os.O_RDWR)
    yield opened
    os.close(opened)


def hashed(start_hash: StartHash, fd: int, size: int) -> str | None:
    digest = start_hash(fd, size)
    return digest.hexdigest() if digest is not None else None


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, len(CONTENT), len(CONTENT) + 9])
def test_the_hash_is_that_of_the_bytes_alone(fd: int, size: int) -> None:
    start_hash = StartHash()
    for smaller in (0, size // 2, size, size):
        assert hashed(start_hash, fd, smaller) == sha256(CONTENT[:smaller])


def test_known_pieces_are_compared_and_not_digested(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start_hash = StartHash()
    start_hash(fd, len(CONTENT))
    sizes: list[int] = []

    def counted(piece: bytes) -> int:
        sizes.append(len(piece))
        return hash(piece)

    monkeypatch.setattr(indexed_files, "hash", counted, raising=False)
    assert hashed(start_hash, fd, len(CONTENT)) == sha256(CONTENT)
    assert sizes == [PIECE, PIECE]


@pytest.mark.parametrize("at", [0, PIECE - 1, PIECE, 2 * PIECE - 1])
def test_a_changed_piece_is_noticed_once_and_then_hashed_anew(fd: int, at: int) -> None:
    start_hash = StartHash()
    start_hash(fd, len(CONTENT))
    os.pwrite(fd, b"#", at)
    assert start_hash(fd, len(CONTENT)) is None
    assert hashed(start_hash, fd, len(CONTENT)) == sha256(CONTENT[:at] + b"#" + CONTENT[at + 1 :])


def test_a_change_after_the_known_pieces_is_in_the_digest(fd: int) -> None:
    start_hash = StartHash()
    start_hash(fd, len(CONTENT))
    os.pwrite(fd, b"#", len(CONTENT) - 1)
    assert hashed(start_hash, fd, len(CONTENT)) == sha256(CONTENT[:-1] + b"#")


def test_a_shorter_file_has_changed(fd: int) -> None:
    start_hash = StartHash()
    start_hash(fd, len(CONTENT))
    os.ftruncate(fd, PIECE + 7)
    assert start_hash(fd, PIECE + 7) is None
    assert hashed(start_hash, fd, PIECE + 7) == sha256(CONTENT[: PIECE + 7])


def test_of_many_files_the_first_one_is_forgotten_and_no_other() -> None:
    ends = FileEnds()
    first, *others = [ends.start_hash(f"{number}.jsonl") for number in range(MAX_FILES)]
    assert ends.start_hash("0.jsonl") is first
    ends.start_hash("one more.jsonl")
    assert [ends.start_hash(f"{number}.jsonl") for number in range(1, MAX_FILES)] == others
    assert ends.start_hash("0.jsonl") is not first
