"""Take a change back: the journal replayed backwards, byte for byte, or a refusal that names what changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Base, Role
from memoryd.core.text import Edit, Span, splice
from memoryd.disk.journal import Entry, Step
from memoryd.disk.shelf import Held
from memoryd.disk.tree import NotBeneathError, NotRegularError, TooLargeError
from memoryd.errors import ConflictError
from memoryd.operations.laid_aside import put_back_by_undo
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change
from memoryd.store.edits import decode_edits
from memoryd.store.kept import kept_of

MOVES = ("archive", "limits", "prune", "dedupe")  # what they moved would be due again at once: an undo holds it back


def undo(store: Store, receipt: str, now: float, *, dry_run: bool = False) -> Done:
    """Every file must still be what the change left; ConflictError names each that is not."""
    entry = store.journal.entry(receipt)
    if entry.state != "done":
        raise ConflictError(
            f"the change {receipt} is {entry.state.replace('_', ' ')}, there is nothing to take back",
            hint="`memoryd history` shows what can be undone",
        )

    def decide() -> Plan:
        changed = [step.path for step in entry.steps if not _as_left(store, step)]
        if changed:
            names = ", ".join(dict.fromkeys(changed))
            raise ConflictError(
                f"{names} changed since {receipt}; nothing was undone",
                hint="a backup can still be restored: `memoryd backup list`",
                data={"changed": list(dict.fromkeys(changed))},
            )
        if entry.operation in MOVES and not dry_run:
            # Before anything moves: a crash in between must not leave it to the schedule to undo the undo.
            store.journal.hold(_brought_back(store, entry, now))
        return Plan(tuple(_backwards(store, entry)))

    done = change(store, Cause("undo", "command"), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)
    if done.receipt is not None:
        store.journal.finish(receipt, "undone", undone_by=done.receipt)
        _tidy(store, entry)
        if entry.operation == "forget":
            put_back_by_undo(store, {step.path for step in entry.steps})
    return done


def _as_left(store: Store, step: Step) -> bool:
    if step.kind == "chmod":
        return True
    try:
        content = store.tree.read(step.path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return step.after_sha is None
    except (NotRegularError, NotBeneathError, TooLargeError):
        return False  # something else has come to stand there
    return step.after_sha == sha256(content)


def _backwards(store: Store, entry: Entry) -> Iterator[Action]:
    """Last step first, so that a memory is back in the live file before its archive copy goes. All of it is one
    group, since groups may have shared an archive: a crash rolls it back whole, so that no memory stands in both
    places for good."""
    why = f"undo of {entry.operation} {entry.receipt}"
    actions = [_backward(store, step, why) for step in reversed(entry.steps)]
    yield from (replace(action, copy=True) for action in actions[:-1])
    yield from actions[-1:]


def _backward(store: Store, step: Step, why: str) -> Action:
    if step.kind == "chmod":
        return Action(Kind.CHMOD, step.path, why, mode=step.mode)
    blob = kept_of(store.blobs, step)
    if step.kind == "rewrite":
        return Action(Kind.REWRITE, step.path, why, edits=decode_edits(blob), base=step.after_sha)
    if step.kind == "remove":
        return Action(Kind.CREATE, step.path, why, data=blob, mode=step.mode)
    if step.before_sha is None:
        return Action(Kind.REMOVE, step.path, why, base=step.after_sha)
    span = Span(step.base_size or 0, step.after_size or 0)
    return Action(Kind.REWRITE, step.path, why, edits=(Edit(span, b""),), base=step.after_sha)


def _tidy(store: Store, entry: Entry) -> None:
    """Folders that the change had made go again, where nothing else has come into them; the last one made
    first, since the first may hold the others."""
    for step in reversed(entry.steps):
        made = re.fullmatch(r"made (\d+) folders", step.note or "")
        folder = step.path
        for _ in range(int(made[1]) if made else 0):
            folder = folder.rpartition("/")[0]
            if store.tree.listdir(folder):
                break
            with suppress(FileNotFoundError):  # somebody else was as tidy
                store.tree.rmdir(folder)


def _brought_back(store: Store, entry: Entry, now: float) -> Iterator[Held]:
    """What the undo will bring back, by its text."""
    assert store.layout is not None
    for step in entry.steps:
        if step.kind not in ("rewrite", "remove") or store.role(step.path) is not Role.SOURCE:
            continue
        content = _restored(store, step)
        back = _restored_spans(store, step) if step.kind == "rewrite" else [Span(0, len(content))]
        if step.kind == "remove":
            yield Held(step.path, "", sha256(content))
        document = store.layout.parse(step.path, content, now=now, mtime=0.0, base=Base())
        for record in document.records:
            if any(_touches(span, record.span) for span in back):
                yield Held(step.path, record.id, sha256(record.span.of(content)))


def _restored(store: Store, step: Step) -> bytes:
    """The content that the undo of this step makes."""
    blob = kept_of(store.blobs, step)
    return splice(store.tree.read(step.path)[0], decode_edits(blob)) if step.kind == "rewrite" else blob


def _touches(restored: Span, record: Span) -> bool:
    """Also where the change was made inside the memory: a flag put back, or (an empty span) taken out again."""
    return restored.start < record.end and record.start < max(restored.end, restored.start + 1)


def _restored_spans(store: Store, step: Step) -> list[Span]:
    """Where the restored bytes stand in the restored content."""
    shift, spans = 0, []
    for edit in decode_edits(kept_of(store.blobs, step)):
        start = edit.span.start + shift
        spans.append(Span(start, start + len(edit.new)))
        shift += len(edit.new) - (edit.span.end - edit.span.start)
    return spans
