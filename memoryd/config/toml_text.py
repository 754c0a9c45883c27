"""The lines and offsets of keys and tables in a TOML text, which tomllib does not return, and problems located by them.

`read_lines` scans a text that tomllib has already accepted, so it need not validate. A key is a path of names and of
array positions, counted from 0:
`("root", 1, "limits", "learnings.jsonl", "max_bytes")`.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Mapping

from msgspec import Struct, field

from memoryd.config.settings import COMMAND_LINE
from memoryd.errors import ConfigError

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}'''
    r"""|'''.*?'{3,5}"""
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}#\r\n]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Section(Struct):
    """A header with its body, as offsets.

    `start` is the header's first character, `header_end` the end of the header, `end` the end of the last value in the
    body, or of the header when the body holds none.
    """

    path: KeyPath
    start: int
    header_end: int
    end: int


class Lines(Struct):
    """Positions in a text: line numbers of keys, from 1, and offsets of tables and of the elements of arrays."""

    keys: dict[KeyPath, int] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    elements: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def of(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around it that the text contains."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, 1)


def dotted(path: KeyPath) -> str:
    """Format a key for people; array positions count from 1: `root[2].limits."tasks.jsonl"`."""
    words = ""
    for part in path:
        if isinstance(part, int):
            words += f"[{part + 1}]"
            continue
        name = part if _BARE_KEY.fullmatch(part) else quoted(part)
        words += f".{name}" if words else name
    return words


def quoted(text: str) -> str:
    """Format a TOML basic string on one line."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + "".join(
            c if c.isprintable() else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in plain
        )
        + '"'
    )


def toml(value: object) -> str:
    """Format a value in TOML on one line; a table becomes an inline table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{dotted((key,))} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml(element) for element in value) + "]"
    return quoted(str(value))


def read_lines(text: str) -> Lines:
    """Find every key and every table of a valid TOML text."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found = Lines()
        self.tables: dict[KeyPath, int] = {}  # arrays of tables, and how many [[headers]] each has had
        self.breaks = [match.start() for match in re.finditer("\n", text)]

    def run(self) -> Lines:
        prefix: KeyPath = ()
        while self.skip(_BLANK) < len(self.text):
            if self.text[self.at] == "[":
                prefix = self.header()
                continue
            self.pair(prefix)
            if self.found.sections:
                self.found.sections[-1].end = self.at
        return self.found

    def skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return self.at

    def note(self, path: KeyPath, start: int) -> None:
        self.found.keys.setdefault(path, bisect.bisect_left(self.breaks, start) + 1)

    def header(self) -> KeyPath:
        start = self.at
        several = self.text.startswith("[[", self.at)
        self.at += 2 if several else 1
        names = self.names()
        self.at += 2 if several else 1
        path: KeyPath = ()
        for count, name in enumerate(names, 1):
            path = (*path, name)
            if count == len(names) and several:
                self.tables[path] = self.tables.get(path, 0) + 1
            self.note(path, start)
            if path in self.tables:
                path = (*path, self.tables[path] - 1)
                self.note(path, start)
        self.found.sections.append(Section(path, start, self.at, self.at))
        return path

    def names(self) -> list[str]:
        """Read a dotted key, and the white space after it."""
        names: list[str] = []
        while True:
            self.skip(_SPACE)
            start = self.at
            raw = self.text[start : self.skip(_KEY)]
            names.append(tomllib.loads(f"key = {raw}")["key"] if raw[:1] in ('"', "'") else raw)
            self.skip(_SPACE)
            if self.text[self.at : self.at + 1] != ".":
                return names
            self.at += 1

    def pair(self, prefix: KeyPath) -> None:
        start, path = self.at, prefix
        for name in self.names():
            path = (*path, name)
            self.note(path, start)
        self.at += 1  # the equals sign
        self.skip(_SPACE)
        self.value(path)

    def value(self, path: KeyPath) -> None:
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self.array(path)
        elif first == "{":
            self.inline_table(path)
        elif first in ('"', "'"):
            self.skip(_STRING)
        else:
            self.skip(_BARE)

    def array(self, path: KeyPath) -> None:
        self.at += 1
        place = 0
        while self.skip(_BLANK) < len(self.text) and self.text[self.at] != "]":
            if self.text[self.at] == ",":
                self.at += 1
                continue
            start = self.at
            self.note((*path, place), start)
            self.value((*path, place))
            self.found.elements[(*path, place)] = (start, self.at)
            place += 1
        self.at += 1

    def inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self.skip(_BLANK) < len(self.text) and self.text[self.at] != "}":
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.pair(path)
        self.at += 1


class Problems:
    """All problems of a configuration, to be reported together.

    Each problem becomes a line `FILE:LINE: KEY: what is wrong; what is allowed`.
    """

    def __init__(self, path: str | None, lines: Lines) -> None:
        self.path = path
        self.lines = lines
        self.found: list[tuple[int, str, str]] = []  # line (0 for the command line), key, what is wrong

    def add(self, key: KeyPath, what: str) -> None:
        """Add what is wrong with the value of a key."""
        self.found.append((self.lines.of(key), dotted(key), what))

    def add_argument(self, word: str, what: str) -> None:
        """Add what is wrong with an argument of the command line."""
        self.found.append((0, word, what))

    def raise_if_any(self) -> None:
        """Raise one ConfigError with all problems in the order of the file, if there are any."""
        if not self.found:
            return
        self.found.sort(key=lambda problem: problem[0])
        texts = [f"{f'{self.path}:{line}' if line else COMMAND_LINE}: {key}: {what}" for line, key, what in self.found]
        problems = [
            {"file": self.path if line else None, "line": line or None, "key": key, "message": what}
            for line, key, what in self.found
        ]
        raise ConfigError(
            "\n".join(texts),
            hint="nothing was started or changed; correct this and try again",
            data={"problems": problems},
        )
