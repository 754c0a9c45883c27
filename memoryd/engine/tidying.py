"""Between two changes the worker puts the search index in order, a little at a time."""

from __future__ import annotations

from memoryd.store import Store

NEVER = float("inf")
QUIET_S = 0.5  # after a change
PAUSE_S = 0.05  # between two pieces of work: a change that comes goes first


class Tidying:
    """`next_due` in monotonic seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.next_due = NEVER

    def turn(self, now: float) -> None:
        if now >= self.next_due:
            self.next_due = now + PAUSE_S if self._store.catalogue.tidy() else NEVER
        elif self.next_due == NEVER and self._store.catalogue.untidy:
            self.next_due = now + QUIET_S
