"""The house stays a house: floors, who may import what, no clocks where time is an argument, rooms of human size.

All of it is read from the source with `ast`, deferred imports and imports for the type checker included.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "memoryd"

FLOORS = {
    "errors": 0, "log": 0, "__init__": 0,
    "core": 1,
    "catalogue": 2, "search": 2, "disk": 2, "layouts": 2,
    "store": 3, "config": 3,
    "operations": 4,
    "engine": 5,
    "control": 6,
    "service": 7, "mcp": 7,
    "cli": 8,
    "__main__": 9,
}  # fmt: skip

# Packages that do a special job, each with the one place that knows them.
KEEPERS = {
    "watchdog": "service/watcher.py",
    "apscheduler": "service/timetable.py",
    "psutil": "disk/processes.py",
    "filelock": "disk/ownership.py",
    "tomlkit": "config/edit.py",
    "prometheus_client": "control/metrics.py",
    "structlog": "log.py",
    "platformdirs": "config/places.py",
    "click": "cli/",
    "rich": "cli/",
    "ctypes": "disk/syscalls.py",
    "mcp": "mcp/server.py",
    "betterleaks": "operations/second_opinion.py",
}

PURE = ("core", "layouts")
IMPURE = {"os", "time", "threading", "logging", "random", "subprocess", "socket", "sqlite3", "shutil", "tempfile", "io"}

# Below the engine these come as arguments, or are a default that can be replaced.
SURROUNDINGS = {("time", "time"), ("time", "monotonic"), ("time", "sleep"), ("os", "environ"), ("os", "getenv"),
                ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}  # fmt: skip
READERS = {
    "config/": "the one reader of environment and home",
    "operations/offline.py": "the command line's own check, where no daemon gives the time",
}

LONGEST_MODULE, LONGEST_FUNCTION = 400, 60
# Rooms that are larger than the rest, how large they may be at most, and why.
LONG_MODULES: dict[str, tuple[int, str]] = {}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}


class Import(NamedTuple):
    """`module` is absolute, `names` what is taken from it; both as written."""

    module: str
    names: tuple[str, ...]
    line: int


class Source(NamedTuple):
    path: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The package or top module it lies in: `disk`, `errors`."""
        return self.path.partition("/")[0].removesuffix(".py")

    def imports(self) -> Iterator[Import]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    yield Import(each.name, (), node.lineno)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno} relative imports hide the floor"
                yield Import(node.module or "", tuple(each.name for each in node.names), node.lineno)


@cache
def sources() -> tuple[Source, ...]:
    found = sorted(path for path in HOUSE.rglob("*.py") if "__pycache__" not in path.parts)
    texts = {str(path.relative_to(HOUSE)): path.read_text(encoding="utf-8") for path in found}
    return tuple(Source(path, text, ast.parse(text, path)) for path, text in texts.items())


def rooms_of(found: Import) -> Iterator[str]:
    """The rooms of the house that an import reaches."""
    top, *below = found.module.split(".")
    if top != "memoryd":
        return
    if below:
        yield below[0]
    else:
        yield from (name if name in FLOORS else "__init__" for name in found.names or ("__init__",))


def test_every_room_has_a_floor() -> None:
    assert {source.room for source in sources()} <= FLOORS.keys()


@pytest.mark.parametrize("source", sources(), ids=lambda source: str(source.path))
def test_imports_point_downward(source: Source) -> None:
    for found in source.imports():
        for room in rooms_of(found):
            assert room == source.room or FLOORS[room] < FLOORS[source.room], (
                f"{source.path}:{found.line} imports {found.module}: floor {FLOORS[room]} from {FLOORS[source.room]}"
            )


def test_disk_and_layouts_do_not_know_each_other() -> None:
    """Floors alone say it as well; this one stays when somebody moves a room."""
    for source in sources():
        strangers = {"disk": "layouts", "layouts": "disk"}.get(source.room)
        reached = {room for found in source.imports() for room in rooms_of(found)}
        assert strangers not in reached, source.path


@pytest.mark.parametrize("package", KEEPERS)
def test_a_special_package_has_one_keeper(package: str) -> None:
    users = {
        source.path for source in sources() for found in source.imports() if found.module.partition(".")[0] == package
    }
    keeper = KEEPERS[package]
    assert all(user.startswith(keeper) for user in users), users
    assert users, f"nobody imports {package} any more: the table is out of date"


def test_core_and_layouts_are_pure() -> None:
    for source in sources():
        if source.room in PURE:
            reached = {found.module.partition(".")[0] for found in source.imports()}
            assert not reached & IMPURE, source.path
            assert "open" not in called_names(source), source.path


def called_names(source: Source) -> set[str]:
    calls = (node.func for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


def replaceable(tree: ast.Module) -> set[int]:
    """Defaults of arguments and of dataclass fields: there another clock can be handed in."""
    values: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            values += [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.AnnAssign):
            values.append(node.value)
    return {id(value) for value in values}


def surroundings(source: Source) -> list[str]:
    """Readings of clock and environment where they have to be arguments."""
    if not 0 < FLOORS[source.room] < FLOORS["engine"] or source.path.startswith(tuple(READERS)):
        return []
    defaults = replaceable(source.tree)
    return [
        f"{source.path}:{node.lineno} {node.value.id}.{node.attr}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in SURROUNDINGS
        and id(node) not in defaults
    ]


def test_time_and_environment_are_arguments_below_the_engine() -> None:
    assert [line for source in sources() for line in surroundings(source)] == []


def test_modules_are_of_human_size() -> None:
    sizes = {source.path: source.text.count("\n") for source in sources()}
    long = {path: size for path, size in sizes.items() if size > LONG_MODULES.get(path, (LONGEST_MODULE, ""))[0]}
    assert long == {}
    assert LONG_MODULES.keys() <= sizes.keys()


def test_functions_are_of_human_size() -> None:
    """Without their docstring, which may take the room it needs."""
    long: dict[str, int] = {}
    for source in sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and size(node) > LONGEST_FUNCTION:
                long[f"{source.path}:{node.name}"] = size(node)
    assert {name: size for name, size in long.items() if size > LONG_FUNCTIONS.get(name, (0, ""))[0]} == {}


def size(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1) if documented else lines


def test_every_module_says_what_it_is() -> None:
    silent = [source.path for source in sources() if not ast.get_docstring(source.tree)]
    assert silent == []


def test_nothing_is_swallowed_without_a_word() -> None:
    for source in sources():
        rows = source.text.splitlines()
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            assert node.type is not None, f"{source.path}:{node.lineno} catches everything"
            if all(isinstance(each, ast.Pass) for each in node.body):
                told = "#" in rows[node.lineno - 1] or "#" in rows[node.body[0].lineno - 1]
                assert told, f"{source.path}:{node.lineno} passes in silence"


def comments(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_exceptions_from_the_rules_have_a_reason() -> None:
    switch = re.compile(r"#\s*(?:type:\s*ignore(?:\[[\w\-, ]+\])?|noqa(?::\s*[A-Z0-9, ]+)?)")
    for source in sources():
        for number, comment in comments(source):
            if switch.match(comment):
                reason = switch.sub("", comment).strip(" -#:")
                assert len(reason) > 5, f"{source.path}:{number} {comment}"


def test_no_promises_in_comments() -> None:
    for source in sources():
        for number, comment in comments(source):
            assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", comment), f"{source.path}:{number}"


class TestCanaries:
    """Each reading finds what it is for."""

    @staticmethod
    def of(text: str, path: str = "core/new.py") -> Source:
        return Source(path, text, ast.parse(text))

    @pytest.mark.parametrize(
        "text",
        [
            "from memoryd.disk import atomic",
            "import memoryd.disk.tree",
            "from memoryd import disk",
            "def later() -> None:\n    from memoryd.store import Store",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from memoryd.cli import main",
        ],
    )
    def test_an_import_upward(self, text: str) -> None:
        with pytest.raises(AssertionError):
            test_imports_point_downward(self.of(text))

    def test_a_relative_import(self) -> None:
        with pytest.raises(AssertionError):
            list(self.of("from . import text").imports())

    def test_a_room_beside(self) -> None:
        with pytest.raises(AssertionError):
            test_imports_point_downward(self.of("from memoryd.layouts.base import Layout", "disk/new.py"))

    @pytest.mark.parametrize("text", ["import time\nx = time.time()", "def f() -> None:\n    os.environ['HOME']"])
    def test_a_look_at_the_clock_or_the_environment(self, text: str) -> None:
        assert surroundings(self.of(text)) != []

    def test_a_clock_that_can_be_replaced_is_none(self) -> None:
        assert surroundings(self.of("def f(now=time.time, *, sleep=time.sleep): ...")) == []

    def test_the_size_of_a_function(self) -> None:
        body = "\n".join("    x = 1" for _ in range(60))
        [node] = self.of(f'def long():\n    """Two\n    lines."""\n{body}').tree.body
        assert isinstance(node, ast.FunctionDef)
        assert size(node) == 61
