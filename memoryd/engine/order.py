"""What comes before the first write to a root: what a crash left is put in order, old versions are migrated.

Reading needs none of it. So on a disk that takes no writes the memories are read all the same, and this is
tried again before each write until it is done."""

from __future__ import annotations

from memoryd.disk.room import prove_room
from memoryd.engine.clock import Clock
from memoryd.log import get_logger
from memoryd.operations.migrate import migrate
from memoryd.operations.recognition import Look, look_at
from memoryd.store import Store
from memoryd.store.recovery import recover

log = get_logger(__name__)


class Order:
    """`kept` is set to False where the root was away: what is there now has to be looked through anew."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.kept = False

    def recognise(self) -> Look:
        """What the root looks like; `auto` looks again until that is exactly one layout."""
        store = self._store
        if store.too_wide is not None:
            return Look(refused=store.too_wide)
        seen = look_at(store.tree, store.policy.ignore)
        if seen.layout is not None:
            store.guess(seen.layout, seen.shapes[seen.layout])
            log.info("layout recognised", root=store.name, layout=seen.layout, why=seen.shapes[seen.layout])
        return seen

    def put(self) -> None:
        """Raises what the disk says, and BusyError where a migration finds no gap between the writers."""
        if self.kept:
            return
        store = self._store
        store.may_last()
        for said in recover(store, self._clock.wall()):
            log.warning("recovered", root=store.name, what=said)
        if store.layout is None:
            return  # whether there is something to migrate is known when its layout is
        if not store.observes:
            for said in migrate(store, self._clock.wall()):
                log.info("migrated", root=store.name, what=said)
        self.kept = True

    def prove_writable(self) -> None:
        """After trouble, where nothing is due to be written: OSError while the disk still refuses."""
        prove_room(self._store.state_dir)
        if not self._store.observes:
            prove_room(self._store.tree.path)
