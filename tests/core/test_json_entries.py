"""Entries in JSON files of other programs: everything else keeps every byte, comments included."""

from __future__ import annotations

import json
import time

import pytest

from memoryd.core.json_entries import FIRST, insertion, removal, strict
from memoryd.core.spans import splice

SERVER = ("servers", "ours")
HOOK = ("hooks", "Start", FIRST)


def inserted(text: str, keys: tuple[str | int, ...] = SERVER, value: object = 1) -> str:
    edit, _ = insertion(text.encode(), keys, value)
    return splice(text.encode(), [edit]).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
        ("{}\n", '{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
        ('{"a":1}', '{"servers": {"ours": 1}, "a":1}'),
        ('{"a":1,"servers":{}}', '{"a":1,"servers":{"ours": 1}}'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"servers": {\r\n\t\t"ours": 1\r\n\t},\r\n\t"a": 1\r\n}'),
        ('{\n  "servers": {} // all\n}', '{\n  "servers": {\n    "ours": 1\n  } // all\n}'),
        ('{/* x */"a": 1/* y */\n}', '{\n  "servers": {\n    "ours": 1\n  },\n  /* x */"a": 1/* y */\n}'),
        ('{ // all\n  "a": 1,\n}', '{ // all\n  "servers": {\n    "ours": 1\n  },\n  "a": 1,\n}'),
        ('{\n  "servers": {\n    // x\n    "x": {}\n  }\n}',
         '{\n  "servers": {\n    "ours": 1,\n    // x\n    "x": {}\n  }\n}'),
        ('\ufeff{\n    "a": "/* no // comment */"\n}',
         '\ufeff{\n    "servers": {\n        "ours": 1\n    },\n    "a": "/* no // comment */"\n}'),
        ('{"a": 1,\n "b": 2}', '{\n  "servers": {\n    "ours": 1\n  },\n  "a": 1,\n "b": 2}'),
    ],
)  # fmt: skip
def test_an_entry_is_inserted_in_the_style_of_the_file(before: str, after: str) -> None:
    assert inserted(before) == after


def test_an_element_comes_first_in_its_list() -> None:
    before = '{\n  "hooks": {\n    "Start": [\n      { "x": 1 } // theirs\n    ]\n  }\n}'
    assert inserted(before, HOOK, {"y": 2}) == before.replace("[\n", '[\n      {\n        "y": 2\n      },\n')


@pytest.mark.parametrize(
    ("before", "after", "depth"),
    [
        ('{"servers": {"a": 1, "ours": 1}}', '{"servers": {"a": 1}}', 2),
        ('{"servers": {"ours": 1, "a": 1}}', '{"servers": {"a": 1}}', 2),
        ('{"x": 0, "servers": {"ours": 1}}', '{"x": 0}', 1),
        ('{"x": 0, "servers": {"ours": 1}}', '{"x": 0, "servers": {}}', 2),
        ('{\n  "servers": {\n    // a\n    "a": 1, // a\n    "ours": 1 // b\n  }\n}',
         '{\n  "servers": {\n    // a\n    "a": 1 // a\n    // b\n  }\n}', 1),
        ('{\n  "servers": {\n    "ours": 1,\n\n    "a": 1,\n  },\n}', '{\n  "servers": {\n\n    "a": 1,\n  },\n}', 2),
        ('{"servers": {/* theirs */ "ours": 1}}', '{"servers": {/* theirs */ }}', 1),
    ],
)  # fmt: skip
def test_an_entry_is_removed_from_a_file_that_was_changed(before: str, after: str, depth: int) -> None:
    assert splice(before.encode(), removal(before.encode(), SERVER, 1, depth)).decode() == after
    json.loads(strict(after.encode()))


@pytest.mark.parametrize("text", ['{"a": "' + '\\"' * 100_000, "{" + "/* " * 100_000])
def test_a_damaged_file_takes_no_longer_than_a_valid_one(text: str) -> None:
    began = time.process_time()
    assert strict(text.encode()) == text.encode()
    assert time.process_time() - began < 1
