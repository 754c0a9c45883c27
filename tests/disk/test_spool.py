"""Changes that only append wait in the spool, and are never missing from the journal."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memoryd.core.plan import Kind
from memoryd.disk.journal import Journal, Step

NOW = 1_769_853_600.0


def begin(journal: Journal, name: str, now: float = NOW) -> str:
    steps = [Step(Kind.APPEND, name, after_sha="a" * 64, after_size=3, content=b"x", base_size=0)]
    return journal.begin("add", "command", f"stored in {name}", steps, now, durable=False)


def place(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_pending_entries_are_listed_like_the_others(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    receipt = begin(journal, "b\udcff")
    assert [(each.receipt, each.state) for each in journal.entries()] == [(receipt, "begun")]
    journal.finish(receipt, "done")
    [step] = journal.entry(receipt).steps
    assert (step.path, step.content, step.after_size) == ("b\udcff", b"x", 3)
    assert journal.entry(receipt).state == "done"


def test_adding_writes_nothing_into_the_journal_itself(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    before = journal.database.connection.total_changes
    for number in range(5):
        journal.finish(begin(journal, "a", NOW + number), "done")
    assert journal.database.connection.total_changes == before
    journal.fold()
    assert journal.database.connection.total_changes == before + 10
    assert os.path.getsize(f"{place(tmp_path)}-spool") == 0


def test_the_order_is_that_of_the_changes(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    first = begin(journal, "a")
    journal.finish(first, "done")
    second = journal.begin("archive", "schedule", "s", [Step(Kind.REWRITE, "a")], NOW + 1)
    third = begin(journal, "a", NOW + 2)
    assert [each.receipt for each in journal.entries()] == [third, second, first]


def test_receipts_differ_within_one_moment(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    assert len({begin(journal, "a") for _ in range(50)}) == 50


def test_the_file_is_private(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    begin(journal, "a")
    assert stat.S_IMODE(os.stat(f"{place(tmp_path)}-spool").st_mode) == 0o600


def test_half_a_record_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(str(place(tmp_path)))
    kept, torn = begin(journal, "a"), begin(journal, "b", NOW + 1)
    content = Path(f"{place(tmp_path)}-spool").read_bytes()
    Path(f"{place(tmp_path)}-spool").write_bytes(content[:-3])
    again = Journal(str(place(tmp_path)))
    assert [each.receipt for each in again.entries()] == [kept]
    assert torn not in {each.receipt for each in again.entries()}


def test_a_short_write_is_an_error_before_anything_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(str(place(tmp_path)))
    first = begin(journal, "a")
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
        with pytest.raises(OSError, match="No space"):
            begin(journal, "b", NOW + 1)
    last = begin(journal, "c", NOW + 2)
    assert [each.receipt for each in Journal(str(place(tmp_path))).entries()] == [last, first]


KILLED = """
import os, signal, sys
from memoryd.core.plan import Kind
from memoryd.disk.journal import Journal, Step
journal = Journal(sys.argv[1])
def add(number):
    steps = [Step(Kind.APPEND, "a", after_sha="a" * 64, after_size=number)]
    return journal.begin("add", "command", "s", steps, 1769853600.0 + number, durable=False)
done, begun = add(1), add(2)
journal.finish(done, "done")
if sys.argv[2] == "folded":
    os.ftruncate = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # what empties the spool
    journal.fold()
print(done, begun, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["waiting", "folded"])
def test_after_a_kill_each_is_there_once_and_what_was_under_way_shows(tmp_path: Path, moment: str) -> None:
    """Also between the commit that brought them in and the emptying of the spool."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(place(tmp_path)), moment], capture_output=True, text=True, check=False
    )
    assert ran.returncode == -signal.SIGKILL
    journal = Journal(str(place(tmp_path)))
    assert [(each.steps[0].after_size, each.state) for each in journal.entries()] == [(2, "begun"), (1, "done")]
    if moment == "folded":
        assert ran.stdout == "", "it was killed right after the commit"
    else:
        assert ran.stdout.split() == [each.receipt for each in reversed(journal.entries())]
    assert [each.steps[0].after_size for each in journal.unfinished()] == [2]
