"""Simulate death at any chosen system call, inside one process.

From the chosen call on, every call that changes a file or the journal raises: what Python unwinds afterwards
can tidy nothing away, just as after `kill -9`. A write is torn in the middle first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memoryd.disk import syscalls
from memoryd.disk.journal.database import Database
from memoryd.disk.replaced_file import ReplacedFile

CALLS = (
    *("rename", "replace", "unlink", "link", "mkdir", "rmdir"),
    *("write", "writev", "pwrite", "ftruncate", "fsync", "fchmod"),
)


class Died(BaseException):
    """The process is dead; nothing may catch this."""


class Death:
    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.call = ""

    @property
    def reached(self) -> bool:
        return bool(self.call)

    def step(self, name: str) -> bool:
        """Count a call; return True if it is the last one."""
        if self.reached:
            raise Died(self.call)
        self.count += 1
        if self.count == self.at:
            self.call = name
        return self.reached

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if self.step(name):
                if name == "write" and len(args[1]) > 1:
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                elif name == "writev":
                    whole = b"".join(args[1])
                    real(args[0], [whole[: len(whole) // 2]])
                raise Died(name)
            return real(*args, **more)

        return call


@contextmanager
def dying(at: int) -> Iterator[Death]:
    """Die at the `at`-th changing call; `Died` ends the block silently, and replaced files are closed, as the kernel
    does."""
    death = Death(at)
    writing, opening, opened = Database.writing, ReplacedFile.__init__, list[ReplacedFile]()

    def replaced(self: ReplacedFile, *args: Any, **more: Any) -> None:
        opening(self, *args, **more)
        opened.append(self)

    @contextmanager
    def transaction(self: Database, *, durable: bool = True) -> Iterator[Any]:
        if death.step("journal"):
            raise Died("journal")
        with writing(self, durable=durable) as connection:
            yield connection

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, death.wrap(name, getattr(os, name)))
        patch.setattr(syscalls, "rename_with_flags", death.wrap("exchange", syscalls.rename_with_flags))
        patch.setattr(Database, "writing", transaction)
        patch.setattr(ReplacedFile, "__init__", replaced)
        try:
            yield death
        except Died:
            assert death.reached  # raised by this death, not by another
            for each in opened:
                each.detach()
