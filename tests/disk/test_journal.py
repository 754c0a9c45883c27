"""The journal: what was begun, done and undone survives a kill and tells the truth."""

from __future__ import annotations

import errno
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import to_builtins

import memoryd
from memoryd.core.plan import Kind
from memoryd.core.retention import Quality
from memoryd.disk.blobs import Blobs
from memoryd.disk.journal import Entry, Journal, Step
from memoryd.disk.journal.database import JournalError
from memoryd.disk.journal.jobs import MOST_IDLE_RUNS
from memoryd.disk.journal.trash import Pin
from memoryd.errors import BusyError, MemorydError, NotFoundError
from memoryd.service.handlers.upkeep import history_entry
from tests.crowd import by_threads

NOW = 1_767_261_600.0  # 2026-01-01T10:00:00Z
ODD = "caf\udce9/new\nline \ud83d.jsonl"  # a name that is no UTF-8, and half an emoji

STEPS = (
    Step(Kind.APPEND, "archive/2025/learnings_2025_Q4.jsonl", after_sha="a" * 64, base_size=7, blob="1" * 64),
    Step(Kind.REWRITE, ODD, group=0, before_sha="b" * 64, before_size=9, blob="2" * 64, note="3 lines"),
    Step(Kind.CHMOD, "tasks.jsonl", group=1, mode=0o644),
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(str(tmp_path / "state" / "journal.sqlite"))
    yield opened
    opened.close()


def begin(journal: Journal, *steps: Step, now: float = NOW) -> str:
    return journal.begin("archive", "schedule", "3 learnings to 2025 Q4", steps, now)


def test_an_entry_comes_back_as_it_was_written(journal: Journal) -> None:
    receipt = begin(journal, *STEPS)
    entry = journal.entry(receipt)
    assert [(s.kind, s.path, s.group, s.position, s.applied) for s in entry.steps] == [
        ("append", STEPS[0].path, 0, 0, False),
        ("rewrite", ODD, 0, 1, False),
        ("chmod", "tasks.jsonl", 1, 2, False),
    ]
    assert (entry.steps[0].base_size, entry.steps[1].note, entry.steps[2].mode) == (7, "3 lines", 0o644)
    assert (entry.state, entry.by, entry.at) == ("begun", "schedule", NOW)
    assert journal.unfinished() == [entry]


def test_public_says_what_history_shows(journal: Journal) -> None:
    receipt = begin(journal, STEPS[0], STEPS[2], STEPS[0])
    journal.finish(receipt, "done")
    assert to_builtins(history_entry("agents", journal.entry(receipt))) == {
        "root": "agents",
        "receipt": receipt,
        "at": "2026-01-01T10:00:00Z",
        "operation": "archive",
        "by": "schedule",
        "summary": "3 learnings to 2025 Q4",
        "undone": False,
        "state": "done",
        "paths": [STEPS[0].path, "tasks.jsonl"],
    }
    journal.finish(receipt, "undone", undone_by="20260102-000000")
    assert history_entry("agents", journal.entry(receipt)).undone is True
    assert journal.entry(receipt).undone_by == "20260102-000000"


def test_the_steps_of_a_file_are_listed_newest_first(journal: Journal) -> None:
    first, second = begin(journal, *STEPS), begin(journal, STEPS[0], STEPS[1], STEPS[0], now=NOW + 1)
    found = [(entry.receipt, step.position) for entry, step in journal.steps_of(STEPS[0].path)]
    assert found == [(second, 2), (second, 0), (first, 0)]
    assert [entry.receipt for entry, _ in journal.steps_of(ODD, limit=1)] == [second]
    assert list(journal.steps_of("other.jsonl")) == []


def test_steps_are_marked_and_amended(journal: Journal) -> None:
    receipt = begin(journal, *STEPS)
    journal.mark_applied(receipt, 1)
    journal.amend(receipt, 1, after_sha="c" * 64, after_size=4)
    journal.amend(receipt, 1, after_sha="d" * 64, note="with 12 late bytes")
    steps = journal.entry(receipt).steps
    assert (steps[1].applied, steps[1].after_sha, steps[1].after_size) == (True, "d" * 64, 4)
    assert (steps[1].note, steps[1].before_sha) == ("with 12 late bytes", "b" * 64)
    with pytest.raises(NotFoundError):
        journal.mark_applied(receipt, 4)
    with pytest.raises(NotFoundError, match="no change has the receipt"):
        journal.mark_applied("20260101-zzzzzz\ud83d", 0)


def test_receipts_are_short_sorted_unique_and_differ_between_roots(tmp_path: Path) -> None:
    one, other = Journal(str(tmp_path / "one")), Journal(str(tmp_path / "other"))
    receipts = [begin(one, now=NOW + n) for n in range(50)]
    assert receipts == sorted(receipts)
    assert all(len(receipt) == 16 and receipt.startswith("20260101-") for receipt in receipts)
    assert begin(one, now=NOW - 1) != begin(other, now=NOW - 1)
    assert len({begin(one, now=NOW - 2) for _ in range(50)}) == 50
    one.close()
    other.close()


def test_no_receipt_is_given_twice_in_a_second_after_a_restart(tmp_path: Path) -> None:
    given = []
    for _ in range(3):
        with closing(Journal(str(tmp_path / "one"))) as journal:
            given += [begin(journal, now=NOW) for _ in range(3)]
            given += [begin(journal, now=NOW + 1), begin(journal, now=NOW)]
    assert len(set(given)) == len(given) == 15


def test_entries_are_listed_newest_first(journal: Journal) -> None:
    receipts = [begin(journal, now=NOW - 1000 * n) for n in range(5)]  # the clock runs backwards
    assert [e.receipt for e in journal.entries(2)] == receipts[:2:-1]


def test_prune_keeps_the_newest_and_the_unfinished_and_frees_blobs(journal: Journal) -> None:
    open_one = begin(journal, Step(Kind.REWRITE, "a", blob="1" * 64))
    for blob in ("1", "2", "3", "4"):
        journal.finish(begin(journal, Step(Kind.REWRITE, "a", blob=blob * 64)), "done")
    journal.quarantine.add("a", "3" * 64, 1, "damaged", now=NOW)
    assert journal.prune(keep=1) == ["2" * 64]  # 1 is held by the unfinished one, 3 by the quarantine
    assert [e.receipt for e in journal.unfinished()] == [open_one]
    assert len(journal.entries()) == 2
    assert journal.blobs_in_use() == {"1" * 64, "3" * 64, "4" * 64}
    assert journal.prune(keep=1) == []


def test_words_out_of_the_table_are_refused(journal: Journal) -> None:
    with pytest.raises(ValueError, match="cause"):
        journal.begin("archive", "whim", "", (), NOW)
    with pytest.raises(ValueError, match="result"):
        journal.jobs.record_end("archive", "fine", NOW)


def test_job_times_count_runs_failures_and_what_was_cut_off(journal: Journal) -> None:
    journal.jobs.record_start("archive", NOW)
    assert journal.jobs.times()["archive"].running
    journal.jobs.record_end("archive", "ok", NOW + 1)
    journal.jobs.record_start("archive", NOW + 10)
    journal.jobs.record_end("archive", "failed", NOW + 11, "disk full")
    journal.jobs.record_missed("archive", 2)
    times = journal.jobs.times()["archive"]
    assert (times.runs, times.failures, times.missed, times.running) == (2, 1, 2, False)
    assert (times.last_success, times.last_result, times.last_error) == (NOW + 1, "failed", "disk full")
    assert (times.last_start, times.last_end) == (NOW + 10, NOW + 11)
    journal.jobs.record_start("locks", NOW + 20)
    assert journal.jobs.fail_interrupted() == ["locks"]
    assert journal.jobs.times()["locks"].last_result == "failed"
    assert journal.jobs.fail_interrupted() == []
    journal.jobs.record_end("archive", "ok", NOW + 30)
    assert journal.jobs.times()["archive"].last_error is None


def test_runs_that_had_nothing_to_do_are_counted_without_a_write(journal: Journal) -> None:
    journal.jobs.record_start("locks", NOW)
    journal.jobs.record_end("locks", "failed", NOW + 1, "busy")
    written = journal.database.connection.total_changes
    assert [journal.jobs.note_idle_run("locks", NOW + 10 * each) for each in range(1, MOST_IDLE_RUNS + 2)] == [
        *[True] * MOST_IDLE_RUNS,
        False,
    ]
    assert journal.database.connection.total_changes == written
    last = NOW + 10 * MOST_IDLE_RUNS
    counted = journal.jobs.times()["locks"]
    assert (counted.runs, counted.failures, counted.last_result) == (MOST_IDLE_RUNS + 1, 1, "ok")
    assert (counted.last_start, counted.last_end, counted.last_success, counted.last_error) == (last, last, last, None)
    journal.jobs.flush()
    assert journal.jobs.times()["locks"] == counted
    assert journal.jobs.note_idle_run("locks", last + 10)
    journal.jobs.record_start("locks", last + 20)
    journal.jobs.record_end("locks", "ok", last + 21)
    assert journal.jobs.times()["locks"].runs == MOST_IDLE_RUNS + 3


def test_meta_holds_json(journal: Journal) -> None:
    assert journal.facts.get("identity") is None
    assert journal.facts.get("files", {}) == {}
    journal.facts.set("identity", {"dev": 1, "inode": 2**63, "name": "東京 \udce9", "list": [1.5, None]})
    journal.facts.set("identity", {**journal.facts.get("identity"), "dev": 3})
    assert journal.facts.get("identity") == {
        "dev": 3,
        "inode": 2**63,
        "name": "東京 \udce9",
        "list": [1.5, None],
    }


def test_each_memory_is_pinned_once(journal: Journal) -> None:
    journal.pins.pin([Pin(ODD, "id-\ud83d", "a" * 64), Pin("tasks.jsonl", "id-2", "b" * 64)])
    journal.pins.pin([Pin("tasks.jsonl", "id-2", "b" * 64)])
    assert [(each.path, each.id) for each in journal.pins.all()] == [(ODD, "id-\ud83d"), ("tasks.jsonl", "id-2")]
    assert journal.pins.digests() == {"a" * 64, "b" * 64}


def test_a_backups_number_is_never_used_again(journal: Journal) -> None:
    quality = Quality(2, 2)
    for name in ("a.backup", "b.backup", "c.backup"):
        journal.backups.add(name, ODD, taken=NOW, size=1, sha256="a" * 64, quality=quality)
    journal.backups.remove(["c.backup"])
    again = journal.backups.add("a.backup", ODD, taken=NOW - 9, size=2, sha256="b" * 64, quality=quality)
    journal.backups.mark("b.backup", valid=False, pinned=True)
    rows = journal.backups.rows(ODD)
    assert rows == journal.backups.rows()
    assert [(row.seq, row.name, row.valid, row.pinned) for row in rows] == [
        (2, "b.backup", False, True),
        (4, "a.backup", True, False),
    ]
    assert rows[1] == again


def test_several_threads_write_at_once(journal: Journal) -> None:
    def work(name: str) -> None:
        for n in range(20):
            receipt = begin(journal, STEPS[0], now=NOW + n)
            journal.mark_applied(receipt, 0)
            journal.finish(receipt, "done")
            journal.jobs.record_end(name, "ok", NOW)
            journal.entries(3)

    by_threads(work, (f"job{n}" for n in range(4)))
    entries = journal.entries(1000)
    assert len({entry.receipt for entry in entries}) == 80
    assert all(entry.state == "done" and entry.steps[0].applied for entry in entries)


def test_a_failed_transaction_leaves_nothing_behind(journal: Journal) -> None:
    broken = Step(Kind.REWRITE, None)  # type: ignore[arg-type]  # makes the second statement fail
    with pytest.raises(AttributeError):
        begin(journal, broken)
    assert journal.entries() == []
    begin(journal)


def test_files_are_private(tmp_path: Path, journal: Journal) -> None:
    begin(journal)
    state = tmp_path / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()}
    assert len(modes) == 3
    assert set(modes.values()) == {0o600}


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(str(path)).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    with pytest.raises(MemorydError, match=r"newer memoryd \(version 99") as caught:
        Journal(str(path))
    assert caught.value.hint is not None
    assert path.read_bytes() == before


def test_damaged_and_foreign_files_are_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(b"this is no database" * 100)
    with pytest.raises(MemorydError, match="damaged") as caught:
        Journal(str(tmp_path / "garbage"))
    assert "move the file" in (caught.value.hint or "")
    with sqlite3.connect(tmp_path / "foreign") as db:
        db.execute("CREATE TABLE entries (x)")
    db.close()
    with pytest.raises(MemorydError, match="another program"):
        Journal(str(tmp_path / "foreign"))
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="link"):
        Journal(str(tmp_path / "link"))
    assert not (tmp_path / "target").exists()


def test_an_empty_file_left_by_a_crash_is_filled(tmp_path: Path) -> None:
    (tmp_path / "journal").touch()
    journal = Journal(str(tmp_path / "journal"))
    assert journal.entries() == []
    journal.close()


def test_a_full_disk_is_an_oserror_and_the_journal_recovers(journal: Journal) -> None:
    pages = journal.database.rows("PRAGMA page_count")[0][0]
    journal.database.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match="full") as caught:
        begin(journal, *[Step(Kind.NOTE, "p" * 5000)] * 20)
    assert caught.value.errno == errno.ENOSPC
    journal.database.rows("PRAGMA max_page_count = 1000000")
    begin(journal, *STEPS)
    assert len(journal.entries()) == 1


def test_another_writer_and_use_after_close_are_said_plainly(tmp_path: Path, journal: Journal) -> None:
    journal.database.rows("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(tmp_path / "state" / "journal.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BusyError):
        begin(journal)
    other.execute("ROLLBACK")
    other.close()
    journal.close()
    journal.close()
    with pytest.raises(MemorydError, match="closed"):
        journal.entries()


_WRITER = """
import sys
from memoryd.core.plan import Kind
from memoryd.disk.blobs import Blobs
from memoryd.disk.journal import Journal, Step

journal, blobs = Journal(sys.argv[1]), Blobs(sys.argv[2])
for n in range(100_000):
    blob = blobs.put(f"content {sys.argv[3]} {n} ".encode() * 50)
    receipt = journal.begin("archive", "schedule", "round", [Step(Kind.REWRITE, "a", blob=blob)] * 3, 1.7e9 + n)
    print("begun", receipt, flush=True)
    journal.mark_applied(receipt, 0)
    journal.jobs.record_end("archive", "ok", 1.7e9 + n)
    journal.finish(receipt, "done")
    print("done", receipt, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 2, 3, 10, 25, 64])
def test_after_a_kill_everything_said_is_there_and_whole(tmp_path: Path, lines: int) -> None:
    path, store = tmp_path / "journal", tmp_path / "blobs"
    for generation in range(3):
        said = _killed_after(lines + generation, str(path), str(store), str(generation))
        journal, blobs = Journal(str(path)), Blobs(str(store))
        blobs.sweep(journal.blobs_in_use())
        assert [tuple(row) for row in journal.database.rows("PRAGMA integrity_check")] == [("ok",)]
        for state, receipt in said:
            assert journal.entry(receipt).state in {state, "done"}
        entries = journal.entries(100_000)
        _assert_whole(entries, blobs)
        assert {path.name.removesuffix(".z") for path in store.iterdir()} == journal.blobs_in_use()
        for entry in journal.unfinished():
            journal.finish(entry.receipt, "interrupted")
        journal.close()
        blobs.close()


def _killed_after(lines: int, *arguments: str) -> list[tuple[str, str]]:
    """Return the output of the writer, killed at a random moment after that many lines."""
    command = [sys.executable, "-c", _WRITER, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(memoryd.__file__).parents[1]) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL, "it wrote until it was killed"
    words = [line.split() for line in said if line.endswith("\n")]
    return [(state, receipt) for state, receipt in words]


def _assert_whole(entries: list[Entry], blobs: Blobs) -> None:
    for entry in entries:
        assert len(entry.steps) == 3
        assert entry.state in {"begun", "done", "interrupted"}
        assert entry.steps[0].applied or entry.state != "done"
        assert all(step.blob and blobs.get(step.blob).startswith(b"content") for step in entry.steps)


def test_the_history_of_jobs_is_read_while_a_write_hangs(journal: Journal) -> None:
    """As on a disk that is frozen: `status` shows it, and answers all the same."""
    journal.jobs.record_start("backup", 5.0)
    journal.jobs.record_end("backup", "ok", 6.0)
    with ThreadPoolExecutor(1) as pool, journal.database.writing():
        asked = pool.submit(journal.jobs.times)
        assert wait([asked], 5).done, "it waits for no lock"
    assert asked.result()["backup"].last_end == 6.0


def test_a_failed_write_is_not_shown(journal: Journal) -> None:
    journal.jobs.record_start("backup", 5.0)
    journal.database.connection.execute("CREATE TRIGGER no AFTER INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(JournalError):
        journal.jobs.record_end("backup", "ok", 6.0)
    assert journal.jobs.times()["backup"].running
    journal.database.connection.execute("DROP TRIGGER no")
    journal.jobs.record_end("backup", "ok", 7.0)
    assert journal.jobs.times()["backup"].last_end == 7.0
