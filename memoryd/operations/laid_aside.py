"""What was forgotten where there is no archive: its bytes are laid aside under its id, for `unarchive` to put back.

An id may come to mean another memory once its first bearer is forgotten. Of several laid aside under one id each then
carries `~` and six hex digits of its content's hash, as equal ids do anywhere; none takes the place of another.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.core.digest import sha256
from memoryd.core.secrets import redact
from memoryd.disk.journal import Step
from memoryd.disk.remembered import Forgotten
from memoryd.errors import ConflictError, NotFoundError
from memoryd.layouts.storing import Stored
from memoryd.operations.locate import no_such
from memoryd.store import Store
from memoryd.store.kept import keep, kept_of


def lay_aside(store: Store, stored: Stored, now: float) -> None:
    """Before it is taken out: a crash in between must not lose the way back."""
    if stored.kept is None:
        return
    kept = keep(store.blobs, stored.kept)
    others = [each for each in store.journal.forgotten(stored.id) if bytes_of(store, each) != stored.kept]
    identity = _marked(stored.id, stored.kept) if others else stored.id
    store.journal.keep_forgotten(Forgotten(identity, stored.path, kept.blob, kept.content), now)
    for each in others:
        if each.id == stored.id:
            marked = _marked(each.id, bytes_of(store, each))
            store.journal.keep_forgotten(Forgotten(marked, each.path, each.blob, each.content), now)
            store.journal.take_forgotten(each.id)


def _marked(identity: str, content: bytes) -> str:
    return f"{identity}~{sha256(content)[:6]}"


def bytes_of(store: Store, forgotten: Forgotten) -> bytes:
    """Raises BlobError where they are missing or damaged."""
    taken_out = Step("remove", forgotten.path, blob=forgotten.blob, content=forgotten.content)
    return kept_of(store.blobs, taken_out)


def put_back_by_undo(store: Store, paths: Iterable[str]) -> None:
    """What stands in these files again is laid aside no longer."""
    for path in paths:
        laid = store.journal.forgotten_in(path)
        content = store.tree.read(path)[0] if laid else b""
        for each in laid:
            if bytes_of(store, each).strip() in content:
                store.blobs.drop(store.journal.take_forgotten(each.id))


def laid_aside(store: Store, asked: str, now: float) -> Forgotten:
    """The one with that id. Raises NotFoundError, also where it is live, and ConflictError where there are several."""
    kept = store.journal.forgotten(asked)
    if not kept and not _live(store, asked):
        raise no_such(asked, store.name)
    if not kept or (len(kept) == 1 and _is_there(store, kept[0], asked, now)):
        raise NotFoundError(f"root {store.name}: {redact(asked)} is not archived", hint="it is there, and live")
    if len(kept) > 1:
        raise ConflictError(
            f"root {store.name}: {len(kept)} forgotten memories bear the id {redact(asked)}",
            hint="name one of them by its whole id",
            data={"candidates": [{"root": store.name, "id": each.id} for each in kept]},
        )
    return kept[0]


def _live(store: Store, asked: str) -> set[str]:
    """The files in which a live memory has that id."""
    return {place.path for place in store.catalogue.places(asked) if place.live}


def _is_there(store: Store, forgotten: Forgotten, asked: str, now: float) -> bool:
    """Is it in its file, byte for byte, as after a step that was cut off? Another with its id does not count."""
    content = bytes_of(store, forgotten).strip()
    sources = (store.load(path, now) for path in _live(store, asked))
    return any(
        record.span.of(source.loaded.data).strip() == content
        for source in sources
        if source is not None
        for record in source.loaded.document.records
    )
