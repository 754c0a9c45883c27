"""Work before the first write to a root: recovery after a crash, and migration of old versions.

A migration runs if the index has its old version. It maps the text of a record to edits of that text; everything else
stays byte for byte. Each file is backed up, rewritten by exact edits, and journalled.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.spans import Edit, Span, sha256
from memoryd.disk.syscalls import TooLargeError
from memoryd.layouts.protocol import LoadedFile, Migration
from memoryd.log import get_logger
from memoryd.store import Store
from memoryd.store.commit import Origin, change
from memoryd.store.layout_views import upkeep_view
from memoryd.store.recovery import recover

log = get_logger(__name__)


def recover_and_migrate(store: Store, now: float) -> bool:
    """Recover from a crash, then migrate. Returns False if the layout is not known yet and nothing could be migrated.

    Raises OSError, and BusyError if other writers never pause during a migration.
    """
    for message in recover(store, now):
        log.warning("recovered", root=store.name, what=message)
    if store.layout is None:
        return False
    if not store.observes:
        for message in migrate(store, now):
            log.info("migrated", root=store.name, what=message)
    return True


def migrate(store: Store, now: float) -> list[str]:
    """Carry out the migrations from the version on disk upwards. Returns a sentence for each."""
    layout = store.known_layout
    version = _version(store) if layout.index.migrations else None
    messages: list[str] = []
    for migration in layout.index.migrations:
        if version is None or migration.old != version:
            continue
        step = migration

        def decide(step: Migration = step) -> Plan:
            return Plan(tuple(_actions(store, step, now)))

        try:
            done = change(store, Origin("migrate", "start"), decide, now=now)
        except Exception:
            log.exception("migration failed", root=store.name, old=migration.old, new=migration.new)
            raise
        version = migration.new
        receipt = f", receipt {done.receipt}" if done.receipt else ", nothing to change"
        messages.append(f"from version {migration.old} to {migration.new}{receipt}")
    return messages


def _version(store: Store) -> str | None:
    for path in store.known_layout.index.paths:
        try:
            return store.known_layout.index.version(store.read(path)[0])
        except (FileNotFoundError, TooLargeError):
            continue
    return None


def _actions(store: Store, migration: Migration, now: float) -> Iterator[Action]:
    for path, loaded in upkeep_view(store, now).live.items():
        edits = tuple(_edits(loaded, migration))
        if edits:
            why = f"from version {migration.old} to {migration.new}"
            ids = tuple(record.id for record in loaded.document.records)
            yield Action(Kind.REWRITE, path, why, ids, edits, base=sha256(loaded.data))


def _edits(loaded: LoadedFile, migration: Migration) -> Iterator[Edit]:
    for record in loaded.document.records:
        text = record.span.of(loaded.data)
        for edit in migration.edits(text):
            start = record.span.start
            yield Edit(Span(start + edit.span.start, start + edit.span.end), edit.new)
