"""The only module that changes files of a root: atomically, and never over another program's change.

A rewrite creates a new file next to the target, complete and on disk with the target's mode and owner, checks the
caller's lock (`guard`) and the target's identity once more, and renames the new file over the target.
A failure before the rename leaves the original and no temporary file. A failure of the last step, the directory's
fsync (`syscalls.sync_directory`), leaves the new content visible but perhaps not durable.

Agents write at any time, so for their files even the window between that check and the rename matters:
`exchange=True` swaps the names and checks the old file, swaps back if it is not the expected one, and returns the old
inode as `ReplacedFile` to be watched for late appends. A kill between the exchange and `ReplacedFile.close()` leaves
that inode under its temporary name; at the next start the caller recovers it by the rule in `temps`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from msgspec import Struct

from memoryd.core.spans import Content, Fingerprint
from memoryd.disk import syscalls
from memoryd.disk.replaced_file import ReplacedFile
from memoryd.disk.spare_file import SpareFile
from memoryd.disk.syscalls import NotRegularError, fingerprint_of, hash_start, lstat, open_regular, pread_all
from memoryd.disk.temps import Temp, still_holds, temp_name
from memoryd.disk.tree import Tree

Guard = Callable[[], None]


class StoreChangedError(OSError):
    """The file `path` has changed since the change was planned; nothing was written. Read it again and retry.

    `replaced_file` is almost always None. Otherwise our new content was visible for an instant before the exchange was
    undone, and another process has it open: watch and close it as after a success.
    """

    def __init__(self, path: str, replaced_file: ReplacedFile | None = None) -> None:
        super().__init__(errno.EBUSY, "changed by another program meanwhile", path)
        self.path = path
        self.replaced_file = replaced_file


class ReplaceResult(Struct, frozen=True):
    """The result of `replace`. `fingerprint`: of our content, without later appends of other programs. `replaced_file`:
    only with `exchange` and an existing target; the caller must close it."""

    fingerprint: Fingerprint
    replaced_file: ReplacedFile | None


def replace(
    tree: Tree,
    path: str,
    data: Content,
    *,
    expected: Fingerprint | None,
    guard: Guard | None = None,
    mode: int | None = None,
    exchange: bool = False,
    digest: str | None = None,
    pause: Callable[[], None] = lambda: None,
) -> ReplaceResult:
    """Replace the whole file with `data`. `expected` None: it must not exist (then `mode` or 0600 applies, otherwise
    mode and owner are kept). With `exchange`, `digest` is the SHA-256 (hex) of the expected content, if known. `pause`
    is called between the parts of long content.

    Raises StoreChangedError, NotRegularError, the errors of `guard`, and OSError for a full or failing disk.
    """
    opened: list[ReplacedFile] = []
    try:
        with ExitStack() as stack:
            directory, name = stack.enter_context(tree.parent(path))
            old = _open_old(stack, directory, name, path, exchange=exchange, digest=digest)
            _require(expected, old.state if old else None, path)
            like = old.fd if old else None
            temp = Temp(directory, name, data, like=like, mode=0o600 if mode is None else mode, pause=pause)
            stack.callback(temp.discard)
            _recheck(expected, guard, directory, name, path)
            if exchange and old:
                opened.append(_swap(directory, temp, name, old, path))
            else:
                _rename_into_place(directory, temp, name, path, new=expected is None)
            syscalls.sync_directory(directory)
            fingerprint = _written_fingerprint(temp)
        return ReplaceResult(fingerprint, opened[0] if opened else None)
    except BaseException:
        for replaced in opened:
            if not replaced.close_if_unused():
                replaced.detach()
        raise


@contextmanager
def exchanging(tree: Tree) -> Iterator[dict[str, SpareFile]]:
    """Yield the spare files by path of what `replace_derived` exchanges within; at the end, also after a failure, sync
    each directory once."""
    exchanged: dict[str, SpareFile] = {}
    try:
        yield exchanged
    finally:
        for path in {os.path.dirname(path): path for path in exchanged}.values():
            with tree.parent(path) as (directory, _):
                syscalls.sync_directory(directory)
        for spare in exchanged.values():
            spare.confirm()


def replace_derived(
    tree: Tree,
    path: str,
    data: Content,
    *,
    expected: Fingerprint,
    spare: SpareFile,
    exchanged: dict[str, SpareFile],
    guard: Guard | None = None,
    pause: Callable[[], None] = lambda: None,
) -> Fingerprint:
    """Replace the whole of an existing file that memoryd derives, by its spare file if there can be one: then that is
    added to those of `exchanging`, whose end makes it durable. Raises as `replace` does."""
    with ExitStack() as stack:
        directory, name = stack.enter_context(tree.parent(path))
        old = _open_old(stack, directory, name, path, exchange=False)
        if old is None:
            raise StoreChangedError(path)
        _require(expected, old.state, path)
        written = spare.fill(data, like=old.fd, pause=pause)
        if written is not None:
            _recheck(expected, guard, directory, name, path)
            if _exchange_spare(directory, name, spare, expected, written, path):
                exchanged[path] = spare
                found = lstat(directory, name, path)
                return found if found and found.same_content(written) else written
    return replace(tree, path, data, expected=expected, guard=guard, pause=pause).fingerprint


def _exchange_spare(
    directory: int, name: str, spare: SpareFile, expected: Fingerprint, written: Fingerprint, path: str
) -> bool:
    """Exchange the live and the spare file, and back if another program had just written the live one. False if the
    system cannot exchange them."""
    try:
        if not spare.exchange(directory, name):
            return False
        if not expected.same_content(spare.state()):
            spare.exchange(directory, name)
            if not written.same_content(spare.state()):
                spare.exchange(directory, name)  # it was written once more meanwhile, which must stay
            raise StoreChangedError(path)
    except FileNotFoundError as error:
        raise StoreChangedError(path) from error
    return True


def create(
    tree: Tree, path: str, data: bytes, mode: int = 0o600, *, guard: Guard | None = None, private: bool = False
) -> Fingerprint:
    """Create a file that is visible only when complete. Raises FileExistsError if the path exists. `private`: it stays
    the daemon's own, whoever owns the directory."""
    with ExitStack() as stack:
        directory, name = stack.enter_context(tree.parent(path))
        temp = Temp(directory, name, data, like=None, mode=mode, private=private)
        stack.callback(temp.discard)
        if guard:
            guard()
        syscalls.rename_new(directory, temp.name, name)
        syscalls.sync_directory(directory)
        return _written_fingerprint(temp)


def append(
    tree: Tree,
    path: str,
    data: bytes,
    *,
    expected: Fingerprint | None,
    guard: Guard | None = None,
    create_mode: int = 0o600,
) -> Fingerprint:
    """Append `data` in one write, sync, and read it back; `expected` None creates the file.

    The caller ensures that the file ends with a newline. The fingerprint's size is more than expected.size +
    len(data) if other programs appended too. A failed append is undone unless another program wrote after it.
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
            _undo_append(fd, data, expected.size)
            raise
        if not still_holds(directory, name, fd):
            raise StoreChangedError(path)  # our bytes are in a file that a rename has just replaced
        return fingerprint_of(os.fstat(fd))


def truncate(tree: Tree, path: str, size: int, *, expected: Fingerprint) -> Fingerprint:
    """Truncate the file to `size` bytes: undoes our own append as long as no other program wrote after it."""
    if not 0 <= size <= expected.size:
        raise ValueError(f"cannot cut {expected.size} bytes to {size}")
    with _in_place(tree, path, os.O_RDWR, expected, None) as (_, _, fd):
        os.ftruncate(fd, size)
        syscalls.sync_file(fd)
        return fingerprint_of(os.fstat(fd))


def remove(tree: Tree, path: str, *, expected: Fingerprint, guard: Guard | None = None) -> None:
    """Remove a file that was copied before: rename, verify, then delete; if it is not the expected file, it is renamed
    back."""
    with tree.parent(path) as (directory, name):
        _require(expected, lstat(directory, name, path), path)
        _recheck(expected, guard, directory, name, path)
        aside = temp_name(name)
        try:
            _rename(directory, name, aside)
        except FileNotFoundError as error:
            raise StoreChangedError(path) from error
        try:
            _require(expected, lstat(directory, aside, path), path)
            os.unlink(aside, dir_fd=directory)
        except BaseException:
            _restore_name(directory, aside, name)
            raise
        syscalls.sync_directory(directory)


def _require(expected: Fingerprint | None, found: Fingerprint | None, path: str) -> None:
    unchanged = found is None if expected is None else expected.same_content(found)
    if not unchanged:
        raise StoreChangedError(path)


def _recheck(expected: Fingerprint | None, guard: Guard | None, directory: int, name: str, path: str) -> None:
    """Check the lock and the target once more before the point of no return."""
    if guard:
        guard()
    _require(expected, lstat(directory, name, path), path)


def _written_fingerprint(temp: Temp) -> Fingerprint:
    # The rename changed ctime; but if another program wrote since, its content must not count as known.
    before, after = fingerprint_of(temp.state), fingerprint_of(os.fstat(temp.fd))
    return after if after.same_content(before) else before


def _rename_into_place(directory: int, temp: Temp, name: str, path: str, *, new: bool) -> None:
    if not new:
        _rename(directory, temp.name, name)
        return
    try:
        syscalls.rename_new(directory, temp.name, name)
    except FileExistsError as error:
        raise StoreChangedError(path) from error


def _restore_name(directory: int, aside: str, name: str) -> None:
    # If the path exists again, it holds something newer; ours then keeps its temporary name for the recovery.
    with suppress(FileExistsError, FileNotFoundError):
        syscalls.rename_new(directory, aside, name)


@contextmanager
def _in_place(
    tree: Tree, path: str, flags: int, expected: Fingerprint, guard: Guard | None
) -> Iterator[tuple[int, str, int]]:
    """Open the target for writing and check it; yield (directory, name, descriptor)."""
    with tree.parent(path) as (directory, name):
        try:
            fd = open_regular(directory, name, path, flags)
        except FileNotFoundError as error:
            raise StoreChangedError(path) from error
        try:
            found = os.fstat(fd)
            if found.st_nlink > 1:
                raise NotRegularError(path, "has another hard link, perhaps outside the root; not written in place")
            _require(expected, fingerprint_of(found), path)
            _recheck(expected, guard, directory, name, path)
            yield directory, name, fd
        finally:
            os.close(fd)


def _write_once(fd: int, data: bytes, path: str) -> None:
    written = os.write(fd, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be appended", path)
    end = os.lseek(fd, 0, os.SEEK_CUR)  # the end of our own write, even if other programs append
    ours = fingerprint_of(os.fstat(fd))
    syscalls.sync_file(fd)
    if pread_all(fd, end - written, written) != data:
        if not ours.same_content(fingerprint_of(os.fstat(fd))):
            raise StoreChangedError(path)  # not the disk: another program wrote in place
        raise OSError(errno.EIO, "read-back after append does not match", path)


def _undo_append(fd: int, data: bytes, size: int) -> None:
    """Truncate a failed append, complete or partial, if nothing else was added."""
    grown = os.fstat(fd).st_size - size
    if 0 < grown <= len(data) and pread_all(fd, size, grown) == data[:grown]:
        os.ftruncate(fd, size)


class _OldFile(Struct, frozen=True):
    """The target as it was at the start, open; `digest` (SHA-256, hex) only for an exchange."""

    fd: int
    state: Fingerprint
    digest: str


def _open_old(
    stack: ExitStack,
    directory: int,
    name: str,
    path: str,
    *,
    exchange: bool,
    digest: str | None = None,
) -> _OldFile | None:
    """Open the target; None if it does not exist. `digest`, if known, is that of the content the caller planned with: a
    later write in place within one clock tick is then detected afterwards."""
    try:
        fd = open_regular(directory, name, path)
    except FileNotFoundError:
        return None
    stack.callback(os.close, fd)
    state = fingerprint_of(os.fstat(fd))
    return _OldFile(fd, state, (digest or hash_start(fd, state.size).hexdigest()) if exchange else "")


def _rename(directory: int, source: str, target: str) -> None:
    """Rename within an open directory, replacing an existing target."""
    os.rename(source, target, src_dir_fd=directory, dst_dir_fd=directory)


def _swap(directory: int, temp: Temp, name: str, old: _OldFile, path: str) -> ReplacedFile:
    """Exchange the new and the old file; swap back if the replaced one is not the old file."""
    try:
        syscalls.exchange(directory, temp.name, name)
    except FileNotFoundError as error:
        raise StoreChangedError(path) from error
    except OSError as error:
        if error.errno not in syscalls.UNSUPPORTED:
            raise
        return _rename_with_link(directory, temp, name, old, path)
    try:
        _require_base(lstat(directory, temp.name, path), old, path)
        return ReplacedFile(directory, temp.name, old.fd, path, base_size=old.state.size, digest=old.digest)
    except StoreChangedError as error:
        error.replaced_file = _swap_back(directory, temp, name, path)
        raise
    except BaseException:
        ours = _swap_back(directory, temp, name, path)
        if ours:
            ours.detach()
        raise


def _require_base(found: Fingerprint | None, old: _OldFile, path: str) -> None:
    """Raise StoreChangedError unless this is the old file, unchanged except for late appends, which are merged."""
    if found is None or (found.dev, found.inode) != (old.state.dev, old.state.inode):
        raise StoreChangedError(path)
    if found.same_content(old.state):
        return
    if found.size < old.state.size or hash_start(old.fd, old.state.size).hexdigest() != old.digest:
        raise StoreChangedError(path)


def _swap_back(directory: int, temp: Temp, name: str, path: str) -> ReplacedFile | None:
    """Undo an exchange. Our new file was visible meanwhile: another process may have opened it (then it is returned, to
    be watched) or replaced it by an even newer file (which must stay)."""
    try:
        syscalls.exchange(directory, temp.name, name)
        if not still_holds(directory, temp.name, temp.fd):
            syscalls.exchange(directory, temp.name, name)
            return None
    except FileNotFoundError:
        return None  # removed meanwhile by another program; the old file stays for the recovery
    size = temp.state.st_size
    ours = ReplacedFile(
        directory, temp.name, temp.fd, path, base_size=size, digest=hash_start(temp.fd, size).hexdigest()
    )
    if ours.close_if_unused():
        return None
    temp.handed_over = True
    return ours


def _rename_with_link(directory: int, temp: Temp, name: str, old: _OldFile, path: str) -> ReplacedFile:
    """Replace without an exchange: hard-link the old file to the temporary name, then rename.

    Another program's rename between the check and ours goes unnoticed: only an exchange detects that. Without hard
    links, only the descriptor keeps the old file, until this process ends.
    """
    link = _link(directory, name, path)
    replaced = None
    try:
        replaced = ReplacedFile(directory, link, old.fd, path, base_size=old.state.size, digest=old.digest)
        _require_base(lstat(directory, link or name, path), old, path)
        _rename(directory, temp.name, name)
    except BaseException:
        if replaced:
            replaced.detach()
        if link and not still_holds(directory, name, temp.fd):
            os.unlink(link, dir_fd=directory)
        raise
    return replaced


def _link(directory: int, name: str, path: str) -> str | None:
    link = temp_name(name)
    try:
        os.link(name, link, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError as error:
        raise StoreChangedError(path) from error
    except OSError as error:
        if error.errno not in (*syscalls.UNSUPPORTED, errno.EPERM, errno.EMLINK):
            raise
        return None
    return link
