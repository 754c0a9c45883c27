"""Weekly care of memoryd's own state: what nothing refers to any more goes."""

from __future__ import annotations

from typing import Any

from memoryd.store import Store

KEPT_ENTRIES = 1000  # receipts that can still be undone


def tidy_state(store: Store) -> dict[str, Any]:
    freed = store.journal.prune(KEPT_ENTRIES)
    store.blobs.drop(freed)
    return {"forgotten_blobs": len(freed)}
