"""`memoryd report`: the page is whole and harmless whatever the files hold, and never written where it must not be."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli import report
from memoryd.cli.main import run
from memoryd.cli.report_page import page_of
from memoryd.errors import NoDaemonError, PausedError, UnknownRootError
from tests.agents import line, memory
from tests.daemon import Daemon

NOW = 1795831200.0  # 2026-11-28 in UTC
EVIL = "</td><script src=//evil>alert(1)</script>\"'&amp; <b onclick=x>\u202e\x1b]0;OWNED\x07\x00\udcff שלום"
VOID = {"meta", "line", "rect"}
TAGS = (
    "meta line rect html head title style body main h1 h2 h3 p a bdi code time div table caption thead tbody tr th td"
    " figure figcaption svg g text details summary ul li meter"
)
ATTRIBUTES = (
    "lang charset name content http-equiv id class href scope role aria-label viewbox x y x1 x2 y1 y2 width height"
    " max low high optimum value"
)


class Page(HTMLParser):
    """A page as a browser reads it: its tables by caption, and every text. Everything must be closed and harmless."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.figures: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS.split()
        assert {name for name, _ in attrs} <= {*ATTRIBUTES.split()}
        assert all((value or "").startswith("#root-") for name, value in attrs if name == "href")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "caption":
            self.rows: list[list[str]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        elif "caption" in self.open:
            self.tables[data] = self.rows
        elif "figure" in self.open and "title" in self.open:
            self.figures.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def parts(text: str = "x") -> dict[str, dict[str, Any]]:
    """One result of each method, with this text wherever there is one."""
    at = "2026-11-20T01:02:03Z"
    finding = {"severity": "error", "path": text, "message": text, "id": text, "fixable": True, "code": text}
    return {
        "check": {"findings": [finding], "summary": {"error": 1}, "truncated": {"findings": 9000}},
        "plan": {"roots": [{"actions": [{"kind": text, "path": text, "ids": [text], "why": text, "job": text}]}]},
        "backup.list": {"backups": [{"file": text, "taken": at, "bytes": 5, "valid": False}]},
        "history.list": {
            "entries": [{"receipt": text, "at": at, "operation": text, "by": text, "summary": text, "undone": True}],
            "truncated": {"entries": 4000},
        },
        "memory.list": {
            "memories": [{"title": text, "type": text, "created": at, "path": text}],
            "months": [{"month": "2026-11", "memories": 2, "archived": 1}],
            "fresh": {"a": {"withheld": text}},
        },
    }


def status(text: str = "x", **more: Any) -> dict[str, Any]:
    limit = {"file": text, "count": 490, "max_count": 500, "bytes": 1, "max_bytes": None, "kind": text, "level": text}
    root: dict[str, Any] = {"name": text, "layout": text, "mode": text, "state": text, "path": text, "reasons": [text]}
    root |= {"limits": [{**limit, "hint": text}], "memories": 2, "archived": 1, **more}
    job = {"name": text, "root": text, "schedule": text, "last_run": text, "last_error": text, "waits": text}
    return {"version": text, "state": text, "notice": text, "roots": [root], "jobs": [job]}


def test_nothing_that_files_hold_becomes_markup() -> None:
    page = Page(page_of(status(EVIL), {EVIL: parts(EVIL)}, NOW))
    assert "".join(page.text.split("\n")).isprintable(), "no control or bidirectional characters"
    assert page.text.count("<script src=//evil>alert(1)</script>") >= 30
    assert page.text.count("\\udcff שלום") + page.text.count("\\xff שלום") >= 30
    assert page.tables.keys() >= {"The root", "Files with a limit", "The newest memories", "What was found"}


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    text = page_of(status(), {"x": parts()}, NOW)
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|<script|<link|<img|\bon\w+=", text)
    assert "prefers-color-scheme: dark" in text


def test_a_root_without_anything_has_a_page_as_well() -> None:
    empty: dict[str, dict[str, Any]] = {name: {} for name in report.PARTS}
    page = Page(page_of({"roots": [{"name": "a"}]}, {"a": empty}, NOW))
    assert "Backups: none." in page.text
    assert Page(page_of({"roots": []}, {}, NOW)).tables == {}


def test_a_part_that_failed_is_named() -> None:
    failed = {name: {"error": f"no {name} <b>"} for name in report.PARTS}
    text = Page(page_of(status(), {"x": failed}, NOW)).text
    assert all(f"no {name} <b>" in text for name in report.PARTS)


def test_growth_has_every_memory_whenever_it_was_created() -> None:
    counts = {"2026-11": (3, 1), "2026-01": (0, 4), "2019-05": (5, 0), "9999-12": (1, 0), None: (7, 1)}
    months = [{"month": month, "memories": live, "archived": gone} for month, (live, gone) in counts.items()]
    page = Page(page_of(status(), {"x": {**parts(), "memory.list": {"months": months}}}, NOW))
    assert page.tables["By month (UTC)"][1:] == [
        ["9999-12", "1", "0", "14"],
        ["2026-11", "4", "1", "13"],
        ["2026-01", "4", "4", "9"],
        ["2019-05", "5", "0", "5"],
    ]
    totals, created = page.figures[:24], page.figures[24:48]
    assert totals[0] == "2024-12: 5"
    assert totals[-1] == "2026-11: 13, 5 of them archived"
    assert totals[-11:-1] == [f"2026-{n:02}: 9, 4 of them archived" for n in range(1, 11)]
    assert [each for each in created if not each.endswith(": 0")] == [
        "2026-01: 4, 4 of them archived",
        "2026-11: 4, 1 of them archived",
    ]
    assert "Without a time of creation: 8 more." in page.text
    assert "! Created in the future: 1." in page.text


def test_limits_and_findings_say_what_to_do() -> None:
    findings = [
        {"severity": "warning", "code": "joined-lines", "path": "l.jsonl", "line": n, "message": "m", "fixable": True}
        for n in range(1, 31)
    ]
    findings.append({"severity": "error", "code": "invalid-json", "path": "l.jsonl", "line": 99, "message": "bad"})
    checked = {"findings": findings, "summary": {"error": 1, "warning": 30}}
    page = Page(page_of(status(), {"x": {**parts(), "check": checked}}, NOW))
    error, warning = page.tables["What was found"][1:]
    assert error[:4] == ["error", "invalid-json", "1", "a line is not JSON; skipped and kept"]
    assert warning[2] == "30"
    assert "memoryd repair x --code joined-lines" in warning[4]
    assert warning[5].endswith("and 20 more")
    assert page.tables["Files with a limit"][1][1] == "98 % 98 %", "as a bar and as a number"


def test_long_lists_are_cut_and_name_the_command_for_the_rest() -> None:
    actions = [{"kind": "archive", "path": f"{n}", "ids": [], "why": "old"} for n in range(500)]
    plan = {"plan": {"roots": [{"actions": actions}]}}
    page = Page(page_of(status("a b"), {"a b": {**parts(), **plan}}, NOW))
    assert len(page.tables["What upkeep would do now"]) == 51
    assert "450 more: \nmemoryd plan 'a b'" in page.text


# --- where it is written

Fake = Callable[..., dict[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch, store: Path) -> dict[str, Any]:
    """What the daemon answers in place of a page of `x`: results by method, or errors."""
    found: dict[str, Any] = {"status": status(), "root.list": {"roots": [{"name": "x", "path": str(store)}]}, **parts()}

    def call(_: str, method: str, params: Mapping[str, object], **__: object) -> object:
        if isinstance(found[method], Exception):
            raise found[method]
        return found[method]

    monkeypatch.setattr(report, "call_daemon", call)
    return found


def made(file: object, *words: str) -> int:
    return run(["--socket", "none", "report", *words, "--html", os.fsdecode(file)])  # type: ignore[arg-type]


def test_a_new_page_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert made(file) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    file.write_text("old")
    assert made(file) == 0
    assert file.stat().st_mode & 0o777 == 0o644
    assert Page(file.read_text(encoding="utf-8")).tables
    assert sorted(os.listdir(tmp_path)) == ["page.html", "store"]


def test_a_name_that_is_not_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = os.path.join(os.fsencode(tmp_path), b"\xff\x1b.html")
    assert made(file) == 0
    assert os.path.exists(file)
    assert "\\xff\\x1b.html" in capsys.readouterr().out


def test_a_dash_prints_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert made("-") == 0
    assert Page(capfdbinary.readouterr().out.decode()).tables


@pytest.mark.parametrize("where", ["", "missing/page.html", "link", "directory", "fifo", "/dev/null"])
def test_what_cannot_be_replaced_is_wrong_usage_before_a_daemon_is_looked_for(
    where: str, tmp_path: Path, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answers["status"] = NoDaemonError("none")
    (tmp_path / "target").write_text("x")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    assert made(tmp_path / where if where else "") == 2
    assert "use - for standard output" in capsys.readouterr().err
    assert (tmp_path / "target").read_text() == "x"


def test_a_file_in_a_root_is_refused_whatever_way_leads_there(
    tmp_path: Path, store: Path, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "below").mkdir()
    (tmp_path / "way").symlink_to(store / "below")
    (store / "index.html").write_text("x")
    (tmp_path / "as-configured").symlink_to("store")
    answers["root.list"] = {"roots": [{"name": "x", "path": str(tmp_path / "as-configured")}]}
    for file in (store / "page.html", tmp_path / "way" / "page.html", store / "index.html"):
        assert made(file) == 2
        assert "is in the root x" in capsys.readouterr().err
    named = tmp_path / ("ghp_" + "a1B2" * 9 + "\udcff")
    named.mkdir()
    answers["root.list"] = {"roots": [{"name": "x", "path": f"{tmp_path}/[redacted:github-token]\\xff"}]}
    assert made(named / "page.html") == 2, "also where the answer has another form of the path"
    assert sorted(os.listdir(store)) == ["below", "index.html"]
    assert (store / "index.html").read_text() == "x"


def test_a_full_disk_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "page.html").write_text("old")
    monkeypatch.setattr("memoryd.disk.atomic.Temp", full)
    assert made(tmp_path / "page.html") == 74
    assert "nothing was written" in capsys.readouterr().err
    assert (tmp_path / "page.html").read_text() == "old"


def test_a_page_with_a_missing_part_is_written_and_reported(
    tmp_path: Path, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answers["check"] = answers["plan"] = PausedError("root x is paused")
    assert made(tmp_path / "page.html") == 1
    assert capsys.readouterr().err == "memoryd: root x is paused\n", "once, however many parts it keeps away"
    assert "! not available: root x is paused" in "".join(Page((tmp_path / "page.html").read_text()).texts)
    answers["plan"] = NoDaemonError("it went away")
    assert made(tmp_path / "other.html") == 69
    answers["status"] = UnknownRootError("no root y")
    assert made(tmp_path / "other.html", "y") == 1
    assert not (tmp_path / "other.html").exists()


@pytest.mark.slow
def test_a_page_of_damaged_stores(tmp_path: Path) -> None:
    damaged, notes = tmp_path / "damaged", tmp_path / "notes"
    for directory in (damaged, notes):
        directory.mkdir(mode=0o700)
    old = "2024-02-03T04:05:06Z"
    lines = [line(memory(content=EVIL.replace("\udcff", ""))), line(memory(created_at=old, updated_at=old))]
    (damaged / "learnings.jsonl").write_text("".join(lines) + "{broken}\n")
    (damaged / "tasks.jsonl").write_bytes(b"\xff\n")
    os.mkdir(os.path.join(os.fsencode(damaged), b"\xff<b>"))
    config = f'[[root]]\npath = "{damaged}"\nlayout = "jsonl-store"\n[[root]]\npath = "{notes}"\nlayout = "notes"\n'
    with Daemon(tmp_path / "d", config=config) as daemon:
        daemon.start()
        daemon.rpc("sync")
        file = tmp_path / "page.html"
        done = daemon.run("report", "--html", str(file))
        assert (done.returncode, done.stderr) == (0, "")
        page = Page(file.read_text(encoding="utf-8"))
        assert [row[:3] for row in page.tables["All roots"][1:]] == [["damaged", "ok", "2"], ["notes", "ok", "0"]]
        assert [row[0] for row in page.tables["By month (UTC)"][1:]][-1] == "2024-02"
        assert {row[1] for row in page.tables["What was found"][1:]} >= {"invalid-json", "invalid-encoding"}
        assert "<script src=//evil>" in page.text
        assert daemon.run("report", "--html", str(damaged / "page.html")).returncode == 2
        assert "there is no root ''" in daemon.run("report", "", "--html", "-").stderr, "and not every root"
        daemon.rpc("root.pause", name="damaged")
        done = daemon.run("report", "damaged", "--html", "-")
        assert done.returncode == 1
        assert "paused" in done.stderr
        assert "By month (UTC)" in Page(done.stdout).tables
        assert daemon.stop() == 0
        assert daemon.bugs() == []
