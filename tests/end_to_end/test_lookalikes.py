"""One daemon over directories that only look like memory stores, and over real ones that nobody named: the first are
not taken for stores, the second all are, and in none of them a byte, a mode or a time stamp changes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memoryd.layouts.registry import recognise
from tests.daemon import until
from tests.end_to_end.conftest import MakeDaemon
from tests.layouts.contract import directory_of
from tests.lookalikes import LOOKALIKES, STORES, Files

BUSY = '[daemon]\nquiet_s = 0\nquiet_cap_s = 0\n[defaults.schedule]\n' + "".join(
    f'{job} = "every 1s"\n' for job in ("archive", "limits", "prune", "dedupe", "backup", "locks", "permissions")
)  # fmt: skip
DUE = "markdown-topics, no index"  # more entries than a file may have


def lay(root: Path, files: Files) -> None:
    root.mkdir(mode=0o755)
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(0o644)


def seen(root: Path) -> dict[str, tuple[bytes, int, int, int]]:
    """Content, mode, inode and modification time of everything."""
    found = {}
    for path in (root, *root.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        found[str(path.relative_to(root))] = (content, state.st_mode, state.st_ino, state.st_mtime_ns)
    return found


def test_the_corpus_is_large() -> None:
    assert len(LOOKALIKES) >= 40
    assert {layout for layout, _ in STORES.values()} == {
        "json-files", "markdown-topics", "user-document", "session-files", "jsonl-store",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOOKALIKES))
def test_a_lookalike_is_no_store(name: str) -> None:
    assert recognise(directory_of(LOOKALIKES[name])) == {}


@pytest.mark.parametrize("name", sorted(STORES))
def test_a_store_is_found(name: str) -> None:
    layout, files = STORES[name]
    assert list(recognise(directory_of(files))) == [layout]


@pytest.mark.slow
def test_nothing_is_written_in_any_of_them(tmp_path: Path, daemon: MakeDaemon) -> None:
    """The last root is a store that is named, and due: once it has been pruned the schedule has run in all of them."""
    wanted: dict[str, str | None] = dict.fromkeys(LOOKALIKES)
    wanted |= {name: layout for name, (layout, _) in STORES.items()}
    tables, roots = [BUSY], {}
    for number, name in enumerate(wanted):
        roots[name] = tmp_path / f"r{number}"
        lay(roots[name], LOOKALIKES[name] if name in LOOKALIKES else STORES[name][1])
        tables.append(f'[[root]]\nname = "r{number}"\npath = "{roots[name]}"\n')
    due = tmp_path / "due"
    lay(due, STORES[DUE][1])
    held = daemon(config="\n".join([*tables, f'[[root]]\nname = "due"\npath = "{due}"\nlayout = "markdown-topics"\n']))
    before = {name: seen(root) for name, root in roots.items()}
    held.start()
    rows = {row["path"]: row for row in held.rpc("status")["roots"]}
    assert {name: rows[str(root)]["layout"] for name, root in roots.items()} == wanted
    assert {rows[str(roots[name])]["state"] for name in LOOKALIKES} == {"degraded"}
    assert {(rows[str(roots[name])]["state"], rows[str(roots[name])]["mode"]) for name in STORES} == {("ok", "observe")}
    until(lambda: os.path.isdir(due / "archive"), "the store that is named is pruned")
    held.rpc("sync")
    held.rpc("check")
    assert held.stop() == 0
    assert [name for name, root in roots.items() if seen(root) != before[name]] == []
