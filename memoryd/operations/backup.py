"""Back up, verify and restore the live files of a store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memoryd.core.dates import iso
from memoryd.core.difference import difference, unified
from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.retention import Quality, drop
from memoryd.core.text import Edit, Span
from memoryd.disk import backups
from memoryd.disk.backups import BackupInfo
from memoryd.errors import NotFoundError, UsageError
from memoryd.operations.snapshot import choose_versions, keep_version, list_vault, take_snapshot
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, back_up, change


def create_backups(store: Store, now: float, *, file: str | None = None, dry_run: bool = False) -> list[dict[str, Any]]:
    """A backup of each live file (or of one) whose content differs from its newest backup. A dry run tells the
    same outcomes without an id."""
    if store.layout is not None and store.layout.backup_place is None:
        if file is not None:
            return keep_version(store, file, now, dry_run=dry_run)
        return [{"file": None, "outcome": "due"}] if dry_run else take_snapshot(store, now)
    results: list[dict[str, Any]] = []
    for path in _files(store, file):
        content, _ = store.tree.read(path, growing=True)
        newest = store.journal.backup_rows(path)[-1:]
        same = newest and newest[0].valid and newest[0].sha256 == sha256(content)
        if same and _is_there(store, newest[0].name) and not _surplus(store, path, now):
            results.append({"file": path, "outcome": "equal", "id": newest[0].id})
            continue
        if newest and not content:
            # Emptied, as by archiving its last memory: there is nothing to keep, so the lock is not taken for it.
            results.append({"file": path, "outcome": "empty", "id": None})
            continue
        if dry_run:
            results.append({"file": path, "outcome": "due"})
            continue
        with store.locked(store.policy.lock_wait_s):
            content, fingerprint = store.tree.read(path)
            made = back_up(store, path, content, fingerprint, now)
        held = made or next((row.id for row in store.journal.backup_rows(path)[-1:]), None)
        results.append({"file": path, "outcome": "made" if made else "equal", "id": held})
    return results


def _surplus(store: Store, path: str, now: float) -> bool:
    """Was a rotation cut off before it had removed the oldest?"""
    held = [each for each in _folder_backups(store, now, file=path) if not each.beside]
    return bool(drop(held, store.policy.backups, now))


def _is_there(store: Store, name: str) -> bool:
    return store.tree.stat(f"{_place(store)}/{name}") is not None


def _files(store: Store, file: str | None) -> list[str]:
    assert store.layout is not None
    live = [path for path in store.layout.live_paths(()) if store.tree.stat(path) is not None]
    if file is None:
        return live
    if file not in store.layout.live_paths(()):
        raise NotFoundError(
            f"root {store.name}: {file} is no file that is backed up", hint=f"one of: {', '.join(live)}"
        )
    return [file] if file in live else []


def _place(store: Store) -> str:
    assert store.layout is not None
    return store.layout.backup_place or backups.PLACE


def list_backups(store: Store, now: float, *, file: str | None = None, verify: bool = False) -> list[dict[str, Any]]:
    """All that `restore` takes, newest first for each file: backups and snapshots, versions of files, foreign indexes
    that were replaced, and what lies in quarantine. `verify` reads every one and holds it against its hash."""
    in_folder = store.layout is not None and store.layout.backup_place is not None
    found = _folder_backups(store, now, file=file, verify=verify) if in_folder else []
    return [
        *(_public(store.name, each) for each in found),
        *list_vault(store, file=file, verify=verify, snapshots=not in_folder),
        *_list_quarantine(store, file),
    ]


def _list_quarantine(store: Store, file: str | None) -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{each.seq}",
            "root": store.name,
            "file": each.file,
            "taken": iso(each.at),
            "bytes": each.bytes,
            "sha256": each.sha256,
            "valid": store.blobs.has(each.blob),
            "reason": each.reason,
        }
        for each in reversed(store.journal.quarantined())
        if file in (None, each.file)
    ]


def count_backups(store: Store, now: float) -> dict[str, Any]:
    """How many, and when the newest was taken (seconds): what `status` shows."""
    if store.layout is not None and store.layout.backup_place is None:
        held = store.vault.snapshots()
        return {"count": len(held), "newest": max((each.taken for each in held), default=None)}
    found = [each for each in _folder_backups(store, now) if not each.beside]
    return {"count": len(found), "newest": max((each.taken for each in found if each.taken is not None), default=None)}


def _folder_backups(store: Store, now: float, *, file: str | None = None, verify: bool = False) -> list[BackupInfo]:
    assert store.layout is not None
    files: Sequence[str] = store.layout.live_paths(()) if file is None else (file,)
    if not files:
        return []
    look = backups.verify if verify else backups.list_backups
    return look(
        store.tree,
        store.journal,
        files,
        now=now,
        place=_place(store),
        readable=lambda content: store.quality(files[0], content, now),
    )


def _public(root: str, backup: BackupInfo) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": backup.id,
        "root": root,
        "file": backup.file,
        "taken": iso(backup.taken) if backup.taken is not None else None,
        "bytes": backup.bytes,
        "sha256": backup.sha256,
        "valid": backup.valid,
    }
    return shown | ({"problem": backup.problem} if backup.problem else {})


def restore(
    store: Store, now: float, *, file: str | None, at: str | None = None, dry_run: bool = False
) -> tuple[Done, dict[str, Any]]:
    """Put a backup in the place of the live file (or a snapshot in the place of the store): what is there is backed
    up first, files that the snapshot does not know stay. Undoable.

    Also says what would differ: lines only in the live files (`lost`) and only in the backup (`gained`)."""
    contents, modes, source = _chosen(store, now, file, at)

    def decide() -> Plan:
        actions = [_put(store, path, content, modes.get(path), source) for path, content in contents.items()]
        return Plan(tuple(action for action in actions if action is not None))

    live = {path: _live(store, path) for path in contents}
    differing = _difference(live, contents)
    if not dry_run:
        del differing["diff"]
    done = change(store, Cause("restore", "command"), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)
    return done, {"file": file or next(iter(contents)), "files": len(contents), "backup": source, **differing}


def _chosen(store: Store, now: float, file: str | None, at: str | None) -> tuple[dict[str, bytes], dict[str, int], str]:
    """The contents to bring back by path, the modes their files had where that is known, and the id they come from."""
    if at is not None and re.fullmatch(r"q[0-9]+", at):
        return _from_quarantine(store, at, file)
    if _is_in_vault(store, file, at):
        versions = choose_versions(store, file=file, at=at)
        contents = {version.file: store.vault.content(version) for version in versions}
        return contents, {version.file: version.mode for version in versions}, at or versions[0].id
    if at is None and file is None:
        raise UsageError("which file is to be restored?", hint="name it with --file, or a backup's id with --at")
    live = _live(store, file) if file is not None else None
    quality = store.quality(file, live, now) if file is not None and live is not None else Quality(0, 0)
    held = _folder_backups(store, now, file=file)
    chosen = backups.choose(held, at, live=sha256(live) if live is not None else None, records=quality.records)
    return {chosen.file: backups.read_backup(store.tree, chosen)}, {}, chosen.name


def _is_in_vault(store: Store, file: str | None, at: str | None) -> bool:
    """Indexes that were replaced are kept there also where the layout has a place of its own for backups."""
    assert store.layout is not None
    if store.layout.backup_place is None or (at is not None and re.fullmatch(r"v[0-9]+", at)):
        return True
    return at is None and file is not None and file in store.layout.index_paths


def _from_quarantine(store: Store, at: str, file: str | None) -> tuple[dict[str, bytes], dict[str, int], str]:
    found = [each for each in store.journal.quarantined() if f"q{each.seq}" == at and file in (None, each.file)]
    if not found:
        raise NotFoundError(f"root {store.name}: there is no backup {at}", hint="`memoryd backup list` shows the ids")
    return {found[0].file: store.blobs.get(found[0].blob)}, {}, at


def newest_good(store: Store, path: str, now: float) -> bytes | None:
    """The content of the newest valid backup of a file, None where there is none."""
    try:
        return next(iter(_chosen(store, now, path, None)[0].values()))
    except NotFoundError:
        return None


def _live(store: Store, path: str) -> bytes | None:
    try:
        return store.tree.read(path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return None


def _put(store: Store, path: str, content: bytes, mode: int | None, source: str) -> Action | None:
    why = f"restored from {source}"
    data = _live(store, path)
    # The next append must begin a line of its own, also where the backup was of a file that ended without one.
    if store.layout and store.layout.appendable and store.policy.final_newline == "always" and content[-1:] != b"\n":
        content += b"\n" if content else b""
    if data is None:
        return Action(Kind.CREATE, path, why, data=content, mode=mode)
    if data == content:
        return None
    return Action(Kind.REWRITE, path, why, edits=(Edit(Span(0, len(data)), content),), base=sha256(data))


def _difference(live: dict[str, bytes | None], wanted: dict[str, bytes]) -> dict[str, Any]:
    lost = gained = 0
    text = ""
    for path, content in wanted.items():
        gone, come = difference(live[path] or b"", content)
        lost, gained, text = lost + len(gone), gained + len(come), text + unified(path, gone, come)
    return {"lost": lost, "gained": gained, "diff": text}
