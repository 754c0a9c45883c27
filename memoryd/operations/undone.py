"""What was stored through memoryd and an agent wrote an older state over.

Agents read a file, think, and write all of it: what memoryd stored meanwhile is gone, and nobody deleted it. Each add
and update is watched for ten minutes or two such writes. An add is then stored again, once, by itself; an update, and
anything in a layout whose agents keep a cache, waits for `repair --code change-was-undone`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from memoryd.core.digest import sha256
from memoryd.core.findings import Finding, Severity
from memoryd.core.records import Document
from memoryd.errors import BusyError, MemorydError
from memoryd.store import Store
from memoryd.store.recent import Recent

CODE = "change-was-undone"
WATCHED_S = 600.0
REWRITES = 2
TOLD_S = 86_400.0
NOTED = "undone"


def watch(store: Store, path: str, identity: str, recent: Recent) -> None:
    """Look, at each later write of that file by somebody else, whether the change is still there."""
    known = store.recent.setdefault(path, {})
    before = known.get(identity)
    if recent.changes is not None and before is not None and before.changes is None:
        # Of a memory that is new itself the whole is stored again, as it was left.
        memory = {**before.memory, **recent.changes}
        known[identity] = replace(before, memory={key: value for key, value in memory.items() if value is not None})
        return
    known[identity] = recent


def look(store: Store, path: str, content: bytes, document: Document, now: float) -> None:
    """A file that somebody else wrote was read: what of ours is missing in it waits to be stored again."""
    known = store.recent.get(path)
    if not known:
        return
    newest = store.journal.entries(1)
    if any(step.path == path and step.after_sha == sha256(content) for each in newest for step in each.steps):
        return  # it is as we left it
    there = {record.id: sha256(record.span.of(content)) for record in document.records}
    for identity, recent in list(known.items()):
        if now - recent.at > WATCHED_S:
            del known[identity]
        elif _is_undone(recent, there.get(identity), there):
            del known[identity]
            store.undone.append((path, identity, recent))
            if not _alone(store, recent):
                _note(store, path, identity, now, Severity.WARNING, _waits(recent))
        elif recent.rewrites + 1 >= REWRITES:
            del known[identity]
        else:
            known[identity] = replace(recent, rewrites=recent.rewrites + 1)


def _is_undone(recent: Recent, now_there: str | None, there: Mapping[str, str]) -> bool:
    if recent.changes is None:
        return now_there is None
    return recent.before in there.values() and now_there in (None, recent.before)


def _alone(store: Store, recent: Recent) -> bool:
    """May it be stored again unasked?"""
    assert store.layout is not None
    return recent.changes is None and not store.layout.keeps_every_change and not store.observes


def _waits(recent: Recent) -> str:
    what = "a memory that was stored" if recent.changes is None else "an update made"
    return (
        f"{what} through memoryd is gone: another program wrote an older state over it; "
        "`memoryd repair --code change-was-undone` brings it back"
    )


def _note(store: Store, path: str, identity: str, now: float, level: Severity, message: str) -> None:
    finding = Finding(CODE, path, message, id=identity, level=level)
    store.undone_told.append((now, finding))
    _publish(store, now)


def _publish(store: Store, now: float) -> None:
    store.undone_told[:] = [each for each in store.undone_told if now - each[0] < TOLD_S]
    store.noted[NOTED] = tuple(finding for _, finding in store.undone_told)


Again = Callable[[str, Recent], tuple[str, str | None]]
"""(id, what was stored) -> the id it has now, and the receipt."""


def store_again(store: Store, now: float, again: Again, *, asked: bool = False) -> Iterator[dict[str, Any]]:
    """Bring back what may come back unasked, or (`asked`) all of it: what was done, for events and answers."""
    waiting, store.undone[:] = list(store.undone), []
    for path, identity, recent in waiting:
        if not asked and not _alone(store, recent):
            store.undone.append((path, identity, recent))
            continue
        try:
            made, receipt = again(identity, recent)
        except BusyError:
            store.undone.append((path, identity, recent))
            continue
        except MemorydError as error:
            _note(store, path, identity, now, Severity.WARNING, f"{_waits(recent)}; by itself: {error.message}")
            continue
        store.undone_told[:] = [each for each in store.undone_told if each[1].id != identity]
        message = "another program wrote an older state over a memory that was stored through memoryd; it is back"
        _note(store, path, made, now, Severity.INFO, f"{message}, receipt {receipt}")
        yield {"root": store.name, "code": CODE, "path": path, "id": made, "receipt": receipt}
