"""Prepare an action for its commit: read what it needs, check what it was planned on, and save its undo content.

No file of the root changes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.defaults import MB
from memoryd.core.digest import digest_of
from memoryd.core.plan import ANY_CONTENT, Action, Kind
from memoryd.core.spans import Fingerprint, inverse, sha256, splice
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.journal import Step
from memoryd.errors import LimitExceededError
from memoryd.store.pending_changes import OwnChange, lines_of
from memoryd.store.store import Store
from memoryd.store.undo_content import UndoContent, encode_edits, save_undo_content

if TYPE_CHECKING:
    from memoryd.core.digest import Hash


class PreparedAction(Struct, frozen=True):
    """An action and all that must be read to carry it out. `before` and `after` are contents, None for no file; a blind
    append has neither. `change` has the changed lines; its `after` is set once the file is written."""

    action: Action
    step: Step
    before: bytes | None
    after: bytes | None
    fingerprint: Fingerprint | None
    change: OwnChange | None = None


def prepare(store: Store, action: Action, group: int) -> PreparedAction:
    """Read what an action needs and save its undo content; no file changes yet. Raises StoreChangedError if the file is
    no longer what the action was planned on."""
    if action.kind is Kind.CHMOD:
        mode = store.tree.mode_of(action.path)
        return PreparedAction(action, Step(Kind.CHMOD, action.path, group, mode=mode), None, None, None)
    if action.kind is Kind.APPEND and action.base == ANY_CONTENT:
        blind = _prepare_append(store, action, group)
        if blind is not None:
            return blind
        action = replace(action, base=None)
    return _prepare_exact(store, action, group)


def _prepare_exact(store: Store, action: Action, group: int) -> PreparedAction:
    before, fingerprint = _current(store, action.path)
    current_sha = sha256(before) if before is not None else None
    if action.kind is not Kind.CREATE and current_sha != action.base:
        raise StoreChangedError(action.path)
    after, undo = _outcome(store, action, before)
    _check_size(store, action.path, len(before or b""), len(after or b""))
    digest = digest_of(after) if after is not None else None
    step = Step(
        action.kind,
        action.path,
        group,
        before_sha=current_sha,
        before_size=len(before) if before is not None else None,
        after_sha=digest.hexdigest() if digest is not None else None,
        after_size=len(after) if after is not None else None,
        base_size=len(before) if before is not None else 0,
        blob=undo.blob,
        content=undo.content,
        mode=fingerprint.mode if fingerprint is not None and action.kind is Kind.REMOVE else None,
    )
    prepared = PreparedAction(action, step, before, after, fingerprint)
    line_based = store.file_rules.append_only
    return replace(prepared, change=_changed_lines(prepared, digest)) if line_based and digest is not None else prepared


def _check_size(store: Store, path: str, before: int, after: int) -> None:
    """Refuse a change that makes a file too large to be read: answers and backups would leave it out."""
    most = store.max_bytes_of(path)
    if after > max(before, most):
        raise LimitExceededError(
            f"root {store.name}: {path} would grow to {after} bytes, and files above {most // MB} MB are not read; "
            "nothing was changed",
            hint="forget memories that are not needed, or merge duplicates with `memoryd dedupe`",
        )


def _changed_lines(prepared: PreparedAction, digest: Hash) -> OwnChange | None:
    """Return the lines that a rewrite changes, in a layout whose files are read line by line. `digest` covers the file
    after the rewrite."""
    action, before, after, fingerprint = prepared.action, prepared.before, prepared.after, prepared.fingerprint
    if action.kind is not Kind.REWRITE or not action.edits or not before or not after or not fingerprint:
        return None
    start, line, old, new = lines_of(before, after, action.edits)
    if new and not new.endswith(b"\n") and start + len(new) < len(after):
        return None  # the next line was joined to it
    return OwnChange(fingerprint, start, line, old, new, fingerprint, digest, after.endswith(b"\n"))


def _prepare_append(store: Store, action: Action, group: int) -> PreparedAction | None:
    """Prepare an append to an existing file; None if there is none. The file is read only if another program changed it
    since our last change."""
    fingerprint = store.tree.stat(action.path)
    if fingerprint is None:
        return None
    lead, digest = b"", store.pending_changes.digest(action.path, fingerprint)
    if digest is None:
        content, fingerprint = store.tree.read(action.path)
        lead = b"" if content.endswith(b"\n") or not content else b"\n"
        digest = digest_of(content)
    tail = lead + action.data
    _check_size(store, action.path, fingerprint.size, fingerprint.size + len(tail))
    before_sha = digest.hexdigest()
    digest.update(tail)
    undo = save_undo_content(store.blobs, tail)
    step = Step(
        action.kind,
        action.path,
        group,
        before_sha=before_sha,
        before_size=fingerprint.size,
        after_sha=digest.hexdigest(),
        after_size=fingerprint.size + len(tail),
        base_size=fingerprint.size,
        blob=undo.blob,
        content=undo.content,
    )
    return PreparedAction(
        replace(action, data=tail) if lead else action,
        step,
        None,
        None,
        fingerprint,
        OwnChange(fingerprint, fingerprint.size, None, b"", tail, fingerprint, digest, tail.endswith(b"\n")),
    )


def _current(store: Store, path: str) -> tuple[bytes | None, Fingerprint | None]:
    try:
        return store.read(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None, None


def _outcome(store: Store, action: Action, before: bytes | None) -> tuple[bytes | None, UndoContent]:
    """Return the content after the action, and the content that undoes it (or proves that memoryd wrote it)."""
    if action.kind is Kind.APPEND:
        return (before or b"") + action.data, save_undo_content(store.blobs, action.data)
    if action.kind is Kind.REWRITE:
        assert before is not None
        return splice(before, action.edits), save_undo_content(store.blobs, encode_edits(inverse(before, action.edits)))
    if action.kind is Kind.CREATE:
        return action.data, save_undo_content(store.blobs, action.data)
    return None, save_undo_content(store.blobs, before or b"")
