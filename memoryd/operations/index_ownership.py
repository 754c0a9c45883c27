"""Index files that another program wrote first: who may write them.

The first write over each is journalled. An undo of that puts the file of the other program back, and memoryd leaves it
alone until `reindex` is called.
"""

from __future__ import annotations

from memoryd.core.findings import Finding, Severity
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.spans import Content, Edit, Span, joined, sha256
from memoryd.disk.journal import Entry, Step
from memoryd.store import Store
from memoryd.store.undo_content import load_undo_content, save_undo_content

OPERATION = "index"
_OWNED_PATHS = "index_taken"  # journal key: paths that memoryd has written
_RELEASED_PATHS = "index_left"  # journal key: paths left to another program by an undo


def journal_first_write(store: Store, path: str, before: bytes | None, content: Content, now: float) -> None:
    """Journal the first write over an index file of another program, so that it can be undone."""
    owned: list[str] = store.journal.facts.get(_OWNED_PATHS, [])
    if path in owned:
        return
    if before:
        undo, after = save_undo_content(store.blobs, before), joined(content)
        step = Step(
            Kind.REWRITE,
            path,
            before_sha=sha256(before),
            before_size=len(before),
            after_sha=sha256(after),
            after_size=len(after),
            base_size=len(before),
            blob=undo.blob,
            content=undo.content,
        )
        message = f"first write over {path}, which another program wrote; `undo` puts it back and leaves it alone"
        store.journal.record(OPERATION, "watch", message, now, [step])
    store.journal.facts.set(_OWNED_PATHS, [*owned, path])


def plan_restore(store: Store, entry: Entry) -> Plan:
    """Plan to restore the index file of the other program, whatever was written since."""
    actions: list[Action] = []
    why = f"undo of {entry.operation} {entry.receipt}"
    for step in entry.steps:
        before, content = load_undo_content(store.blobs, step), store.content(step.path)
        if content is None:
            actions.append(Action(Kind.CREATE, step.path, why, data=before))
        else:
            edits = (Edit(Span(0, len(content)), before),)
            actions.append(Action(Kind.REWRITE, step.path, why, edits=edits, base=sha256(content)))
    return Plan(tuple(actions))


def release(store: Store, entry: Entry) -> None:
    """Stop writing the index files of this entry; another program writes them."""
    released: list[str] = store.journal.facts.get(_RELEASED_PATHS, [])
    store.journal.facts.set(
        _RELEASED_PATHS, [*released, *(step.path for step in entry.steps if step.path not in released)]
    )
    store.index.dirty = True


def reclaim(store: Store) -> None:
    """Write released index files again, because `reindex` was called."""
    if store.journal.facts.get(_RELEASED_PATHS, []):
        store.journal.facts.set(_RELEASED_PATHS, [])
        store.journal.facts.set(_OWNED_PATHS, [])
        store.index.dirty = True


def released_findings(store: Store) -> tuple[Finding, ...]:
    """Return a finding for each released index file."""
    message = f"was put back by an undo and is left alone; `memoryd reindex {store.name}` keeps it current again"
    return tuple(
        Finding("index-unmanaged", path, message, level=Severity.INFO)
        for path in store.journal.facts.get(_RELEASED_PATHS, [])
    )
