"""What two contents of a file do not share, line by line: for a person who is asked before a restore.

Secrets are shown by their pattern alone, and long lines (a document may be one line of megabytes) are cut.
"""

from __future__ import annotations

from collections import Counter

from memoryd.core.secrets import find_secrets

SHOWN = 200  # lines of a difference; more are counted
WIDTH = 400  # characters of a line; more are counted


def difference(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """(lines only in `before`, lines only in `after`), each in file order; what is no UTF-8 is shown escaped."""
    return _only(before, after), _only(after, before)


def _only(content: bytes, other: bytes) -> list[str]:
    left = Counter(other.split(b"\n"))
    found: list[str] = []
    for line, shown in zip(content.split(b"\n"), _shown(content), strict=True):
        if left[line]:
            left[line] -= 1
        elif line:
            found.append(shown)
    return found


def _shown(content: bytes) -> list[str]:
    """Line by line; each line of a secret that has several (a key) becomes its pattern."""
    text = content.decode("utf-8", "backslashreplace")
    parts: list[str] = []
    at = 0
    for secret in find_secrets(text):
        lines = text.count("\n", secret.start, secret.end) + 1
        parts += [text[at : secret.start], "\n".join([f"[redacted:{secret.pattern}]"] * lines)]
        at = secret.end
    return "".join([*parts, text[at:]]).split("\n")


def unified(path: str, lost: list[str], gained: list[str]) -> str:
    """The two lists in the form people know from `diff -u`, without positions."""
    body = [f"-{_cut(line)}" for line in lost] + [f"+{_cut(line)}" for line in gained]
    more = len(body) - SHOWN
    shown = body[:SHOWN] + ([f"... and {more} more lines"] if more > 0 else [])
    return "\n".join([f"--- {path}", f"+++ {path}", *shown]) + "\n" if body else ""


def _cut(line: str) -> str:
    more = len(line) - WIDTH
    return f"{line[:WIDTH]}... and {more} more characters" if more > 0 else line
