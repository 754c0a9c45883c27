"""One daemon per state directory and per root: a lock held for the life of the process. The only importer of filelock.

The kernel frees the lock when its holder dies, so there are no stale locks. A JSON sidecar next to the lock file
describes the holder to people and clients; no decision depends on it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from memoryd.core.digest import without_openssl
from memoryd.disk.processes import flock_holder
from memoryd.errors import AlreadyRunningError, DeniedError

with without_openssl():  # else filelock loads it, through secrets and hmac
    from filelock import FileLock, Timeout, lock_descriptor, unlock_descriptor


def sidecar_path(path: str) -> str:
    """Return the path of the sidecar: `instance.json` for `instance.lock`."""
    return f"{path.removesuffix('.lock')}.json"


def read_sidecar(path: str) -> dict[str, Any]:
    """Return what the holder of the lock at `path` published; empty if it cannot be read."""
    try:
        with open(sidecar_path(path), "rb") as file:
            found = json.loads(file.read(65_536))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Ownership:
    """A lock that is held until `release` or the end of the process; any thread may release it."""

    def __init__(self, path: str, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    def publish(self, sidecar: Mapping[str, object]) -> None:
        """Replace the sidecar; `pid` is added to it. No fsync: it is worthless after the end of this process."""
        target = sidecar_path(self.path)
        temp = f"{target}.memoryd-{os.getpid()}-0.tmp"
        content = json.dumps({"pid": os.getpid(), **sidecar}).encode()
        with suppress(FileNotFoundError):
            os.unlink(temp)  # left by an earlier process with our PID; we hold the lock, so no process is using it
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
        os.replace(temp, target)

    def release(self, *, keep_sidecar: bool = False) -> None:
        """Remove the sidecar unless it stays valid, then free the lock; the lock file stays. A second call does
        nothing."""
        if not self._lock.is_locked:
            return
        try:
            if not keep_sidecar:
                with suppress(FileNotFoundError):
                    os.unlink(sidecar_path(self.path))
        finally:
            self._lock.release()

    def forget(self) -> None:
        """Free a lock whose file was deleted. The sidecar is left: it is of the lock that was taken since."""
        self._lock.release()


def prepare_private(directory: str) -> None:
    """Create the directory with mode 0700, or remove the access of other users to an existing one. Raises DeniedError
    if it, or the symlink to it, belongs to another user."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    link, found = os.lstat(directory), os.stat(directory)
    if found.st_uid != os.geteuid() or link.st_uid not in (os.geteuid(), 0):
        owner = found.st_uid if found.st_uid != os.geteuid() else link.st_uid
        raise DeniedError(
            f"the state directory {directory} belongs to user {owner}, who could replace what is in it",
            hint="name another with --state-dir",
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        os.chmod(directory, mode & 0o700)


def take(path: str, sidecar: Mapping[str, object]) -> Ownership:
    """Take the lock at `path` without waiting; its directory must exist.

    Raises AlreadyRunningError (`data`: path, and the holder's sidecar as `holder`), DeniedError.
    """
    lock = FileLock(path, timeout=0, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise _already_running(path) from error
    except (PermissionError, NotImplementedError) as error:
        denied = isinstance(error, PermissionError)
        needs = "permission to read and write it and its directory" if denied else "a file system with flock"
        hint = f"memoryd needs {needs}; name another directory with --state-dir"
        raise DeniedError(f"cannot lock {path}: {error}", hint=hint, data={"path": path}) from error
    owned = Ownership(path, lock)
    try:
        owned.publish(sidecar)
    except BaseException:
        lock.release()
        raise
    return owned


def _already_running(path: str) -> AlreadyRunningError:
    holder = read_sidecar(path)
    pid, instance = holder.get("pid"), holder.get("instance")
    who = f"process {pid}" if isinstance(pid, int) else "another process"
    if isinstance(instance, str):
        who += f", instance {instance}"
    return AlreadyRunningError(
        f"{path} is held by another memoryd ({who})",
        hint="stop that one with `memoryd stop`, or give this one its own --state-dir and --socket",
        data={"path": path, "holder": holder},
    )


@contextmanager
def lock_directory(fd: int, path: str) -> Iterator[None]:
    """Lock a root for the life of the context by a flock on the directory itself: it also excludes daemons with other
    state directories, and needs no file in the root.

    Raises AlreadyRunningError naming the holder, DeniedError on a file system without flock."""
    try:
        got = lock_descriptor(fd, blocking=False)
    except (OSError, NotImplementedError) as error:
        raise DeniedError(
            f"cannot lock {path}: {error}",
            hint="its file system has no flock, so memoryd cannot exclude a second daemon",
        ) from error
    if not got:
        holder = flock_holder(os.fstat(fd).st_ino)
        if holder == os.getpid():
            raise AlreadyRunningError(
                f"the root {path} is still in use by what ran here before the last reload",
                hint="memoryd goes on by itself when that has ended",
                data={"path": path, "pid": holder},
            )
        who = f"process {holder}" if holder else "another process"
        raise AlreadyRunningError(
            f"the root {path} is in use by another memoryd ({who})",
            hint="a root can have only one daemon: stop the other, or remove the root from one of the configurations",
            data={"path": path, "pid": holder},
        )
    try:
        yield
    finally:
        unlock_descriptor(fd)
