"""Detect files that another program made lose most of their memories: the finding `shrunk`.

A loss stays reported until the memories are back, a backup was restored, or the user accepts it. In layouts whose
agents cache and overwrite whole files any loss of more than half counts, against the last version kept. In the others
it counts from ten memories on, against the file as last indexed, and memories that are now elsewhere in the root are
not lost. There it is reported once the file has been left alone for two seconds: its program may still be writing it,
or moving memories to another file.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.index import FileRow, Identity
from memoryd.core.records import FRESH_S, FileStats, ParseOffset, Role
from memoryd.core.spans import sha256
from memoryd.disk.snapshots import Version
from memoryd.disk.syscalls import NotBeneathError, NotRegularError
from memoryd.errors import NotFoundError
from memoryd.index.texts import identity_of
from memoryd.operations.file_versions import save_versions
from memoryd.operations.overwrites import is_memoryd_version, is_newest_change
from memoryd.store import Store
from memoryd.store.commit import KEEPING
from memoryd.store.losses import Loss

LOSSES = "losses"  # journal key: path -> Loss
ACCEPTED_LOSSES = "losses_accepted"  # journal key: path -> number of its newest version when a loss was accepted
LOSSES_TOPIC = "losses"
MIN_LOST = 10  # memories; fewer are everyday work of an agent
MAX_SAMPLE = 256  # identities saved per loss: enough to judge how many memories are elsewhere
MAX_LOSSES = 1000  # files; removing a large store must not fill the journal
MAX_REASONS = 5  # files named in `status`
MASS_LOSS = 20  # memories; a loss of more than this, and more than half, needs events that show it


def open_losses(store: Store) -> dict[str, Loss]:
    """Return the losses by path."""
    return msgspec.convert(store.journal.facts.get(LOSSES, {}), dict[str, Loss])


def _save(store: Store, losses: dict[str, Loss]) -> None:
    store.journal.facts.set(LOSSES, msgspec.to_builtins(losses))
    store.losses.due = True


# --- noting a loss


def is_loss(before: int, after: int) -> bool:
    """True if so many memories are gone that it must not go unnoticed."""
    return before - after >= MIN_LOST and (before - after) * 2 > before


def note_loss(
    store: Store, before: FileRow | None, after: FileRow, now: float, known: Sequence[Identity] | None = None
) -> None:
    """Note the loss if a file about to be indexed as `after` has lost most of its memories. `known`: the identities of
    its memories before, if the index no longer has them."""
    if not _is_watched(store, after.path):
        return
    if before is None:
        _compare_with_backup(store, after, now)
    elif is_loss(before.records, after.records) and not _is_own_change(store, before, after.digest):
        _note(store, after.path, before.records, after.records, known, now)


def note_losses_of_new_files(store: Store, rows: Sequence[FileRow], now: float) -> None:
    """Note the losses of files that the index does not know, as `note_loss` does. Most have no backup."""
    if store.layout is None or not rows:
        return
    paths = [row.path for row in rows]
    backed_up = store.vault.files_with_versions(paths) if store.file_rules.backup_dir is None else paths
    for row in rows:
        if row.path in backed_up:
            note_loss(store, None, row, now)


def note_deletion(store: Store, path: str, now: float) -> None:
    """Note that a file with memories was deleted, unless memoryd did it, as to undo the first memory of a user."""
    row = store.catalogue.file(path)
    if store.file_rules.agent_caches_file:
        save_versions(store, now)
        version = _last_good(store, path)
        losses = open_losses(store)
        if version is not None and path not in losses and not (row and _is_own_change(store, row, None)):
            _note_version(store, version)
        return
    if row is None or not _is_watched(store, path) or not is_loss(row.records, 0):
        return
    if not _is_own_change(store, row, None):
        _note(store, path, row.records, 0, None, now)


def _is_watched(store: Store, path: str) -> bool:
    return store.layout is not None and not store.file_rules.agent_caches_file and store.role(path) is Role.SOURCE


def _is_own_change(store: Store, before: FileRow, digest: str | None) -> bool:
    """True if the newest change of memoryd to the file made it from what was indexed to this digest (None: removed)."""
    for _, step in store.journal.steps_of(before.path):
        if step.after_sha != digest:
            return False
        if step.before_sha == before.digest:
            return True
        digest = step.before_sha
    return False


def _note(store: Store, path: str, before: int, after: int, known: Sequence[Identity] | None, now: float) -> None:
    """Add a loss to those that `update_losses` judges. What memoryd itself has just removed is not lost."""
    removed = store.losses.removed.get(path, frozenset[str]())
    if removed is None:
        return
    identities = store.catalogue.identities(path) if known is None else known
    missing = [each for each in identities if each.id not in removed]
    count = before - (len(identities) - len(missing))
    if is_loss(count, after):
        earlier = store.losses.noted.get(path)
        if earlier is None or earlier.records < count:
            sample = _sample(missing)
            store.losses.noted[path] = Loss(count, now, False, sample, len(sample))
            store.losses.due = True


def _sample(identities: Sequence[Identity]) -> list[tuple[str, str]]:
    """Return digests of evenly spread identities: ids may contain what the journal must not."""
    step = max(1, -(-len(identities) // MAX_SAMPLE))
    return [_digests(each) for each in identities[::step]]


def _digests(each: Identity) -> tuple[str, str]:
    return sha256(each.id.encode("utf-8", "surrogatepass"))[:12], each.text[:12]


def _compare_with_backup(store: Store, after: FileRow, now: float) -> None:
    """Compare a file that the index does not know with its newest backup: the index may have been rebuilt."""
    newest = next((each for each in _backups(store, after.path) if each.records), None)
    if newest is None or not is_loss(newest.records, after.records):
        return
    if newest.seq <= store.journal.facts.get(ACCEPTED_LOSSES, {}).get(after.path, 0):
        return
    entries = (entry for entry, _ in store.journal.steps_of(after.path))
    if any(entry.at >= newest.taken and entry.operation not in KEEPING for entry in entries):
        return
    try:
        content = _content_of(store, newest)
    except (OSError, NotFoundError, NotBeneathError, NotRegularError):
        return  # `backup verify` reports a damaged backup
    found = store.known_layout.reader.parse(after.path, content, now=now, mtime=newest.taken, base=ParseOffset())
    _note(store, after.path, newest.records, after.records, [*map(identity_of, found.records)], now)


# --- judging the losses


def update_losses(store: Store, changed: Collection[str], now: float) -> tuple[str, ...]:
    """Judge the losses anew after these files were indexed, and publish what is left of them. Returns the paths to look
    at again soon."""
    losses = open_losses(store)
    noted, store.losses.noted = store.losses.noted, {}
    if not losses and not noted:
        store.root_findings[LOSSES_TOPIC] = store.losses.reasons = ()
        store.losses.due = False
        return ()
    before = msgspec.to_builtins(losses)
    for path, loss in noted.items():
        if path in losses or len(losses) < MAX_LOSSES:
            losses[path] = _merge(losses.get(path), loss)
    rows = {path: store.catalogue.file(path) for path in losses}
    if not store.file_rules.agent_caches_file:
        losses = _judge(store, losses, rows, changed, now)
    if msgspec.to_builtins(losses) != before:
        _save(store, losses)
    store.root_findings[LOSSES_TOPIC] = tuple(_findings(store, losses, rows))
    store.losses.reasons = tuple(_reasons(losses, rows))
    return tuple(path for path, loss in losses.items() if not loss.confirmed)


def _merge(known: Loss | None, new: Loss) -> Loss:
    if known is None:
        return new
    sample = [*known.sample, *(each for each in new.sample if each not in known.sample)]
    records, since = max(known.records, new.records), min(known.since, new.since)
    return Loss(records, since, known.confirmed, sample, max(known.of, len(sample)))


def _judge(
    store: Store, losses: dict[str, Loss], rows: dict[str, FileRow | None], changed: Collection[str], now: float
) -> dict[str, Loss]:
    """Return the losses that are left. A memory that is in any other file is not lost."""
    everything = None if all(loss.searched for loss in losses.values()) else _present(store.catalogue.identities())
    seen = everything
    if seen is None and changed:
        seen = _present([each for path in changed for each in store.catalogue.identities(path)])
    left: dict[str, Loss] = {}
    for path, loss in losses.items():
        row = rows[path]
        if row is not None and (row.records >= loss.records or _was_restored(store, row)):
            continue
        if seen:
            loss.sample = [each for each in loss.sample if each[0] not in seen and (not each[1] or each[1] not in seen)]
        loss.searched |= everything is not None
        if loss.of and (
            loss.lost < MIN_LOST if loss.confirmed else not is_loss(loss.records, loss.records - loss.lost)
        ):
            continue
        loss.confirmed |= _left_alone(row, now) or not 0 <= now - loss.since < FRESH_S
        left[path] = loss
    return left


def _present(identities: Sequence[Identity]) -> set[str]:
    return {digest for each in identities for digest in _digests(each) if digest}


def _left_alone(row: FileRow | None, now: float) -> bool:
    return row is not None and not row.pending and abs(now - row.fingerprint.mtime_ns / 1e9) >= FRESH_S


def _was_restored(store: Store, row: FileRow) -> bool:
    """True if the user restored this content."""
    newest = next(store.journal.steps_of(row.path), None)
    return newest is not None and newest[0].operation == "restore" and newest[1].after_sha == row.digest


# --- backups that have the memories


class _Backup(NamedTuple):
    """A backup of `file`, in the state directory or (`path`) in the root."""

    id: str
    seq: int
    records: int
    taken: float
    version: Version | None
    path: str


def _backups(store: Store, file: str) -> list[_Backup]:
    """Return the valid backups of a file made by memoryd, newest first."""
    directory = store.file_rules.backup_dir
    if directory is not None:
        rows = (row for row in reversed(store.journal.backups.rows(file)) if row.valid)
        return [_Backup(r.id, r.seq, r.quality.records, r.taken, None, f"{directory}/{r.name}") for r in rows]
    versions = (version for version in store.vault.versions(file) if version.valid)
    return [_Backup(v.id, v.seq, v.quality.records, v.taken, v, "") for v in versions]


def _content_of(store: Store, backup: _Backup) -> bytes:
    return store.tree.read(backup.path)[0] if backup.version is None else store.vault.content(backup.version)


def records_to_restore(store: Store, file: str, live: int, available: Collection[int]) -> int:
    """Return how many memories a backup must hold to be the one to restore: as many as the file has, and after a loss
    as many as before it, or as the best one has."""
    loss = open_losses(store).get(file)
    return live if loss is None else max(live, min(loss.records, max(available, default=0)))


# --- reporting


def _message(store: Store, path: str, before: int, after: int) -> str:
    change = _change(before, after)
    accept = "or accept the loss with `memoryd repair --code shrunk`"
    best = max(_backups(store, path), key=lambda each: each.records, default=None)  # the first, so the newest of equals
    if best is None or best.records <= after:
        return f"{change}, and no backup has more; restore them from elsewhere, {accept}"
    command = f"`memoryd backup restore {shlex.quote(store.name)} --at {best.id}`"
    if best.records < before:
        return f"{change}; the best backup has only {best.records}: {command}, {accept}"
    return f"{change}; {command} brings back {best.records}, {accept}"


def _change(before: int, after: int) -> str:
    return f"{before} {'memory' if before == 1 else 'memories'} became {after}"


def _findings(store: Store, losses: dict[str, Loss], rows: dict[str, FileRow | None]) -> Iterator[Finding]:
    """Yield the confirmed losses, but for those that are among the findings of an existing file."""
    for path, loss in losses.items():
        row = rows[path]
        if loss.confirmed and (row is None or not store.file_rules.agent_caches_file):
            yield Finding("shrunk", path, _message(store, path, loss.records, row.records if row else 0))


def _reasons(losses: dict[str, Loss], rows: dict[str, FileRow | None]) -> Iterator[str]:
    confirmed = [path for path, loss in losses.items() if loss.confirmed]
    for path in confirmed[:MAX_REASONS]:
        row = rows[path]
        left = row.records if row is not None else 0
        yield f"{path}: {_change(losses[path].records, left)}; see `memoryd check`"
    if len(confirmed) > MAX_REASONS:
        yield f"{len(confirmed) - MAX_REASONS} more files lost most of their memories; see `memoryd check`"


def describe_losses(store: Store) -> list[tuple[str, str]]:
    """Return the path of each loss that `accept_losses` would accept, and what it means to accept it."""
    described = list[tuple[str, str]]()
    for path, loss in sorted(open_losses(store).items()):
        row = store.catalogue.file(path)
        change = _change(loss.records, row.records if row is not None else 0)
        described.append((path, f"accepts that {change}; `memoryd check` no longer reports it"))
    return described


def accept_losses(store: Store, paths: Collection[str] = ()) -> list[str]:
    """Accept all losses, and any of these files that are not reported yet; return the paths of the reported ones."""
    losses = open_losses(store)
    accepted: dict[str, int] = store.journal.facts.get(ACCEPTED_LOSSES, {})
    newest = {path: max((each.seq for each in _backups(store, path)), default=0) for path in {*losses, *paths}}
    store.journal.facts.set(ACCEPTED_LOSSES, {**accepted, **{path: seq for path, seq in newest.items() if seq}})
    _save(store, {})
    return sorted(losses)


# --- layouts whose agents cache files


def overwrite_losses(store: Store, after: FileRow) -> Iterator[Finding]:
    """Yield the loss of a file that its agent overwrites from a cache.

    The next memory that the agent stores, often within seconds, must not hide it.
    """
    if store.layout is None or not store.file_rules.agent_caches_file or after.role != Role.SOURCE or after.pending:
        return
    losses = open_losses(store)
    loss = losses.get(after.path)
    if loss is not None and (after.records >= loss.records or _was_restored(store, after)):
        del losses[after.path]
        _save(store, losses)
        return
    if loss is not None:
        yield Finding("shrunk", after.path, _message(store, after.path, loss.records, after.records))
        return
    version = _last_good(store, after.path, after.digest)
    if version is None or is_memoryd_version(store, after) or is_newest_change(store, after):
        return
    before = FileStats(version.file, Role.SOURCE, version.size, version.quality.units, 0, version.quality.records, {})
    found = store.layout.repair.alarms(before, after.stats)
    if found:
        _note_version(store, version)
    elif after.records < version.quality.records and "damaged" in after.facts:
        # Unreadable, so the agent may start with an empty file next.
        store.vault.pin_version(version.file, version.sha256)
    yield from found


def _last_good(store: Store, path: str, digest: str | None = None) -> Version | None:
    """Return the newest other version with memories, after the last accepted loss."""
    accepted = store.journal.facts.get(ACCEPTED_LOSSES, {}).get(path, 0)
    held = (v for v in store.vault.versions(path) if v.valid and v.quality.records and v.sha256 != digest)
    return next((v for v in held if v.seq > accepted), None)


def _note_version(store: Store, version: Version) -> None:
    store.vault.pin_version(version.file, version.sha256)  # so that the next versions do not push it out
    _save(store, {**open_losses(store), version.file: Loss(version.quality.records)})


def mass_loss(lost_records: int, total: int) -> str | None:
    """Return why a sudden loss of so many memories makes a root suspect; None if they are few of its memories."""
    if lost_records > MASS_LOSS and lost_records * 2 > total:
        return f"{lost_records} of {total} memories are gone and nobody was seen to delete them"
    return None
