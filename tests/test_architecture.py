"""The floors of the house: imports point downward only, and a package with a special job has one importing place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1] / "memoryd"

FLOORS = {
    "cli": 8,
    "service": 7,
    "control": 6,
    "engine": 5,
    "operations": 4,
    "store": 3,
    "config": 3,
    "catalogue": 2,
    "disk": 2,
    "layouts": 2,
    "core": 1,
    "errors": 0,
    "log": 0,
}

# On one floor these do not know each other.
APART = {"disk": {"layouts", "catalogue"}, "layouts": {"disk", "catalogue"}, "store": {"config"}, "config": {"store"}}

# Third-party package: the only places that import it. msgspec may be used anywhere.
HOMES = {
    "watchdog": {"service/watcher.py"},
    "apscheduler": {"service/timetable.py"},
    "psutil": {"disk/processes.py"},
    "filelock": {"disk/ownership.py"},
    "tomlkit": {"config/edit.py"},
    "prometheus_client": {"control/metrics.py"},
    "structlog": {"log.py"},
    "platformdirs": {"config/places.py"},
}

# Floors 1 to 4 get time, chance and surroundings as arguments, or have a default that can be replaced.
FORBIDDEN_BELOW = {("time", "time"), ("time", "sleep"), ("os", "environ"), ("os", "getenv"), ("datetime", "now")}
OWN_CLOCK = {"operations/offline.py"}  # `check --offline`: called by the command line, no daemon is asked


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TOP.rglob("*.py")):
        yield path.relative_to(TOP).as_posix(), ast.parse(path.read_bytes())


def _imported(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """(module, whether only for the type checker) of every import; `from memoryd import x` counts as memoryd.x."""
    hints = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and isinstance(test.test, ast.Name) and test.test.id == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in hints) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"memoryd.{alias.name}" for alias in node.names] if node.module == "memoryd" else [node.module]
            yield from ((name, id(node) in hints) for name in names)


def _part(module: str) -> str | None:
    """The package or module of ours that a dotted name means; None for others, and for the version."""
    words = module.split(".")
    return words[1] if words[0] == "memoryd" and len(words) > 1 and words[1] != "__version__" else None


def climbs(path: str, tree: ast.Module) -> list[str]:
    """Imports of this file that lead upward, or to a neighbour that it must not know."""
    own = path.split("/", maxsplit=1)[0].removesuffix(".py")
    if own.startswith("__"):
        return []  # the version, and `python -m memoryd`
    wrong = []
    for module, hint in _imported(tree):
        part = _part(module)
        if part is None or hint:
            continue
        if FLOORS[part] > FLOORS[own] or part in APART.get(own, ()):
            wrong.append(f"{path} (floor {FLOORS[own]}) imports {module}")
    return wrong


def strays(path: str, tree: ast.Module) -> list[str]:
    """Third-party packages imported outside their home."""
    tops = {module.split(".")[0] for module, _ in _imported(tree)}
    wrong = [name for name, homes in HOMES.items() if name in tops and path not in homes]
    if tops & {"click", "rich"} and not path.startswith("cli/"):
        wrong += sorted(tops & {"click", "rich"})
    return [f"{path} imports {name}" for name in wrong]


def _replaceable(tree: ast.Module) -> set[int]:
    """Defaults of arguments and of dataclass fields: there a clock can be handed in."""
    values: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            values += [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.AnnAssign):
            values.append(node.value)
    return {id(value) for value in values}


def surroundings(path: str, tree: ast.Module) -> list[str]:
    """Reading of clock or environment where it has to be an argument."""
    if FLOORS.get(path.split("/", maxsplit=1)[0], 9) > 4 or path.startswith("config/") or path in OWN_CLOCK:
        return []
    defaults = _replaceable(tree)
    return [
        f"{path}:{node.lineno} {node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in FORBIDDEN_BELOW
        and id(node) not in defaults
    ]


def test_imports_point_downward() -> None:
    assert [line for source in _sources() for line in climbs(*source)] == []


def test_packages_with_a_special_job_have_one_home() -> None:
    assert [line for source in _sources() for line in strays(*source)] == []


def test_time_and_environment_come_as_arguments_below_the_engine() -> None:
    assert [line for source in _sources() for line in surroundings(*source)] == []


def test_every_package_has_its_floor() -> None:
    assert {path.split("/")[0].removesuffix(".py") for path, _ in _sources()} - {"__init__", "__main__"} == set(FLOORS)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("core/x.py", "from memoryd.store import Store"),
        ("disk/x.py", "import memoryd.layouts"),
        ("engine/x.py", "from memoryd import service"),
    ],
)
def test_a_climb_would_be_noticed(path: str, code: str) -> None:
    assert climbs(path, ast.parse(code))


def test_a_stray_and_a_clock_would_be_noticed() -> None:
    assert strays("disk/x.py", ast.parse("import psutil.x"))
    assert strays("service/x.py", ast.parse("from rich import table"))
    assert surroundings("store/x.py", ast.parse("import time\nnow = time.time()"))
