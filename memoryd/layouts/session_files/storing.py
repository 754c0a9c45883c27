"""Storing in session files: merged into the session's one file, changed in place, taken out and put in again.

What comes in is an extraction: `extraction_count` and `last_updated` move, also where a surer memory that says the
same is there already. A change by hand is no extraction, but it is an update: `last_updated` alone moves. What is
forgotten, brought back or put back moves neither, or an old session would look young to the archiver.
See `memoryd.layouts.storing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memoryd.core.dates import iso
from memoryd.core.digest import sha256
from memoryd.core.json_elements import addition, lead, revision, setting
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.text import Edit, Span, splice
from memoryd.errors import BusyError, ConflictError, InvalidMemoryError, UsageError
from memoryd.layouts.asked import beside, differing, place, refuse, unwritable
from memoryd.layouts.base import Loaded
from memoryd.layouts.one_document import decode, look
from memoryd.layouts.session_files.archiving import removal_edits
from memoryd.layouts.session_files.asking import changed_breaches, completed, live_path, new_breaches, paths_of
from memoryd.layouts.session_files.naming import is_archived, session_of
from memoryd.layouts.session_files.reading import Session, ids_of, take_apart
from memoryd.layouts.session_files.writing import merge_memory, new_session
from memoryd.layouts.storing import Asked, Found, Stored, StoringView

F = TypeVar("F")
_INDENT = b"    "  # of a memory in a list that was empty


def add(view: StoringView, asked: Asked) -> Stored:
    session = place(asked.where, "session-files", "session")
    paths = paths_of(session)
    native = completed(asked.memory)
    refuse((*unwritable(asked.memory), *new_breaches(native)))
    path, existing = _existing(paths, view.content)
    if existing is not None:
        return _merged(view, path, existing, native)
    data = new_session(session, native, view.now)
    identity = _id_at(path, data, 0)
    why = "a session with its first memory"
    return Stored(Plan((Action(Kind.CREATE, path, why, (identity,), data=data),)), identity, path)


def _existing(paths: tuple[str, str], read: Callable[[str], F | None]) -> tuple[str, F | None]:
    """The session's file under either form of its name, else the one to make."""
    looks = ((path, read(path)) for path in paths)
    return next(((path, found) for path, found in looks if found is not None), (paths[0], None))


def _merged(view: StoringView, path: str, data: bytes, native: Mapping[str, Any]) -> Stored:
    merged = merge_memory(data, native, view.now)
    if merged is None:
        loaded = view.load(path)
        raise _not_now(path, pending=loaded is None or loaded.document.pending)
    identity = _id_at(path, splice(data, merged.edits), merged.place)
    why = {
        "added": "a memory more",
        "replaced": "says the same as a memory that was less sure, whose place it takes",
        "kept": "a memory that is as sure says the same and stays",
    }[merged.outcome]
    aside = (merged.edits[0].span,) if merged.outcome == "replaced" else ()
    action = Action(Kind.REWRITE, path, why, (identity,), merged.edits, base=sha256(data), aside=aside)
    return Stored(Plan((action,)), identity, path)


def _taken_apart(path: str, loaded: Loaded) -> Session:
    """Raises BusyError for a file that is being written, ConflictError for one that nobody can add to."""
    whole = look(loaded.data)
    session = take_apart(loaded.data, whole.value) if whole.value is not None and whole.rest is None else None
    if session is None:
        raise _not_now(path, pending=loaded.document.pending)
    return session


def _not_now(path: str, *, pending: bool) -> BusyError | ConflictError:
    if pending:
        return BusyError(f"{path}: is being written by another program", hint="try again when it is whole")
    return ConflictError(
        f"{path}: cannot be read as one session, so nothing in it is changed",
        hint="`memoryd check` tells what is wrong with it, `memoryd repair` heals what can be healed",
        data={"changed": [path]},
    )


def _id_at(path: str, data: bytes, number: int) -> str:
    """The id of the element with this number, as any reader will find it."""
    whole = look(data)
    session = take_apart(data, whole.value) if whole.value is not None else None
    assert session is not None, "a session just written can be read"
    return ids_of(path, data, session)[session.elements[number]]


def update(view: StoringView, found: Found, changes: Mapping[str, Any]) -> Stored:
    if is_archived(found.path):
        raise UsageError(
            f"{found.record.id}: is archived; only live memories can be changed",
            hint=f"bring it back first: memoryd unarchive {found.record.id}",
        )
    refuse(unwritable(changes))
    wanted = differing(found.record.native, changes)
    if not wanted:
        return Stored(Plan(), found.record.id, found.path)
    refuse(changed_breaches(wanted))
    data, session = found.loaded.data, _taken_apart(found.path, found.loaded)
    start = found.record.span.start
    gap = lead(data, start)
    values = {key: None if value is None else beside(value, gap) for key, value in wanted.items()}
    stamp = json.dumps(iso(view.now)).encode()
    edits = (
        *revision(data, start, values),
        setting(data, session.members, session.value.start, "last_updated", stamp),
    )
    number = session.elements.index(found.record.span)
    identity = _id_at(found.path, splice(data, edits), number)
    action = Action(Kind.REWRITE, found.path, f"set {', '.join(wanted)}", (identity,), edits, base=sha256(data))
    return Stored(Plan((action,)), identity, found.path)


def forget(found: Found) -> Stored:
    """Out of its session, the bytes kept: an archive of single memories the layout does not have."""
    record, data = found.record, found.loaded.data
    if is_archived(found.path):
        return Stored(Plan(), record.id, found.path)
    _taken_apart(found.path, found.loaded)
    edits = removal_edits(data, [record.span])
    action = Action(Kind.REWRITE, found.path, "forgotten", (record.id,), edits, base=sha256(data), aside=(record.span,))
    return Stored(Plan((action,)), record.id, found.path, kept=record.span.of(data))


def put_back(view: StoringView, path: str, kept: bytes) -> Stored:
    """At the end of its session, which is made anew where it is gone."""
    text = kept.strip()
    if not _is_object(text):
        raise InvalidMemoryError(f"{path}: what was kept is not one memory", data={"findings": []})
    loaded = view.load(path)
    if loaded is None:
        empty = new_session(session_of(path), None, view.now)
        data = splice(empty, [_put(empty, _apart(empty), text)])
        identity = _id_at(path, data, 0)
        return Stored(Plan((Action(Kind.CREATE, path, "put back", (identity,), data=data),)), identity, path)
    identity, edit = _added(path, loaded, text)
    action = Action(Kind.REWRITE, path, "put back", (identity,), edit, base=sha256(loaded.data))
    return Stored(Plan((action,) if edit else ()), identity, path)


def _is_object(text: bytes) -> bool:
    try:
        return look(text).rest is None and isinstance(decode(text), dict)
    except (ValueError, RecursionError):
        return False


def _apart(data: bytes) -> Session:
    session = take_apart(data, look(data).value or Span(0, 0))
    assert session is not None, "a session just written can be read"
    return session


def _put(data: bytes, session: Session, text: bytes) -> Edit:
    return addition(data, session.array, session.elements, [text], _INDENT)


def _added(path: str, loaded: Loaded, text: bytes) -> tuple[str, tuple[Edit, ...]]:
    """The id that a memory has once it is in the session, and the edit that puts it there; none where it is there."""
    data, session = loaded.data, _taken_apart(path, loaded)
    texts = [span.of(data) for span in session.elements]
    if text in texts:
        return _id_at(path, data, texts.index(text)), ()
    edit = _put(data, session, text)
    return _id_at(path, splice(data, [edit]), len(texts)), (edit,)


def unarchive(view: StoringView, found: Found) -> Stored:
    """One session is one file: where its live file is gone the whole session comes back, byte for byte; else the memory
    goes into the live file and out of the archived one."""
    record, data = found.record, found.loaded.data
    if not is_archived(found.path):
        return Stored(Plan(), record.id, found.path)
    archived = _taken_apart(found.path, found.loaded)
    path, loaded = _live(view, found)
    why = "brought back to the live memories"
    base = sha256(data)
    if loaded is None:
        identity = _id_at(path, data, archived.elements.index(record.span))
        ids = tuple(each.id for each in found.loaded.document.records)
        back = Action(Kind.CREATE, path, why, ids, data=data, copy=True)
        return Stored(Plan((back, Action(Kind.REMOVE, found.path, why, ids, base=base))), identity, path)
    identity, edit = _added(path, loaded, record.span.of(data))
    if len(archived.elements) == 1:
        removal = Action(Kind.REMOVE, found.path, why, (record.id,), base=base)
    else:
        edits = removal_edits(data, [record.span])
        removal = Action(Kind.REWRITE, found.path, why, (record.id,), edits, base=base)
    added = Action(Kind.REWRITE, path, why, (identity,), edit, base=sha256(loaded.data), copy=True)
    return Stored(Plan((*((added,) if edit else ()), removal)), identity, path)


def _live(view: StoringView, found: Found) -> tuple[str, Loaded | None]:
    path = live_path(found.path, str(found.record.facts["session"]))
    if path is None:
        raise ConflictError(
            f"{found.path}: neither its session id nor its name tells which day and time it belongs to",
            hint="move it by hand to YYYY-MM-DD/HH-MM-SS-name.json",
            data={"changed": [found.path]},
        )
    date, _, name = path.partition("/")
    return _existing((path, f"{date}/{name[:8].replace('-', ':')}{name[8:]}"), view.load)


def native(text: bytes) -> Mapping[str, Any]:
    found = decode(text)
    return found if isinstance(found, dict) else {"text": text.decode("utf-8", "replace")}
