"""What two contents of a file do not share, line by line: for a person who is asked before a restore."""

from __future__ import annotations

from collections import Counter

SHOWN = 200  # lines of a difference; more are counted


def difference(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """(lines only in `before`, lines only in `after`), each in file order; what is no UTF-8 is shown escaped."""
    old, new = before.split(b"\n"), after.split(b"\n")
    return _only(old, Counter(new)), _only(new, Counter(old))


def _only(lines: list[bytes], other: Counter[bytes]) -> list[str]:
    left = Counter(other)
    found: list[str] = []
    for line in lines:
        if left[line]:
            left[line] -= 1
        elif line:
            found.append(line.decode("utf-8", "backslashreplace"))
    return found


def unified(path: str, lost: list[str], gained: list[str]) -> str:
    """The two lists in the form people know from `diff -u`, without positions."""
    body = [f"-{line}" for line in lost] + [f"+{line}" for line in gained]
    more = len(body) - SHOWN
    shown = body[:SHOWN] + ([f"... and {more} more lines"] if more > 0 else [])
    return "\n".join([f"--- {path}", f"+++ {path}", *shown]) + "\n" if body else ""
