"""Restore a file, or all files of a snapshot, from a backup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memoryd.core.difference import TextDifference, compare
from memoryd.core.plan import ANY_CONTENT, Action, Kind, Plan
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.disk import backups
from memoryd.disk.journal.backups import QuarantineEntry
from memoryd.disk.snapshots import Version
from memoryd.errors import NotFoundError, UsageError
from memoryd.operations.backup import directory_backups, require_known
from memoryd.operations.file_versions import save_versions
from memoryd.operations.losses import records_to_restore
from memoryd.store import Store
from memoryd.store.commit import Committed, Origin, change
from memoryd.store.layout_views import write_view, writer_of

_QUARANTINED = re.compile(r"q[0-9]+")


class RestoredFiles(NamedTuple):
    """The first file, the number of files, the id of the backup, and how it differs from the live files."""

    file: str
    files: int
    backup: str
    difference: TextDifference


class SelectedBackup(NamedTuple):
    """The contents to restore by path, the modes of the files that have a known one, and the id of the backup."""

    contents: dict[str, bytes]
    modes: dict[str, int]
    backup: str


def restore(
    store: Store, now: float, *, file: str | None, at: str | None = None, dry_run: bool = False
) -> tuple[Committed, RestoredFiles]:
    """Replace a file by a backup, or the store by a snapshot; files that are not in the snapshot stay. Memories in
    quarantine that were removed from a file are added to it again.

    The current content is backed up first, so the restore can be undone. Raises UsageError if neither `file` nor `at`
    says what to restore, and NotFoundError.
    """
    if at is None:
        save_versions(store, now)  # one of which may be the best
    if file is not None:
        require_known(store, file, now)
    part = _find_quarantined(store, at, file) if at is not None and _QUARANTINED.fullmatch(at) else None
    if part is not None and part.is_part:
        removed = store.blobs.get(part.blob)
        selected = SelectedBackup({part.file: _with_memory(store, part.file, removed, now)}, {}, f"q{part.seq}")

        def decide() -> Plan:
            return _addition(store, part.file, removed, now)

    else:
        selected = select_backup(store, now, file, at)

        def decide() -> Plan:
            contents, modes = selected.contents.items(), selected.modes
            actions = [restore_action(store, path, data, modes.get(path), selected.backup) for path, data in contents]
            return Plan(tuple(action for action in actions if action is not None))

    if not dry_run:
        save_versions(store, now)  # not before one was read that this may rotate out
    live = {path: store.content(path) for path in selected.contents}
    difference = compare(live, selected.contents)
    done = change(store, Origin("restore", "command"), decide, now=now, dry_run=dry_run)
    first = file or next(iter(selected.contents))
    return done, RestoredFiles(first, len(selected.contents), selected.backup, difference)


def select_backup(store: Store, now: float, file: str | None, at: str | None) -> SelectedBackup:
    """Choose what to restore, as `restore` does; quarantined memories are not added to a file but returned alone."""
    if at is not None and _QUARANTINED.fullmatch(at):
        entry = _find_quarantined(store, at, file)
        return SelectedBackup({entry.file: store.blobs.get(entry.blob)}, {}, at)
    if _is_in_vault(store, file, at):
        versions = choose_versions(store, now, file=file, at=at)
        contents = {version.file: store.vault.content(version) for version in versions}
        return SelectedBackup(contents, {version.file: version.mode for version in versions}, at or versions[0].id)
    if at is None and file is None:
        raise UsageError("no file to restore", hint="name it with --file, or a backup with --at")
    live = store.content(file) if file is not None else None
    quality = store.quality(file, live, now) if file is not None and live is not None else Quality(0, 0)
    available = directory_backups(store, now, file=file)
    if at is None and not available:
        raise NotFoundError(f"root {store.name}: no backup of {file}", hint="`memoryd backup create` makes one")
    records = quality.records
    if file is not None:
        wanted = records_to_restore(store, file, records, [each.records or 0 for each in available if each.valid])
        records = max(wanted, 1)  # a copy of the damage holds no memory, and not fewer than the damaged file
    chosen = backups.choose(available, at, live=sha256(live) if live is not None else None, records=records)
    return SelectedBackup({chosen.file: backups.read_backup(store.tree, chosen)}, {}, chosen.name)


def _is_in_vault(store: Store, file: str | None, at: str | None) -> bool:
    """True if the backup is in the state directory. Replaced index files always are."""
    if store.file_rules.backup_dir is None or (at is not None and re.fullmatch(r"v[0-9]+", at)):
        return True
    return at is None and file is not None and file in store.known_layout.index.paths


def _find_quarantined(store: Store, at: str, file: str | None) -> QuarantineEntry:
    for each in store.journal.quarantine.entries():
        if f"q{each.seq}" == at and file in (None, each.file):
            return each
    raise NotFoundError(f"root {store.name}: there is no backup {at}", hint="`memoryd backup list` shows the ids")


def _addition(store: Store, path: str, removed: bytes, now: float) -> Plan:
    """Plan to add a memory to its file again; nothing if it is there, byte for byte."""
    source = store.load(path, now)
    records = source.loaded.document.records if source is not None else ()
    if source is not None and any(each.span.of(source.loaded.data) == removed for each in records):
        return Plan()
    return writer_of(store).restore(write_view(store, now), path, [removed]).plan


def _with_memory(store: Store, path: str, removed: bytes, now: float) -> bytes:
    """Return what the file will be with that memory."""
    return contents_after(store, _addition(store, path, removed, now)).get(path, store.content(path) or b"")


def contents_after(store: Store, plan: Plan) -> dict[str, bytes]:
    """Return what the files will be that a plan adds memories to."""
    contents: dict[str, bytes] = {}
    for action in plan.actions:
        before = store.content(action.path) or b""
        if action.kind is Kind.REWRITE:
            contents[action.path] = splice(before, action.edits)
        else:
            adds_newline = action.base == ANY_CONTENT and before and not before.endswith(b"\n")  # by the commit
            contents[action.path] = before + (b"\n" if adds_newline else b"") + action.data
    return contents


def newest_good(store: Store, path: str, now: float) -> bytes | None:
    """Return the content of the newest valid backup of a file; None if there is none, or it is all unreadable."""
    try:
        content = next(iter(select_backup(store, now, path, None).contents.values()))
    except NotFoundError:
        return None
    quality = store.quality(path, content, now)
    return content if quality.records or not quality.units else None


def restore_action(store: Store, path: str, content: bytes, mode: int | None, source: str) -> Action | None:
    """Return the action that makes a file this content; None if it is."""
    why = f"restored from {source}"
    data = store.content(path)
    # The next append must start a new line, even if the backup does not end with a newline.
    wants_newline = store.file_rules.append_only and store.policy.final_newline == "always"
    if wants_newline and content[-1:] != b"\n":
        content += b"\n" if content else b""
    if data is None:
        return Action(Kind.CREATE, path, why, data=content, mode=mode)
    if data == content:
        return None
    return Action(Kind.REWRITE, path, why, edits=(Edit(Span(0, len(data)), content),), base=sha256(data))


def choose_versions(store: Store, now: float, *, file: str | None, at: str | None) -> list[Version]:
    """Choose what to restore: one version of a file, or all files of a snapshot. Raises NotFoundError.

    Without `at`, the newest that differs from the current content and has no fewer memories, after a loss no fewer than
    before it; if there is none, the newest that differs and has any. Only a file without memories is replaced by one
    without.
    """
    hint = "`memoryd backup list` shows the snapshots, with --file the versions of one file"
    of_file = f" of {file}" if file else ""
    candidates: list[list[Version]] = []
    if at is not None and at.startswith("v"):
        chosen = [v for v in store.vault.versions(file) if v.id == at]
    elif file is not None and at is None:
        candidates = [[v] for v in store.vault.versions(file) if v.valid]
        live = _live_states(store, now, file)
        records = sum(count for _, count in live.values())
        wanted = records_to_restore(store, file, records, [v.quality.records for [v] in candidates])
        chosen = _best(candidates, live, wanted)
    else:
        candidates = [store.vault.files(s.seq) for s in store.vault.snapshots() if at in (None, s.id)]
        live = _live_states(store, now)
        wanted = sum(count for _, count in live.values())
        chosen = [version for version in _best(candidates, live, wanted) if file in (None, version.file)]
    if not chosen and candidates and at is None:
        raise NotFoundError(
            f"root {store.name}: no backup{of_file} has memories and differs from what is there",
            hint=f"{hint}; --at ID restores any of them",
        )
    if not chosen:
        raise NotFoundError(f"root {store.name}: no backup{f' {at}' if at else of_file}", hint=hint)
    return chosen


def _live_states(store: Store, now: float, file: str | None = None) -> dict[str, tuple[str, int]]:
    """Return the hash and number of memories of each source file, or of one, as the files are now.

    The index may still hold what a file was before it was damaged: a half-written file keeps its old row.
    """
    states: dict[str, tuple[str, int]] = {}
    for path, row in store.catalogue.files().items():
        if row.role != Role.SOURCE or not row.digest or file not in (None, path):
            continue
        found = store.tree.find(path)
        if found is None:
            continue
        if found.same_content(row.fingerprint) and not (row.recently_modified or row.pending):
            states[path] = (row.digest, row.records)
        elif (content := store.content(path)) is not None:
            states[path] = (sha256(content), store.quality(path, content, now).records)
    return states


def _best(newest_first: list[list[Version]], live: dict[str, tuple[str, int]], records: int) -> list[Version]:
    """Return the newest of these that differs from the live files and holds this many memories. One without any may be
    a copy of a damage: it replaces no file that has memories."""
    hashes = {path: digest for path, (digest, _) in live.items()}
    same = [each for each in newest_first if {v.file: v.sha256 for v in each} == hashes]
    other = [each for each in newest_first if each not in same]
    enough = [each for each in other if _memories(each) >= max(records, 1)]
    readable = [each for each in other if _memories(each)]
    has_memories = any(count for _, count in live.values())
    return next(iter(enough or readable or (same if has_memories else other or newest_first)), [])


def _memories(versions: Iterable[Version]) -> int:
    return sum(version.quality.records for version in versions)
