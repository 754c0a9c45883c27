"""How a root is: the worst that is true of it, why, and what may be done with it meanwhile."""

from __future__ import annotations

import errno
import os
from collections import deque
from typing import Any

from memoryd.core.findings import Finding
from memoryd.disk.refusal import refusal
from memoryd.engine.clock import Clock
from memoryd.engine.hints import Hints, Tell
from memoryd.engine.jobs import LOOKS
from memoryd.engine.status import Watch
from memoryd.errors import (
    BusyError,
    DeniedError,
    DiskError,
    GuardError,
    InvalidMemoryError,
    MemorydError,
    PausedError,
    RootMissingError,
)
from memoryd.layouts import LAYOUTS
from memoryd.log import get_logger
from memoryd.operations.limits import note_limits
from memoryd.operations.presence import Sighting
from memoryd.operations.recognition import Look, Misfit
from memoryd.operations.refresh import Refreshed
from memoryd.store import Store

log = get_logger(__name__)

DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE, errno.EACCES)
TROUBLE_FIRST_S, TROUBLE_MOST_S = 1.0, 10.0
ALARMS = ("corrupt-file", "emptied-file", "broken-session", "shrunk", "change-was-undone")
STARVED_S = 3.0  # an index that waits longer than this for a lock is told
ON_SUSPECT = ("lock.list", "backup.list", "plan")  # what may be looked at on a root that is in doubt
ON_PAUSED = ("lock.list", "backup.list")  # or that rests: neither reads a memory


class Health:
    """Written by whoever has the root's turn; read by `state` for what is published."""

    def __init__(self, store: Store, clock: Clock, hints: Hints, tell: Tell) -> None:
        self._store = store
        self._clock = clock
        self._hints = hints
        self._tell = tell
        self.sighting = Sighting("starting")
        self.paused = False
        self.watching = False
        self.watch = Watch()
        self.doubts: deque[tuple[float, str]] = deque(maxlen=20)
        self.waits: str | None = None  # why an index that ought to be written is not yet
        self.unwritten: str | None = None  # why it never will be as things are
        self.unindexed_since: float | None = None
        self.reason: str | None = None  # the disk's refusal, while it lasts
        self.without_vectors: str | None = None  # why some memories have none, while it lasts
        self.misfit: str | None = None  # why the layout that was named does not fit
        self._pause_s = TROUBLE_FIRST_S
        self._longer_at = 0.0
        self._shrunk: set[str] = set()  # files of which a standing loss was told

    @property
    def tended(self) -> bool:
        """The root is there, is the one we know, and nobody paused it."""
        return self.sighting.state == "ok" and not self.paused

    # --- trouble with the disk

    def trouble(self, error: BaseException | None) -> tuple[MemorydError, float]:
        """Note a failing disk, telling it once: the error for people, and seconds until the next try."""
        reason = _reason(error)
        if reason != self.reason:
            log.error("trouble", root=self._store.name, reason=reason)
            self._tell("health", {"root": self._store.name, "reason": reason})
        self.reason = reason
        pause, now = self._pause_s, self._clock.monotonic()
        if now >= self._longer_at:  # commands that are refused meanwhile do not lengthen it
            self._longer_at, self._pause_s = now + pause, min(TROUBLE_MOST_S, pause * 2)
        hint, message = "nothing was changed; memoryd tries again by itself", f"root {self._store.name}: {reason}"
        code = refusal(error, self._store.state_dir)
        if code is None:
            return DeniedError(message, hint=hint), pause
        return DiskError(message, hint=hint, data={"code": code}), pause

    def well(self) -> None:
        """Something was written: the disk takes it again."""
        if self.reason is not None:
            log.info("recovered from trouble", root=self._store.name)
            self._tell("health", {"root": self._store.name, "reason": None})
        self.reason, self._pause_s = None, TROUBLE_FIRST_S

    def note_limits(self) -> bool:
        """Tell of each hard limit newly reached; True when upkeep ought to make room under a soft one."""
        crossed, soft = note_limits(self._store)
        for path in crossed:
            log.warning("hard limit reached", root=self._store.name, file=path, hint="see `memoryd status`")
            self._tell("finding", {"root": self._store.name, "code": "hard-limit", "path": path})
        return soft and not self._store.observes

    def note_undone(self, told: dict[str, Any]) -> None:
        """A memory that an agent's older state had wiped out is back."""
        log.warning("stored again", root=self._store.name, file=told["path"], receipt=told["receipt"])
        self._tell("finding", told)

    def note_changes(self, done: Refreshed) -> None:
        """Tell what changed, and at once what somebody has to see to before the agents write on. That a memory was
        only read is no news."""
        said, gone = sorted({*done.changed} - {*done.accessed}), sorted(done.gone)
        if said or gone:
            self._tell("change", {"root": self._store.name, "paths": said, "gone": gone})
        vanished = {each.path for each in self._store.noted.get("losses", ())}
        for path in sorted(vanished & set(gone)):
            log.warning("alarm", root=self._store.name, file=path, code="shrunk", hint="see `memoryd check`")
            self._tell("finding", {"root": self._store.name, "code": "shrunk", "path": path})
        standing = self._store.catalogue.paths_with(ALARMS) if said else ()
        for path, code in standing:
            # A loss stands over many stores of the agent, and is told when it comes.
            if path in said and not (code == "shrunk" and path in self._shrunk):
                log.warning("alarm", root=self._store.name, file=path, code=code, hint="see `memoryd check`")
                self._tell("finding", {"root": self._store.name, "code": code, "path": path})
        if said:
            self._shrunk = {path for path, code in standing if code == "shrunk"}
        self._shrunk |= vanished

    def note_shapes(self, seen: Look) -> None:
        """No layout, or more than one, has the shape of what is there: say what to do."""
        if seen.refused is not None:
            self.unwritten = (
                f"{self._store.path} {seen.refused}, so no layout is looked for; name the memory directory itself, or "
                "its layout in the configuration"
            )
            return
        if seen.known is not None:
            self.unwritten = f"looks like {seen.known}; memoryd has no layout for it yet and leaves it alone"
            return
        if seen.meant is not None:
            place = os.path.join(self._store.path, seen.meant)
            self.unwritten = f"the memories lie in {place}; name that directory instead of this one"
            return
        shown = [f"{name} ({why})" for name, why in seen.shapes.items()]
        named = " or ".join(f'layout = "{name}"' for name in seen.shapes or LAYOUTS)
        if shown:
            self.unwritten = f"it looks like {' and like '.join(shown)}; name its layout in the configuration: {named}"
        else:
            looks = "nothing in it has the shape of a layout, so it is left alone"
            self.unwritten = f"{looks}; for a new store name its layout in the configuration: {named}"

    def note_fit(self, found: Misfit | None) -> None:
        """Whether the layout that was named fits."""
        if found is not None and found.why != self.misfit:
            log.warning("the layout does not fit", root=self._store.name, reason=found.why)
            self._tell("health", {"root": self._store.name, "reason": found.why})
        self.misfit = None if found is None else found.why
        self._store.foreign = self.misfit if found is not None and found.another else None
        self._store.noted["fit"] = () if found is None else (Finding("layout-misfit", "", found.why),)

    # --- what may be done

    def may_run(self, name: str, *, writes: bool) -> bool:
        """Unattended work happens only on a healthy root, and writing only in maintain mode."""
        layout = self._store.layout
        if not self.tended or layout is None or name not in layout.jobs:
            return False
        return not (writes and (self._store.observes or self._newer))

    def require(self, name: str, *, dry_run: bool = False) -> None:
        """The error that answers a command which cannot be carried out as things are."""
        store = self._store
        if self.paused and name not in ON_PAUSED:
            raise PausedError(f"root {store.name} is paused", hint=f"`memoryd root resume {store.name}`")
        if self.sighting.state in ("missing", "failed"):
            raise RootMissingError(f"root {store.name}: {self.sighting.reason}", hint="see `memoryd status`")
        if self.sighting.state == "suspect" and name not in ON_SUSPECT:
            raise GuardError(f"root {store.name}: {self.sighting.reason}")
        if store.layout is None and name not in ("sync", "rescan"):
            reason = f"root {store.name} has no layout: {self.unwritten}"
            raise InvalidMemoryError(reason, hint="name its layout in the configuration")
        if store.foreign is not None and name not in (*LOOKS, "reindex") and not dry_run:
            raise InvalidMemoryError(f"root {store.name}: {store.foreign}", hint="name a directory of a known layout")
        if store.guessed_by is not None and name not in (*LOOKS, "reindex") and not dry_run:
            raise InvalidMemoryError(f"root {store.name}: {self._guess}", hint=f"`memoryd root confirm {store.name}`")
        if self._newer and name not in LOOKS:
            raise GuardError(
                f"root {store.name} is read-only: {self.unwritten}",
                hint='a newer program tends it; `newer_index = "rebuild"` in the configuration overrides that',
            )
        blocked = store.blocked() if name not in LOOKS else None
        if blocked is not None:
            raise BusyError(f"root {store.name}: {blocked}", hint="finish that first, then try again")

    @property
    def _newer(self) -> bool:
        return self._store.index.result.newer is not None and self._store.policy.newer_index == "read-only"

    # --- what is told

    def state(self) -> tuple[str, tuple[str, ...]]:
        """The worst that is true, with every reason."""
        if self.paused:
            return "paused", ("paused by command",)
        if self.sighting.state != "ok":
            return self.sighting.state, (self.sighting.reason or "",)
        if self.reason is not None:
            return "read_only", (self.reason,)
        if self._newer and self.unwritten:
            return "read_only", (self.unwritten,)
        reasons = tuple(self._degradations())
        guess = () if self._store.guessed_by is None else (self._guess,)
        return ("degraded" if reasons else "ok"), (*reasons, *guess)

    @property
    def _guess(self) -> str:
        """What an unconfirmed layout means, and how to go on."""
        store = self._store
        name = store.layout.name if store.layout is not None else ""
        return (
            f"looks like {name} because {store.guessed_by}; nothing is written here until that is confirmed: see "
            f'`memoryd plan {store.name}`, then `memoryd root confirm {store.name}`, or write layout = "{name}"'
        )

    def _degradations(self) -> list[str]:
        reasons: list[str] = []
        if self._store.layout is None:
            reasons.append(self.unwritten or "no layout is known")
        if self._store.network_fs is not None:
            reasons.append(f"on {self._store.network_fs} changes of other machines make no events: timed scans")
        elif not self.watching and (self._store.layout is not None or self._store.too_wide is None):
            reasons.append(f"the directory cannot be watched, timed scans: {self._hints.limit_hint()}")
        elif self.watch.held < self.watch.wanted:
            short = f"{self.watch.held} of {self.watch.wanted} directories are watched, the rest by timed scans"
            reasons.append(f"{short}: {self._hints.limit_hint()}")
        reasons += [f"{each.path}: {each.message}" for each in self._store.noted.get("unread", ())]
        reasons += [each.message for each in self._store.noted.get("guard", ())]
        if self.misfit is not None:
            reasons.append(self.misfit)
        if self._store.index.result.unmanaged is not None:
            reasons.append(self._store.index.result.unmanaged)
        stale = self.unindexed_since
        if self.waits and stale is not None and self._clock.monotonic() - stale > STARVED_S:
            reasons.append(f"the index waits: {self.waits}")
        if self.without_vectors is not None:
            reasons.append(self.without_vectors)
        return reasons


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OSError) and error.errno in DISK_TROUBLE:
        place = f" ({error.filename})" if isinstance(error.filename, str) else ""
        return f"the disk refuses: {error.strerror}{place}"
    if isinstance(error, MemorydError):
        return error.message
    return str(error) if error is not None else "an unexpected error, see the log"
