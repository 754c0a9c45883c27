"""Keep the versions of files that agents write, so that a lost memory can be restored.

Where agents cache and overwrite whole files, each good version is saved at once. In other layouts without backups in
the root it is saved once the root has settled: until then its content stays in memory, so that no change has to wait
for that before it can be found.
"""

from __future__ import annotations

from memoryd.core.index import FileRow
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.disk.snapshots import Deflation, FileState
from memoryd.errors import MemorydError
from memoryd.log import get_logger
from memoryd.store import Store

log = get_logger(__name__)

# Each version is stored whole. Agents append often: above this size, 50 times the limit of a topic file, a busy file
# would write more to the state directory than it is worth, and the scheduled backups have to do.
MAX_VERSION_SIZE = 256 * 1024


def begin_version(store: Store, content: bytes) -> Deflation | None:
    """Begin to compress a large file that `note_version` will probably save at once, while it is parsed."""
    worthwhile = store.file_rules.agent_caches_file and len(content) > MAX_VERSION_SIZE
    return Deflation(content) if worthwhile else None


def note_version(
    store: Store,
    row: FileRow,
    content: bytes,
    now: float,
    *,
    later: bool = False,
    deflation: Deflation | None = None,
) -> None:
    """Note the new version of a file before its agent writes again: save it at once, or leave it to `save_versions`,
    also where agents cache files if it may be done `later`. `deflation`: what `begin_version` returned."""
    rules = store.file_rules
    if row.role != Role.SOURCE or row.pending or not rules.saves_versions:
        return
    mode, quality = row.fingerprint.mode or 0o600, Quality(row.units, row.records)
    state = FileState(row.path, row.digest, mode, quality, content, deflation=deflation)
    if not rules.agent_caches_file:
        if row.records and len(content) <= MAX_VERSION_SIZE:
            store.unsaved_versions.note(state)
    elif not later or not store.unsaved_versions.note(state):
        save_versions(store, now)
        store.vault.add_version(state, now, keep=store.policy.backups)


def save_versions(store: Store, now: float) -> None:
    """Save the versions noted since the last call. If that fails, the next call tries again."""
    states = store.unsaved_versions.states()
    if not states:
        return
    try:
        store.vault.add_versions(states, now, keep=store.policy.backups)
    except (OSError, MemorydError) as error:
        log.warning("versions not saved", root=store.name, error=str(error))
    else:
        store.unsaved_versions.clear()
