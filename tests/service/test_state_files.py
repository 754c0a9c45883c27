"""State that is deleted, replaced or emptied in use is noticed; state that is only out of sight is not lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memoryd.disk.daemon_lock import take
from memoryd.service.state_files import HeldLock, StateFiles

FILES = ("catalogue.sqlite", "journal.sqlite", "snapshots.sqlite")


def unheard(topic: str, event: dict[str, object]) -> None:
    del topic, event


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "roots" / "a"
    (place / "blobs").mkdir(parents=True)
    for name in FILES:
        (place / name).write_bytes(b"content")
    return place


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("damage", [Path.unlink, replace, lambda path: os.truncate(path, 0)])
def test_a_loss_is_reported_once_and_the_history_is_missed(damage: Callable[[Path], object], place: Path) -> None:
    files = StateFiles()
    assert files.note("a", str(place)) == ()
    assert files.take_lost(unheard) == ()
    damage(place / "journal.sqlite")
    said: list[tuple[str, dict[str, object]]] = []
    assert files.take_lost(lambda topic, event: said.append((topic, event))) == ("a",)
    assert [(topic, event["root"]) for topic, event in said] == [("health", "a")]
    (place / "journal.sqlite").write_bytes(b"new")
    (finding,) = files.note("a", str(place))
    assert finding.code == "state-lost"
    assert "journal.sqlite" in finding.message
    assert files.changed() == {}


def test_nothing_is_missed_with_the_index(place: Path) -> None:
    files = StateFiles()
    files.note("a", str(place))
    (place / FILES[0]).unlink()
    assert files.take_lost(unheard) == ("a",)
    assert files.note("a", str(place)) == ()


def test_a_write_is_no_loss_and_neither_is_a_removed_root(place: Path) -> None:
    files = StateFiles()
    files.note("a", str(place))
    (place / FILES[1]).write_bytes(b"longer content")
    (place / "blobs" / "ab").write_bytes(b"x")
    assert files.changed() == {}
    files.forget("a")
    (place / FILES[1]).unlink()
    assert files.changed() == {}


def test_what_cannot_be_looked_at_is_not_lost(place: Path) -> None:
    files = StateFiles()
    files.note("a", str(place))
    moved = place.rename(place.with_name("b"))
    place.symlink_to(place)  # as a directory without permission, for a user who may do all: an error, but not "no file"
    assert files.changed() == {}
    place.unlink()
    assert files.changed().keys() == {"a"}
    moved.rename(place)
    assert files.changed() == {}


def test_a_lock_whose_file_is_gone_keeps_nobody_out(tmp_path: Path) -> None:
    held = HeldLock(take(str(tmp_path / "instance.lock"), {}))
    assert not held.is_lost()
    (tmp_path / "instance.lock").unlink()
    assert held.is_lost()
    second = HeldLock(take(str(tmp_path / "instance.lock"), {"pid": 1}))
    held.release()
    assert not second.is_lost()
    assert (tmp_path / "instance.json").exists()
    second.release()
    assert not (tmp_path / "instance.json").exists()


def open_database(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=OFF")
    db.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
    return db


def texts(db: sqlite3.Connection) -> list[str]:
    return [text for (text,) in db.execute("SELECT text FROM notes")]


@pytest.mark.parametrize("restored", [False, True])
def test_a_database_gets_nothing_from_the_one_that_was_there_before(restored: bool, tmp_path: Path) -> None:
    """Whose worker may not have ended yet."""
    path = tmp_path / "journal.sqlite"
    copy = tmp_path / "copy"
    if restored:
        with closing(open_database(copy)) as db:
            db.execute("INSERT INTO notes VALUES ('from the copy')")
    old = open_database(path)
    files = StateFiles()
    files.note("a", str(tmp_path))
    old.execute("INSERT INTO notes VALUES ('before')")
    path.unlink()
    if restored:
        copy.rename(path)
    assert files.take_lost(unheard) == ("a",)
    new = open_database(path)
    for _ in range(10):
        old.execute("INSERT INTO notes VALUES ('late')")
        new.execute("INSERT INTO notes VALUES ('after')")
    old.close()
    assert texts(new) == restored * ["from the copy"] + 10 * ["after"]
    assert new.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    new.close()


def test_the_logs_of_a_copy_are_left_to_it(place: Path) -> None:
    log = place / "journal.sqlite-wal"
    log.write_bytes(b"old")
    files = StateFiles()
    files.note("a", str(place))
    replace(place / "journal.sqlite")
    replace(log)
    files.take_lost(unheard)
    assert log.exists()
