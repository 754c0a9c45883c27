"""The only place that changes files of a root: old or new, never between, and never over somebody's change.

A rewrite is a new file beside the target, full and on disk with the target's mode and owner, put in its place
by one rename after the caller's lock (`guard`) and the target's identity were looked at once more.
Any failure before the rename leaves the original and no temporary file; an error of the last step, the
directory's fsync, comes when the new content is already visible but perhaps not durable.

Agents write without asking us, so for their files even the window between that look and the rename counts:
`exchange=True` swaps the names and looks at what came out, puts it back if it is not what was expected,
and hands the old inode over as `Displaced` to be watched for late appends. A kill between the exchange and
`Displaced.close()` leaves that inode under its temporary name: the caller recovers it at the next start by
the rule in `temps`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from memoryd.core.plan import Fingerprint
from memoryd.disk import syscalls
from memoryd.disk.displaced import Displaced
from memoryd.disk.nodes import NotRegularError, fingerprint_of, look, open_regular, pread_all
from memoryd.disk.swap import StoreChangedError, open_old, rename, swap
from memoryd.disk.temps import Temp, is_our_temp, our_temps, still_holds, target_of, temp_name
from memoryd.disk.tree import Tree

__all__ = [
    "ANY",
    "Displaced",
    "Replaced",
    "StoreChangedError",
    "append",
    "create",
    "is_our_temp",
    "our_temps",
    "remove",
    "replace",
    "target_of",
    "truncate",
]

Guard = Callable[[], None]


class _Whatever(Enum):
    ANY = "any"


ANY: Final = _Whatever.ANY  # "whatever is there, or nothing": for files that memoryd can derive again
Expected = Fingerprint | Literal[_Whatever.ANY] | None


@dataclass(frozen=True, slots=True)
class Replaced:
    """`fingerprint` of our content (not of what somebody appended since). `displaced` only with `exchange`
    and an existing target; it must be closed."""

    fingerprint: Fingerprint
    displaced: Displaced | None


def replace(
    tree: Tree,
    path: str,
    data: bytes,
    *,
    expected: Expected,
    guard: Guard | None = None,
    mode: int | None = None,
    exchange: bool = False,
    digest: str | None = None,
) -> Replaced:
    """Put `data` in place of the whole file. `expected` None: it must not exist (then `mode` or 0600 applies,
    otherwise mode and owner are kept). With `exchange`, ANY means what is there at the beginning, and `digest` is
    that (SHA-256, hex) of the content expected, where it is known.

    Raises StoreChangedError, NotRegularError, what `guard` raises, and OSError of a full or failing disk.
    """
    opened: list[Displaced] = []
    try:
        with ExitStack() as stack:
            directory, name = stack.enter_context(tree.parent(path))
            old = open_old(stack, directory, name, path, exchange=exchange, digest=digest)
            found = old.state if old else None
            wanted = found if exchange and expected is ANY else expected
            _demand(wanted, found, path)
            like = old.fd if old else None
            made = Temp(directory, name, data, like=like, mode=0o600 if mode is None else mode)
            temp = stack.enter_context(made)
            _look_again(wanted, guard, directory, name, path)
            if exchange and old:
                opened.append(swap(directory, temp, name, old, path))
            else:
                _put(directory, temp, name, path, new=wanted is None)
            syscalls.sync_directory(directory)
            fingerprint = _as_written(temp)
        return Replaced(fingerprint, opened[0] if opened else None)
    except BaseException:
        for displaced in opened:
            if not displaced.close_if_silent():
                displaced.leave()
        raise


def create(tree: Tree, path: str, data: bytes, mode: int = 0o600, *, guard: Guard | None = None) -> Fingerprint:
    """A new file, visible only when complete; FileExistsError when the name is taken by anything."""
    with ExitStack() as stack:
        directory, name = stack.enter_context(tree.parent(path))
        temp = stack.enter_context(Temp(directory, name, data, like=None, mode=mode))
        if guard:
            guard()
        syscalls.rename_new(directory, temp.name, name)
        syscalls.sync_directory(directory)
        return _as_written(temp)


def append(
    tree: Tree,
    path: str,
    data: bytes,
    *,
    expected: Fingerprint | None,
    guard: Guard | None = None,
    create_mode: int = 0o600,
) -> Fingerprint:
    """Add `data` at the end in one write, durably and read back; `expected` None creates the file.

    That the file ends with a newline is the caller's to see to. The fingerprint's size is more than
    expected.size + len(data) if others appended too. A failed append is taken back unless others wrote after.
    """
    if expected is None:
        try:
            return create(tree, path, data, create_mode, guard=guard)
        except FileExistsError as error:
            raise StoreChangedError(path) from error
    with _in_place(tree, path, os.O_RDWR | os.O_APPEND, expected, guard) as (directory, name, fd):
        try:
            _write_once(fd, data, path)
        except BaseException:
            _take_back(fd, data, expected.size)
            raise
        if not still_holds(directory, name, fd):
            raise StoreChangedError(path)  # our bytes went into a file that a rename had just replaced
        return fingerprint_of(os.fstat(fd))


def truncate(tree: Tree, path: str, size: int, *, expected: Fingerprint, guard: Guard | None = None) -> Fingerprint:
    """Cut the file to its first `size` bytes: for taking back our own append while nobody wrote after it."""
    if not 0 <= size <= expected.size:
        raise ValueError(f"cannot cut {expected.size} bytes to {size}")
    with _in_place(tree, path, os.O_RDWR, expected, guard) as (_, _, fd):
        os.ftruncate(fd, size)
        syscalls.sync_file(fd)
        return fingerprint_of(os.fstat(fd))


def remove(
    tree: Tree, path: str, *, expected: Fingerprint | Literal[_Whatever.ANY], guard: Guard | None = None
) -> None:
    """Remove a file that was copied before. It is moved aside, looked at, and only then deleted; if it is not
    what was expected it goes back. With ANY a missing file is fine."""
    with tree.parent(path) as (directory, name):
        _demand(expected, look(directory, name, path), path)
        if not _look_again(expected, guard, directory, name, path):
            return
        aside = temp_name(name)
        try:
            rename(directory, name, aside)
        except FileNotFoundError as error:
            raise StoreChangedError(path) from error
        try:
            _demand(expected, look(directory, aside, path), path)
            os.unlink(aside, dir_fd=directory)
        except BaseException:
            _put_back(directory, aside, name)
            raise
        syscalls.sync_directory(directory)


def _demand(expected: Expected, found: Fingerprint | None, path: str) -> None:
    if expected is ANY or (expected is None and found is None):
        return
    if expected is None or not expected.same_content(found):
        raise StoreChangedError(path)


def _look_again(expected: Expected, guard: Guard | None, directory: int, name: str, path: str) -> bool:
    """The last look before the point of no return: the lock, then the target. Is there a target?"""
    if guard:
        guard()
    found = look(directory, name, path)
    _demand(expected, found, path)
    return found is not None


def _as_written(temp: Temp) -> Fingerprint:
    # The rename changed ctime; but if somebody wrote since, theirs must not pass for known content.
    before, after = fingerprint_of(temp.state), fingerprint_of(os.fstat(temp.fd))
    return after if after.same_content(before) else before


def _put(directory: int, temp: Temp, name: str, path: str, *, new: bool) -> None:
    if not new:
        rename(directory, temp.name, name)
        return
    try:
        syscalls.rename_new(directory, temp.name, name)
    except FileExistsError as error:
        raise StoreChangedError(path) from error


def _put_back(directory: int, aside: str, name: str) -> None:
    # A name taken again holds something newer; then ours stays aside for the recovery.
    with suppress(FileExistsError, FileNotFoundError):
        syscalls.rename_new(directory, aside, name)


@contextmanager
def _in_place(
    tree: Tree, path: str, flags: int, expected: Fingerprint, guard: Guard | None
) -> Iterator[tuple[int, str, int]]:
    """The target opened for writing, checked: (directory, name, descriptor)."""
    with tree.parent(path) as (directory, name):
        try:
            fd = open_regular(directory, name, path, flags)
        except FileNotFoundError as error:
            raise StoreChangedError(path) from error
        try:
            found = os.fstat(fd)
            if found.st_nlink > 1:
                raise NotRegularError(path, "has a second name, perhaps outside; not written in place")
            _demand(expected, fingerprint_of(found), path)
            _look_again(expected, guard, directory, name, path)
            yield directory, name, fd
        finally:
            os.close(fd)


def _write_once(fd: int, data: bytes, path: str) -> None:
    written = os.write(fd, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be appended", path)
    end = os.lseek(fd, 0, os.SEEK_CUR)  # where *our* write ended, whoever else appends
    syscalls.sync_file(fd)
    if pread_all(fd, end - written, written) != data:
        raise OSError(errno.EIO, "the disk gives back other bytes than were appended", path)


def _take_back(fd: int, data: bytes, size: int) -> None:
    """Cut off a failed append, whole or part, if nothing but it was added."""
    grown = os.fstat(fd).st_size - size
    if 0 < grown <= len(data) and pread_all(fd, size, grown) == data[:grown]:
        os.ftruncate(fd, size)
