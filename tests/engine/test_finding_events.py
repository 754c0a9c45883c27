"""Each warning and error is told once: in the log with the seed's wording and its line, and as an event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.findings import NEWS_GROUPS, Finding, NewFindings
from memoryd.engine.finding_reports import FindingReports
from memoryd.log import configure
from memoryd.operations.upkeep import enforce_limits
from tests.layouts.samples import learning, lines, task
from tests.operations.world import LEARNINGS, TASKS, World

BAD = b'{"id": "the canaryquartz sings\n'


class Heard:
    """A world, its telling, and what was told."""

    def __init__(self, base: Path, policy: Policy | None = None) -> None:
        self.world = World(base, policy)
        self.events: list[dict[str, Any]] = []
        self.telling = self._new()

    def _new(self) -> FindingReports:
        return FindingReports(self.world.store, lambda topic, event: self.events.append({"topic": topic, **event}))

    def restart(self) -> None:
        self.world.restart()
        self.telling = self._new()

    def look(self) -> list[dict[str, Any]]:
        """Read in what changed; what was told of it."""
        self.world.look()
        self.events.clear()
        self.telling.report_new()
        return list(self.events)


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[Heard]:
    made = Heard(tmp_path)
    yield made
    made.world.store.close()


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    return [each for each in found if each["event"] == "finding"]


def test_a_bad_line_is_told_once_with_its_line(heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    configure(style="json")
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD + lines(learning(2)))
    [told] = heard.look()
    assert (told["topic"], told["code"], told["severity"]) == ("finding", "invalid-json", "error")
    assert (told["path"], told["line"]) == (LEARNINGS, 2)
    [logged] = log_lines(capsys)
    assert logged["message"].startswith("Invalid JSON at line 2")
    assert logged["level"] == "error"
    assert "canaryquartz" not in json.dumps([told, logged])
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD + lines(learning(2), learning(3)))
    assert heard.look() == []
    heard.world.write(LEARNINGS, lines(learning(4), learning(1)) + BAD + lines(learning(2)))
    assert heard.look() == [], "the line moved"
    heard.restart()
    heard.world.write(LEARNINGS, lines(learning(5), learning(1)) + BAD)
    assert heard.look() == [], "it was told before the restart"


def test_a_second_one_is_news_and_so_is_one_that_comes_back(heard: Heard) -> None:
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD)
    assert len(heard.look()) == 1
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD + lines(learning(2)) + BAD)
    assert [each["code"] for each in heard.look()] == ["invalid-json"]
    heard.world.write(LEARNINGS, lines(learning(1)))
    assert heard.look() == []
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD)
    assert [each["code"] for each in heard.look()] == ["invalid-json"]


def test_information_is_not_told(heard: Heard) -> None:
    heard.world.write(LEARNINGS, b"\xef\xbb\xbf" + lines(learning(1)))
    assert heard.look() == []
    assert heard.world.store.catalogue.findings()


def test_very_many_are_told_by_their_number(heard: Heard) -> None:
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD * 5000)
    told = heard.look()
    assert sum(each.get("count", 1) for each in told) >= 5000
    assert len(told) <= 3
    bulk = next(each for each in told if each["code"] == "invalid-json")
    assert (bulk["count"], bulk["path"], bulk["line"]) == (5000, LEARNINGS, 2)


def test_very_many_files_are_told_by_their_codes() -> None:
    news = NewFindings()
    for number in range(10_000):
        news.note([Finding("corrupt-file", f"memory_{number}.json", "Invalid JSON")], {})
    told = news.take()
    assert len(told) == NEWS_GROUPS + 1
    assert sum(each.count for each in told) == 10_000
    assert news.take() == []


def test_what_lies_in_no_single_file_is_told_once_while_it_stands(heard: Heard) -> None:
    heard.world.write(LEARNINGS, lines(learning(1)))
    heard.look()
    noted = heard.world.store.root_findings
    noted["locks"] = (Finding("unprovable-lock", ".lock", "300 s old"),)
    assert [each["code"] for each in heard.look()] == ["unprovable-lock"]
    noted["locks"] = (Finding("unprovable-lock", ".lock", "310 s old"),)
    assert heard.look() == []
    noted["locks"] = ()
    assert heard.look() == []
    noted["locks"] = (Finding("unprovable-lock", ".lock", "10 s old"),)
    assert [each["code"] for each in heard.look()] == ["unprovable-lock"]


def test_a_soft_limit_that_cannot_be_met_is_told(tmp_path: Path) -> None:
    policy = Policy(limits={TASKS: Limit(LimitKind.SOFT, None, 1)})
    heard = Heard(tmp_path, policy)
    heard.world.write(TASKS, lines(task(1, status="in_progress"), task(2, status="in_progress")))
    assert "soft-limit" not in [each["code"] for each in heard.look()]
    enforce_limits(heard.world.store, heard.world.now, by="schedule")
    [told] = heard.look()
    assert (told["code"], told["path"]) == ("soft-limit", TASKS)
    heard.world.store.close()


def test_a_name_shaped_like_a_secret_is_not_told(heard: Heard) -> None:
    secret = "ghp_" + "a1B2" * 9
    heard.world.store.root_findings["files"] = (Finding("unreadable", f"{secret}.jsonl", "cannot be looked at"),)
    assert secret not in json.dumps(heard.look())


def test_a_change_of_one_line_tells_of_that_line(heard: Heard) -> None:
    heard.world.write(LEARNINGS, lines(learning(1)) + BAD + lines(learning(2)))
    heard.look()
    with (heard.world.root / LEARNINGS).open("ab") as file:
        file.write(lines(learning(3)) + BAD)
    heard.world.now += 60
    assert [(each["code"], each["line"]) for each in heard.look()] == [("invalid-json", 5)]
