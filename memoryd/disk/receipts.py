"""Receipts: short names of changes, that sort by time and differ between roots (`20260131-k2f7xqa`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import count

from memoryd.core.dates import compact
from memoryd.disk.database import packed

_CHANCE = 18  # bits that are not the time
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 in sorting order, without letters that look alike


class Receipts:
    """Of one journal. `salt` is its path; `given_between(first, last)` are the receipts that it has from one to the
    other. Nobody else gives any, so it is asked once a second at most."""

    def __init__(self, salt: str, given_between: Callable[[str, str], set[str]]) -> None:
        self._salt = salt
        self._given_between = given_between
        self._second: int | None = None
        self._given: set[str] = set()  # in that second

    def free(self, now: float) -> str:
        """One that was never given."""
        if self._second != int(now):
            self._given = self._given_between(_numbered(now, 0), _numbered(now, 2**_CHANCE - 1))
            self._second = int(now)
        for attempt in count():
            receipt = _receipt(self._salt, now, attempt)
            if receipt not in self._given:
                self._given.add(receipt)
                return receipt
        raise AssertionError("count() never ends")


def _receipt(salt: str, now: float, attempt: int) -> str:
    """With a hash that tells apart roots whose jobs fall due in the same second."""
    chance = int.from_bytes(hashlib.sha256(packed(f"{salt}\n{now!r}\n{attempt}")).digest()[:4], "big")
    return _numbered(now, chance % 2**_CHANCE)


def _numbered(now: float, chance: int) -> str:
    """The date, then in 35 bits the second of the day and the number by chance."""
    number = int(now % 86_400) * 2**_CHANCE + chance
    return f"{compact(now)[:8]}-" + "".join(_DIGITS[number >> shift & 31] for shift in range(30, -1, -5))
