"""Set modes to 700 for directories and 600 for files in layouts that require it. Never grants access, never follows
links."""

from __future__ import annotations

from memoryd.core.findings import Finding
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Role
from memoryd.store import Store
from memoryd.store.commit import Committed, Origin, change

OPEN_BITS = 0o077


def tighten(store: Store, now: float, *, by: str, dry_run: bool = False) -> Committed:
    """Deny other users access to the directories of the store and its regular files without other hard links."""

    def decide() -> Plan:
        wide = _wide(store)
        will_fix = store.policy.fix_permissions
        store.root_findings["permissions"] = tuple(
            Finding("wide-permissions", action.path, action.why) for action in wide if not will_fix
        )
        return Plan(tuple(wide) if will_fix else ())

    return change(store, Origin("permissions", by), decide, now=now, dry_run=dry_run)


def note_permissions(store: Store) -> None:
    """Update the findings about modes without changing any."""
    store.root_findings["permissions"] = tuple(
        Finding("wide-permissions", action.path, action.why) for action in _wide(store)
    )


def _wide(store: Store) -> list[Action]:
    if not store.file_rules.owner_only:
        return []
    scan = store.scan()
    managed = {path for path in scan.files if _is_managed(store, path)}
    if not managed:
        return []
    actions: list[Action] = []
    for path in sorted(scan.directories):
        mode = store.tree.mode_of(path) if _is_managed_directory(store, path) else 0
        if mode & OPEN_BITS and store.tree.owner_of(path) == store.owner:
            why = f"mode {mode & 0o777:o} gives other users access"
            actions.append(Action(Kind.CHMOD, path, why, mode=mode & 0o700))
    for path, found in sorted(scan.files.items()):
        if path in managed and found.mode & OPEN_BITS and found.uid == store.owner and found.nlink == 1:
            why = f"mode {found.mode & 0o777:o} gives other users access"
            actions.append(Action(Kind.CHMOD, path, why, mode=found.mode & 0o700))
    return actions


def _is_managed(store: Store, path: str) -> bool:
    """True for files that memoryd may change; files in the form of another program are read-only."""
    role = store.role(path)
    if role is Role.SOURCE:
        return path in store.known_layout.reader.source_paths([path])
    return role not in (Role.FOREIGN, Role.TEMP)


def _is_managed_directory(store: Store, directory: str) -> bool:
    """True for the root, the backups and the archive; other directories are not changed."""
    top = directory.partition("/")[0]
    return top in ("", "archive", store.file_rules.backup_dir)
