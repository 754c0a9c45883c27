"""State that is deleted, replaced or emptied in use is noticed; state that is only out of sight is not lost."""

from __future__ import annotations

import os
from collections.abc import Callable
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
    held.owned.forget()
    assert not second.is_lost()
    assert (tmp_path / "instance.json").exists()
    second.owned.release()
