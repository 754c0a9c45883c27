"""Backups of stores without a place of their own: snapshots and versions in the vault of the state directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryd.core.dates import iso
from memoryd.core.digest import sha256
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.disk.vault import FileState, Snapshot, Version
from memoryd.errors import NotFoundError
from memoryd.store import Store
from memoryd.store.commit import back_up


def take_snapshot(store: Store, now: float) -> list[dict[str, Any]]:
    """One snapshot of every source file; contents that the vault holds already are not read again."""
    made = store.vault.take(_states(store), now, keep=store.policy.backups)
    if made is None:
        newest = store.vault.snapshots()[0]
        return [{"file": None, "outcome": "equal", "id": newest.id}]
    return [{"file": None, "outcome": "made", "id": made.id, "files": made.files}]


def keep_version(store: Store, path: str, now: float, *, dry_run: bool = False) -> list[dict[str, Any]]:
    """One file alone. NotFoundError where no source file of the store lies at that path."""
    if store.role(path) is not Role.SOURCE or store.catalogue.file(path) is None:
        hint = "name a memory file by its path in the root, as `memoryd backup list` and `check` do"
        raise NotFoundError(f"root {store.name}: {path} is no file that is backed up", hint=hint)
    content, fingerprint = store.tree.read(path)
    if dry_run:
        return [{"file": path, "outcome": "equal" if store.vault.has_content(sha256(content)) else "due"}]
    made = back_up(store, path, content, fingerprint, now)
    newest = next(iter(store.vault.versions(path)), None)
    if made is None and (newest is None or newest.sha256 != sha256(content)):
        # Emptied, or only read: its access fields alone differ from the newest version.
        return [{"file": path, "outcome": "same memories" if content else "empty", "id": newest.id if newest else None}]
    return [{"file": path, "outcome": "made" if made else "equal", "id": made or (newest.id if newest else None)}]


def _states(store: Store) -> Iterator[FileState]:
    for path, row in store.catalogue.files().items():
        if row.role != Role.SOURCE or not row.digest:
            continue
        found = store.tree.stat(path)
        if found is None:
            continue
        quality, meaning = Quality(row.units, row.records), str(row.facts.get("meaning", ""))
        if found.same_content(row.fingerprint) and not row.young and store.vault.has_content(row.digest):
            yield FileState(path, row.digest, found.mode, quality, None, meaning)
            continue
        try:
            content, fingerprint = store.tree.read(path)
        except FileNotFoundError:
            continue  # it went since the look at it
        digest, quality = sha256(content), store.quality(path, content, now=0.0)
        yield FileState(path, digest, fingerprint.mode, quality, content, meaning if digest == row.digest else "")


def list_vault(store: Store, *, file: str | None, verify: bool, snapshots: bool = True) -> list[dict[str, Any]]:
    """Snapshots newest first, then the versions of each file; with `file` those of that file alone."""
    if verify:
        store.vault.verify()
    if file is not None:
        return [_version(store, version) for version in store.vault.versions(file)]
    versions = sorted(store.vault.versions(), key=lambda version: version.file)
    return [
        *(_snapshot(store, each) for each in (store.vault.snapshots() if snapshots else ())),
        *(_version(store, version) for version in versions),
    ]


def _snapshot(store: Store, each: Snapshot) -> dict[str, Any]:
    return {
        "id": each.id,
        "root": store.name,
        "file": None,
        "files": each.files,
        "taken": iso(each.taken),
        "bytes": each.size,
        "sha256": each.digest,
        "valid": each.valid,
        "pinned": each.pinned,
    }


def _version(store: Store, version: Version) -> dict[str, Any]:
    return {
        "id": version.id,
        "root": store.name,
        "file": version.file,
        "taken": iso(version.taken),
        "bytes": version.size,
        "sha256": version.sha256,
        "valid": version.valid,
        "pinned": version.pinned,
    }


def choose_versions(store: Store, *, file: str | None, at: str | None) -> list[Version]:
    """What a restore brings back: one version of a file, or all files of a snapshot. Raises NotFoundError.

    Without `at` it is the newest that differs from what is there and holds no fewer memories; where there is none,
    the newest that differs, then the newest.
    """
    hint = "`memoryd backup list` shows the snapshots, with --file the versions of one file"
    if at is not None and at.startswith("v"):
        chosen = [v for v in store.vault.versions(file) if v.id == at]
    elif file is not None and at is None:
        chosen = _best([[v] for v in store.vault.versions(file) if v.valid], _now(store, file))
    else:
        snapshots = [s for s in store.vault.snapshots() if at in (None, s.id)]
        chosen = _best([store.vault.files(s.seq) for s in snapshots], _now(store))
        chosen = [version for version in chosen if file in (None, version.file)]
    if not chosen:
        raise NotFoundError(f"root {store.name}: there is no backup {at or file or ''}".rstrip(), hint=hint)
    return chosen


def _now(store: Store, file: str | None = None) -> dict[str, tuple[str, int]]:
    """(hash, memories) of the source files there are, or of one."""
    rows = store.catalogue.files()
    return {
        path: (row.digest, row.records)
        for path, row in rows.items()
        if row.role == Role.SOURCE and row.digest and file in (None, path)
    }


def _best(newest_first: list[list[Version]], live: dict[str, tuple[str, int]]) -> list[Version]:
    hashes = {path: digest for path, (digest, _) in live.items()}
    records = sum(count for _, count in live.values())
    other = [each for each in newest_first if {v.file: v.sha256 for v in each} != hashes]
    enough = [each for each in other if sum(v.quality.records for v in each) >= records]
    return next(iter(enough or other or newest_first), [])
