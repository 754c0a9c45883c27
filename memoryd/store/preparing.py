"""Preparing one action of a plan: read what it is about, check that it is what was decided on, keep what an undo needs.

Nothing is changed yet, but for what is kept in the state directory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memoryd.core.digest import sha256
from memoryd.core.plan import WHATEVER, Action, Fingerprint, Kind
from memoryd.core.text import inverse, splice
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.journal import Step
from memoryd.store.changes import OwnChange, digest_of, lines_of
from memoryd.store.edits import encode_edits
from memoryd.store.kept import Kept, keep
from memoryd.store.store import Store

if TYPE_CHECKING:
    from hashlib import _Hash


@dataclass(frozen=True, slots=True)
class Prepared:
    """`before` and `after` are contents, None for no file; of an append that did not look both are missing.
    `change` says what lines become what, its `after` not being known yet."""

    action: Action
    step: Step
    before: bytes | None
    after: bytes | None
    fingerprint: Fingerprint | None
    change: OwnChange | None = None


def prepare(store: Store, action: Action, group: int) -> Prepared:
    """Raises StoreChangedError where the file is not what the action was decided on."""
    if action.kind is Kind.CHMOD:
        was = store.tree.mode_of(action.path)
        return Prepared(action, Step("chmod", action.path, group, mode=was), None, None, None)
    if action.kind is Kind.APPEND and action.base == WHATEVER:
        blind = _prepare_append(store, action, group)
        if blind is not None:
            return blind
        action = replace(action, base=None)
    return _prepare_known(store, action, group)


def _prepare_known(store: Store, action: Action, group: int) -> Prepared:
    before, fingerprint = _current(store, action.path)
    found = sha256(before) if before is not None else None
    if action.kind is not Kind.CREATE and found != action.base:
        raise StoreChangedError(action.path)
    after, kept = _outcome(store, action, before)
    digest = digest_of(after) if after is not None else None
    step = Step(
        str(action.kind),
        action.path,
        group,
        before_sha=found,
        before_size=len(before) if before is not None else None,
        after_sha=digest.hexdigest() if digest is not None else None,
        after_size=len(after) if after is not None else None,
        base_size=len(before) if before is not None else 0,
        blob=kept.blob,
        content=kept.content,
        mode=fingerprint.mode if fingerprint is not None and action.kind is Kind.REMOVE else None,
    )
    prepared = Prepared(action, step, before, after, fingerprint)
    lined = store.layout is not None and store.layout.appendable
    return replace(prepared, change=_change_of(prepared, digest)) if lined and digest is not None else prepared


def _change_of(prepared: Prepared, digest: _Hash) -> OwnChange | None:
    """Where files are read line by line, a rewrite is taken in by lines; `digest` is that of the file after it."""
    action, before, after, fingerprint = prepared.action, prepared.before, prepared.after, prepared.fingerprint
    if action.kind is not Kind.REWRITE or not action.edits or not before or not after or not fingerprint:
        return None
    start, line, old, new = lines_of(before, after, action.edits)
    if new and not new.endswith(b"\n") and start + len(new) < len(after):
        return None  # the line below was joined to it
    return OwnChange(fingerprint, start, line, old, new, fingerprint, digest)


def _prepare_append(store: Store, action: Action, group: int) -> Prepared | None:
    """Lines for the end of a file that is there, None where it is not. It is read only when it is not as we left it."""
    found = store.tree.stat(action.path)
    if found is None:
        return None
    lead, digest = b"", store.own_changes.digest(action.path, found)
    if digest is None:
        content, found = store.tree.read(action.path)
        lead = b"" if content.endswith(b"\n") or not content else b"\n"
        digest = digest_of(content)
    tail = lead + action.data
    before_sha = digest.hexdigest()
    digest.update(tail)
    kept = keep(store.blobs, tail)
    step = Step(
        str(action.kind),
        action.path,
        group,
        before_sha=before_sha,
        before_size=found.size,
        after_sha=digest.hexdigest(),
        after_size=found.size + len(tail),
        base_size=found.size,
        blob=kept.blob,
        content=kept.content,
    )
    return Prepared(
        replace(action, data=tail) if lead else action,
        step,
        None,
        None,
        found,
        OwnChange(found, found.size, None, b"", tail, found, digest),
    )


def _current(store: Store, path: str) -> tuple[bytes | None, Fingerprint | None]:
    try:
        return store.tree.read(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None, None


def _outcome(store: Store, action: Action, before: bytes | None) -> tuple[bytes | None, Kept]:
    """The content after the action, and what takes it back (or proves it was ours)."""
    if action.kind is Kind.APPEND:
        return (before or b"") + action.data, keep(store.blobs, action.data)
    if action.kind is Kind.REWRITE:
        assert before is not None
        return splice(before, action.edits), keep(store.blobs, encode_edits(inverse(before, action.edits)))
    if action.kind is Kind.CREATE:
        return action.data, keep(store.blobs, action.data)
    return None, keep(store.blobs, before or b"")
