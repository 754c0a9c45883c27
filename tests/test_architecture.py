"""The house stays a house: floors, who may import what, no clocks where time is an argument, rooms of human size.

All of it is read from the source with `ast`, deferred imports and imports for the type checker included.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from memoryd.core.findings import SHARED_CODES
from memoryd.layouts.codes import CODES
from memoryd.layouts.registry import LAYOUTS, NAMES

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "memoryd"

FLOORS = {
    "errors": 0, "log": 0, "__init__": 0,
    "core": 1,
    "index": 2, "search": 2, "disk": 2, "layouts": 2,
    "store": 3, "config": 3, "control": 3,
    "operations": 4,
    "engine": 5,
    "mcp": 4,
    "installer": 6,
    "service": 6,
    "cli": 7,
    "__main__": 8,
}  # fmt: skip

# Packages that do a special job, each with the one place (or the places) that knows them.
KEEPERS: dict[str, str | tuple[str, ...]] = {
    "watchdog": "service/watching/",
    "apscheduler": "service/timetable.py",
    "psutil": "disk/processes.py",
    "filelock": "disk/daemon_lock.py",
    "hashlib": ("core/digest.py", "config/socket_path.py"),
    "prometheus_client": "control/metrics.py",
    "structlog": "log.py",
    "platformdirs": "config/socket_path.py",
    "click": "cli/",
    "rich": "cli/",
    "ctypes": "disk/syscalls.py",
    "mcp": "mcp/server.py",
    "betterleaks": "operations/secret_check.py",
    "sqlite3": ("index/sqlite/", "disk/journal/", "disk/snapshots.py"),
}
SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|(INSERT|REPLACE) INTO|DELETE FROM|CREATE (VIRTUAL )?TABLE|PRAGMA|MATCH \?)|bm25\("
)
FTS = re.compile(r'"\*?"? (AND|OR|NEAR) "|^ (AND|OR) $')

PURE = ("core", "layouts")
IMPURE = {"os", "time", "threading", "logging", "random", "subprocess", "socket", "sqlite3", "shutil", "tempfile", "io"}

# Below the engine these come as arguments, or are a default that can be replaced.
SURROUNDINGS = {("time", "time"), ("time", "monotonic"), ("time", "sleep"), ("os", "environ"), ("os", "getenv"),
                ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}  # fmt: skip
READERS = {
    "config/": "the one reader of environment and home",
    "control/": "a socket waits for its clients in real time",
    "operations/offline.py": "the command line's own check, where no daemon gives the time",
}

# What a rule does not hold for yet, counted. A number is only ever lowered.
AT_MOST = {
    "import circles": 0,
    "fragments": 0,
    "undocumented": 0,
    "lines with Any": 155,
}

SMALLEST_MODULE, LONGEST_MODULE, LONGEST_FUNCTION = 60, 500, 60
# Rooms that are larger than the rest, how large they may be at most, and why.
LONG_MODULES: dict[str, tuple[int, str]] = {}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}


@pytest.fixture(scope="module", autouse=True)
def trees(no_garbage_collection: None) -> Iterator[None]:
    """Drop what the tests of this module have read once they are done."""
    yield
    for read in (sources, nodes_of, all_imports, comments):
        read.cache_clear()


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a syntax tree: a dozen rules read those of each module."""
    return tuple(ast.walk(tree))


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
        for node in nodes_of(self.tree):
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


def upward(source: Source) -> Iterator[str]:
    """The imports that reach a floor that is not below."""
    for found in source.imports():
        for room in rooms_of(found):
            if room != source.room and FLOORS[room] >= FLOORS[source.room]:
                floors = f"floor {FLOORS[room]} from {FLOORS[source.room]}"
                yield f"{source.path}:{found.line} imports {found.module}: {floors}"


def test_imports_point_downward() -> None:
    assert [each for source in sources() for each in upward(source)] == []


def test_disk_and_layouts_do_not_know_each_other() -> None:
    """Floors alone say it as well; this one stays when somebody moves a room."""
    for source in sources():
        strangers = {"disk": "layouts", "layouts": "disk"}.get(source.room)
        reached = {room for found in source.imports() for room in rooms_of(found)}
        assert strangers not in reached, source.path


@cache
def all_imports() -> tuple[tuple[str, str], ...]:
    """(path, imported module) of the whole house."""
    return tuple((source.path, found.module) for source in sources() for found in source.imports())


@pytest.mark.parametrize("package", KEEPERS)
def test_a_special_package_has_one_keeper(package: str) -> None:
    users = {path for path, module in all_imports() if module.partition(".")[0] == package}
    keeper = KEEPERS[package]
    assert all(user.startswith(keeper) for user in users), users
    assert users, f"nobody imports {package} any more: the table is out of date"


def sql_in(source: Source) -> Iterator[str]:
    """Texts in the language of SQLite or of its full-text index, docstrings left out."""
    plain = {id(node.value) for node in nodes_of(source.tree) if isinstance(node, ast.Expr)}
    for node in nodes_of(source.tree):
        if not isinstance(node, ast.Constant) or id(node) in plain or not isinstance(node.value, str):
            continue
        if SQL.search(node.value) or FTS.search(node.value):
            yield f"{source.path}:{node.lineno} {node.value!r}"


def test_only_keepers_of_sqlite_speak_its_language() -> None:
    strangers = [source for source in sources() if not source.path.startswith(KEEPERS["sqlite3"])]
    assert [each for source in strangers for each in sql_in(source)] == []
    assert any(list(sql_in(source)) for source in sources()), "the canary"


def test_core_and_layouts_are_pure() -> None:
    for source in sources():
        if source.room in PURE:
            reached = {found.module.partition(".")[0] for found in source.imports()}
            assert not reached & IMPURE, source.path
            assert "open" not in called_names(source), source.path


def called_names(source: Source) -> set[str]:
    calls = (node.func for node in nodes_of(source.tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


def replaceable(tree: ast.Module) -> set[int]:
    """Defaults of arguments and of dataclass fields: there another clock can be handed in."""
    values: list[ast.expr | None] = []
    for node in nodes_of(tree):
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
        for node in nodes_of(source.tree)
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
        for node in nodes_of(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and size(node) > LONGEST_FUNCTION:
                long[f"{source.path}:{node.name}"] = size(node)
    assert {name: size for name, size in long.items() if size > LONG_FUNCTIONS.get(name, (0, ""))[0]} == {}


def size(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1) if documented else lines


def imports_of(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module imports, deferred imports and those under TYPE_CHECKING included."""
    found: dict[str, set[str]] = {}
    for name, tree in modules.items():
        found[name] = set()
        for node in nodes_of(tree):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                below = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [each if each in modules else node.module or "" for each in below]
            else:
                continue
            found[name].update(each for each in wanted if each in modules and each != name)
    return found


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of modules that import each other, directly or through others."""
    reached = {name: reach(graph, name) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(group) for group in groups if group]


def reach(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += graph[name]
    return found


def house() -> dict[str, ast.Module]:
    return {module_name(source.path): source.tree for source in sources()}


def module_name(path: str) -> str:
    return "memoryd." + path.removesuffix(".py").replace("/", ".").removesuffix("__init__").rstrip(".")


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    found = circles(imports_of(house()))
    assert len(found) <= AT_MOST["import circles"], found


def test_no_idea_is_cut_into_fragments() -> None:
    """A short module that only one other uses is part of that one."""
    graph = imports_of(house())
    users = {name: [other for other in graph if name in graph[other]] for name in graph}
    short = {
        module_name(source.path): source.text.count("\n")
        for source in sources()
        if source.text.count("\n") < SMALLEST_MODULE and not source.path.endswith(("__init__.py", "__main__.py"))
    }
    fragments = {name: users[name] for name in short if len(users[name]) == 1}
    assert len(fragments) <= AT_MOST["fragments"], fragments


def undocumented(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Public functions, classes and methods without a docstring."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node.body, f"{prefix}{node.name}.")


def test_public_definitions_have_a_docstring() -> None:
    silent = [f"{source.path}:{name}" for source in sources() for name in undocumented(source.tree.body)]
    assert len(silent) <= AT_MOST["undocumented"], silent


def test_any_is_rare() -> None:
    lines = [row for source in sources() for row in source.text.splitlines() if re.search(r"\bAny\b", row)]
    assert len(lines) <= AT_MOST["lines with Any"]


def literal_layouts(source: Source) -> Iterator[str]:
    """Literals that are the name of a layout; its package, the registry and the demo may have them. Names within a help
    text are not the whole literal. `notes` is an ordinary word and not looked for."""
    for node in nodes_of(source.tree):
        if isinstance(node, ast.Constant) and node.value in NAMES and "-" in str(node.value):
            package = f"layouts/{str(node.value).replace('-', '_')}/"
            if not source.path.startswith((package, "layouts/registry.py", "cli/demo/")):
                yield f"{source.path}:{node.lineno} {node.value}"


def test_layouts_are_named_only_by_themselves() -> None:
    """What is special about a layout is a part of its value: nobody else asks for its name."""
    assert [each for source in sources() for each in literal_layouts(source)] == []


USERS = "operations/search_scope.py"  # matches names of users by the form of their paths, which one layout knows


def test_packages_of_layouts_are_imported_by_layouts_alone() -> None:
    packages = tuple(f"memoryd.layouts.{name.replace('-', '_')}" for name in NAMES)
    users = {path for path, module in all_imports() if module.startswith(packages) and not path.startswith("layouts/")}
    assert users == {USERS}


def home(source: Source) -> str:
    """The layout that the module belongs to, or its path."""
    room, *below = source.path.removesuffix(".py").replace("_", "-").split("/")
    return below[0] if room == "layouts" and below[0] in NAMES else source.path


def test_codes_that_one_layout_alone_uses_are_declared_by_it() -> None:
    """The demo shows findings of every layout and does not count."""
    counted = [each for each in sources() if not each.path.startswith(("core/findings.py", "cli/demo/"))]
    uses = {
        (node.value, home(each)) for each in counted for node in nodes_of(each.tree) if isinstance(node, ast.Constant)
    }
    users = Counter(code for code, _ in uses)
    for name, layout in LAYOUTS.items():
        assert layout.findings.keys() == {code for code in CODES if (code, name) in uses and users[code] == 1}
        assert not layout.findings.keys() & SHARED_CODES.keys()


def test_every_module_says_what_it_is() -> None:
    silent = [source.path for source in sources() if not ast.get_docstring(source.tree)]
    assert silent == []


def test_nothing_is_swallowed_without_a_word() -> None:
    for source in sources():
        rows = source.text.splitlines()
        for node in nodes_of(source.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            assert node.type is not None, f"{source.path}:{node.lineno} catches everything"
            if all(isinstance(each, ast.Pass) for each in node.body):
                told = "#" in rows[node.lineno - 1] or "#" in rows[node.body[0].lineno - 1]
                assert told, f"{source.path}:{node.lineno} passes in silence"


@cache
def comments(source: Source) -> tuple[tuple[int, str], ...]:
    """(line, comment), in order."""
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return tuple((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


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


BY_NAME = {"setattr", "getattr", "delattr", "hasattr", "patch", "attrgetter", "methodcaller"}
NOT_PRIVATE = {"_make", "_asdict", "_replace", "_fields", "_field_defaults"}  # of named tuples, so spelled for a reason


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NOT_PRIVATE


def privates_by_name(tree: ast.Module) -> Iterator[str]:
    """Privates that are imported or named in a string: what ruff's SLF001 does not see. Programs that a test has in a
    string are read as well."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module, names=names):
                parts = [*(module or "").split("."), *(each.name for each in names)]
                yield from (f"{node.lineno} import of {part}" for part in parts if is_private(part))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in BY_NAME:
                texts = [each.value for each in args[:2] if isinstance(each, ast.Constant)]
                parts = [part for text in texts if isinstance(text, str) for part in text.split(".")]
                yield from (f"{node.lineno} {name} of {part}" for part in parts if is_private(part))
            case ast.Constant(value=str(text)) if "import " in text:
                yield from (f"{node.lineno} in a program: {each}" for each in privates_of_program(text))


def privates_of_program(text: str) -> Iterator[str]:
    """Privates of others that a program reaches; none where the text is no program."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not own:
            yield node.attr
    yield from privates_by_name(tree)


def test_no_test_reaches_into_privates() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    assert paths
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path.name != Path(__file__).name}
    found = [f"{path}:{each}" for path, text in texts.items() for each in privates_by_name(ast.parse(text))]
    assert found == []


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
        assert list(upward(self.of(text))) != []

    def test_a_relative_import(self) -> None:
        with pytest.raises(AssertionError):
            list(self.of("from . import text").imports())

    def test_a_room_beside(self) -> None:
        assert list(upward(self.of("from memoryd.layouts.protocol import Layout", "disk/new.py"))) != []

    @pytest.mark.parametrize("text", ["import time\nx = time.time()", "def f() -> None:\n    os.environ['HOME']"])
    def test_a_look_at_the_clock_or_the_environment(self, text: str) -> None:
        assert surroundings(self.of(text)) != []

    def test_a_clock_that_can_be_replaced_is_none(self) -> None:
        assert surroundings(self.of("def f(now=time.time, *, sleep=time.sleep): ...")) == []

    @pytest.mark.parametrize(
        "text",
        [
            "from memoryd.store.commit import _Commit",
            "from memoryd._share import x",
            "monkeypatch.setattr(commit, '_apply', None)",
            "monkeypatch.setattr('memoryd.store.commit._apply', None)",
            "getattr(store, '_lock')",
            "PROGRAM = 'import os\\nstore._lock.acquire()'",
            "PROGRAM = 'from memoryd.store import _x'",
        ],
    )
    def test_a_private_of_another_module(self, text: str) -> None:
        assert list(privates_by_name(ast.parse(text))) != []

    @pytest.mark.parametrize(
        "text", ["setattr(store, '__init__', f)", "x = 'import os; self._x = 1'", "y._replace(a=1)"]
    )
    def test_dunders_and_own_privates_are_none(self, text: str) -> None:
        assert list(privates_by_name(ast.parse(text))) == []

    def test_an_import_circle(self) -> None:
        one = "from memoryd.core import two"
        two = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from memoryd.core.one import One"
        modules = {
            "memoryd.core.one": ast.parse(one),
            "memoryd.core.two": ast.parse(two),
            "memoryd.core": ast.parse(""),
        }
        assert circles(imports_of(modules)) == [{"memoryd.core.one", "memoryd.core.two"}]

    def test_a_layout_named_elsewhere(self) -> None:
        text = '"""About jsonl-store."""\nif name in ("jsonl-store", "a jsonl-store"): ...'
        assert list(literal_layouts(self.of(text))) == ["core/new.py:2 jsonl-store"]
        assert list(literal_layouts(self.of(text, "layouts/json_files/new.py"))) != []
        assert list(literal_layouts(self.of(text, "layouts/jsonl_store/new.py"))) == []

    def test_a_definition_without_docstring(self) -> None:
        text = "class A:\n    def b(self): ...\n    def _c(self): ...\ndef d():\n    'Do it.'"
        assert list(undocumented(self.of(text).tree.body)) == ["A", "A.b"]

    def test_the_size_of_a_function(self) -> None:
        body = "\n".join("    x = 1" for _ in range(60))
        [node] = self.of(f'def long():\n    """Two\n    lines."""\n{body}').tree.body
        assert isinstance(node, ast.FunctionDef)
        assert size(node) == 61
