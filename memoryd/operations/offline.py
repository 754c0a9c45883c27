"""`check --offline` and `dedupe --offline`: one directory without a daemon. A check leaves no trace in it; a merge is
backed up and journalled in the state directory as by the daemon, and refused where a daemon tends the root."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from memoryd.core.findings import Finding, summary
from memoryd.core.policy import Mode, Policy
from memoryd.disk.ownership import own_directory
from memoryd.disk.tree import Tree
from memoryd.errors import NotFoundError, UsageError
from memoryd.operations.check import check, public
from memoryd.operations.dedupe import dedupe
from memoryd.operations.indexing import update_index
from memoryd.operations.recognition import look_at
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from memoryd.store.store import state_place


def check_path(path: str, now: float) -> dict[str, Any]:
    """The result of the control method `check` for the directory at `path`."""
    real = _directory(path)
    name = _layout_of(real)
    with tempfile.TemporaryDirectory(prefix="memoryd-check-") as state:
        store = Store(os.path.basename(real), real, name, Policy(mode=Mode.OBSERVE), state)
        try:
            store.look_only()
            findings = _findings(store, now)
        finally:
            store.close()
    return {"findings": [public(store.name, each) for each in findings], "summary": summary(findings)}


def dedupe_path(path: str, now: float, *, state_dir: str, threshold: float | None, dry_run: bool) -> dict[str, Any]:
    """The result of the control method `dedupe`. Raises AlreadyRunningError where a daemon tends the directory."""
    real = _directory(path)
    with Tree(real) as tree, own_directory(tree.fd, tree.path):
        pass  # before the state is opened, which a daemon that tends it has open
    store = Store(os.path.basename(real), real, _layout_of(real), Policy(), state_place(state_dir, real))
    try:
        store.attach()
        refresh(store, None, now)
        done = dedupe(store, now, by="command", threshold=threshold, dry_run=dry_run)
        if done.receipt is not None:
            refresh(store, None, now)
            store.index.dirty = True
            update_index(store, now, force=True, wait_s=store.policy.lock_wait_s)
    finally:
        store.close()
    return {"plan": done.plan.public(), **({"receipt": done.receipt} if done.receipt else {})}


def _directory(path: str) -> str:
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.exists(real):
        raise NotFoundError(f"{path} is not there", hint="name an existing memory directory")
    if not os.path.isdir(real):
        raise UsageError(f"{path} is no directory", hint="name the directory that holds the memories")
    return real


def _findings(store: Store, now: float) -> list[Finding]:
    refresh(store, None, now)
    update_index(store, now)
    return check(store, now)


def _layout_of(path: str) -> str:
    with Tree(path) as tree:
        seen = look_at(tree)
    if seen.layout is not None:
        return seen.layout
    found = " and ".join(seen.shapes) or "no layout"
    hint = "memoryd can only check a layout it recognises"
    if seen.refused is not None:
        raise UsageError(f"{path} {seen.refused}", hint="name the directory that holds the memories")
    if seen.meant is not None:
        hint = f"the memories lie in {os.path.join(path, seen.meant)}; name that directory"
    raise UsageError(f"{path} looks like {found}", hint=hint)
