"""Keep the versions of files that agents write, so that a lost memory can be restored.

Where agents cache and overwrite whole files, each good version is saved at once. In other layouts without backups in
the root it is saved once the root has settled: until then its content stays in memory, so that no change has to wait
for that before it can be found. Of more than fits into memory, as after a burst of many files, a backup is made then.

What cannot be saved is the finding `versions-unsaved`, until it is saved or the daemon ends.
"""

from __future__ import annotations

from memoryd.core.findings import Finding
from memoryd.core.index import FileRow
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.disk.snapshots import FileState
from memoryd.errors import MemorydError
from memoryd.store import Store

# Each version is stored whole. Agents append often: above this size, 50 times the limit of a topic file, a busy file
# would write more to the state directory than it is worth, and the scheduled backups have to do.
MAX_VERSION_SIZE = 256 * 1024
VERSIONS_TOPIC = "versions"


def note_version(store: Store, row: FileRow, content: bytes, now: float, *, later: bool = False) -> None:
    """Note the new version of a file before its agent writes again: save it at once, or leave it to `save_versions`,
    also where agents cache files if it may be done `later`."""
    rules = store.file_rules
    if row.role != Role.SOURCE or row.pending or not rules.saves_versions:
        return
    mode, quality = row.fingerprint.mode or 0o600, Quality(row.units, row.records)
    state = FileState(row.path, row.digest, mode, quality, content)
    if not rules.agent_caches_file:
        if row.records and len(content) <= MAX_VERSION_SIZE:
            store.unsaved_versions.dropped += not store.unsaved_versions.note(state)
    elif not later or not store.unsaved_versions.note(state):
        save_versions(store, now)
        store.vault.add_version(state, now, keep=store.policy.backups)


def save_versions(store: Store, now: float, *, backup_follows: bool = False) -> bool:
    """Save the versions noted since the last call. If that fails, it is reported, and the next call tries again. What
    did not fit is left to a backup if the caller says that one follows, or else reported until one is made. Returns
    whether what is reported has changed."""
    unsaved, reported = store.unsaved_versions, store.root_findings.get(VERSIONS_TOPIC, ())
    states, dropped = unsaved.states(), unsaved.dropped
    if not states:
        return False
    message = ""
    try:
        store.vault.add_versions(states, now, keep=store.policy.backups)
    except (OSError, MemorydError) as error:
        more = f", {dropped} more did not fit into memory" if dropped else ""
        message = f"{_versions(len(states))} cannot be saved{more}; memoryd tries again by itself: {error}"
    else:
        unsaved.clear()
        if dropped and backup_follows:
            unsaved.backup_wanted, unsaved.dropped = True, 0
        elif dropped:
            message = f"{_versions(dropped)} did not fit into memory; no backup follows: run `memoryd backup create`"
    found = (Finding("versions-unsaved", "", message),) if message else ()
    store.root_findings[VERSIONS_TOPIC] = found
    return found != reported


def _versions(count: int) -> str:
    return "1 version of a file" if count == 1 else f"{count} versions of files"
