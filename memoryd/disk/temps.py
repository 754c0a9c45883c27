"""memoryd's temporary files: their names, their creation, and how to recover those that a crash left.

A temporary file is next to its target, as `<file name>.memoryd-<pid>-<n>.tmp`. The name is unique: two writers with the
same name would rename each other's files. Of a name that leaves no room for that suffix, only the beginning and a hash
stand before it.

After a crash such a file is one of three: new content that was never visible, perhaps torn; an old inode that was
replaced by an exchange and watched for late appends; a file that was being removed. Recovery need not know which: it
compares the file with the old and the new content recorded in the journal. A prefix of either contains nothing new and
is deleted. In a file that begins with all of the old content, the bytes after it are late appends, to be added to the
live file. Any other file goes to quarantine if it belongs to a memory file; a derived file is deleted.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from memoryd.core.spans import Content, cut_name, sha256
from memoryd.disk.syscalls import UNSUPPORTED, inherit_owner, sync_file

_PATTERN = re.compile(r"(?P<target>.+)\.memoryd-[1-9][0-9]{0,9}-[0-9]{1,19}\.tmp", re.DOTALL)
_ACL = "system.posix_acl_access"
_numbers = itertools.count(1)
_MAX_STEM = 212  # bytes before the longest suffix: a name has 255 at most
_HASH = 16  # hexadecimal digits
_CUT = re.compile(rf"~[0-9a-f]{{{_HASH}}}\Z")
SAME_START = 48  # characters, of four bytes at most, that every temporary name has in common with its target
PART = 256 * 1024  # bytes that are written at a time
MOST_PIECES = 1000  # that are written at a time; Linux and macOS take 1024
UNSYNCED = 32 * PART  # bytes that the last sync may have left: it cannot be interrupted


def temp_name(name: str) -> str:
    """Return a temporary name for a file name; a leftover of an earlier process with our PID may have the same."""
    return f"{_stem(name)}.memoryd-{os.getpid()}-{next(_numbers)}.tmp"


def _stem(name: str) -> str:
    encoded = os.fsencode(name)
    if len(encoded) <= _MAX_STEM:
        return name
    return f"{cut_name(name, _MAX_STEM - _HASH - 1)}~{sha256(encoded)[:_HASH]}"


def is_our_temp(name: str) -> bool:
    """True if a file name (or path) is that of a temporary file of memoryd."""
    return ".memoryd-" in name and _PATTERN.fullmatch(name) is not None


def target_of(name: str, candidates: Iterable[str] = ()) -> str:
    """Return the file name (or path) that a temporary name was made for. One that was too long is found only among the
    `candidates`, which are not looked at for any other. Raises ValueError for a name that is not temporary."""
    found = _PATTERN.fullmatch(name)
    if found is None:
        raise ValueError(f"not a temporary name of memoryd: {name!r}")
    target = found["target"]
    if _CUT.search(target) is None:
        return target
    return next((each for each in candidates if _short_path(each) == target), target)


def _short_path(path: str) -> str:
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{_stem(name)}"


class Temp:
    """A new file next to its target: complete, on disk, with the mode, owner and attributes of the target (`like`). If
    there is none, `mode` applies, and root creates it for the directory's owner unless it is `private`.

    `discard` removes the name if it still refers to *this* file: after a rename it does not exist, after
    an exchange it refers to the old file, which must not be deleted.
    """

    def __init__(
        self,
        directory: int,
        name: str,
        content: Content,
        *,
        like: int | None,
        mode: int,
        private: bool = False,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = directory
        self.handed_over = False  # another object now owns the name and removes it
        self.name, self.fd = _create(directory, name)
        try:
            write_content(self.fd, content, pause)
            if like is None:
                if not private:
                    inherit_owner(self.fd, directory)
                os.fchmod(self.fd, mode)  # past the umask
            else:
                copy_metadata(self.fd, like)
            sync_file(self.fd)
            self.state = os.fstat(self.fd)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Close the file; remove its temporary name unless that now holds another file."""
        fd, self.fd = self.fd, -1
        try:
            if not self.handed_over:
                unlink_if(self.directory, self.name, fd)
        finally:
            os.close(fd)


def _create(directory: int, name: str) -> tuple[str, int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(1000):
        temp = temp_name(name)
        # An existing name is never reused: it may be a replaced file with late appends.
        with suppress(FileExistsError):
            return temp, os.open(temp, flags, 0o600, dir_fd=directory)
    raise FileExistsError(errno.EEXIST, "no free temporary name", name)


def write_content(fd: int, content: Content, pause: Callable[[], None]) -> None:
    """Write the content at the descriptor's offset, with a pause after each part but the last."""
    unsynced = 0
    for number, part in enumerate(_parts(content)):
        if number:
            pause()
        if unsynced >= UNSYNCED:
            sync_file(fd)
            unsynced = 0
        unsynced += _write_pieces(fd, part)


def _parts(content: Content) -> Iterator[list[memoryview]]:
    """Yield the content in parts, each of several pieces; a part never has twice PART bytes, and all but the last have
    at least PART bytes or as many pieces as one call takes."""
    part, size = list[memoryview](), 0
    for piece in (content,) if isinstance(content, bytes) else content:
        for at in range(0, len(piece), PART):
            part.append(memoryview(piece)[at : at + PART])
            size += len(part[-1])
            if size >= PART or len(part) == MOST_PIECES:
                yield part
                part, size = [], 0
    yield part


def _write_pieces(fd: int, pieces: Sequence[memoryview]) -> int:
    """Write all the pieces, and return how many bytes they have."""
    left = size = sum(map(len, pieces))
    while left:
        written = os.writev(fd, pieces)
        if written == 0:
            raise OSError(errno.EIO, "the disk accepts no more bytes but reports no error")
        left -= written
        if left:
            pieces = (memoryview(b"".join(pieces))[-left:],)
    return size


def copy_metadata(fd: int, like: int) -> None:
    """Give a new file the owner, attributes and mode of the file it replaces.

    An owner or access list that cannot be kept is an error: a rewrite must not change who may read.
    """
    old, new = os.fstat(like), os.fstat(fd)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.fchown(fd, old.st_uid, old.st_gid)
    _copy_attributes(like, fd)
    os.fchmod(fd, old.st_mode & 0o7777)  # last: changing the owner clears bits


def _copy_attributes(source: int, target: int) -> None:
    if not hasattr(os, "listxattr"):
        return  # macOS: Python has no calls for them
    try:
        names = os.listxattr(source)
        inherited = os.listxattr(target)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return
        raise
    for name in names:
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as error:
            # Security modules set their labels themselves; only an attribute that grants access must not be lost.
            if name == _ACL or error.errno not in (*UNSUPPORTED, errno.EPERM, errno.EACCES, errno.ENODATA):
                raise
    for name in {*inherited}.difference(names):
        # From the directory's default list, which would grant access to more users, or of a file that is overwritten.
        if name == _ACL or name.startswith("user."):
            os.removexattr(target, name)


def still_holds(directory: int, name: str, fd: int) -> bool:
    """True if the name refers to the open file."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))


def unlink_if(directory: int, name: str, fd: int) -> None:
    """Remove the name if it holds the open file."""
    if still_holds(directory, name, fd):
        os.unlink(name, dir_fd=directory)
