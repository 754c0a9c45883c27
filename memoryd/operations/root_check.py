"""Check that a root exists and is still the same directory. A missing root is not an empty one.

A root that disappears is missing; when the same directory (device and inode) is back, work resumes at once. Another
directory at its path is suspect: nothing is written, archived, rotated or removed from the index until it has most of
the known files again, has had valid memories for a minute, or the user accepts it.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat

import msgspec
from msgspec import Struct

from memoryd.core.index import FileRow
from memoryd.core.records import Role
from memoryd.disk.tree import PathState
from memoryd.errors import AlreadyRunningError, DeniedError
from memoryd.operations.losses import accept_losses
from memoryd.store import Store

IDENTITY, SUSPICION = "identity", "suspect"  # journal keys: the directory that is the root, and why it is suspect
MAX_COMPARED = 500  # files whose contents are compared, a sample of all
TRUST_S = 60.0  # a replacement with valid memories for this long is accepted as the root


class RootCheck(Struct, frozen=True):
    """The result of a check. `state` is ok, missing, suspect or failed; `reason` is a sentence for people."""

    state: str
    reason: str | None = None


def check_root(store: Store, now: float) -> RootCheck:
    """Check the path of a root; attach or detach the store as needed."""
    if store.attached:
        presence = store.tree.path_state()
        if presence is PathState.SAME and store.path_resolves():
            return _identify(store, now)
        if presence is PathState.UNREADABLE:
            return RootCheck("failed", f"cannot stat {store.path}; check the mount and its permissions")
        _pin_newest(store)
        store.detach()
        if presence is PathState.MISSING:
            return _missing(store)
    try:
        store.attach()
    except FileNotFoundError:
        return _missing(store)
    except NotADirectoryError:
        return RootCheck("failed", f"{store.path} is not a directory")
    except (OSError, AlreadyRunningError, DeniedError) as error:
        return RootCheck("failed", str(error))
    return _identify(store, now)


class _Suspicion(Struct, omit_defaults=True):
    """Why a root is suspect. `valid_since`: when it was first seen with valid memories, in epoch seconds. `loss`: files
    are gone from the same directory, of which only their return counts."""

    why: str
    valid_since: float | None
    loss: bool = False


def _set_suspicion(store: Store, suspicion: _Suspicion | None) -> None:
    store.journal.facts.set(SUSPICION, msgspec.to_builtins(suspicion))


def _missing(store: Store) -> RootCheck:
    _set_suspicion(store, None)
    if store.journal.facts.get(IDENTITY) is not None:
        return RootCheck(
            "missing", f"{store.path} does not exist; nothing was forgotten, memoryd resumes when it is back"
        )
    can_create = (
        store.layout is not None and store.layout.writer is not None and os.path.isdir(os.path.dirname(store.path))
    )
    instruction = "`memoryd add` creates it" if can_create else f"create it: `mkdir -p {shlex.quote(store.path)}`"
    return RootCheck("missing", f"{store.path} does not exist yet; {instruction}")


def create_root(store: Store) -> bool:
    """Create the directory of a root that never existed, for its first memory. Raises OSError.

    Returns False if it must not be created: the root existed before, or its parent does not exist. In a shared layout,
    users with access to the parent directory get access to the new one.
    """
    above = os.path.dirname(store.path)
    if store.journal.facts.get(IDENTITY) is not None or store.layout is None or not os.path.isdir(above):
        return False
    shared = os.stat(above).st_mode & (0o777 | stat.S_ISVTX)
    mode = 0o700 if store.layout.files.owner_only or shared & stat.S_ISVTX else shared | 0o700
    os.mkdir(store.path, 0o700)
    os.chmod(store.path, mode)  # regardless of the umask
    return True


def remove_new_root(store: Store) -> None:
    """Remove the new directory again if it is empty, because the memory it was created for was refused."""
    try:
        os.rmdir(store.path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise
        return  # no longer empty
    store.journal.facts.set(IDENTITY, None)


def _identity(store: Store) -> list[int | None]:
    """Return device, inode and creation time, since a new directory often gets the inode of a deleted one."""
    return [*store.tree.identity, store.tree.birth_time_ns]


def _identify(store: Store, now: float) -> RootCheck:
    known = store.journal.facts.get(IDENTITY)
    current = _identity(store)
    suspicion = msgspec.convert(store.journal.facts.get(SUSPICION), _Suspicion | None)
    if suspicion is not None and known == current and not suspicion.loss:  # the directory itself is back
        suspicion = None
        _set_suspicion(store, None)
    if known in (None, current) and suspicion is None:
        if known is None:
            store.journal.facts.set(IDENTITY, current)
        return RootCheck("ok")
    if suspicion is None:
        _pin_newest(store)
        suspicion = _Suspicion(f"another directory is at {store.path}", None)
        _set_suspicion(store, suspicion)
    return _judge(store, suspicion, now)


def mark_suspect(store: Store, why: str) -> None:
    """Mark the root as suspect after a sudden loss without a visible cause, and stop until it is explained."""
    _pin_newest(store)
    _set_suspicion(store, _Suspicion(why, None, loss=True))


def _judge(store: Store, suspicion: _Suspicion, now: float) -> RootCheck:
    """Accept a suspect root once most of the known files are back, or after a minute with valid memories.

    After a sudden loss in the same directory, only the return of the files counts.
    """
    if _is_back(store, now, all_files=suspicion.loss):
        accept(store)
        return RootCheck("ok")
    since = suspicion.valid_since
    if since is not None and since > now:
        since = None  # the clock was set back: the minute starts again
    valid = not suspicion.loss and _holds_memories(store, now)
    if valid and since is not None and now - since >= TRUST_S:
        _accept_other(store)
        return RootCheck("ok")
    if valid != (since is not None) or since != suspicion.valid_since:
        suspicion.valid_since = now if valid else None
        _set_suspicion(store, suspicion)
    why = f"{suspicion.why}; nothing is written until it is explained: `memoryd root resume {store.name}`"
    return RootCheck("suspect", why)


def _is_back(store: Store, now: float, *, all_files: bool) -> bool:
    """True if most of the known files have their known content: names alone would match any store of the layout.

    After a loss in the same directory all of the files must exist.
    """
    known = {path: row for path, row in store.catalogue.files().items() if row.records}
    if not known:
        return False
    if all_files:
        return all(_is_file(store, path) for path in known)
    sample = sorted(known)[:: max(1, len(known) // MAX_COMPARED)]
    returned = sum(1 for path in sample if _is_same(store, path, known[path], now))
    return returned * 2 > len(sample)


def _is_file(store: Store, path: str) -> bool:
    """True if the file exists and is not empty: a server that sets up its directory again creates empty ones."""
    try:
        found = store.tree.stat(path)
    except OSError:
        return False
    return found is not None and found.size > 0


def _is_same(store: Store, path: str, row: FileRow, now: float) -> bool:
    """True if the file has its known hash, or at least half of its known memories."""
    source = store.load(path, now) if _is_file(store, path) else None
    if source is None:
        return False
    if source.loaded.digest == row.digest:
        return True
    present = {record.id for record in source.loaded.document.records}
    known = {entry.id for entry in store.catalogue.entries([path])}
    return bool(known) and len(known & present) * 2 >= len(known)


def _holds_memories(store: Store, now: float) -> bool:
    if store.layout is None:
        return False
    for path in store.scan().files:
        if store.role(path) is Role.SOURCE:
            source = store.load(path, now)
            if source is not None and source.loaded.document.records:
                return True
    return False


def accept(store: Store) -> None:
    """Accept the current directory as the root."""
    store.journal.facts.set(IDENTITY, _identity(store))
    _set_suspicion(store, None)
    store.index.dirty = True


def _accept_other(store: Store) -> None:
    """Accept a directory with other memories as the root: what the known files held is not lost, but elsewhere."""
    accept(store)
    accept_losses(store, [*store.catalogue.files()])
    for path in store.catalogue.files():
        store.losses.removed[path] = None  # what is missing at the next scan is accepted too


def accept_all(store: Store) -> None:
    """Accept the current directory and the loss of files, so that no later scan reports the loss again."""
    _accept_other(store)
    for path in store.catalogue.files():
        if _is_gone(store, path):
            store.catalogue.forget(path)


def _is_gone(store: Store, path: str) -> bool:
    try:
        return store.tree.stat(path) is None
    except OSError:
        return False  # something exists there; the scan reports it


def _pin_newest(store: Store) -> None:
    """Exempt the newest valid backup of each file from rotation until the next loss."""
    store.vault.pin_newest()
    rows = [row for row in store.journal.backups.rows() if row.valid]
    newest = {row.file: row.id for row in rows}
    if not newest:
        return
    for row in rows:
        pinned = newest[row.file] == row.id
        if row.pinned != pinned:
            store.journal.backups.mark(row.id, pinned=pinned)
