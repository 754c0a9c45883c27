"""Operations in progress in a git work tree are recognised by file names alone."""

from __future__ import annotations

from pathlib import Path

from memoryd.disk.git_state import paths_in_git_dir


def test_names_of_the_git_folder_above(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "MERGE_HEAD").touch()
    inner = tmp_path / "memory" / "topic"
    inner.mkdir(parents=True)
    assert paths_in_git_dir(str(inner)) == {str(tmp_path / ".git/MERGE_HEAD")}


def test_a_git_file_names_another_directory(tmp_path: Path) -> None:
    """Linked work trees and submodules have a file instead of a directory."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "index.lock").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: ../real\n")
    assert paths_in_git_dir(str(tmp_path / "tree")) == {str(tmp_path / "real/index.lock")}


def test_a_git_file_of_another_kind_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert paths_in_git_dir(str(tmp_path)) == frozenset()
