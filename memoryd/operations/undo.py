"""Undo a change by reversing its steps in the journal.

The undo is exact to the byte if the files have not changed since, and restores single memories otherwise. If that fails
too, it is refused with the names of the changed files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from memoryd.core.json_spans import elements
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import ParseOffset, Record, Role
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.disk.journal import Entry, Step
from memoryd.disk.journal.trash import Pin
from memoryd.disk.syscalls import NO_READABLE_FILE, NotBeneathError, NotRegularError, TooLargeError
from memoryd.errors import ConflictError
from memoryd.layouts.protocol import Located
from memoryd.operations import index_ownership
from memoryd.operations.batch import Drafts
from memoryd.operations.trash import drop_restored
from memoryd.store import Store
from memoryd.store.commit import Committed, Origin, change
from memoryd.store.layout_views import write_view, writer_of
from memoryd.store.undo_content import decode_edits, load_undo_content

RESTORABLE_OPERATIONS = ("archive", "limits", "prune", "forget")  # their memories can be restored one by one
PINNED_OPERATIONS = ("archive", "limits", "prune", "dedupe")  # an undo pins memories that would be due again at once
_NOT_UNDOABLE = {
    "begun": "is not finished; there is nothing to undo",
    "undone": "has already been undone",
    "rolled_back": "was rolled back; there is nothing to undo",
    "interrupted": "was interrupted; there is nothing to undo",
    "failed": "failed; there is nothing to undo",
}  # by the state of a change


def undo(store: Store, receipt: str, now: float, *, dry_run: bool = False) -> Committed:
    """Undo a change. Raises NotFoundError, and ConflictError with the files in which an affected memory changed."""
    entry = store.journal.entry(receipt)
    if entry.state != "done":
        raise ConflictError(
            f"the change {receipt} {_NOT_UNDOABLE.get(entry.state, entry.state)}",
            hint="`memoryd history` shows what can be undone",
        )

    def decide() -> Plan:
        plan = _plan(store, entry, now)
        if entry.operation in PINNED_OPERATIONS and not dry_run:
            # Pinned before anything moves, so that the schedule cannot revert the undo after a crash.
            store.journal.pins.pin(_restored_pins(store, plan, now))
        return plan

    done = change(store, Origin("undo", "command"), decide, now=now, dry_run=dry_run)
    if done.receipt is not None:
        store.journal.finish(receipt, "undone", undone_by=done.receipt)
        _remove_created_directories(store, entry)
        if entry.operation == index_ownership.OPERATION:
            index_ownership.release(store, entry)
        if entry.operation == "forget":
            drop_restored(store, {step.path for step in entry.steps})
    return done


def _plan(store: Store, entry: Entry, now: float) -> Plan:
    """Plan to reverse each step; or to restore single memories, where a file has changed otherwise than by growing."""
    if entry.operation == index_ownership.OPERATION:
        return index_ownership.plan_restore(store, entry)
    why = f"undo of {entry.operation} {entry.receipt}"
    changed = [step for step in entry.steps if not _is_unchanged(store, step)]
    later = {step: undo_in_grown_file(store, step, why) for step in changed}
    known = {step: action for step, action in later.items() if action is not None}
    if entry.operation in (*RESTORABLE_OPERATIONS, "undo"):
        known = {step: action for step, action in known.items() if not _has_returned(store, step)}
    if len(known) == len(changed):
        return Plan(tuple(_backwards(store, entry, why, known)))
    plan = restore_records(store, entry, now) if entry.operation in RESTORABLE_OPERATIONS else None
    if plan is None:
        raise _conflict(entry, [step.path for step in changed if step not in known])
    return plan


def _conflict(entry: Entry, changed: list[str]) -> ConflictError:
    paths = list(dict.fromkeys(changed))
    hint = "`memoryd backup list` shows what can be restored, `memoryd backup restore --dry-run` the difference"
    if entry.operation in RESTORABLE_OPERATIONS:
        hint = "`memoryd unarchive ID` restores single memories; " + hint
    return ConflictError(
        f"{', '.join(paths)} changed since {entry.receipt}; nothing was undone", hint=hint, data={"changed": paths}
    )


def _is_unchanged(store: Store, step: Step) -> bool:
    if step.kind is Kind.CHMOD:
        return True
    try:
        content = store.tree.read(step.path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return step.after_sha is None
    except (NotRegularError, NotBeneathError, TooLargeError):
        return False  # replaced by something else
    return step.after_sha == sha256(content)


def _backwards(store: Store, entry: Entry, why: str, later_changes: Mapping[Step, Action]) -> Iterator[Action]:
    """Yield the reverse of each step, the last first, so that a memory is in the live file before its archive copy is
    removed. All actions are one group, because groups may share an archive: a crash rolls them all back."""
    steps = [step for step in reversed(entry.steps) if not _is_gone(store, step)]
    actions = [later_changes.get(step) or _backward(store, step, why) for step in steps]
    yield from (replace(action, copy=True) for action in actions[:-1])
    yield from actions[-1:]


def _is_gone(store: Store, step: Step) -> bool:
    """True if only the mode of a file was changed, and the file has been removed since: it has no mode to restore."""
    if step.kind is not Kind.CHMOD:
        return False
    try:
        store.tree.mode_of(step.path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


def _backward(store: Store, step: Step, why: str) -> Action:
    if step.kind is Kind.CHMOD:
        return Action(Kind.CHMOD, step.path, why, mode=step.mode)
    blob = load_undo_content(store.blobs, step)
    if step.kind is Kind.REWRITE:
        return Action(Kind.REWRITE, step.path, why, edits=decode_edits(blob), base=step.after_sha)
    if step.kind is Kind.REMOVE:
        return Action(Kind.CREATE, step.path, why, data=blob, mode=step.mode)
    if step.before_sha is None:
        return Action(Kind.REMOVE, step.path, why, base=step.after_sha)
    span = Span(step.base_size or 0, step.after_size or 0)
    return Action(Kind.REWRITE, step.path, why, edits=(Edit(span, b""),), base=step.after_sha)


def _remove_created_directories(store: Store, entry: Entry) -> None:
    """Remove the directories that the change created, innermost first, if they are empty."""
    for step in reversed(entry.steps):
        made = re.fullmatch(r"made (\d+) folders", step.note or "")
        directory = step.path
        for _ in range(int(made[1]) if made else 0):
            directory = directory.rpartition("/")[0]
            if store.tree.listdir(directory):
                break
            with suppress(FileNotFoundError):  # already removed by another program
                store.tree.rmdir(directory)


def _restored_pins(store: Store, plan: Plan, now: float) -> Iterator[Pin]:
    """Yield a pin with the hash of each memory that the undo restores."""
    for action in plan.actions:
        if store.role(action.path) is not Role.SOURCE or action.kind is Kind.REMOVE:
            continue
        content, back = _restored(store, action)
        if action.kind is Kind.CREATE:
            yield Pin(action.path, "", sha256(content))
        document = store.known_layout.reader.parse(action.path, content, now=now, mtime=0.0, base=ParseOffset())
        for record in document.records:
            if any(_overlaps(span, record.span) for span in back):
                yield Pin(action.path, record.id, sha256(record.span.of(content)))


def _restored(store: Store, action: Action) -> tuple[bytes, list[Span]]:
    """Return the content after the action and the spans of the restored bytes in it."""
    if action.kind is Kind.CREATE:
        return action.data, [Span(0, len(action.data))]
    if action.kind is Kind.APPEND:
        before = current_content(store, action.path) or b""  # an agent may have deleted the file
        start = len(before) + (not before.endswith(b"\n") if before else 0)
        return (before + b"\n" * (start - len(before)) + action.data), [Span(start, start + len(action.data))]
    return splice(store.tree.read(action.path)[0], action.edits), restored_spans(action.edits)


def _overlaps(restored: Span, record: Span) -> bool:
    """True if the spans overlap. An empty restored span inside the memory counts: a flag was removed there."""
    return restored.start < record.end and record.start < max(restored.end, restored.start + 1)


def restored_spans(edits: Sequence[Edit]) -> list[Span]:
    """Return where the new bytes of edits are once they are applied."""
    shift, spans = 0, []
    for edit in edits:
        start = edit.span.start + shift
        spans.append(Span(start, start + len(edit.new)))
        shift += len(edit.new) - (edit.span.end - edit.span.start)
    return spans


def undo_in_grown_file(store: Store, step: Step, why: str) -> Action | None:
    """Return the action that undoes a step in a file that has only grown since; None if it changed otherwise."""
    if step.kind not in (Kind.REWRITE, Kind.APPEND, Kind.CREATE) or step.after_sha is None or step.after_size is None:
        return None
    content = current_content(store, step.path)
    if content is None or sha256(content[: step.after_size]) != step.after_sha:
        return None
    if step.kind is Kind.REWRITE:
        edits = decode_edits(load_undo_content(store.blobs, step))
    else:
        edits = (Edit(Span(step.base_size or 0, step.after_size), b""),)
    return Action(Kind.REWRITE, step.path, why, edits=edits, base=sha256(content))


def _has_returned(store: Store, step: Step) -> bool:
    """True if a memory that the step removed is in the part added since, marked as archived or not: it must not come
    back a second time."""
    added = (current_content(store, step.path) or b"")[step.after_size or 0 :]
    if not added or not store.known_layout.reader.parses_fragments:
        return False  # a JSON document does not grow at its end
    back = [_fields(store, step.path, text) for text in _texts(store, step.path, added)]
    return any(_fields(store, step.path, text) in back for text in _removed_texts(store, step))


def restore_records(store: Store, entry: Entry, now: float) -> Plan | None:
    """Plan to restore the removed memories one by one; None if the steps do not show them."""
    removed = [
        (step, list(_removed_texts(store, step))) for step in entry.steps if store.role(step.path) is Role.SOURCE
    ]
    if not removed or not all(texts for _, texts in removed):
        return None
    archives = [step.path for step in entry.steps if store.role(step.path) is Role.ARCHIVE]
    drafts = Drafts(store.known_layout, write_view(store, now))
    for step, texts in removed:
        for text in texts:
            _restore_record(store, drafts, step.path, text, archives)
    return drafts.plan()


def _restore_record(store: Store, drafts: Drafts, path: str, text: bytes, archives: list[str]) -> None:
    view = drafts.view()
    if text.strip() in (view.content(path) or b""):
        return
    found = next((each for archive in archives if (each := _find_archived(store, drafts, archive, text))), None)
    if found is not None:
        drafts.add(writer_of(store).unarchive(view, found))
    elif archives:
        raise ConflictError(
            f"a memory removed from {path} is missing or changed in {', '.join(archives)}; nothing was undone",
            hint="restore the others with `memoryd unarchive ID`",
            data={"changed": archives},
        )
    else:
        drafts.add(writer_of(store).restore(view, path, [text]))


def _find_archived(store: Store, drafts: Drafts, path: str, text: bytes) -> Located | None:
    loaded = drafts.view().load(path)
    if loaded is None:
        return None
    wanted = _fields(store, path, text)
    there = (each for each in loaded.document.records if _fields(store, path, each.span.of(loaded.data)) == wanted)
    record: Record | None = next(there, None)
    return Located(path, loaded, record) if record is not None else None


def _fields(store: Store, path: str, text: bytes) -> object:
    """Return the fields of a memory without its archive mark."""
    native = store.known_layout.reader.native(path, text.strip())
    return {key: value for key, value in native.items() if key != "archived"}


def _removed_texts(store: Store, step: Step) -> Iterator[bytes]:
    """Yield the texts of the memories that a step removed from its file; none if it did anything else."""
    if step.kind is not Kind.REWRITE:
        return
    edits = decode_edits(load_undo_content(store.blobs, step))
    if any(edit.span.start != edit.span.end for edit in edits):
        return
    for edit in edits:
        yield from _texts(store, step.path, edit.new)


def _texts(store: Store, path: str, part: bytes) -> Iterator[bytes]:
    if store.known_layout.reader.parses_fragments:
        document = store.known_layout.reader.parse(path, part, now=0.0, mtime=0.0, base=ParseOffset())
        yield from (record.span.of(part) for record in document.records)
        return
    listed = b"[" + part.strip().strip(b",") + b"]"
    yield from (span.of(listed) for span in elements(listed, Span(0, len(listed))))


def current_content(store: Store, path: str) -> bytes | None:
    """Return the content of a file; None if it is missing, not a regular file, or too large."""
    try:
        return store.tree.read(path)[0]
    except NO_READABLE_FILE:
        return None
