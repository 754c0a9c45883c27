"""`memoryd try`: what memoryd would see and do in a directory, without a daemon or a write to it."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from memoryd.control.methods.shared import ActionRow
from memoryd.control.methods.status import Counts, FindingRow
from memoryd.control.methods.upkeep import PlannedResult
from memoryd.core.progress import ProgressMeter
from memoryd.disk.tree import Tree
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check, count_findings, finding_row
from memoryd.operations.index_files import update_index
from memoryd.operations.locks import list_locks
from memoryd.operations.offline import observed_store
from memoryd.operations.recognition import advice, existing_directory, recognise_layout, unusable
from memoryd.operations.refresh import refresh
from memoryd.store import Store

REMOVABLE = "stale"  # the state of a lock that the daemon would clear


class Preview(Struct, kw_only=True):
    """The view of one directory and of the changes due there. `layout` is None if memoryd cannot use it; then
    `why` is the reason and `hint` what to do, and the rest is absent. `unjudged`: how many files look half-written and
    are so young that a program may still be writing them."""

    path: str
    layout: str | None
    why: str
    hint: str | UnsetType = UNSET
    memories: int | UnsetType = UNSET
    archived: int | UnsetType = UNSET
    findings: list[FindingRow] | UnsetType = UNSET
    summary: Counts | UnsetType = UNSET
    unjudged: int | UnsetType = UNSET
    actions: list[ActionRow] | UnsetType = UNSET


def preview(path: str, now: float, layout: str | None, progress: ProgressMeter) -> Preview:
    """Look at the directory at `path`, with the layout named or the one recognised. `progress` shows the work.
    Raises UsageError if there is no such directory."""
    real = existing_directory(path)
    try:
        with Tree(real) as tree:
            recognised = recognise_layout(tree)
    except OSError as error:
        return Preview(path=real, layout=None, why=f"cannot be read: {error.strerror}", hint="check its owner and mode")
    name = layout or recognised.layout
    if name is None:
        return Preview(path=real, layout=None, why=unusable(recognised), hint=advice(real, recognised))
    return _examine(real, name, recognised.matches.get(name, "named on the command line"), now, progress)


def _examine(path: str, layout: str, why: str, now: float, progress: ProgressMeter) -> Preview:
    with observed_store(path, layout, progress) as store:
        unjudged = len(refresh(store, None, now).waiting)
        index = _index_actions(store, now)
        findings = check(store, now)
        planned = OPERATIONS["plan"](store, Job("plan"), now)
        assert isinstance(planned, PlannedResult)
        counts = store.index.result
        return Preview(
            path=path,
            layout=layout,
            why=why,
            memories=counts.memories,
            archived=counts.archived,
            findings=[finding_row(store.name, each) for each in findings],
            summary=count_findings(findings),
            unjudged=unjudged,
            actions=[*index, *_lock_actions(store, now), *_backup_actions(store, now), *planned.actions],
        )


def _index_actions(store: Store, now: float) -> list[ActionRow]:
    """Return the index files that would be written: those whose meaning would change."""
    changed = update_index(store, now).result.files
    return [ActionRow(kind="write", path=name, ids=[], why="brings the index up to date") for name in changed]


def _lock_actions(store: Store, now: float) -> list[ActionRow]:
    stale = [each for each in list_locks(store, now) if str(each.state) == REMOVABLE]
    return [ActionRow(kind="remove", path=each.path, ids=[], why=f"stale lock: {each.evidence}") for each in stale]


def _backup_actions(store: Store, now: float) -> list[ActionRow]:
    due = [each for each in create_backups(store, now, dry_run=True) if each.outcome == "due"]
    return [ActionRow(kind="copy", path=each.file or ".", ids=[], why="not backed up yet") for each in due]
