"""The trash: forgotten memories of layouts without an archive, stored by id for `unarchive` to restore.

After a memory is forgotten, another may get its id. If several in the trash have the same id, each gets the suffix `~`
and six hex digits of the hash of its content, like duplicate ids elsewhere; none replaces another.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.core.secrets import redact
from memoryd.core.spans import sha256
from memoryd.disk.journal.trash import TrashedMemory
from memoryd.errors import ConflictError, NotFoundError
from memoryd.layouts.protocol import WritePlan
from memoryd.operations.lookup import not_found
from memoryd.store import Store
from memoryd.store.undo_content import load_undo_content, save_undo_content


def put_in_trash(store: Store, stored: WritePlan, now: float) -> None:
    """Save a memory to the trash. Called before it is removed from its file, so that a crash cannot lose it."""
    if stored.removed is None:
        return
    blobs, trash = store.blobs, store.journal.trash
    undo = save_undo_content(blobs, stored.removed)
    others = [each for each in trash.find(stored.id) if load_undo_content(blobs, each) != stored.removed]
    identity = _with_suffix(stored.id, stored.removed) if others else stored.id
    trash.add(TrashedMemory(identity, stored.path, undo.blob, undo.content), now)
    for each in others:
        if each.id == stored.id:
            suffixed = _with_suffix(each.id, load_undo_content(blobs, each))
            trash.add(TrashedMemory(suffixed, each.path, each.blob, each.content), now)
            trash.remove(each.id)


def _with_suffix(identity: str, content: bytes) -> str:
    return f"{identity}~{sha256(content)[:6]}"


def drop_restored(store: Store, paths: Iterable[str]) -> None:
    """Remove memories from the trash that are back in these files."""
    for path in paths:
        trashed = store.journal.trash.of_file(path)
        content = store.tree.read(path)[0] if trashed else b""
        for each in trashed:
            if load_undo_content(store.blobs, each).strip() in content:
                store.blobs.drop(store.journal.trash.remove(each.id))


def find_in_trash(store: Store, identity: str, now: float) -> TrashedMemory:
    """Find a forgotten memory. Raises NotFoundError, also if it is live, and ConflictError if several match."""
    matches = store.journal.trash.find(identity)
    if not matches and not _live_files(store, identity):
        raise not_found(identity, store.name)
    if not matches or (len(matches) == 1 and _is_in_file(store, matches[0], identity, now)):
        raise NotFoundError(f"root {store.name}: {redact(identity)} is not archived", hint="it is a live memory")
    if len(matches) > 1:
        raise ConflictError(
            f"root {store.name}: {len(matches)} forgotten memories match the id {redact(identity)}",
            hint="use the full id of one of them",
            data={"candidates": [{"root": store.name, "id": each.id} for each in matches]},
        )
    return matches[0]


def _live_files(store: Store, identity: str) -> set[str]:
    """Return the files with a live memory of this id."""
    return {place.path for place in store.catalogue.places(identity) if place.live}


def _is_in_file(store: Store, trashed: TrashedMemory, identity: str, now: float) -> bool:
    """True if the memory is in its file, byte for byte, as after an interrupted operation. Another memory with its id
    does not count."""
    content = load_undo_content(store.blobs, trashed).strip()
    # In its own file it may have another id: a suffix depends on the other memories of the file.
    sources = (store.load(path, now) for path in _live_files(store, identity) | {trashed.path})
    return any(
        record.span.of(source.loaded.data).strip() == content
        for source in sources
        if source is not None
        for record in source.loaded.document.records
    )
