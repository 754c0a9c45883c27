"""`check --offline` and `dedupe --offline`: work on one directory without a daemon, with the settings that its root has
in the configuration, else with the default ones.

A check writes nothing to it. A merge is backed up and journalled in the state directory like one of the daemon, and
refused if a daemon uses the root.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import UNSET
from msgspec.structs import replace

from memoryd.config.settings import Config, RootConfig
from memoryd.control.methods.shared import ChangeResult
from memoryd.control.methods.status import CheckResult
from memoryd.core.defaults import Mode
from memoryd.core.progress import ProgressMeter
from memoryd.disk.daemon_lock import lock_directory
from memoryd.disk.tree import Tree
from memoryd.errors import UsageError
from memoryd.operations.check import check, count_findings, finding_row
from memoryd.operations.index_files import update_index
from memoryd.operations.recognition import advice, existing_directory, recognise_layout, unusable
from memoryd.operations.refresh import refresh
from memoryd.operations.upkeep import dedupe, plan_row
from memoryd.store import Store
from memoryd.store.store import state_place


def check_path(path: str, now: float, progress: ProgressMeter, config: Config) -> CheckResult:
    """Check the directory at `path`; return the result of the control method `check`. `progress` shows the work."""
    root = config.root_at(existing_directory(path))
    with observed_store(root, layout_of(root), progress) as store:
        refresh(store, None, now)
        update_index(store, now)
        findings = check(store, now)
    return CheckResult(findings=[finding_row(store.name, each) for each in findings], summary=count_findings(findings))


@contextmanager
def observed_store(root: RootConfig, layout: str, progress: ProgressMeter | None = None) -> Iterator[Store]:
    """Yield a store for reading a root; its state is in a private temporary directory, which is removed at the
    end. `progress` shows the work."""
    with tempfile.TemporaryDirectory(prefix="memoryd-") as state:
        store = Store(root.name, root.path, layout, replace(root.policy, mode=Mode.OBSERVE), state)
        store.progress = progress or store.progress
        try:
            store.attach_read_only()
            yield store
        finally:
            store.close()


@contextmanager
def _owned_store(root: RootConfig, layout: str, state_dir: str) -> Iterator[Store]:
    store = Store(root.name, root.path, layout, root.policy, state_place(state_dir, root.path))
    try:
        store.attach()
        yield store
    finally:
        store.close()


def dedupe_path(
    path: str, now: float, config: Config, *, state_dir: str, threshold: float | None, dry_run: bool
) -> ChangeResult:
    """Merge duplicates; return the result of the control method `dedupe`. A dry run writes nothing, not
    even in the state directory.

    Raises AlreadyRunningError if a daemon uses the directory.
    """
    root = config.root_at(existing_directory(path))
    with Tree(root.path) as tree, lock_directory(tree.fd, tree.path):
        pass  # before the state is opened, which a daemon would have open
    layout = layout_of(root)
    with observed_store(root, layout) if dry_run else _owned_store(root, layout, state_dir) as store:
        refresh(store, None, now)
        done = dedupe(store, now, by="command", threshold=threshold, dry_run=dry_run)
        if done.receipt is not None:
            refresh(store, None, now)
            store.index.dirty = True
            update_index(store, now, force=True)
    return ChangeResult(plan=plan_row(done.plan), receipt=done.receipt or UNSET)


def layout_of(root: RootConfig, hint: str | None = None) -> str:
    """Return the layout of a root, by its configuration or recognised. Raises UsageError where there is not exactly
    one; `hint` is what to do then, if the directory itself does not show it."""
    if root.layout != "auto":
        return root.layout
    path = root.path
    with Tree(path) as tree:
        result = recognise_layout(tree, root.policy.ignore)
    if result.layout is not None:
        return result.layout
    if result.subdirectory is not None or not (result.matches or result.known or hint):
        hint = advice(path, result)
    raise UsageError(
        f"{path} {unusable(result)}", hint=hint or "only a directory of a recognised layout can be checked"
    )
