"""The health of a root: its worst current condition, the reasons, and what may be done meanwhile.

How long a failing disk is left alone between two attempts: from `MIN_TROUBLE_S` here to `MAX_TROUBLE_S` in `deadlines`.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterable

from msgspec import to_builtins

from memoryd.control.methods.upkeep import LockRow
from memoryd.core.findings import Finding
from memoryd.core.lock_staleness import CLEARED
from memoryd.core.records import Role
from memoryd.core.secrets import redact
from memoryd.disk.disk_errors import probe_write, refusal
from memoryd.disk.tree import PathState
from memoryd.engine.deadlines import MAX_TROUBLE_S
from memoryd.engine.interfaces import Clock, Tell, Watcher
from memoryd.engine.jobs import READ_ONLY
from memoryd.engine.watch import Watch
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
from memoryd.log import get_logger
from memoryd.operations.check import FILES_TOPIC
from memoryd.operations.file_versions import VERSIONS_TOPIC
from memoryd.operations.index_files import UNREAD_INDEX_TOPIC, IndexUpdate
from memoryd.operations.recognition import LayoutMismatch
from memoryd.operations.refresh import RefreshResult
from memoryd.operations.root_check import RootCheck
from memoryd.operations.whole_files import RETRY_S
from memoryd.store import Store
from memoryd.store.late_writes import LATE_WRITES_TOPIC

log = get_logger(__name__)

_ACCESS_HINT = "nothing was changed; let user {} read and write it (`chown`, `chmod`): memoryd then continues by itself"
DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE, errno.EACCES)
MIN_TROUBLE_S = 1.0
STARVED_S = 3.0  # an index that waits longer than this for a lock is reported
ON_SUSPECT = ("lock.list", "backup.list", "plan")  # read-only commands allowed on a suspect root
STUCK_S = 10.0  # a git operation that lasts longer is reported as stuck
PAUSED = "paused"  # journal key
SEARCH_TOPIC = "search"  # of findings about the models that the search needs
STATUS_TOPIC = "status"  # of findings about what the status lacks
ON_MISSING = ("backup.list",)  # allowed while the directory is missing: when a user wants to see what is kept
ON_PAUSED = ("lock.list", "backup.list")  # allowed on a paused root: neither reads a memory


class Health:
    """The known condition of a root. Written by the thread that owns the root."""

    def __init__(self, store: Store, clock: Clock, watcher: Watcher, tell: Tell) -> None:
        self._store = store
        self._clock = clock
        self._tell = tell
        self.check = RootCheck("starting")
        self.paused = bool(store.journal.facts.get(PAUSED))
        self.watch = Watch(store, watcher)
        self.doubts: deque[tuple[float, str]] = deque(maxlen=20)
        self.index_delay_reason: str | None = None  # why an index write is delayed
        self.index_blocked_reason: str | None = None  # why the index cannot be written at all
        self.unindexed_since: float | None = None
        self.reason: str | None = None  # the current disk error
        self.without_vectors: str | None = None  # why some memories have no vectors, while it lasts
        self._blocked: tuple[str, float] | None = None  # the reason nothing is written, and since when
        self._blocked_reported = False
        self._degraded = False  # as reported
        self.layout_mismatch: str | None = None  # why the configured layout does not fit
        self._pause_s = MIN_TROUBLE_S
        self._longer_at = 0.0

    @property
    def is_active(self) -> bool:
        """True if the root is present, is the known directory, and is not paused."""
        return self.check.state == "ok" and not self.paused

    @property
    def may_scan_seldom(self) -> bool:
        """True if scans may be rare, because events cover every directory. A directory that could not be listed is
        tried again soon, but for a minute only: each attempt may wait long for a failing disk."""
        since = self._store.unlisted_since
        return self.watch.is_complete and (since is None or self._clock.wall() - since > RETRY_S)

    @property
    def is_calm(self) -> bool:
        """True if nothing is wrong and events cover every directory: a look at the path may wait for one of them."""
        settled = self._blocked is None and not self._store.lock_trace.holds_removed
        return settled and self.watch.is_complete and self.state()[0] == "ok"

    def has_moved(self) -> bool:
        """True if a look at a calm root would find something new: another directory at the path, or a git operation. A
        few stats: one thread can watch over all calm roots while their workers sleep. For any thread."""
        try:
            return self.is_calm and (self._store.has_moved() or self._store.blocked() is not None)
        except (OSError, MemorydError):
            return True  # the directory is being closed, or its disk fails

    def pause(self, *, paused: bool) -> None:
        """Pause the root or end that, and remember it: a restart must not begin to write what a user has stopped."""
        self.paused = paused
        self._store.journal.facts.set(PAUSED, paused or None)

    # --- trouble with the disk

    def trouble(self, error: BaseException | None) -> tuple[MemorydError, float]:
        """Note a failing disk and report it once. Returns the error for the user and the seconds until the next
        attempt. A root that was removed is no failing disk: a look at its path follows, which reports it as missing."""
        if isinstance(error, FileNotFoundError) and self._is_removed():
            message = f"root {self._store.name}: {self._store.path} does not exist"
            return RootMissingError(message, hint="see `memoryd status`"), 0.0
        if self._store.layout is not None and self._store.index.needs_scan and self.unindexed_since is None:
            self.unindexed_since = self._clock.monotonic()
        reason = _reason(error)
        if reason != self.reason:
            log.error("trouble", root=self._store.name, reason=reason)
            self._tell("health", {"root": self._store.name, "reason": reason})
        self.reason = reason
        pause, now = self._pause_s, self._clock.monotonic()
        if now >= self._longer_at:  # commands refused meanwhile do not lengthen the pause
            self._longer_at, self._pause_s = now + pause, min(MAX_TROUBLE_S, pause * 2)
        hint, message = "nothing was changed; memoryd tries again by itself", f"root {self._store.name}: {reason}"
        code = refusal(error)
        if code is None:
            return DeniedError(message, hint=_ACCESS_HINT.format(self._store.owner)), pause
        return DiskError(message, hint=hint, data={"code": code}), pause

    def _is_removed(self) -> bool:
        return not self._store.attached or self._store.tree.path_state() is PathState.MISSING

    def note_recovery(self) -> None:
        """Note a successful write: the disk accepts writes again."""
        if self.reason is not None:
            log.info("recovered from trouble", root=self._store.name)
            self._tell("health", {"root": self._store.name, "reason": None})
        self.reason, self._pause_s = None, MIN_TROUBLE_S

    def probe_disk(self) -> None:
        """After trouble, check that the disk accepts writes although none is due. Raises OSError while it does not."""
        probe_write(self._store.state_dir)
        if not self._store.observes:
            probe_write(self._store.tree.path)

    def note_blocked(self, reason: str | None) -> bool:
        """Note a git operation during which nothing is written. Returns whether the status has to be published. Most
        end in a moment; one that does not is reported."""
        before, now = self._blocked, self._clock.monotonic()
        if reason is None:
            self._blocked, self._blocked_reported = None, False
            return before is not None or bool(self._store.root_findings.get(STATUS_TOPIC))  # lacking: made anew
        self._blocked = before or (reason, now)
        if self._stuck and not self._blocked_reported:
            self._blocked_reported = True
            log.warning("blocked", root=self._store.name, reason=reason)
            self._tell("health", {"root": self._store.name, "reason": reason})
        return True

    @property
    def _stuck(self) -> bool:
        return self._blocked is not None and self._clock.monotonic() - self._blocked[1] >= STUCK_S

    def note_cleared(self, locks: Iterable[LockRow]) -> None:
        """Report cleared locks. One that is left because another process has it open is a finding, not an event."""
        for lock in locks:
            if lock.action in CLEARED:
                cleared = to_builtins(lock)
                log.warning("lock cleared", root=self._store.name, **cleared)
                self._tell("health", {"root": self._store.name, "lock": cleared})

    def note_changes(self, done: RefreshResult, since: float) -> None:
        """Report what changed, as was first hinted at `since` (monotonic). A memory that was only read is not
        reported."""
        self.unindexed_since = since if self.unindexed_since is None else self.unindexed_since
        said, gone = sorted({*done.changed} - {*done.accessed}), sorted(done.deleted)
        if said or gone:
            self._tell("change", {"root": self._store.name, "paths": said, "gone": gone})

    def note_index(self, done: IndexUpdate) -> bool:
        """Note what became of the index files. Returns whether they are current, and were not before."""
        self.index_blocked_reason, self.index_delay_reason = done.blocked_reason, done.delay_reason
        if done.written:
            self.note_recovery()
        if done.delay_reason is not None or self._store.index.needs_scan:
            return False
        changed = self.unindexed_since is not None or bool(done.written)
        self.unindexed_since = None
        return changed

    def note_fit(self, found: LayoutMismatch | None) -> None:
        """Note whether the named layout fits."""
        if found is not None and found.why != self.layout_mismatch:
            log.warning("the layout does not fit", root=self._store.name, reason=found.why)
            self._tell("health", {"root": self._store.name, "reason": found.why})
        self.layout_mismatch = None if found is None else found.why
        self._store.foreign_reason = self.layout_mismatch if found is not None and found.foreign else None
        self._store.root_findings["fit"] = () if found is None else (Finding("layout-misfit", "", found.why),)

    # --- permissions

    def may_run(self, name: str) -> bool:
        """True if this job may run unattended: only on a healthy root, and writing only in maintain mode."""
        layout = self._store.layout
        if not self.is_active or layout is None or name not in layout.jobs:
            return False
        return name in READ_ONLY or not (self._store.observes or self._newer)

    @property
    def backs_up(self) -> bool:
        """True if backups are made here without being asked for."""
        return self._store.policy.schedule.get("backup") != "off" and self.may_run("backup")

    def require(self, name: str, *, dry_run: bool = False) -> None:
        """Raise the error that answers a command which cannot be carried out now."""
        store = self._store
        if self.paused and name not in ON_PAUSED:
            raise PausedError(f"root {store.name} is paused", hint=f"`memoryd root resume {store.name}`")
        kept = self.check.state == "missing" and name in ON_MISSING and store.layout is not None
        if self.check.state in ("missing", "failed") and not kept:
            raise RootMissingError(f"root {store.name}: {self.check.reason}", hint="see `memoryd status`")
        if self.check.state == "suspect" and name not in ON_SUSPECT:
            raise GuardError(f"root {store.name}: {self.check.reason}")
        if store.layout is None and name != "sync":
            reason = f"root {store.name} has no layout: {self.index_blocked_reason}"
            raise InvalidMemoryError(reason, hint="name its layout in the configuration")
        writes = name not in READ_ONLY
        changes_memories = writes and name != "reindex" and not dry_run
        if changes_memories and store.foreign_reason is not None:
            raise InvalidMemoryError(
                f"root {store.name}: {store.foreign_reason}", hint="name a directory of a known layout"
            )
        if changes_memories and store.guess_reason is not None:
            raise InvalidMemoryError(f"root {store.name}: {self._guess}", hint=f"`memoryd root confirm {store.name}`")
        if writes and self._newer:
            raise GuardError(
                f"root {store.name} is read-only: {self.index_blocked_reason}",
                hint='it belongs to a newer program; `newer_index = "rebuild"` in the configuration overrides that',
            )
        blocked = store.blocked() if writes else None
        if blocked is not None:
            raise BusyError(f"root {store.name}: {blocked}", hint="finish that first, then try again")

    @property
    def _newer(self) -> bool:
        return self._store.index.result.newer is not None and self._store.policy.newer_index == "read-only"

    # --- reporting

    def state(self) -> tuple[str, tuple[str, ...]]:
        """Return the worst current condition, with every reason."""
        if self.paused:
            return "paused", ("paused by command",)
        if self.check.state != "ok":
            return self.check.state, (self.check.reason or "",)
        if self.reason is not None:
            return "read_only", (self.reason,)
        if self._newer and self.index_blocked_reason:
            return "read_only", (self.index_blocked_reason,)
        reasons = tuple(self._degradations())
        guess = () if self._store.guess_reason is None else (self._guess,)
        blocked = () if self._blocked is None else (f"{self._blocked[0]}; nothing is written until that is over",)
        return ("degraded" if reasons or self._stuck else "ok"), (*blocked, *reasons, *guess)

    def note_state(self, now: str, reasons: tuple[str, ...]) -> None:
        """Report that the root is degraded, or well again: not each reason is a finding."""
        before, self._degraded = self._degraded, now == "degraded" or (self._degraded and now != "ok")
        if self._degraded and not before:
            reason = redact("; ".join(reasons))
            log.warning("degraded", root=self._store.name, reason=reason)
            self._tell("health", {"root": self._store.name, "reason": reason})
        elif before and not self._degraded:
            log.info("no longer degraded", root=self._store.name)
            self._tell("health", {"root": self._store.name, "reason": None})

    @property
    def _guess(self) -> str:
        """Explain what an unconfirmed layout means, and how to proceed."""
        store = self._store
        name = store.layout.name if store.layout is not None else ""
        return (
            f"looks like {name} because {store.guess_reason}; nothing is written here until that is confirmed: see "
            f'`memoryd plan {store.name}`, then `memoryd root confirm {store.name}`, or write layout = "{name}"'
        )

    def _hides_memories(self, finding: Finding) -> bool:
        """True if the finding is about a file of memories that is not read: what is in it is not searched."""
        return self._store.layout is not None and self._store.role(finding.path) is Role.SOURCE

    def _degradations(self) -> list[str]:
        store, found = self._store, self._store.root_findings
        topics = ("guard", SEARCH_TOPIC, VERSIONS_TOPIC, STATUS_TOPIC, UNREAD_INDEX_TOPIC)
        reasons = (
            (self.index_blocked_reason or "no layout is known") if store.layout is None else None,
            self.watch.gap(),
            *map(_with_path, found.get("unread", ())),
            *(_with_path(each) for each in found.get(FILES_TOPIC, ()) if self._hides_memories(each)),
            *(each.message for topic in topics for each in found.get(topic, ())),
            *(_with_path(each) for each in found.get("locks", ()) if each.code == "held-lock"),
            *store.losses.reasons,
            *map(_with_path, found.get(LATE_WRITES_TOPIC, ())),
            self.layout_mismatch,
            store.index.result.unmanaged,
            self._index_wait(),
            self.without_vectors,
        )
        return [each for each in reasons if each is not None]

    def _index_wait(self) -> str | None:
        """Return why the index waits, if it has waited for long."""
        stale = self.unindexed_since
        if not self.index_delay_reason or stale is None or self._clock.monotonic() - stale <= STARVED_S:
            return None
        return f"the index waits: {self.index_delay_reason}"


def _with_path(finding: Finding) -> str:
    return f"{finding.path}: {finding.message}"


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OSError) and error.errno in DISK_TROUBLE:
        place = f" ({error.filename})" if isinstance(error.filename, str) else ""
        kind = "no access" if error.errno == errno.EACCES else "disk error"
        return f"{kind}: {error.strerror}{place}"
    if isinstance(error, MemorydError):
        return error.message
    return str(error) if error is not None else "unexpected error; see the log"
