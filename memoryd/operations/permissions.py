"""Tighten modes: folders 700, files 600, where the layout's seed demands it. Never widens, never follows."""

from __future__ import annotations

from memoryd.core.findings import Finding
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Role
from memoryd.store import Store
from memoryd.store.commit import Cause, Done, change

OPEN_BITS = 0o077


def tighten(store: Store, now: float, *, by: str, dry_run: bool = False) -> Done:
    """Plan and set the modes of our own regular files with one name, and of the layout's folders."""

    def decide() -> Plan:
        wide = _wide(store)
        store.noted["permissions"] = tuple(
            Finding("wide-permissions", action.path, action.why) for action in wide if not _will_fix(store)
        )
        return Plan(tuple(wide) if _will_fix(store) else ())

    return change(store, Cause("permissions", by), decide, now=now, wait_s=store.policy.lock_wait_s, dry_run=dry_run)


def _will_fix(store: Store) -> bool:
    return store.policy.fix_permissions


def note_permissions(store: Store) -> None:
    """The findings alone: what `check` reports without changing a mode."""
    store.noted["permissions"] = tuple(Finding("wide-permissions", action.path, action.why) for action in _wide(store))


def _wide(store: Store) -> list[Action]:
    if store.layout is None or not store.layout.private:
        return []
    scan = store.scan()
    ours = {path for path in scan.files if _is_tended(store, path)}
    if not ours:
        return []
    folders = [path for path in sorted(scan.directories) if _is_ours(store, path)]
    actions: list[Action | None] = [_folder_action(store, path) for path in folders]
    for path, found in sorted(scan.files.items()):
        if path in ours and found.mode & OPEN_BITS and found.uid == store.owner and found.nlink == 1:
            why = f"mode {found.mode & 0o777:o} lets other users in"
            actions.append(Action(Kind.CHMOD, path, why, mode=found.mode & 0o700))
    return [action for action in actions if action is not None]


def _is_tended(store: Store, path: str) -> bool:
    """Not what is only read, as a file of another program's form is."""
    assert store.layout is not None
    role = store.role(path)
    if role is Role.SOURCE:
        return path in store.layout.live_paths([path])
    return role not in (Role.FOREIGN, Role.TEMP)


def _is_ours(store: Store, folder: str) -> bool:
    """The root, the backups and the archive; a folder of somebody else's is left alone."""
    top = folder.partition("/")[0]
    return top in ("", "archive", store.layout.backup_place if store.layout else None)


def _folder_action(store: Store, path: str) -> Action | None:
    mode = store.tree.mode_of(path)
    if not mode & OPEN_BITS or store.tree.owner_of(path) != store.owner:
        return None
    return Action(Kind.CHMOD, path, f"mode {mode & 0o777:o} lets other users in", mode=mode & 0o700)
