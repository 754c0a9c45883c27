"""The file that `init` writes, and where it looks."""

from __future__ import annotations

import re
from pathlib import Path

from memoryd.config.detect import Detected, candidate_paths, detect
from memoryd.config.keys import ENDPOINT, SEARCH
from memoryd.config.load import parse
from memoryd.config.settings import DaemonConfig, SearchConfig
from memoryd.config.template import template
from memoryd.core.defaults import Policy

SETTING = re.compile(r"^# ([a-z_]+ = .*)$", re.MULTILINE)


def test_the_template_without_roots_is_the_default() -> None:
    config = parse(template(), "c.toml", "/nowhere/state")
    assert (config.daemon, config.roots) == (DaemonConfig(), ())


def test_the_template_with_roots() -> None:
    odd = '/n/od"d\\ \n東京/memory'
    found = [
        Detected("/n/a/memories", "jsonl-store", "so"),
        Detected("/n/b/memories", "json-files", "so\nit is"),
    ]
    config = parse(template([*found, Detected(odd, "markdown-topics", "")]), "c.toml", "/nowhere/state")
    assert [(root.name, root.path, root.layout) for root in config.roots] == [
        ("memories", "/n/a/memories", "jsonl-store"),
        ("b/memories", "/n/b/memories", "json-files"),
        ("memory", odd, "markdown-topics"),
    ]


def test_every_commented_setting_is_valid_and_says_the_default() -> None:
    """With all of them uncommented nothing changes but `secrets` and `timezone`, which have no default of their own."""
    settings, examples = template().split("# One [[root]]")
    text = SETTING.sub(r"\1", settings) + "[[root]]\npath = '/n/a'\n"
    config = parse(text, "c.toml", "/nowhere/state")
    assert config.daemon == DaemonConfig()
    assert config.roots[0].policy == Policy(secrets="shapes", timezone="UTC")
    assert config.search == SearchConfig()
    search = {f"search.{name}" for name in SEARCH} | {f"search.endpoint.{name}" for name in ENDPOINT}
    assert set(config.origins) == {*DaemonConfig.__struct_fields__, *search}, "every setting is shown"
    written = {name for name, origin in config.roots[0].origins.items() if origin != "default"}
    assert {name for name in Policy.__struct_fields__ if name not in ("schedule", "limits")} <= written
    lines = [line.removeprefix("# ") for line in examples.split("\n") if re.match(r'# ("|\[|\w+ = )', line)]
    examples_read = parse("\n".join(lines), "c.toml", "/nowhere/state")
    assert [root.name for root in examples_read.roots] == ["agents", "team-memory"]


def test_the_template_fits_80_columns_with_a_meaning_above_each_setting() -> None:
    found = Detected("/n/a/memories", "jsonl-store", "learnings.jsonl, tasks.jsonl, " * 9)
    lines = template([found]).split("\n")
    assert [line for line in lines if len(line) > 80] == []
    settings = lines[: next(at for at, line in enumerate(lines) if line.startswith("# One [[root]]"))]
    assert all(lines[at - 1].startswith("## ") for at, line in enumerate(settings) if SETTING.match(line))


def test_detection_goes_by_content(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "work"
    for place in (home / ".claude/agents/memories", home / ".claude/memory", cwd / "memory"):
        place.mkdir(parents=True)
    (cwd / "memories").symlink_to(home / ".claude/agents/memories")
    (home / ".cursor").mkdir()
    (home / ".cursor/memory").write_text("a file")
    asked: list[str] = []

    def look(path: str) -> tuple[str | None, str] | None:
        asked.append(path)
        return ("jsonl-store", "its jsonl-store files") if "agents" in path else None

    found = detect(str(home), look, str(cwd))
    assert [(place.path, place.layout) for place in found] == [(str(home / ".claude/agents/memories"), "jsonl-store")]
    assert "jsonl-store" in found[0].why
    assert len(asked) == 3, "each directory once, by whatever name"
    assert str(cwd / "memory") in candidate_paths(str(home), str(cwd))


def test_stores_of_other_programs_are_detected_but_are_no_roots(tmp_path: Path) -> None:
    home = tmp_path / "home[1]"
    for name in ("-a", "-b"):
        (home / ".claude/projects" / name / "memory").mkdir(parents=True)
    claude = str(home / ".claude/projects/-a/memory")
    found = detect(str(home), lambda path: (None, "Claude Code") if path == claude else None, str(tmp_path))
    assert found == [Detected(claude, None, "Claude Code")]
    assert "\n[[root]]" not in template(found)


def test_roots_may_be_observed_only(tmp_path: Path) -> None:
    found = Detected("/n/a/memories", "jsonl-store", "so")
    (root,) = parse(template([found], mode="observe"), "c.toml", "/nowhere/state").roots
    assert (root.layout, root.policy.mode) == ("jsonl-store", "observe")
