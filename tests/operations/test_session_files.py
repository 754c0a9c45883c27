"""The layout session-files on a real disk: what archiving leaves behind, and what comes back as it was."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.core.policy import DAY, Policy
from memoryd.operations.archive import archive
from memoryd.operations.backup import create_backups, restore
from memoryd.operations.refresh import refresh
from memoryd.operations.undo import undo
from memoryd.store import Store
from tests.layouts.session_samples import memory, path_of, session, text

NOW = 1_790_000_000.0
NAMES = ("2026-01-30-14-30-00-one", "2026-01-30-15-30-00-two", "2026-02-01-10-00-00-three")


class Folder:
    def __init__(self, base: Path) -> None:
        self.root = base / "memories"
        for name in NAMES:
            path = self.root / path_of(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text(session(memory(), name=name)))
            path.chmod(0o644)
            os.utime(path, (NOW - 100 * DAY,) * 2)
        for each in (self.root, *(path for path in self.root.iterdir())):
            each.chmod(0o755)
        self.store = Store("s", str(self.root), "session-files", Policy(archive_sessions=True), str(base / "state"))
        self.store.attach()
        refresh(self.store, None, NOW)

    def everything(self) -> dict[str, tuple[int, bytes]]:
        """Mode and content of each file and folder."""
        found = sorted(self.root.rglob("*"))
        return {
            str(path.relative_to(self.root)): (
                stat.S_IMODE(path.stat().st_mode),
                path.read_bytes() if path.is_file() else b"",
            )
            for path in found
        }


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    old = os.umask(0o022)
    held = Folder(tmp_path)
    yield held
    held.store.close()
    os.umask(old)


def test_emptied_date_folders_go_and_an_undo_brings_everything_back_with_its_modes(folder: Folder) -> None:
    """As the archiver does that shares the folder; what is not empty stays."""
    (folder.root / "2026-02-01/notes.txt").write_text("somebody's")
    before = folder.everything()
    done = archive(folder.store, NOW, by="schedule")
    assert done.receipt is not None
    assert sorted(each.name for each in folder.root.iterdir()) == ["2026-02-01", "archive"]
    refresh(folder.store, None, NOW)
    undo(folder.store, done.receipt, NOW)
    assert folder.everything() == before


def test_a_restored_file_has_the_mode_it_had(folder: Folder) -> None:
    create_backups(folder.store, NOW)
    before = folder.everything()
    path = path_of(NAMES[0])
    (folder.root / path).unlink()
    refresh(folder.store, None, NOW)
    restore(folder.store, NOW, file=path)
    assert folder.everything() == before
