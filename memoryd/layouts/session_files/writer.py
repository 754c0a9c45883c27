"""Writer of session files: adding, changing, forgetting and restoring memories, and repair. See
`memoryd.layouts.protocol`. Which values are accepted is decided in `schema`.

The memories stored by one call are one extraction: `extraction_count` and `last_updated` change, even where an existing
memory of higher confidence wins. A change by hand is an update without extraction: only `last_updated` changes.
Forgetting and restoring change neither, or the archiver would treat an old session as new.

A new memory is compared with the most similar one of the same type and title: of duplicates the one with the higher
confidence stays (in a tie the existing one), otherwise the new one is added. New text is indented by two spaces,
unescaped, with a final newline; everything else keeps its bytes.

Repaired are: trailing bytes of an older, longer text, and an unreadable file. The archiver that owns the directory
moves unreadable files to `.quarantine/`, even while they are being written. memoryd saves the bytes in its own
quarantine, and only once the file has been idle; or restores a good backup, on request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from memoryd.core.dates import iso
from memoryd.core.json_spans import append_elements, decode, leading_space, set_member, update_members
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import NativeMemory, Record
from memoryd.core.similarity import tokens
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.errors import BusyError, ConflictError, UsageError
from memoryd.layouts.json_document import get_text, require_one_memory, torn_file_fixes
from memoryd.layouts.protocol import Fix, LoadedFile, Located, NewMemory, WritePlan, WriteView
from memoryd.layouts.session_files.archive import removal_edits
from memoryd.layouts.session_files.duplicates import THRESHOLD, Candidate, most_similar
from memoryd.layouts.session_files.names import is_archived, normalised_id, parse_moment, session_id_of
from memoryd.layouts.session_files.parser import Session, duplicate_key, memory_ids, read_session
from memoryd.layouts.session_files.schema import (
    confidence,
    live_path,
    paths_of,
    validate_new,
    validate_update,
    with_defaults,
)
from memoryd.layouts.validation import differences, indented_like, not_encodable, only_location, reject

F = TypeVar("F")
_INDENT = b"    "  # indentation of the first memory in an empty list


def add(view: WriteView, new: NewMemory) -> WritePlan:
    """Plan a new session file, or a merge into the present one."""
    session = only_location(new.location, "session-files", "session")
    paths = paths_of(session)
    native = with_defaults(new.memory)
    reject((*not_encodable(new.memory), *validate_new(native)))
    path, existing = _first_present(paths, view.content)
    if existing is None:
        session = normalised_id(session)
        path, existing = _first_present(paths_of(session), view.content)
    if existing is not None:
        return _merge_into(view, path, existing, native)
    data = new_session(session, native, view.now)
    identity = _id_at(path, data, 0)
    why = "create a session with its first memory"
    return WritePlan(Plan((Action(Kind.CREATE, path, why, (identity,), data=data),)), identity, path)


def _first_present(paths: tuple[str, str], read: Callable[[str], F | None]) -> tuple[str, F | None]:
    """Return the path and content of the existing file under either form of its name, else the path of the file to
    create and None."""
    candidates = ((path, read(path)) for path in paths)
    return next(((path, content) for path, content in candidates if content is not None), (paths[0], None))


def _merge_into(view: WriteView, path: str, data: bytes, native: NativeMemory) -> WritePlan:
    merged = merge_memory(data, native, view.now, counts=view.position == 0)
    if merged is None:
        loaded = view.load(path)
        raise _write_error(path, pending=loaded is None or loaded.document.pending)
    identity = _id_at(path, splice(data, merged.edits), merged.position)
    why = {
        "added": "add a memory",
        "replaced": "replace a duplicate of lower confidence",
        "kept": "keep a duplicate of at least the same confidence",
    }[merged.outcome]
    quarantine = (merged.edits[0].span,) if merged.outcome == "replaced" else ()
    action = Action(Kind.REWRITE, path, why, (identity,), merged.edits, base=sha256(data), quarantine=quarantine)
    return WritePlan(Plan((action,)), identity, path)


def _require_session(path: str, loaded: LoadedFile) -> Session:
    """Return the parts of a session. Raises BusyError while it is being written, ConflictError where it is damaged."""
    session = read_session(loaded.data, whole=True)
    if session is None:
        raise _write_error(path, pending=loaded.document.pending)
    return session


def _write_error(path: str, *, pending: bool) -> BusyError | ConflictError:
    if pending:
        return BusyError(f"{path} is being written by another program", hint="try again when it is complete")
    return ConflictError(
        f"{path} is not a readable session, so nothing in it is changed",
        hint="`memoryd check` shows what is wrong, `memoryd repair` fixes what can be fixed",
        data={"changed": [path]},
    )


def _id_at(path: str, data: bytes, number: int) -> str:
    """Return the id of the element with this number, as a later parse computes it."""
    session = _written_session(data)
    return memory_ids(path, data, session)[session.elements[number]]


def _ids(path: str, data: bytes) -> tuple[str, ...]:
    """Return the id of every memory, as a later parse computes it."""
    return tuple(memory_ids(path, data, _written_session(data)).values())


def update(view: WriteView, located: Located, changes: NativeMemory) -> WritePlan:
    """Plan the change of a memory and of `last_updated`."""
    if is_archived(located.path):
        raise UsageError(
            f"{located.record.id} is archived; only live memories can be changed",
            hint=f"unarchive it first: memoryd unarchive {located.record.id}",
        )
    reject(not_encodable(changes))
    changed = differences(located.record.native, changes)
    if not changed:
        return WritePlan(Plan(), located.record.id, located.path)
    reject(validate_update(changed))
    data, session = located.loaded.data, _require_session(located.path, located.loaded)
    start = located.record.span.start
    indentation = leading_space(data, start)
    values = {key: None if value is None else indented_like(value, indentation) for key, value in changed.items()}
    stamp = json.dumps(iso(view.now)).encode()
    edits = (
        *update_members(data, start, values),
        set_member(data, session.members, session.value.start, "last_updated", stamp),
    )
    number = session.elements.index(located.record.span)
    identity = _id_at(located.path, splice(data, edits), number)
    action = Action(Kind.REWRITE, located.path, f"set {', '.join(changed)}", (identity,), edits, base=sha256(data))
    return WritePlan(Plan((action,)), identity, located.path)


def forget(located: Located) -> WritePlan:
    """Plan the removal of a memory; the layout archives only whole sessions, so its bytes are saved."""
    record, data = located.record, located.loaded.data
    if is_archived(located.path):
        return WritePlan(Plan(), record.id, located.path)
    _require_session(located.path, located.loaded)
    edits = removal_edits(data, [record.span])
    action = Action(
        Kind.REWRITE, located.path, "forget a memory", (record.id,), edits, base=sha256(data), quarantine=(record.span,)
    )
    return WritePlan(Plan((action,)), record.id, located.path, removed=record.span.of(data))


def restore(view: WriteView, path: str, removed: Sequence[bytes]) -> WritePlan:
    """Plan the insertion at the end of the session, which is created again if it no longer exists."""
    texts = [require_one_memory(path, each) for each in removed]
    loaded, why = view.load(path), "restore memories"
    if loaded is None:
        empty = new_session(session_id_of(path), None, view.now)
        data = splice(empty, [_append(empty, _written_session(empty), texts)])
        ids = _ids(path, data)
        return WritePlan(Plan((Action(Kind.CREATE, path, why, ids, data=data),)), ids[0], path)
    ids, edit = _append_missing(path, loaded, texts)
    action = Action(Kind.REWRITE, path, why, ids, edit, base=sha256(loaded.data))
    return WritePlan(Plan((action,) if edit else ()), ids[0], path)


def _written_session(data: bytes) -> Session:
    session = read_session(data)
    assert session is not None, "a session just written is readable"
    return session


def _append(data: bytes, session: Session, texts: Sequence[bytes]) -> Edit:
    return append_elements(data, session.array, session.elements, texts, _INDENT)


def _append_missing(path: str, loaded: LoadedFile, texts: Sequence[bytes]) -> tuple[tuple[str, ...], tuple[Edit, ...]]:
    """Return the ids of memories that are added to the session, and the edit; if the session has all of them already,
    the id of the first, and no edit."""
    data, session = loaded.data, _require_session(path, loaded)
    present = [span.of(data) for span in session.elements]
    missing = [text for text in texts if text not in present]
    if not missing:
        return (_id_at(path, data, present.index(texts[0])),), ()
    edit = _append(data, session, missing)
    return _ids(path, splice(data, [edit]))[-len(missing) :], (edit,)


def unarchive(view: WriteView, located: Located) -> WritePlan:
    """Plan the move of an archived memory to the live files. If the live file no longer exists, the whole session moves
    back, byte for byte; otherwise only the memory moves into the live file."""
    record, data = located.record, located.loaded.data
    if not is_archived(located.path):
        return WritePlan(Plan(), record.id, located.path)
    archived = _require_session(located.path, located.loaded)
    path, loaded = _live_file(view, located)
    why = "moved back to the live memories"
    base = sha256(data)
    if loaded is None:
        identity = _id_at(path, data, archived.elements.index(record.span))
        ids = tuple(each.id for each in located.loaded.document.records)
        creation = Action(Kind.CREATE, path, why, ids, data=data, copy=True)
        return WritePlan(Plan((creation, Action(Kind.REMOVE, located.path, why, ids, base=base))), identity, path)
    [identity], edit = _append_missing(path, loaded, [record.span.of(data)])
    if len(archived.elements) == 1:
        removal = Action(Kind.REMOVE, located.path, why, (record.id,), base=base)
    else:
        edits = removal_edits(data, [record.span])
        removal = Action(Kind.REWRITE, located.path, why, (record.id,), edits, base=base)
    addition = Action(Kind.REWRITE, path, why, (identity,), edit, base=sha256(loaded.data), copy=True)
    return WritePlan(Plan((*((addition,) if edit else ()), removal)), identity, path)


def _live_file(view: WriteView, located: Located) -> tuple[str, LoadedFile | None]:
    path = live_path(located.path, str(located.record.facts["session"]))
    if path is None:
        raise ConflictError(
            f"{located.path}: neither the session id nor the file name contains date and time",
            hint="move it by hand to YYYY-MM-DD/HH-MM-SS-name.json",
            data={"changed": [located.path]},
        )
    date, _, name = path.partition("/")
    return _first_present((path, f"{date}/{name[:8].replace('-', ':')}{name[8:]}"), view.load)


def native(text: bytes) -> NativeMemory:
    """Return the JSON object of a memory."""
    value = decode(text)
    return value if isinstance(value, dict) else {"text": text.decode("utf-8", "replace")}


class MergeResult(NamedTuple):
    """The outcome for a new memory (`kept`: the existing one stays), and the position of the memory that remains."""

    outcome: Literal["added", "replaced", "kept"]
    position: int
    edits: tuple[Edit, ...]


def new_session(session: str, memory: NativeMemory | None, now: float) -> bytes:
    """Return the text of a new session file with this memory, or with none. The stamp is that of the session id."""
    started = parse_moment(session[:19])
    content = {
        "session_id": session,
        "timestamp": iso(now if started is None else started),
        "last_updated": iso(now),
        "extraction_count": 1,
        "memories": [] if memory is None else [memory],
        "suggestions": [],
    }
    return _render(content, 0) + b"\n"


def merge_memory(data: bytes, memory: NativeMemory, now: float, *, counts: bool = True) -> MergeResult | None:
    """Return the edits that store `memory` in a session, or None where the text is not an editable session. `counts` is
    True for the first memory of an extraction."""
    session = read_session(data, whole=True)
    if session is None:
        return None
    match = _match(session, memory)
    extraction = _extraction_edits(data, session, now) if counts else ()
    text = _render(memory, 4)
    if match is None:
        added = append_elements(data, session.array, session.elements, [text], b"    ")
        return MergeResult("added", len(session.elements), (added, *extraction))
    if confidence(memory) <= confidence(match.record.native):
        return MergeResult("kept", match.position, extraction)
    return MergeResult("replaced", match.position, (Edit(match.record.span, text), *extraction))


def _match(session: Session, memory: NativeMemory) -> Candidate | None:
    new = _candidate(-1, memory, Span(0, 0))
    candidates = [
        _candidate(position, native, session.elements[position])
        for position, native in enumerate(session.native["memories"])
        if isinstance(native, dict) and duplicate_key(native) == duplicate_key(memory)
    ]
    return most_similar(new, (candidate for candidate in candidates if new.matches(candidate, THRESHOLD)))


def _candidate(position: int, native: NativeMemory, span: Span) -> Candidate:
    content = get_text(native, "content")
    record = Record(span, 1, "", get_text(native, "type"), "", None, None, (), False, native)
    return Candidate(position, record, content, tokens(content))


def _extraction_edits(data: bytes, session: Session, now: float) -> tuple[Edit, ...]:
    """Return the edits of `last_updated` and `extraction_count` for one more extraction."""
    count = session.native.get("extraction_count")
    extractions = count if isinstance(count, int) and not isinstance(count, bool) else 0
    brace = session.value.start
    return (
        set_member(data, session.members, brace, "last_updated", json.dumps(iso(now)).encode()),
        set_member(data, session.members, brace, "extraction_count", str(extractions + 1).encode()),
    )


def _render(value: NativeMemory, depth: int) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.replace("\n", "\n" + " " * depth).encode("utf-8", "replace")


def fixes(loaded: LoadedFile) -> tuple[Fix, ...]:
    """Return the fix of a damaged file: quarantine for an unreadable one (on request), or the removal of trailing
    bytes."""
    if loaded.document.pending:
        return ()
    if any(finding.code == "broken-session" for finding in loaded.document.findings):
        return (Fix("broken-session", (), "unreadable; moved to quarantine", safe=False, remove=True),)
    return torn_file_fixes(loaded, b"\n")
