"""The finder of lines, which tomllib does not give."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from memoryd.config.toml_text import KeyPath, dotted, quoted, read_lines

TEXT = '''\
# comment [not.a.table]
top = """
[not.a.table]
a = 1""""          # the fourth quote belongs to the text
[daemon]
settle_ms = 1 # settle_cap_ms = 2
"quoted key" = 'x'
a.b . "c d" = [ 1,
  # comment ]
  { deep = 1 }, "]",
  [2, 3],
]
[[root]]
path = '/a' # x
limits."learnings.jsonl" = { max_bytes = "5MB", max_count = 5 }
[root.limits]
"tasks.jsonl" = "off"
[[root]]
path = \'\'\'
/b\'\'\'
  [ root . schedule ]
  archive = "off"
[defaults]
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("top",), 2),
        (("daemon",), 5),
        (("daemon", "settle_ms"), 6),
        (("daemon", "quoted key"), 7),
        (("daemon", "a"), 8),
        (("daemon", "a", "b", "c d"), 8),
        (("daemon", "a", "b", "c d", 1), 10),
        (("daemon", "a", "b", "c d", 1, "deep"), 10),
        (("daemon", "a", "b", "c d", 3, 0), 11),
        (("root",), 13),
        (("root", 0), 13),
        (("root", 0, "path"), 14),
        (("root", 0, "limits", "learnings.jsonl", "max_count"), 15),
        (("root", 0, "limits", "tasks.jsonl"), 17),
        (("root", 1), 18),
        (("root", 1, "path"), 19),
        (("root", 1, "schedule"), 21),
        (("root", 1, "schedule", "archive"), 22),
        (("defaults",), 23),
        (("defaults", "nothing", "here"), 23),
        (("nothing",), 1),
    ],
)
def test_lines(key: KeyPath, line: int) -> None:
    valid = TEXT.replace('limits."learnings.jsonl" = { max_bytes = "5MB", max_count = 5 }\n[root.limits]', "\n")
    assert tomllib.loads(valid), "the text is TOML but for one table that is opened twice"
    assert read_lines(TEXT).of(key) == line


def test_crlf() -> None:
    assert read_lines(TEXT.replace("\n", "\r\n")).keys == read_lines(TEXT).keys


def test_sections_end_with_their_last_value() -> None:
    text = "a = 1\n[[root]] # x\npath = 1 # y\n\n# of the next\n[[root]]\n# only a comment\n"
    first, second = read_lines(text).sections
    assert text[first.start : first.end] == "[[root]] # x\npath = 1 "
    assert text[first.start : first.header_end] == "[[root]]"
    assert text[second.start : second.end] == "[[root]]"


def test_dotted() -> None:
    assert dotted(("root", 1, "limits", "a.jsonl", "max_count")) == 'root[2].limits."a.jsonl".max_count'
    assert dotted(('a"\n',)) == '"a\\"\\u000a"'
    assert tomllib.loads(f"k = {quoted(chr(10) + chr(0x7F) + 'é' + chr(92))}")["k"] == "\n\x7fé\\"


_KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5)
_SCALARS = st.integers(-(2**60), 2**60) | st.booleans() | st.text(st.characters(codec="utf-8"), max_size=8) | st.dates()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


def _paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_every_key_of_any_document_is_found(document: dict[str, object]) -> None:
    text = tomlkit.dumps(document)
    tree = tomllib.loads(text)
    assert set(_paths(tree)) <= set(read_lines(text).keys)
