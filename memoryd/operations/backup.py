"""Back up, verify and restore the live files of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryd.core.dates import iso
from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.text import Edit, Span
from memoryd.disk import backups
from memoryd.disk.backups import BackupInfo
from memoryd.errors import InvalidMemoryError, NotFoundError
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, back_up, change


def create_backups(store: Store, now: float, *, file: str | None = None) -> list[dict[str, Any]]:
    """A backup of each live file (or of one) whose content differs from its newest backup."""
    results: list[dict[str, Any]] = []
    for path in _files(store, file):
        content, _ = store.tree.read(path, growing=True)
        newest = store.journal.backup_rows(path)[-1:]
        if newest and newest[0].sha256 == sha256(content) and _is_there(store, newest[0].name):
            results.append({"file": path, "outcome": "equal", "id": newest[0].id})
            continue
        with store.locked(store.policy.lock_wait_s):
            content, fingerprint = store.tree.read(path)
            done = back_up(store, path, content, fingerprint, now)
        results.append({"file": path, "outcome": done.outcome, "id": done.name})
    return results


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


def list_backups(store: Store, now: float, *, file: str | None = None, verify: bool = False) -> list[BackupInfo]:
    """Newest first for each file. `verify` reads every one and holds it against the hash of its making."""
    assert store.layout is not None
    files: Sequence[str] = store.layout.live_paths(()) if file is None else (file,)
    look = backups.verify if verify else backups.list_backups
    return look(
        store.tree,
        store.journal,
        files,
        now=now,
        place=_place(store),
        readable=lambda content: store.quality(files[0], content, now),
    )


def public(root: str, backup: BackupInfo) -> dict[str, Any]:
    """What the control protocol shows of a backup."""
    shown: dict[str, Any] = {
        "id": backup.name,
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
    """Put a backup in the place of the live file, which is itself backed up first; undoable.

    Also says what would differ: lines only in the live file (`lost`) and only in the backup (`gained`)."""
    target, backup = _choose(store, now, file, at)
    content = backups.read_backup(store.tree, backup)

    def decide() -> Plan:
        current = store.load(target, now)
        why = f"restored from {backup.name}"
        if current is None:
            return Plan((Action(Kind.CREATE, target, why, data=content),))
        data = current.loaded.data
        if data == content:
            return Plan()
        edits = (Edit(Span(0, len(data)), content),)
        return Plan((Action(Kind.REWRITE, target, why, edits=edits, base=sha256(data)),))

    live = store.load(target, now)
    difference = _difference(live.loaded.data if live else b"", content)
    done = change(store, Cause("restore", "command"), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)
    return done, {"file": target, "backup": backup.name, **difference}


def _choose(store: Store, now: float, file: str | None, at: str | None) -> tuple[str, BackupInfo]:
    known = list_backups(store, now, file=file)
    if at is None and file is None:
        raise InvalidMemoryError(
            "which file is to be restored?", hint="name it with --file, or a backup's id with --at"
        )
    chosen = backups.choose(known, at)
    return chosen.file, chosen


def _difference(live: bytes, backup: bytes) -> dict[str, Any]:
    mine, theirs = live.splitlines(), backup.splitlines()
    lost, gained = set(mine) - set(theirs), set(theirs) - set(mine)
    return {"lost": len(lost), "gained": len(gained), "same": len(set(mine) & set(theirs))}
