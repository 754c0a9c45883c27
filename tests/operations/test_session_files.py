"""The layout session-files on a real disk: archiving, undo with modes, and no secrets in the state."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.core.defaults import DAY, Policy
from memoryd.layouts.session_files.names import slug
from memoryd.operations.backup import create_backups
from memoryd.operations.refresh import refresh
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe
from memoryd.store import Store
from tests.layouts import json_samples
from tests.layouts.samples import learning, lines
from tests.layouts.session_samples import memory, path_of, session, text

NOW = 1_790_000_000.0
NAMES = ("2026-01-30-14-30-00-one", "2026-01-30-15-30-00-two", "2026-02-01-10-00-00-three")


class Site:
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
def site(tmp_path: Path) -> Iterator[Site]:
    old = os.umask(0o022)
    held = Site(tmp_path)
    yield held
    held.store.close()
    os.umask(old)


def test_empty_date_directories_are_removed_and_an_undo_restores_them_with_their_modes(site: Site) -> None:
    """The archiver that shares the directory does the same; a directory that is not empty stays."""
    (site.root / "2026-02-01/notes.txt").write_text("somebody's")
    before = site.everything()
    done = archive(site.store, NOW, by="schedule")
    assert done.receipt is not None
    assert sorted(each.name for each in site.root.iterdir()) == ["2026-02-01", "archive"]
    refresh(site.store, None, NOW)
    undo(site.store, done.receipt, NOW)
    assert site.everything() == before


def test_a_restored_file_has_the_mode_it_had(site: Site) -> None:
    create_backups(site.store, NOW)
    before = site.everything()
    path = path_of(NAMES[0])
    (site.root / path).unlink()
    refresh(site.store, None, NOW)
    restore(site.store, NOW, file=path)
    assert site.everything() == before


@pytest.mark.parametrize(
    ("said", "secret", "pattern"),
    [
        ("ghp_" + "a1B2" * 9, "ghp_" + "a1B2" * 9, "github-token"),
        ("password=Tr0ub4dor33", "Tr0ub4dor33", "assignment"),
        ("postgres://app:Tr0ub4dor33@db/x", "Tr0ub4dor33", "url-password"),
    ],
)
@pytest.mark.parametrize("layout", ["json-files", "markdown-topics", "session-files", "user-document", "jsonl-store"])
def test_no_state_of_memoryd_contains_a_plain_text_secret(
    tmp_path: Path, layout: str, said: str, secret: str, pattern: str
) -> None:
    """Verbatim bytes exist only in the compressed, private blobs."""
    root = tmp_path / "root"
    for path, content in with_secret(said)[layout].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        os.utime(root / path, (NOW - 60,) * 2)
    store = Store("r", str(root), layout, Policy(), str(tmp_path / "state"))
    store.attach()
    refresh(store, None, NOW)
    assert store.catalogue.totals()[0] == 1
    create_backups(store, NOW)
    dedupe(store, NOW, by="command")
    store.close()
    state = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    held = [path.name for path in state for form in (secret, slug(secret)) if form.encode() in path.read_bytes()]
    assert held == []
    assert any(f"[redacted:{pattern}]".encode() in path.read_bytes() for path in state)
    assert [path.name for path in state if path.stat().st_mode & 0o077] == []


def with_secret(secret: str) -> dict[str, dict[str, bytes]]:
    """For each layout, a store that contains the same secret twice."""
    said = f"use {secret} for it"
    twice = session(memory(said, "one two three"), memory(said, "one two three"), name=NAMES[0])
    item = {"data": {"id": 1, "content": said}, "embedding": [1.0]}
    entry = f"## 2026-01-01: {said}\n**Context:** {said}\n---\n"
    return {
        "json-files": {json_samples.name(1): json_samples.file(1, content=said, summary=said)},
        "markdown-topics": {"topic/sub.md": f"# {said}\n{entry}{entry}".encode()},
        "session-files": {path_of(NAMES[0]): text(twice)},
        "user-document": {"u/__long-memories/data.json": text({"memories": [item, item], "updated_at": None})},
        "jsonl-store": {"learnings.jsonl": lines(learning(1, content=said), learning(2, content=said))},
    }
