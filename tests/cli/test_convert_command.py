"""`memoryd convert` as a person or a script runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.cli.program import run_program
from tests.layouts import json_samples, samples


def make_source(directory: Path, *contents: str) -> Path:
    directory.mkdir()
    rows = [samples.learning(number, content=content, category=None) for number, content in enumerate(contents)]
    (directory / "learnings.jsonl").write_bytes(samples.lines(*rows))
    return directory


def test_the_list_comes_before_the_work_and_the_exit_code_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = make_source(tmp_path / "source", "fine", "the token is ghp_" + "a1B2" * 9), tmp_path / "new"
    assert run_program(["convert", str(source), str(target), "--layout", "json-files", "--dry-run"]) == 1
    planned = capsys.readouterr().out
    assert planned.endswith("nothing was written\n")
    assert not target.exists()
    assert run_program(["convert", str(source), str(target), "--layout", "json-files"]) == 1
    written = capsys.readouterr().out
    assert written == planned.removesuffix("nothing was written\n") + "written; check: 0 errors, 0 warnings\n"
    assert "  memories  2 read, 1 carried\n  memories left out\n    1 sensitive: " in written
    assert "\n      learnings.jsonl:2: content: " in written
    assert "ghp_a1B2" not in written


def test_all_carried_is_success_and_json_is_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / json_samples.name(1)).write_bytes(json_samples.file(1))
    assert run_program(["convert", str(source), str(tmp_path / "new"), "--layout", "json-files", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["source_layout"], done["read"], done["carried"], done["written"]) == ("json-files", 1, 1, True)
    assert [each["kind"] for each in done["losses"]] == ["id"]
