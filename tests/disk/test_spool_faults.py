"""The spool where something went wrong before: torn, in an odd place, without its journal, on a disk that refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from memoryd.disk.journal import Journal
from tests.disk.test_spool import NOW, begin, place

pytestmark = pytest.mark.slow


def beside(tmp_path: Path) -> Path:
    return Path(f"{place(tmp_path)}-spool")


def states(journal: Journal) -> list[tuple[str, str]]:
    return [(each.receipt, each.state) for each in journal.entries()]


def refuse(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def done_unwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Journal, str]:
    """Make an entry that is done, although the disk failed to record it."""
    journal = Journal(str(place(tmp_path)))
    receipt = begin(journal, "a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        journal.finish(receipt, "done")
    return journal, receipt


@pytest.mark.parametrize("left", [b"\x00\x00\x01\x00half a rec", b"\x00" * 64, b"\x00"])
def test_what_comes_after_half_a_record_of_an_earlier_run_is_not_hidden_by_it(tmp_path: Path, left: bytes) -> None:
    """A kill in the middle of a large one leaves a part and nothing else."""
    beside(tmp_path).write_bytes(left)
    journal = Journal(str(place(tmp_path)))
    receipt = begin(journal, "a")
    journal.finish(receipt, "done")
    again = Journal(str(place(tmp_path)))
    assert states(again) == [(receipt, "done")]


def test_a_journal_that_was_moved_away_does_not_keep_the_daemon_from_starting(tmp_path: Path) -> None:
    """Move it away, as the hint for a damaged one says."""
    journal = Journal(str(place(tmp_path)))
    receipt = begin(journal, "a")
    journal.finish(receipt, "done")
    journal.close()
    for name in ("", "-wal", "-shm"):
        Path(f"{place(tmp_path)}{name}").unlink(missing_ok=True)
    assert states(Journal(str(place(tmp_path)))) == [(receipt, "done")]


def test_that_it_is_done_need_not_be_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is changed by then, and a client that got an error would store the memory twice."""
    journal, receipt = done_unwritten(tmp_path, monkeypatch)
    later = begin(journal, "b", NOW + 1)
    killed = Journal(str(place(tmp_path)))
    assert states(killed) == [(later, "begun"), (receipt, "begun")], "the recovery looks at the files"


def test_an_entry_is_done_even_if_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, receipt = done_unwritten(tmp_path, monkeypatch)
    assert states(journal) == [(receipt, "done")]


def test_half_a_record_that_cannot_be_cut_off_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(str(place(tmp_path)))
    first = begin(journal, "a")
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space"):
            begin(journal, "b", NOW + 1)
    last = begin(journal, "c", NOW + 2)
    assert states(Journal(str(place(tmp_path)))) == [(last, "begun"), (first, "begun")]


def test_a_spool_that_cannot_be_emptied_does_not_fail_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries are in the journal by then; it is emptied the next time, and they are listed once."""
    journal = Journal(str(place(tmp_path)))
    receipt = begin(journal, "a")
    journal.finish(receipt, "done")
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        journal.facts.set("fact", 1)
    later = begin(journal, "b", NOW + 1)
    assert states(Journal(str(place(tmp_path)))) == [(later, "begun"), (receipt, "done")]


def test_what_another_process_brought_in_half_done_becomes_done(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    receipt = begin(journal, "a")
    Journal(str(place(tmp_path))).close()
    journal.finish(receipt, "done")
    assert states(journal) == [(receipt, "done")]


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_an_irregular_spool_is_reported_and_not_opened(tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    if kind == "fifo":
        os.mkfifo(beside(tmp_path))
    elif kind == "directory":
        beside(tmp_path).mkdir()
    else:
        beside(tmp_path).symlink_to(elsewhere)
    with pytest.raises(OSError, match="spool"):
        Journal(str(place(tmp_path)))
    assert elsewhere.read_bytes() == b"precious"


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_a_spool_that_became_irregular_is_reported_before_any_change(tmp_path: Path, kind: str) -> None:
    journal = Journal(str(place(tmp_path)))
    if kind == "fifo":
        os.mkfifo(beside(tmp_path))
    elif kind == "directory":
        beside(tmp_path).mkdir()
    else:
        beside(tmp_path).symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="spool"):
        begin(journal, "a")
    (beside(tmp_path).rmdir if kind == "directory" else beside(tmp_path).unlink)()
    receipt = begin(journal, "a")
    assert states(journal) == [(receipt, "begun")]


def test_what_waits_is_shown_where_it_cannot_be_brought_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(str(place(tmp_path)))
    first = begin(journal, "a")
    journal.finish(first, "done")
    second = begin(journal, "b", NOW + 1)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "fold", refuse)
        assert states(journal) == [(second, "begun"), (first, "done")]
        assert journal.entry(second).steps[0].path == "b"
        assert [each.receipt for each in journal.unfinished()] == [second]
        assert [each.receipt for each in journal.entries(before=second)] == [first]
    assert journal.database.rows("SELECT 1 FROM entries") == [], "a look brings nothing in"
    assert states(journal) == [(second, "begun"), (first, "done")]
