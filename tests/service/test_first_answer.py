"""The first answer of a daemon that is just starting: it knows its roots, or there is no answer yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memoryd.errors import NoDaemonError
from tests.daemon import Daemon, until


def test_a_sync_at_the_first_moment_names_every_root(tmp_path: Path) -> None:
    """A sync of no root at all would be a stale ok: what was written before it is in no index yet."""
    roots = [tmp_path / name for name in ("a", "b", "c")]
    for root in roots:
        root.mkdir()
        (root / "learnings.jsonl").touch()
    with Daemon(tmp_path / "d", *roots) as daemon:
        daemon.spawn()

        def first() -> dict[str, Any] | None:
            try:
                return dict(daemon.rpc("sync"))
            except NoDaemonError:
                return None

        assert set(until(first, "the first sync")["roots"]) == {"a", "b", "c"}
        assert all(json.loads((root / "index.json").read_bytes()) for root in roots)
