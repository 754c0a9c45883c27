"""Keep the versions of files that agents write, so that a lost memory can be restored.

Where agents cache and overwrite whole files, each good version is saved at once; only the first one of a file is saved
after a scan, since its memories could not be found until then. In other layouts without backups in the root it is saved
once the root has settled: until then its content stays in memory, so that no change has to wait for that before it can
be found.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.core.index import FileRow
from memoryd.core.records import Role
from memoryd.core.retention import Quality
from memoryd.disk.snapshots import FileState
from memoryd.errors import MemorydError
from memoryd.log import get_logger
from memoryd.store import Store
from memoryd.store.line_files import digest_of

log = get_logger(__name__)

# Each version is stored whole. Agents append often: above this size, 50 times the limit of a topic file, a busy file
# would write more to the state directory than it is worth, and the scheduled backups have to do. Nor are larger ones
# kept in memory during a first index.
MAX_VERSION_SIZE = 256 * 1024


def note_version(
    store: Store, row: FileRow, content: bytes, now: float, *, later: bool = False, first: bool = False
) -> None:
    """Note the new version of a file before its agent writes again: save it at once, or leave it to `save_versions`,
    also where agents cache files if it may be done `later`, or is the `first` one; a large one is then read again."""
    assert store.layout is not None
    rules = store.layout.files
    if row.role != Role.SOURCE or row.pending or not rules.saves_versions:
        return
    state = _state(row, content)
    if not rules.agent_caches_file:
        if row.records and len(content) <= MAX_VERSION_SIZE:
            store.unsaved_versions.note(state)
    elif first:
        if len(content) > MAX_VERSION_SIZE or not store.unsaved_versions.note(state):
            store.unsaved_versions.note_unread([row.path])
    elif not later or not store.unsaved_versions.note(state):
        save_versions(store, now)
        store.vault.add_version(state, now, keep=store.policy.backups)


def note_missing_versions(store: Store, paths: Iterable[str]) -> None:
    """Leave those of all files that have no version, as after a crash, to `save_versions`, where agents cache files."""
    if store.layout is not None and store.layout.files.agent_caches_file:
        sources = {path for path in paths if store.role(path) is Role.SOURCE}
        store.unsaved_versions.note_unread(sources - store.vault.files_with_versions())


def save_versions(store: Store, now: float) -> None:
    """Save the versions noted since the last call. If that fails, the next call tries again."""
    unsaved = store.unsaved_versions
    try:
        while unsaved.unread and not store.stopping.is_set():
            path = min(unsaved.unread)
            _save_first_version(store, path, now)
            unsaved.unread.discard(path)
        if states := unsaved.states():
            store.vault.add_versions(states, now, keep=store.policy.backups)
            unsaved.clear()
    except (OSError, MemorydError) as error:
        log.warning("versions not saved", root=store.name, error=str(error))


def _save_first_version(store: Store, path: str, now: float) -> None:
    """Save the content of a file as it was indexed. A change since then is noted when it is indexed itself."""
    row = store.catalogue.file(path)
    try:
        content, _ = store.tree.read(path)
    except OSError:
        return  # an event or the next scan tells what became of it
    if row is not None and not row.pending and digest_of(content).hexdigest() == row.digest:
        store.vault.add_version(_state(row, content), now, keep=store.policy.backups)


def _state(row: FileRow, content: bytes) -> FileState:
    return FileState(row.path, row.digest, row.fingerprint.mode or 0o600, Quality(row.units, row.records), content)
