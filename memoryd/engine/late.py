"""Looking after replaced inodes: what was appended to one goes into the live file, under the lock."""

from __future__ import annotations

from memoryd.engine.clock import Clock
from memoryd.engine.looking import LATE_S, NEVER, Looking
from memoryd.errors import BusyError
from memoryd.log import get_logger
from memoryd.store import Store
from memoryd.store.late import carry_over, has_late_bytes

log = get_logger(__name__)


def carry_late(store: Store, clock: Clock, looking: Looking) -> None:
    """Where it is due; the next look is set."""
    now = clock.monotonic()
    if not store.late:
        looking.next_late = NEVER
        return
    if now < looking.next_late:
        return
    looking.next_late = now + LATE_S
    if not has_late_bytes(store):
        carry_over(store, clock.wall())
        return
    try:
        with store.locked(0.2, honour_soft=False):
            carried = carry_over(store, clock.wall())
    except BusyError:
        return  # the next look tries again; the bytes are kept until then
    log.warning("late append carried over", root=store.name, bytes=carried)
