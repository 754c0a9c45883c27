"""Is the root there, and is it the one we know? Missing is not empty, another directory is not the same.

A root that vanishes is missing; the same directory back (device and inode) resumes at once. Another directory
at the path is suspect: nothing is written, archived, rotated or forgotten, until it holds most of the known
files again, or has held valid memories for a minute, or somebody accepts it.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryd.core.records import Role
from memoryd.disk.tree import Presence
from memoryd.errors import AlreadyRunningError, DeniedError
from memoryd.store import Store

TRUST_S = 60.0  # a replacement that has held valid memories this long is taken for the root


@dataclass(frozen=True, slots=True)
class Sighting:
    """`state` is ok, missing, suspect or failed; `reason` a sentence for people."""

    state: str
    reason: str | None = None


def sight(store: Store, now: float) -> Sighting:
    """Look at the root's path, attach or detach as needed."""
    if store.attached:
        presence = store.tree.presence()
        if presence is Presence.SAME and store.leads_here():
            return _identify(store, now)
        if presence is Presence.UNREADABLE:
            return Sighting("failed", f"{store.path} cannot be looked at; check the mount and its permissions")
        _pin(store)
        store.detach()
        if presence is Presence.MISSING:
            return _missing(store)
    try:
        store.attach()
    except FileNotFoundError:
        return _missing(store)
    except NotADirectoryError:
        return Sighting("failed", f"{store.path} is no directory")
    except (OSError, AlreadyRunningError, DeniedError) as error:
        return Sighting("failed", str(error))
    return _identify(store, now)


def _missing(store: Store) -> Sighting:
    store.journal.set_meta("suspect", None)
    return Sighting("missing", f"{store.path} is not there; nothing is forgotten, memoryd resumes when it is back")


def _identity(store: Store) -> list[int | None]:
    """Device and inode, and when it was made: a directory that is deleted and made anew gets the same inode
    again more often than not."""
    return [*store.tree.identity, store.tree.born_ns]


def _identify(store: Store, now: float) -> Sighting:
    known = store.journal.get_meta("identity")
    here = _identity(store)
    suspect = store.journal.get_meta("suspect")
    if known in (None, here) and suspect is None:
        if known is None:
            store.journal.set_meta("identity", here)
        return Sighting("ok")
    if suspect is None:
        _pin(store)
        suspect = {"why": f"another directory stands at {store.path}", "valid_since": None}
        store.journal.set_meta("suspect", suspect)
    return _judge(store, suspect, now)


def suspect_loss(store: Store, why: str) -> None:
    """A scan found a sudden loss nobody was seen to cause: stop until it is explained."""
    _pin(store)
    store.journal.set_meta("suspect", {"why": why, "valid_since": None, "loss": True})


def _judge(store: Store, suspect: dict[str, object], now: float) -> Sighting:
    """Once most of the known files are back it is the root again; a minute of valid memories does as well,
    but not after a sudden loss in the same directory: there only the files themselves are an answer."""
    known = [path for path, row in store.catalogue.files().items() if row.records]
    back = sum(1 for path in known if _is_file(store, path))
    if known and back * 2 > len(known) and not (suspect.get("loss") and back < len(known)):
        accept(store)
        return Sighting("ok")
    since = suspect.get("valid_since")
    if isinstance(since, float) and since > now:
        since = None  # the clock was set back: the minute begins anew
    valid = not suspect.get("loss") and _holds_memories(store, now)
    if valid and isinstance(since, float) and now - since >= TRUST_S:
        accept(store)
        return Sighting("ok")
    if valid != (since is not None) or since != suspect.get("valid_since"):
        store.journal.set_meta("suspect", {**suspect, "valid_since": now if valid else None})
    why = f"{suspect['why']}; nothing is written until it is explained: `memoryd root resume {store.name}`"
    return Sighting("suspect", why)


def _is_file(store: Store, path: str) -> bool:
    """An empty file does not count: a server that sets its folder up anew makes just such ones."""
    try:
        found = store.tree.stat(path)
    except OSError:
        return False
    return found is not None and found.size > 0


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
    """What is there now is the root."""
    store.journal.set_meta("identity", _identity(store))
    store.journal.set_meta("suspect", None)
    store.index.dirty = True


def accept_all(store: Store) -> None:
    """What is there now is right, and what is gone was meant to go: no later scan finds the loss again."""
    accept(store)
    for path in store.catalogue.files():
        if _is_gone(store, path):
            store.catalogue.forget(path)


def _is_gone(store: Store, path: str) -> bool:
    try:
        return store.tree.stat(path) is None
    except OSError:
        return False  # something stands there; the scan tells what


def _pin(store: Store) -> None:
    """The newest valid backup of each file is kept from rotation until the next loss pins another."""
    store.vault.pin_newest()
    rows = [row for row in store.journal.backup_rows() if row.valid]
    newest = {row.file: row.id for row in rows}
    if not newest:
        return
    for row in rows:
        pinned = newest[row.file] == row.id
        if row.pinned != pinned:
            store.journal.mark_backup(row.id, pinned=pinned)
