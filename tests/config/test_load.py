"""Reading: good files become values, bad ones one error that names every line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import tomlkit
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.config.keys import POLICY
from memoryd.config.load import load, parse
from memoryd.config.places import Places
from memoryd.config.settings import Config, DaemonConfig, EndpointConfig, SearchConfig
from memoryd.core.defaults import DEFAULT_SCHEDULE, Limit, LimitKind, Mode, Policy
from memoryd.errors import ConfigError
from memoryd.layouts.registry import LAYOUTS

STATE = "/nowhere/state"
MB = 1024 * 1024


def _load(
    tmp_path: Path, text: str | bytes | None, extra: Sequence[tuple[str, str | None]] = (), state: str = STATE
) -> Config:
    file = tmp_path / "config.toml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    path = None if text is None else str(file)
    known = {"tasks.jsonl": Limit(LimitKind.HARD, 7, 9)}
    return load(Places(path, state, "/s", str(file)), extra, known_limits=known)


def _problems(tmp_path: Path, text: str, state: str = STATE) -> list[tuple[int | None, str, str]]:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text, state=state)
    error = caught.value
    assert error.exit_code == 78
    problems = error.data["problems"]
    file = tmp_path / "config.toml"
    expected = [f"{file}:{problem['line']}: {problem['key']}: {problem['message']}" for problem in problems]
    assert error.message.split("\n") == expected
    return [(problem["line"], problem["key"], problem["message"]) for problem in problems]


def test_nothing_at_all_is_fine(tmp_path: Path) -> None:
    assert _load(tmp_path, None) == Config()
    assert _load(tmp_path, "").daemon == DaemonConfig()
    nothing = load(Places("/dev/null", STATE, "/s", "/dev/null"))
    assert nothing.roots == ()


def test_the_example_of_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = _load(
        tmp_path,
        """
[daemon]
log_level = "info"
settle_ms = 100            # quiet time before a change is indexed
settle_cap_ms = 1000       # but never later than this after the first change
[defaults]                 # for every root; each can be overridden in a root
mode = "maintain"          # or "observe"
backups = 5
archive_learnings_after_days = 90
archive_tasks_after_days = 30
lock_stale_after_s = 30
[defaults.schedule]        # cron or interval strings; "off" turns a job off
archive = "every 6h"
[[root]]
name = "agents"
path = "~/.claude/agents/memories"
layout = "jsonl-store"     # default "auto"
[root.limits]              # per file: max_bytes, max_count, kind = "hard" | "soft"
"learnings.jsonl" = { max_bytes = "5MB", max_count = 500, kind = "soft" }   # "off" lifts a limit
[[root]]                   # markdown-topics of a project
project = "~/src/app"      # memory_path is relative to it
memory_path = "memory"
[root.memory_configuration]
external_path = "~/team-memory"   # wins when set
""",
    )
    agents, team = config.roots
    assert (agents.name, agents.path) == ("agents", str(tmp_path / ".claude/agents/memories"))
    assert (agents.display_path, agents.layout) == ("~/.claude/agents/memories", "jsonl-store")
    assert agents.policy == Policy(limits={"learnings.jsonl": Limit(LimitKind.SOFT, 5 * MB, 500)})
    assert (agents.origin, agents.position, agents.external) == ("root:14", 0, False)
    assert agents.origins["path"] == "root:16"
    assert agents.origins["backups"] == "defaults:8"
    assert agents.origins["schedule.archive"] == "defaults:13"
    assert agents.origins["schedule.locks"] == "default"
    assert agents.origins["limits.learnings.jsonl"] == "root:19"
    assert (team.name, team.path, team.external) == ("team-memory", str(tmp_path / "team-memory"), True)
    assert not (tmp_path / "team-memory").exists(), "reading makes nothing"


def test_root_over_defaults_over_built_in(tmp_path: Path) -> None:
    (root,) = _load(
        tmp_path,
        """
[defaults]
mode = "observe"
backups = 7
secrets = "off"
keep_importance = ["high", "medium", "high"]
schedule.archive = "every 2h"
schedule.locks = "off"
limits."a.jsonl" = "off"
limits."b.jsonl" = { max_count = 3 }
[[root]]
path = "/nowhere/a"
backups = 2
archive_tasks_after_days = 0.5
timezone = "Europe/Berlin"
final_newline = "keep"
fix_permissions = false
newer_index = "rebuild"
secrets = "literal"
schedule = { archive = "15 3 * * MON-FRI", rescan = "adaptive" }
[root.limits]
"b.jsonl" = { max_bytes = 100, max_count = "off", kind = "hard" }
"tasks.jsonl" = { max_count = 1 }
"c d/e.jsonl" = { max_bytes = "1.5 kb" }
""",
    ).roots
    assert root.policy == Policy(
        secrets="literal",
        mode=Mode.OBSERVE,
        backups=2,
        archive_tasks_after_days=0.5,
        keep_importance=("high", "medium"),
        final_newline="keep",
        fix_permissions=False,
        newer_index="rebuild",
        timezone="Europe/Berlin",
        schedule={**DEFAULT_SCHEDULE, "archive": "15 3 * * mon-fri", "locks": "off"},
        limits={
            "a.jsonl": None,
            "b.jsonl": Limit(LimitKind.HARD, 100, None),
            "tasks.jsonl": Limit(LimitKind.HARD, 7, 1),
            "c d/e.jsonl": Limit(LimitKind.SOFT, 1536, None),
        },
    )
    assert isinstance(root.policy.mode, Mode)


def test_both_bounds_of_a_limit_may_be_off(tmp_path: Path) -> None:
    """It lifts the limit as a bare "off" does, and is no quoted file name gone wrong."""
    text = "[[root]]\npath = '/n/a'\n[root.limits]\n'a.jsonl' = { max_bytes = 'off', max_count = 'off' }\n"
    (root,) = _load(tmp_path, text).roots
    limit = root.policy.limits["a.jsonl"]
    assert limit is not None
    assert (limit.max_bytes, limit.max_count) == (None, None)


@pytest.mark.parametrize(
    ("lines", "line", "key", "says"),
    [
        (["[deamon]"], 1, "deamon", 'unknown key; did you mean "daemon"?'),
        (["", "[[roots]]", "path='/x'"], 2, "roots", 'did you mean "root"'),
        (["zzz = 1"], 1, "zzz", "unknown key; allowed here: daemon, search, defaults, root"),
        (["settle_ms = 1"], 1, "settle_ms", "belongs in [daemon]"),
        (["daemon = 3"], 1, "daemon", "is 3; allowed: a table"),
        (["[daemon]", "setle_ms = 1"], 2, "daemon.setle_ms", 'did you mean "settle_ms"'),
        (["[daemon]", "mode = 'observe'"], 2, "daemon.mode", "belongs in [defaults] or [[root]]"),
        (["[daemon]", "settle_ms = '1'"], 2, "daemon.settle_ms", "is '1', not a whole number; allowed: 0 to"),
        (["[daemon]", "settle_ms = true"], 2, "daemon.settle_ms", "is true, not a whole number"),
        (["[daemon]", "settle_ms = -1"], 2, "daemon.settle_ms", "-1 is out of range"),
        (["[daemon]", "settle_ms = 2.5"], 2, "daemon.settle_ms", "is 2.5, not a whole number"),
        (["[daemon]", "settle_ms = 2000"], 2, "daemon.settle_ms", "settle_cap_ms = 1000 is less than"),
        (["[daemon]", "quiet_s = 5", "quiet_cap_s = 4"], 3, "daemon.quiet_cap_s", "is less than quiet_s = 5"),
        (["[daemon]", "quiet_s = nan"], 2, "daemon.quiet_s", "nan is out of range"),
        (["[daemon]", "quiet_s = inf"], 2, "daemon.quiet_s", "inf is out of range"),
        (["[daemon]", "log_level = 'loud'"], 2, "daemon.log_level", "allowed: debug, info, warning, error"),
        (["[[root]]", "path = '/x'", "layout = 'jsonl'"], 3, "root[1].layout", 'did you mean "jsonl-store"?'),
        (["[defaults]", "mode = 'obsrve'"], 2, "defaults.mode", 'did you mean "observe"? allowed: maintain'),
        (["[defaults]", "mode = 1979-05-27"], 2, "defaults.mode", "is a date or time"),
        (["[defaults]", "backups = 0"], 2, "defaults.backups", "0 is out of range"),
        (
            ["[defaults]", "archive_tasks_after_days = -1"],
            2,
            "defaults.archive_tasks_after_days",
            "out of range",
        ),
        (["[defaults]", "ignore = '*.md'"], 2, "defaults.ignore", "an array of globs"),
        (["[defaults]", "ignore = ['**/']"], 2, "defaults.ignore", "matches everything"),
        (["[defaults]", "ignore = ['../x']"], 2, "defaults.ignore", "leaves the root"),
        (["[defaults]", "keep_importance = 'high'"], 2, "defaults.keep_importance", "not an array"),
        (["[defaults]", "keep_importance = ['hgih']"], 2, "defaults.keep_importance", 'did you mean "high"'),
        (["[defaults]", "timezone = 'Europe/Berln'"], 2, "defaults.timezone", 'did you mean "Europe/Berlin"'),
        (["[defaults]", "timezone = '../../etc/passwd'"], 2, "defaults.timezone", "is not a time zone"),
        (["[defaults]", "timezone = 'Europe'"], 2, "defaults.timezone", "is not a time zone"),
        (["[defaults]", "secrets = 'all'"], 2, "defaults.secrets", "allowed: seed, literal, shapes, off"),
        (["[defaults]", "fix_permissions = 'yes'"], 2, "defaults.fix_permissions", "allowed: true, false"),
        (["[defaults]", "path = '/x'"], 2, "defaults.path", "belongs in [[root]]"),
        (["[defaults]", "schedule = 'off'"], 2, "defaults.schedule", "allowed: a table"),
        (["[defaults.schedule]", "archve = 'off'"], 2, "defaults.schedule.archve", 'did you mean "archive"'),
        (["[defaults.schedule]", "archive = '6h'"], 2, "defaults.schedule.archive", "is not a schedule"),
        (
            ["[defaults.schedule]", "archive = 6"],
            2,
            "defaults.schedule.archive",
            'is 6; allowed: "every 30s"',
        ),
        (["[defaults.schedule]", "locks = 'adaptive'"], 2, "defaults.schedule.locks", "only for rescan"),
        (["[defaults.schedule]", "", "locks = '* * * * 9'"], 3, "defaults.schedule.locks", "weekday: '9'"),
        (["[defaults]", "limits = 3"], 2, "defaults.limits", "allowed: a table"),
        (["[defaults]", "lock_stale_after_s = 0"], 2, "defaults.lock_stale_after_s", "allowed: 1 to 2592000"),
        (["[defaults.limits]", "'a.jsonl' = 5"], 2, 'defaults.limits."a.jsonl"', "allowed: { max_bytes"),
        (["[defaults.limits]", "'a.jsonl' = {}"], 2, 'defaults.limits."a.jsonl"', "sets no bound"),
        (["[defaults.limits]", "'../a' = 'off'"], 2, 'defaults.limits."../a"', "is not the path of a file in a root"),
        (
            ["[defaults.limits]", "a.jsonl = 'off'"],
            2,
            "defaults.limits.a",
            'put a file name with a dot in quotes: "a.jsonl"',
        ),
        (
            ["[defaults.limits.'a.jsonl']", "max_bytes = '5XB'"],
            2,
            'defaults.limits."a.jsonl".max_bytes',
            "'5XB' is not a size; allowed: \"512KB\"",
        ),
        (
            ["[defaults.limits.'a.jsonl']", "max_byte = 5"],
            2,
            'defaults.limits."a.jsonl".max_byte',
            '"max_bytes"?',
        ),
        (
            ["[defaults.limits.'a.jsonl']", "max_count = -5"],
            2,
            'defaults.limits."a.jsonl".max_count',
            "out of range",
        ),
        (["[defaults.limits.'a.jsonl']", "kind = 'firm'"], 2, 'defaults.limits."a.jsonl".kind', "hard, soft"),
        (
            ["[[root]]", "path = '/x'", "layout = 'jsonl-store'", "limits.'learning.jsonl' = 'off'"],
            4,
            'root[1].limits."learning.jsonl"',
            'is no file of memories in jsonl-store; did you mean "learnings.jsonl"?',
        ),
        (
            ["[[root]]", "path = '/x'", "layout = 'markdown-topics'", "limits.'tasks.jsonl' = { max_count = 3 }"],
            4,
            'root[1].limits."tasks.jsonl"',
            "see `memoryd help layouts`",
        ),
        (["[root]", "path = '/x'"], 1, "root", "with two brackets"),
        (["root = [3]"], 1, "root[1]", "is 3; allowed: a table"),
        (["", "[[root]]", "name = 'x'"], 2, "root[1]", "has no directory"),
        (["[[root]]", "path = 'x/y'"], 2, "root[1].path", "is relative; allowed: an absolute path"),
        (["[[root]]", "path = '~nobody-here/x'"], 2, "root[1].path", "names an unknown home directory"),
        (["[[root]]", "path = 3"], 2, "root[1].path", "allowed: a text in quotes"),
        (["[[root]]", "path = ' '"], 2, "root[1].path", "is empty"),
        (["[[root]]", 'path = "/a\\u0000b"'], 2, "root[1].path", "NUL"),
        (
            ["[[root]]", "path = '/etc/passwd'"],
            2,
            "root[1].path",
            "'/etc/passwd' is a file; allowed: a directory",
        ),
        (["[[root]]", "path = '/etc/passwd/x'"], 2, "root[1].path", "is below a file"),
        (["[[root]]", "path = '/dev/null'"], 2, "root[1].path", "is a pipe, socket or device"),
        (["[[root]]", f"path = '/{'x' * 300}'"], 2, "root[1].path", "File name too long"),
        (
            ["[[root]]", "path='/n/x'", "layout='jsonl-stor'"],
            3,
            "root[1].layout",
            'did you mean "jsonl-store"',
        ),
        (["[[root]]", "path='/n/x'", "name='-x'"], 3, "root[1].name", "is not a name for a root"),
        (["[[root]]", "path='/n/x'", "name='../x'"], 3, "root[1].name", "as a part"),
        (["[[root]]", "path='/n/x'", "name=''"], 3, "root[1].name", "is not a name for a root"),
        (["[[root]]", "path='/n/x'", "pth='/n'"], 3, "root[1].pth", 'did you mean "path"'),
        (["[[root]]", "path='/n/x'", "project='/n'"], 2, "root[1].path", "one of the two"),
        (["[[root]]", "path='/n/x'", "memory_path='/n'"], 3, "root[1].memory_path", "there is none"),
        (["[[root]]", "project='/n'", "memory_path='/n'"], 3, "root[1].memory_path", "not relative"),
        (["[[root]]", "project='n'"], 2, "root[1].project", "is relative"),
        (
            ["[[root]]", "memory_configuration = { external_path = 'x' }"],
            2,
            "root[1].memory_configuration.external_path",
            "is relative",
        ),
        (
            ["[[root]]", "project='/n'", "[root.memory_configuration]", "external = 'x'"],
            4,
            "root[1].memory_configuration.external",
            'did you mean "external_path"',
        ),
    ],
)
def test_one_thing_wrong(tmp_path: Path, lines: list[str], line: int, key: str, says: str) -> None:
    problems = _problems(tmp_path, "\n".join(lines))
    assert [(found, name) for found, name, _ in problems] == [(line, key)], problems
    assert says in problems[0][2]


def test_all_problems_are_reported_at_once_in_order(tmp_path: Path) -> None:
    problems = _problems(
        tmp_path,
        "[[root]]\npath = '/etc/passwd'\n[[root]]\npath='/n/x'\nlayout='no'\n[daemon]\nsettle_ms=-1\n[defaults]\nx=1\n",
    )
    assert [(line, key) for line, key, _ in problems] == [
        (2, "root[1].path"),
        (5, "root[2].layout"),
        (7, "daemon.settle_ms"),
        (9, "defaults.x"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[daemon]\nsettle_ms = \n", ":2:13: not valid TOML: Invalid value"),
        ("[daemon\n", ":1:8: not valid TOML: "),
        ("a = 1\na = 2\n", ":2:"),
        ('a = """x\n\n', ":1:"),
        ("a = 1\n[x]\nb = 'c", ":3:"),
        ("a = " + "[" * 5000, ""),
        ("a = " + "9" * 5000, ": is not valid TOML"),
        ("a = 2026-02-30", ":1:5: not valid TOML: Invalid date"),
        (b"\xef\xbb\xbfa = 1", ":1: begins with a byte order mark"),
        (b"a = 1\n# \xff\n", ":2: is not UTF-8"),
        (b"#" * (1024 * 1024 + 1), ": is larger than 1 MB"),
    ],
)
def test_no_toml(tmp_path: Path, text: str | bytes, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'config.toml'}{place}"), caught.value.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name, reason in (("dir", "Is a directory"), ("fifo", "not a regular file"), ("gone", "No such file")):
        with pytest.raises(ConfigError, match=reason):
            load(Places(str(tmp_path / name), STATE, "/s", "/c"))


def _roots(*tables: str) -> str:
    return "".join(f"[[root]]\n{table}\n" for table in tables)


def test_names_are_the_last_parts_of_the_path_made_unique(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        _roots(
            "path='/n/a/memories'",
            "path='/n/b/memories'",
            "path='/n/c/b/memories'",
            "path='/n/my notes!'",
            "path='/n/-x'",
            "path='/n/東京'",
            "name='taken'\npath='/n/q'",
            "path='/m/taken'",
        ),
        [("/n/d/memories", None)],
    )
    assert [root.name for root in config.roots] == [
        "memories",
        "b/memories",
        "c/b/memories",
        "my-notes-",
        "x",
        "東京",
        "taken",
        "m/taken",
        "d/memories",
    ]


def test_a_name_twice(tmp_path: Path) -> None:
    problems = _problems(tmp_path, _roots("name='a'\npath='/n/a'", "path='/n/b'\nname='a'"))
    assert problems == [(6, "root[2].name", "'a' is taken by the root of line 2; allowed: a unique name")]


def test_a_key_like_a_known_one_is_answered_without_the_list_of_all(tmp_path: Path) -> None:
    problems = _problems(tmp_path, "[daemon]\nsetle_ms = 1\nmode = 'observe'\nzzz = 1")
    assert [problem for *_, problem in problems[:2]] == [
        'unknown key; did you mean "settle_ms"?',
        "unknown key here; it belongs in [defaults] or [[root]]",
    ]
    assert problems[2][2].startswith("unknown key; allowed here: ")


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("a", "is the same directory as the root"),
        ("a/b/..", "is the same directory as the root"),
        ("link", "is the same directory as the root"),
        ("a/b", "is inside the root"),
        ("link/not/there", "is inside the root"),
        ("", " contains the root"),
    ],
)
def test_roots_may_not_overlap(tmp_path: Path, second: str, says: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    problems = _problems(tmp_path, _roots(f"path='{tmp_path}/a'", f"path='{tmp_path}/{second}'"))
    assert [(line, key) for line, key, _ in problems] == [(4, "root[2].path")]
    assert says in problems[0][2]
    assert "(line 2); roots may not overlap" in problems[0][2]


def test_like_names_do_not_overlap(tmp_path: Path) -> None:
    assert len(_load(tmp_path, _roots("path='/n/a'", "path='/n/ab'", "path='/n/a b'")).roots) == 3


@pytest.mark.parametrize(
    ("root", "state", "says"),
    [
        ("a", "a/state", "contains"),
        ("s/a", "s", "is inside"),
        ("a", "a", "is the same"),
        ("a", "link/state", "contains"),
    ],
)
def test_state_directory_and_roots_stay_apart(tmp_path: Path, root: str, state: str, says: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    problems = _problems(tmp_path, _roots(f"path='{tmp_path}/{root}'"), state=str(tmp_path / state))
    assert [(line, key) for line, key, _ in problems] == [(2, "root[1].path")]
    assert f" {says}" in problems[0][2]
    assert "state directory" in problems[0][2]


def test_a_root_that_is_not_there_is_no_error_and_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (root,) = _load(tmp_path, _roots(f"path='{tmp_path}/link/x'")).roots
    assert (root.path, root.display_path) == (str(tmp_path / "target/x"), f"{tmp_path}/link/x")


def test_projects(tmp_path: Path) -> None:
    project = tmp_path / "app"
    project.mkdir()
    config = _load(
        tmp_path,
        _roots(
            f"project='{project}'",
            f"project='{project}'\nmemory_path='docs/memory'",
            f"project='{project}'\nmemory_configuration.external_path='../team'",
        ),
    )
    assert [root.path for root in config.roots] == [
        str(project / "memory"),
        str(project / "docs/memory"),
        str(tmp_path / "team"),
    ]
    assert [root.external for root in config.roots] == [False, False, True]
    assert {root.project for root in config.roots} == {str(project)}


def test_roots_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    text = _roots(f"name='known'\npath='{tmp_path}/a'")
    config = _load(tmp_path, text, [("a", "jsonl-store"), ("b", None), ("./b", None)])
    known, added = config.roots
    assert (known.name, known.layout, known.origins["layout"]) == ("known", "jsonl-store", "command line")
    assert (added.name, added.path, added.origin, added.position) == (
        "b",
        str(tmp_path / "b"),
        "command line",
        None,
    )
    for extra, says in (
        (("config.toml", None), "command line: config.toml: .* is a file"),
        (("a/x", None), "command line: a/x: .* is inside the root .*line 3"),
        (("c", "nope"), "command line: --layout: is 'nope'"),
    ):
        with pytest.raises(ConfigError, match=says):
            _load(tmp_path, text, [extra])


WORDS = """\
[daemon] [defaults] [[root]] [root.limits] [defaults.schedule] [root] root defaults path = '/n/a' "x.jsonl"
name project memory_path layout "auto" 5 -1 true nan { } [ ] , . archive 'every 5s' 'off' # limits max_bytes
kind 1979-05-27 \"\"\" ''' '~' '~root/x' schedule memory_configuration external_path"""
KNOWN = """\
daemon defaults root schedule limits path name project memory_path layout archive mode timezone backups
memory_configuration external_path max_bytes kind settle_ms keep_importance a.jsonl secrets"""
_WORDS = st.sampled_from([*WORDS.split(), "\n", "'every 5s'"])
_KNOWN = st.sampled_from(KNOWN.split())


def _error(text: str) -> str | None:
    """The message, or None when the text is a configuration; anything else escapes and fails the test."""
    try:
        parse(text, "c.toml", STATE)
    except ConfigError as error:
        return error.message
    return None


@given(st.lists(_WORDS, max_size=30).map(" ".join))
@example("root = []\n[daemon.settle_ms]\n")
@example("[[root]]\npath = '/n/a'\n[[root.limits]]\n")
@example("[[root]]\nlimits.'' = 'off'\npath = '~'")
@example("[defaults.limits.a.b.c.d]\ne = 'off'")
def test_reading_raises_nothing_but_config_errors(text: str) -> None:
    message = _error(text)
    assert message is None or all(line.startswith("c.toml:") for line in message.split("\n"))


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    message = _error(text)
    assert message is None or message.startswith("c.toml:")


_LEAVES = st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=6) | st.dates()
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KNOWN, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_KNOWN, _TREES, max_size=3))
def test_any_shape_of_known_keys(tree: dict[str, object]) -> None:
    message = _error(tomlkit.dumps(tree))
    assert message is None or message.startswith("c.toml:")


def test_what_makes_the_vectors(tmp_path: Path) -> None:
    text = """
[search]
embedder = "endpoint"
[search.endpoint]
url = "https://models.example/v1"
model = "small"
size = 768
"""
    search = _load(tmp_path, text).search
    assert search == SearchConfig("endpoint", EndpointConfig("https://models.example/v1", "small", size=768))
    assert _load(tmp_path, "").search == SearchConfig("static")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[search]\nembedder = 'mini'", 'did you mean "minilm"?'),
        ("[search]\nembeder = 'off'", 'did you mean "embedder"?'),
        ("[search.endpoint]\nkey = 'x'", "unknown key"),
        ("[search.endpoint]\nurl = 'file:///etc/passwd'", "allowed: an address such as"),
        ("[search.endpoint]\nurl = 'http://me:word@host/v1'", "use key_env to name the variable"),
        ("[search.endpoint]\nsize = 0", "out of range"),
    ],
)
def test_what_cannot_make_vectors(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, lines)
    assert said in caught.value.message
    assert "word@" not in caught.value.message


def test_every_setting_of_a_root_has_a_key_and_every_key_a_setting() -> None:
    """Those of single layouts included, which the layouts declare."""
    settings = {*Policy.__struct_fields__} - {"secrets", "schedule", "limits"}
    assert set(POLICY) == settings
    options = [name for layout in LAYOUTS.values() for name in layout.options]
    assert len(options) == len(set(options)) == 10
    assert all(POLICY[name].meaning.startswith(layout.name) for layout in LAYOUTS.values() for name in layout.options)


def test_an_absolute_path_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert [root.path for root in _load(tmp_path, None, [(str(tmp_path), None)]).roots] == [str(tmp_path)]
