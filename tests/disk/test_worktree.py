"""Operations in progress in a git work tree are recognised by file names alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.disk.processes import blocked_by_git


@pytest.mark.parametrize("name", ["MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "index.lock"])
def test_an_operation_under_way_in_the_work_tree_above_blocks_and_is_named(tmp_path: Path, name: str) -> None:
    git, inner = tmp_path / ".git", tmp_path / "memory" / "topic"
    git.mkdir()
    inner.mkdir(parents=True)
    for idle in ("HEAD", "index", "refs", "ORIG_HEAD", "FETCH_HEAD"):
        (git / idle).touch()
    assert blocked_by_git(str(inner)) is None
    (git / name).touch()
    assert str(git / name) in (blocked_by_git(str(inner)) or "")


def test_a_git_file_names_another_directory(tmp_path: Path) -> None:
    """Linked work trees and submodules have a file instead of a directory."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "index.lock").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: ../real\n")
    assert str(tmp_path / "real/index.lock") in (blocked_by_git(str(tmp_path / "tree")) or "")


def test_a_git_file_of_another_kind_and_none_at_all_block_nothing(tmp_path: Path) -> None:
    assert blocked_by_git(str(tmp_path)) is None
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert blocked_by_git(str(tmp_path)) is None
