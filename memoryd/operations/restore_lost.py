"""Restore only the memories that a file has lost: those of a backup that are nowhere in the root now.

A memory is there if its id is: in this file, in another one or in an archive. Where the id depends on the content, its
text under another id counts as well. What memoryd removed is left out, as far back as the journal reaches, unless it
was undone or unarchived since; so is the state of a memory before an update that gave it another id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from memoryd.core.difference import compare
from memoryd.core.index import Identity
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import ParseOffset, Record, Role
from memoryd.core.spans import sha256
from memoryd.disk.journal import Entry, Step
from memoryd.errors import BusyError, ConflictError, NotFoundError, UsageError
from memoryd.index.texts import identity_of
from memoryd.layouts.protocol import WriteView
from memoryd.operations.backup import MAX_UNDO_ENTRIES, list_backups, no_backup, require_known
from memoryd.operations.file_versions import save_versions
from memoryd.operations.losses import records_to_restore
from memoryd.operations.overwrites import record_change
from memoryd.operations.restore import RestoredFiles, SelectedBackup, contents_after, restore_action, select_backup
from memoryd.operations.undo import restored_spans
from memoryd.store import Store
from memoryd.store.commit import Committed, Origin, change
from memoryd.store.layout_views import write_view, writer_of
from memoryd.store.undo_content import decode_edits, load_undo_content

_REMOVING = ("archive", "limits", "prune", "forget", "undo")  # operations that cut memories out
_ARCHIVING = ("archive", "limits", "prune", "forget", "unarchive")  # operations that may only set a flag
_MERGING = ("dedupe", "add")  # operations that may merge a memory into another; what it was is quarantined


class _Missing(NamedTuple):
    """The memories of a backup that the file lacks: the lost ones, and by id why others are left out. `before` is the
    content of the file, None if there is none."""

    before: bytes | None
    records: int
    lost: list[Record]
    left_out: dict[str, str]


def restore_lost(
    store: Store, now: float, *, file: str | None, at: str | None = None, dry_run: bool = False, zone: tzinfo = UTC
) -> tuple[Committed, RestoredFiles]:
    """Add the lost memories of a file to it again, byte for byte. Notes in the plan say which were left out, and why.

    Without `at`, they are those of the newest backup that has any; after a reported loss, of the newest that also holds
    as many memories as the file did before it. Without `file`, `at` must be a backup of one file. Raises NotFoundError
    if there is no backup, and ConflictError for a file to which nothing can be added.
    """
    if file is None:
        [file, *more] = select_backup(store, now, None, at).contents if at is not None else ("", "")
        if more:
            raise UsageError("no file to restore", hint="name it with --file, or a backup of one file with --at")
    if at is None:
        save_versions(store, now)  # one of which may have them
    require_known(store, file, now)
    if store.role(file) is not Role.SOURCE:
        raise UsageError(f"root {store.name}: {file} is not a memory file", hint="only a whole file can be restored")
    search = _Search(store, file, now)
    selected, elsewhere = search.choose() if at is None else (select_backup(store, now, file, at), {})
    if not dry_run:
        save_versions(store, now)  # not before one was read that this may rotate out

    def decide() -> Plan:
        missing = search.missing(selected)
        notes = [*_notes(file, missing.left_out), *_notes(file, elsewhere)]
        return Plan(_additions(store, file, selected, missing, write_view(store, now, zone=zone)), tuple(notes))

    contents = contents_after(store, decide())
    difference = compare({path: store.content(path) for path in contents}, contents)
    done = change(store, Origin("restore-lost", "command"), decide, now=now, dry_run=dry_run)
    record_change(store, done.receipt, added=[identity for action in done.plan.actions for identity in action.ids])
    return done, RestoredFiles(file, 1, selected.backup, difference)


def _additions(
    store: Store, file: str, selected: SelectedBackup, missing: _Missing, view: WriteView
) -> tuple[Action, ...]:
    """Return what adds the lost memories: the whole backup if there is no file, and nothing is left out."""
    content, lost = selected.contents[file], missing.lost
    if not lost:
        return ()
    if len(lost) == missing.records and store.tree.find(file) is None:
        created = restore_action(store, file, content, selected.modes.get(file), selected.backup)
        return () if created is None else (replace(created, ids=tuple(each.id for each in lost)),)
    texts = [each.span.of(content) for each in lost]
    try:
        planned = writer_of(store).restore(view, file, texts).plan.actions
    except ConflictError as error:
        error.hint = "without --lost-only the whole file is restored; the present one is backed up first"
        raise
    return tuple(_exact(replace(each, why=f"restored from {selected.backup}"), missing.before) for each in planned)


def _exact(action: Action, before: bytes | None) -> Action:
    """Return the action based on the content that lacks the memories: it is planned again if an agent wrote since."""
    if action.kind is Kind.CREATE:
        return action
    lead = b"\n" if action.kind is Kind.APPEND and before and not before.endswith(b"\n") else b""
    return replace(action, base=None if before is None else sha256(before), data=lead + action.data)


def _notes(file: str, reasons: dict[str, str]) -> Iterator[Action]:
    """Yield one note for each reason, with its ids."""
    for why in dict.fromkeys(reasons.values()):
        yield Action(Kind.NOTE, file, why, tuple(each for each, reason in reasons.items() if reason == why))


class _Search:
    """The search for what one file has lost. What is known of the rest of the root and of earlier changes is read once,
    the file itself each time."""

    def __init__(self, store: Store, file: str, now: float) -> None:
        self._store = store
        self._file = file
        self._now = now
        self._stores_id = writer_of(store).stores_id
        everything, known = store.catalogue.identities(), store.catalogue.identities(file)
        separate = store.known_layout.reader.separates_users  # another user may have stored the same
        self._elsewhere = [] if separate else list(Counter(everything) - Counter(known))
        self._trash = {load_undo_content(store.blobs, each).strip() for each in store.journal.trash.of_file(file)}
        self._pinned = store.pinned()
        self._removed, self._changed = self._read_journal()

    def choose(self) -> tuple[SelectedBackup, dict[str, str]]:
        """Return the backup to restore from, and for each id that only others have, which of them does. Raises
        NotFoundError."""
        store, file, now = self._store, self._file, self._now
        found: dict[str, _Missing] = {}
        for row in list_backups(store, now, file=file):
            if row.valid and row.reason is UNSET:  # what is in quarantine must be named
                try:
                    found[row.id] = self.missing(select_backup(store, now, file, row.id))
                except (NotFoundError, ConflictError, OSError):
                    continue  # `backup verify` reports a damaged one
        if not found:
            raise no_backup(store, file, now)
        wanted = records_to_restore(store, file, 0, [each.records for each in found.values()])
        having = [identity for identity, each in found.items() if each.lost]
        enough = [identity for identity in having if found[identity].records >= wanted]
        explained = [identity for identity, each in found.items() if each.left_out]  # the answer says why nothing is
        chosen = (enough or having or explained or list(found))[0]
        known = {self._key(each) for each in found[chosen].lost}
        others: dict[str, tuple[str, str]] = {}
        for identity in having:
            why = f"also lost, and not in {chosen}: `--at {identity}` restores it"
            more = {self._key(each): (each.id, why) for each in found[identity].lost if self._key(each) not in known}
            others = {**more, **others}
        return select_backup(store, now, file, chosen), dict(others.values())

    def missing(self, selected: SelectedBackup) -> _Missing:
        """Return what the file lacks of the memories in a backup."""
        store, file, now = self._store, self._file, self._now
        content, reader = selected.contents[file], store.known_layout.reader
        records = reader.parse(file, content, now=now, mtime=0.0, base=ParseOffset()).records
        source = store.load(file, now)
        if source is not None and source.loaded.document.pending:
            raise BusyError(f"root {store.name}: {file} is being written", hint="try again in a moment")
        here = self._keys([] if source is None else map(self._identity, source.loaded.document.records))
        elsewhere = self._keys(self._elsewhere)
        found = _Missing(None if source is None else source.loaded.data, len(records), [], {})
        for each in records:
            keys = {each.id, self._key(each)}
            if keys & here:
                continue
            why = "in another file or in the archive" if keys & elsewhere else self._why_removed(each, content)
            if why is None:
                found.lost.append(each)
            else:
                found.left_out[each.id] = f"left out: {why}"
        return found

    def _key(self, record: Record) -> str:
        return self._identity(record).text or record.id

    def _identity(self, record: Record) -> Identity:
        return Identity(record.id, "") if self._stores_id else identity_of(record)

    def _keys(self, identities: Iterable[Identity]) -> set[str]:
        """Return what shows that one of these memories is there."""
        keys = {each for identity in identities for each in (identity if not self._stores_id else identity[:1])}
        return keys - {""}

    def _why_removed(self, record: Record, content: bytes) -> str | None:
        """Return why memoryd removed a memory; None if it did not, or it was live again since."""
        text = record.span.of(content)
        if text.strip() in self._trash:
            return "forgotten; `memoryd unarchive` brings it back"
        if sha256(text) in self._pinned:
            return None
        entry = None if record.archived else self._changed.get(record.id if self._stores_id else text)
        entry = entry or next((entry for entry, removed in self._removed if text.strip() in removed), None)
        if entry is None:
            return None
        return f"removed or changed by {entry.operation}; `memoryd undo {entry.receipt}` reverts that"

    def _read_journal(self) -> tuple[list[tuple[Entry, bytes]], dict[str | bytes, Entry | None]]:
        """Return what each change of memoryd cut out of the file, newest first, and what else may make a memory of a
        backup obsolete: by id the newest change that archived it (None: made it live again), or where the id depends on
        the content, by text the update that changed it."""
        quarantine = self._store.journal.quarantine.entries()
        removed: list[tuple[Entry, bytes]] = []
        changed: dict[str | bytes, Entry | None] = {}
        for entry, step in self._store.journal.steps_of(self._file, MAX_UNDO_ENTRIES):
            if entry.state != "done" or step.kind not in (Kind.REWRITE, Kind.REMOVE):
                continue
            if entry.operation in _REMOVING:
                removed.append((entry, self._removed_bytes(step)))
            elif entry.operation in _MERGING:
                parts = (each for each in quarantine if each.file == self._file and each.at == entry.at)
                removed.append((entry, b"\0".join(self._store.blobs.get(each.blob) for each in parts)))
            if step.kind is Kind.REWRITE and entry.operation in (_ARCHIVING if self._stores_id else ("update",)):
                for identity, text in self._changed_by(step):
                    found = None if entry.operation == "unarchive" else entry
                    changed.setdefault(identity if self._stores_id else text, found)
        return removed, changed

    def _removed_bytes(self, step: Step) -> bytes:
        content = load_undo_content(self._store.blobs, step)
        if step.kind is Kind.REMOVE:
            return content
        return b"\0".join(edit.new for edit in decode_edits(content) if edit.span.start == edit.span.end)

    def _changed_by(self, step: Step) -> Iterator[tuple[str, bytes]]:
        """Yield id and text of the memories that a step changed, as they were before it, if a version from then is
        kept."""
        versions = (each for each in self._store.vault.versions(self._file) if each.valid)
        version = next((each for each in versions if each.sha256 == step.before_sha), None)
        if version is None:
            return
        before, reader = self._store.vault.content(version), self._store.known_layout.reader
        spans = restored_spans(decode_edits(load_undo_content(self._store.blobs, step)))
        for each in reader.parse(self._file, before, now=self._now, mtime=0.0, base=ParseOffset()).records:
            if any(span.start < each.span.end and each.span.start < span.end for span in spans):
                yield each.id, each.span.of(before)
