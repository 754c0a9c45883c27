"""`check --offline PATH`: one directory checked without a daemon, and without leaving a trace in it."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from memoryd.core.findings import Finding, summary
from memoryd.core.policy import Mode, Policy
from memoryd.disk.tree import Tree
from memoryd.errors import NotFoundError, UsageError
from memoryd.layouts import recognise
from memoryd.operations.check import check, public
from memoryd.operations.indexing import update_index
from memoryd.operations.refresh import refresh
from memoryd.store import Store


def check_path(path: str, *, layout: str | None = None, now: float | None = None) -> dict[str, Any]:
    """The result of the control method `check` for the directory at `path`."""
    moment = time.time() if now is None else now  # the command line's clock: no daemon is asked
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.exists(real):
        raise NotFoundError(f"{path} is not there", hint="name an existing memory directory")
    if not os.path.isdir(real):
        raise UsageError(f"{path} is no directory", hint="name the directory that holds the memories")
    name = layout or _layout_of(real)
    with tempfile.TemporaryDirectory(prefix="memoryd-check-") as state:
        store = Store(os.path.basename(real), real, name, Policy(mode=Mode.OBSERVE), state)
        try:
            store.look_only()
            findings = _findings(store, moment)
        finally:
            store.close()
    return {"findings": [public(store.name, each) for each in findings], "summary": summary(findings)}


def _findings(store: Store, now: float) -> list[Finding]:
    refresh(store, None, now)
    update_index(store, now)
    return check(store, now)


def _layout_of(path: str) -> str:
    with Tree(path) as tree:
        names = recognise(tree.scan(lambda _: False).files, lambda file: tree.read_range(file, 0, 4096))
    if len(names) != 1:
        found = " and ".join(names) if names else "no layout"
        raise UsageError(f"{path} looks like {found}", hint="memoryd can only check a layout it recognises")
    return names[0]
