"""Putting a new file in the place of one that others may be writing: exchange, look, and undo if need be."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from dataclasses import dataclass

from memoryd.core.plan import Fingerprint
from memoryd.disk import syscalls
from memoryd.disk.displaced import Displaced, digest_of
from memoryd.disk.nodes import fingerprint_of, look, open_regular
from memoryd.disk.temps import Temp, still_holds, temp_name


class StoreChangedError(OSError):
    """The file is not what the change was decided on; nothing was changed, read it again and redo.

    `path` names it. `displaced` is almost always None: our new content was visible for an instant before it
    was taken back, and somebody has it open; to be watched and closed like that of a success.
    """

    def __init__(self, path: str, displaced: Displaced | None = None) -> None:
        super().__init__(errno.EBUSY, "changed by another program meanwhile", path)
        self.path = path
        self.displaced = displaced


@dataclass(frozen=True, slots=True)
class Old:
    """The target as it was at the beginning, held open; `digest` (SHA-256, hex) only for an exchange."""

    fd: int
    state: Fingerprint
    digest: str


def open_old(
    stack: ExitStack, directory: int, name: str, path: str, *, exchange: bool, digest: str | None = None
) -> Old | None:
    """None where there is none. A `digest` that is known is not taken again: it is of what the caller decided on, so
    that what was written in place since, within one tick of the clock, shows afterwards."""
    try:
        fd = open_regular(directory, name, path)
    except FileNotFoundError:
        return None
    stack.callback(os.close, fd)
    state = fingerprint_of(os.fstat(fd))
    return Old(fd, state, (digest or digest_of(fd, state.size)) if exchange else "")


def rename(directory: int, source: str, target: str) -> None:
    os.rename(source, target, src_dir_fd=directory, dst_dir_fd=directory)


def swap(directory: int, temp: Temp, name: str, old: Old, path: str) -> Displaced:
    """Exchange new and old, look at what came out, and swap back when it is not the old file."""
    try:
        syscalls.exchange(directory, temp.name, name)
    except FileNotFoundError as error:
        raise StoreChangedError(path) from error
    except OSError as error:
        if error.errno not in syscalls.UNSUPPORTED:
            raise
        return _rename_keeping(directory, temp, name, old, path)
    try:
        _demand_base(look(directory, temp.name, path), old, path)
        return Displaced(directory, temp.name, old.fd, path, base_size=old.state.size, digest=old.digest)
    except StoreChangedError as error:
        error.displaced = _swap_back(directory, temp, name, path)
        raise
    except BaseException:
        ours = _swap_back(directory, temp, name, path)
        if ours:
            ours.leave()
        raise


def _demand_base(found: Fingerprint | None, old: Old, path: str) -> None:
    """StoreChangedError unless this is the old file, as it was or with more bytes at its end: those came
    late and are carried over."""
    if found is None or (found.dev, found.inode) != (old.state.dev, old.state.inode):
        raise StoreChangedError(path)
    if found.same_content(old.state):
        return
    if found.size < old.state.size or digest_of(old.fd, old.state.size) != old.digest:
        raise StoreChangedError(path)


def _swap_back(directory: int, temp: Temp, name: str, path: str) -> Displaced | None:
    """Undo an exchange. Our new file was visible in between, so it may have been opened (then it is
    returned, to be watched) or already replaced by a still newer file (which then must stay)."""
    try:
        syscalls.exchange(directory, temp.name, name)
        if not still_holds(directory, temp.name, temp.fd):
            syscalls.exchange(directory, temp.name, name)
            return None
    except FileNotFoundError:
        return None  # removed meanwhile: not ours to bring back; what was displaced stays for the recovery
    size = temp.state.st_size
    ours = Displaced(directory, temp.name, temp.fd, path, base_size=size, digest=digest_of(temp.fd, size))
    if ours.close_if_silent():
        return None
    temp.kept = True
    return ours


def _rename_keeping(directory: int, temp: Temp, name: str, old: Old, path: str) -> Displaced:
    """Where names cannot be exchanged: a second name for the old file, then a plain rename.

    A foreign rename between the look and ours is not noticed here; nothing can, without exchange. Where
    there are no hard links either, the descriptor alone keeps the old file until we end.
    """
    kept = _link(directory, name, path)
    displaced = None
    try:
        displaced = Displaced(directory, kept, old.fd, path, base_size=old.state.size, digest=old.digest)
        _demand_base(look(directory, kept or name, path), old, path)
        rename(directory, temp.name, name)
    except BaseException:
        if displaced:
            displaced.leave()
        if kept and not still_holds(directory, name, temp.fd):
            os.unlink(kept, dir_fd=directory)
        raise
    return displaced


def _link(directory: int, name: str, path: str) -> str | None:
    kept = temp_name(name)
    try:
        os.link(name, kept, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError as error:
        raise StoreChangedError(path) from error
    except OSError as error:
        if error.errno not in (*syscalls.UNSUPPORTED, errno.EPERM, errno.EMLINK):
            raise
        return None
    return kept
