"""The words of the program: no house metaphors in what a user reads, none in the names of modules.

What a user reads: string literals of `memoryd` except docstrings, docstrings of click commands, the README, and the
comments of the service files. The test knows words, not style: a text that passes it can still be bad.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("no_garbage_collection")

TOP = Path(__file__).parents[1]
PROGRAM = TOP / "memoryd"

BANNED = (
    r"bears?",
    r"(?:lay|lays|laid|laying|kept|keep|keeps) (?:\w+ )?aside",
    r"will do while",
    r"(?:said|left|kept) as it is",
    r"told(?! (?:to|not to)\b)",
    r"tells? apart",
    r"tend(?:s|ed|ing|ers?)?\b(?! to\b)",
    r"mend(?:s|ed|ing)?",
    r"(?<!there )(?:is|are) no (?!longer\b|more\b)(?!\w+ (?:in|at|on|with|for|of)\b)",
    r"folders?",
    r"stands?(?! for\b)",
    r"stood",
    r"(?:their|its) lines",
    r"knows? next to nothing",
    r"look(?:s|ed)? who",
    r"brought to an end",
    r"(?:cannot|could not|not) be looked at",
    r"looked at",
    r"at most so many",
    r"held against",
    r"(?:lies|lie|lying) (?:in|on|at|there|beneath|beside|behind|below)",
    r"anew",
    r"for ever",
    r"the disk refused",
    r"read in now",
    r"taken? in\b",
    r"somebody",
    r"unasked",
    r"whoever",
    r"sought",
)
"""Words and phrases that a native engineer would not write, as regular expressions, tried at the start of a word."""

BANNED_NAMES = {
    "asked", "asking", "found", "held", "home", "hole", "kept", "laid", "late", "likeness", "looking", "mending",
    "news", "own", "parts", "presence", "room", "said", "seen", "shed", "shelf", "sight", "sought", "stage", "taste",
    "telling", "tending", "their", "told", "touching",
}  # fmt: skip
"""Words that name no module: participles, pronouns, metaphors. `late_writes` says what is late, `late` does not."""

PATTERN = re.compile(r"\b(?:" + "|".join(BANNED) + r")\b", re.IGNORECASE)

NOT_YET: tuple[str, ...] = ()
"""Packages and modules whose strings are not rewritten yet: none. It stays empty."""

DOCSTRING_STARTS = re.compile(r"(?:The same|Of|As|Where|What|Whether|Which|Whose|How|Is|Does|May|By|From|None)\b")
"""First words of a docstring that is neither an instruction nor the name of a thing."""

AT_MOST = 5
"""Docstrings that still start like that. Only ever lowered."""

PERSISTED = {"made {} folders", r"made (\d+) folders"}
"""Texts in files of memoryd, whose format stays."""

SAMPLES = ("cli/demo/fixtures.py", "cli/demo/script.py")
"""Modules whose strings are memories that agents could have written."""


def is_command(node: ast.AST) -> bool:
    """True for a function whose docstring is the help text of a click command."""
    decorators = getattr(node, "decorator_list", ())
    return any(ast.unparse(each).startswith("click.") for each in decorators)


def hidden_strings(nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """The string literals that no user reads: docstrings, also those of variables."""
    commands = {id(node.body[0]) for node in nodes if isinstance(node, ast.FunctionDef) and is_command(node)}
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and id(node) not in commands
    }


def visible_strings(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every string literal but docstrings; an f-string is one text with `{}` for its values."""
    nodes = tuple(ast.walk(ast.parse(source)))
    parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    elsewhere = parts | hidden_strings(nodes)
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in elsewhere:
            yield node.lineno, node.value


def banned(source: str) -> list[str]:
    """The banned wordings in the strings of a module, each with its line."""
    return [
        f"{line}: {match[0]!r} in {text[:100]!r}"
        for line, text in visible_strings(source)
        if text not in PERSISTED
        for match in PATTERN.finditer(text)
    ]


def modules() -> list[str]:
    """Paths of all modules, relative to `memoryd`."""
    return sorted(str(path.relative_to(PROGRAM)) for path in PROGRAM.rglob("*.py"))


def banned_names(path: str) -> set[str]:
    """The banned words that name a module or its package; in `a_b` a participle or pronoun is no better than alone."""
    parts = path.removesuffix(".py").split("/")
    words = {word for part in parts for word in part.split("_") if word != "late"}
    return BANNED_NAMES & (words | set(parts))


def test_strings_that_a_user_reads_are_plain_english() -> None:
    paths = [path for path in modules() if not path.startswith((*NOT_YET, *SAMPLES))]
    found = {path: banned((PROGRAM / path).read_text(encoding="utf-8")) for path in paths}
    assert {path: wordings for path, wordings in found.items() if wordings} == {}
    assert len(found) > 100


@pytest.mark.parametrize("path", ["README.md", "systemd", "launchd"])
def test_documents_that_a_user_reads_are_plain_english(path: str) -> None:
    files = [TOP / path] if (TOP / path).is_file() else sorted((TOP / path).iterdir())
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if PATTERN.search(line)] == []


def test_modules_are_named_in_words_of_the_field() -> None:
    assert {path: names for path in modules() if (names := banned_names(path))} == {}


def test_the_list_of_packages_that_are_not_done_is_current() -> None:
    """What has become clean leaves the list, so that it stays clean."""
    paths = modules()
    for prefix in NOT_YET:
        rest = [path for path in paths if path.startswith(prefix)]
        assert any(banned((PROGRAM / path).read_text(encoding="utf-8")) for path in rest), (
            f"{prefix} is clean: remove it"
        )


def poor_starts(source: str) -> list[str]:
    """The docstrings of a module that start with a word of `DOCSTRING_STARTS`."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, nodes))
    return [text for text in texts if text and DOCSTRING_STARTS.match(text)]


def test_docstrings_start_with_a_verb_or_a_thing() -> None:
    found = {path: texts for path in modules() if (texts := poor_starts((PROGRAM / path).read_text(encoding="utf-8")))}
    assert sum(map(len, found.values())) <= AT_MOST, found


class TestCanary:
    """Each rule catches a violation, and passes what only looks like one."""

    @pytest.mark.parametrize(
        "source",
        [
            'raise ValueError(f"{name} is no directory")',
            'HINT = "the id stands twice"',
            'log("memory_laid aside")\nx = f"{n} memories " f"laid aside"',
            'help = ("one memory alone " "bears it")',
            '@click.command()\ndef run() -> None:\n    """Tend a directory."""',
        ],
    )
    def test_a_banned_wording(self, source: str) -> None:
        assert len(banned(source)) == 1

    @pytest.mark.parametrize(
        "source",
        [
            '"""What is told of a folder."""',
            'def f() -> None:\n    """Tend it."""',
            'x = "there is no command; it is no longer here; a standard tendency; stands for"',
        ],
    )
    def test_what_only_looks_like_one(self, source: str) -> None:
        assert banned(source) == []

    def test_the_start_of_a_docstring(self) -> None:
        source = '"""The same."""\ndef f():\n    """Whether it is."""\nclass A:\n    """An offer."""'
        assert poor_starts(source) == ["The same.", "Whether it is."]

    def test_a_module_name(self) -> None:
        assert banned_names("store/their_lines.py") == {"their"}
        assert banned_names("engine/late.py") == {"late"}
        assert banned_names("disk/shelf/owner.py") == {"shelf"}
        assert banned_names("store/late_writes.py") == set()
