"""The lines in which the contents of files differ, for people. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memoryd.core.secrets import find_secrets

MAX_LINES = 200  # shown of each file; further ones are only counted
WIDTH = 400  # characters of a line; further ones are only counted


class TextDifference(NamedTuple):
    """The number of lines `lost` and `gained`, and a `text` that shows them like `diff -u`, without positions."""

    lost: int
    gained: int
    text: str


def compare(before: Mapping[str, bytes | None], after: Mapping[str, bytes]) -> TextDifference:
    """Compare the files of `after`, by path, with their content `before` (None: no file). Secrets are redacted, and
    invalid UTF-8 is escaped."""
    lost = gained = 0
    text = ""
    for path, content in after.items():
        present = before[path] or b""
        removed, added = _lines_only_in(present, content), _lines_only_in(content, present)
        lost, gained, text = lost + len(removed), gained + len(added), text + _format(path, removed, added)
    return TextDifference(lost, gained, text)


def _lines_only_in(content: bytes, other: bytes) -> list[str]:
    remaining = Counter(other.split(b"\n"))
    found: list[str] = []
    for line, shown in zip(content.split(b"\n"), _redacted_lines(content), strict=True):
        if remaining[line]:
            remaining[line] -= 1
        elif line:
            found.append(shown)
    return found


def _redacted_lines(content: bytes) -> list[str]:
    """Return the lines redacted; every line of a secret of several lines (a key) is replaced by its pattern."""
    text = content.decode("utf-8", "backslashreplace")
    parts: list[str] = []
    at = 0
    for secret in find_secrets(text):
        lines = text.count("\n", secret.start, secret.end) + 1
        parts += [text[at : secret.start], "\n".join([f"[redacted:{secret.pattern}]"] * lines)]
        at = secret.end
    return "".join([*parts, text[at:]]).split("\n")


def _format(path: str, removed: Sequence[str], added: Sequence[str]) -> str:
    body = [f"-{_truncate(line)}" for line in removed] + [f"+{_truncate(line)}" for line in added]
    more = len(body) - MAX_LINES
    shown = body[:MAX_LINES] + ([f"... and {more} more lines"] if more > 0 else [])
    return "\n".join([f"--- {path}", f"+++ {path}", *shown]) + "\n" if body else ""


def _truncate(line: str) -> str:
    more = len(line) - WIDTH
    return f"{line[:WIDTH]}... and {more} more characters" if more > 0 else line
