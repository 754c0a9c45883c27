"""Run jobs of a root: record when they ran and by which rules, report failures, and continue a job that works in
batches."""

from __future__ import annotations

from collections.abc import Callable

from memoryd.control.methods.method_types import Result
from memoryd.control.methods.shared import ChangeResult
from memoryd.core.defaults import MB
from memoryd.disk.syscalls import ChangingError, NotBeneathError, NotRegularError, TooLargeError
from memoryd.engine.interfaces import Clock, Tell, Timetable
from memoryd.engine.jobs import Job
from memoryd.errors import (
    BusyError,
    ConflictError,
    DeniedError,
    DiskError,
    GuardError,
    LimitExceededError,
    MemorydError,
    ShuttingDownError,
)
from memoryd.log import get_logger
from memoryd.operations.check import BACKUP_JOB, note_backups
from memoryd.store import Store

log = get_logger(__name__)

BATCH_PAUSE_S = 0.5  # between the batches of a job that moves a bounded number at a time
MIN_BUSY_S, MAX_BUSY_S = 1.0, 5.0  # pauses between retries of a scheduled job on a busy root
RULES = "rules"  # journal: by which rules each upkeep job last ran


def note_rules(store: Store, job: str) -> None:
    """Remember the rules that a job of upkeep ran by."""
    if store.layout is None or job not in store.layout.upkeep.jobs:
        return
    known, rules = store.journal.facts.get(RULES, {}), store.policy.digest()
    if known.get(job) != rules:
        store.journal.facts.set(RULES, {**known, job: rules})


def has_new_rules(store: Store, job: str) -> bool:
    """True if the job last ran by other rules than those in force."""
    rules = store.policy.digest()
    return bool(store.journal.facts.get(RULES, {}).get(job, rules) != rules)


class JobRunner:
    """The runner of a root's jobs, used by the thread that owns the root. `run` carries out a job, `trouble` turns a
    disk error into the error for the user."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        timetable: Timetable,
        tell: Tell,
        run: Callable[[Job], Result],
        trouble: Callable[[BaseException | None], MemorydError],
    ) -> None:
        self._store = store
        self._clock = clock
        self._timetable = timetable
        self._tell = tell
        self._run = run
        self._trouble = trouble
        self._ahead = clock.wall() - clock.boot()
        self._busy_s: dict[str, float] = {}  # by job: the pause after the next time the root is busy

    def recorded(self, job: Job) -> tuple[Result, BaseException | None]:
        """Run `attempt` and record start and end in the journal, so that a crash in between shows. Raises OSError or
        MemorydError if the journal cannot be written."""
        self._store.journal.jobs.record_start(job.name, self._clock.wall())
        self._compare_clocks(job)
        result, error = self.attempt(job)
        self._record(job, error)
        if error is None and job.by == "schedule" and isinstance(result, ChangeResult) and result.waiting:
            self._timetable.retry(self._store.name, job.name, BATCH_PAUSE_S)
        return result, error

    def note_idle_run(self, name: str) -> bool:
        """Count and report a scheduled run that has nothing to do. False if it must run and be recorded. For any
        thread."""
        noted = self._store.journal.jobs.note_idle_run(name, self._clock.wall())
        if noted:
            self._report(name, "ok", None)
        return noted

    def _compare_clocks(self, job: Job) -> None:
        """Measure the jump of the wall clock. A manual archive run confirms that the clock is right."""
        ahead = self._clock.wall() - self._clock.boot()
        if job.by == "command" and job.name == "archive":
            self._ahead = ahead
        self._store.clock_jump_s = ahead - self._ahead

    def attempt(self, job: Job) -> tuple[Result, BaseException | None]:
        """Run the job; return its result and the error, if any."""
        try:
            return self._run(job), None
        except MemorydError as error:
            if isinstance(error, DeniedError) and isinstance(error.__cause__, OSError):
                trouble = self._trouble(error.__cause__)  # a disk error, as worded by a lower layer
                return Result(), trouble if isinstance(trouble, DiskError) else error
            return Result(), error
        except ChangingError as error:
            return Result(), _busy(self._store, error)
        except TooLargeError as error:
            return Result(), _too_large(self._store, error)
        except (NotRegularError, NotBeneathError, NotADirectoryError) as error:
            return Result(), _in_the_way(self._store, error)
        except OSError as error:
            return Result(), self._trouble(error)
        except Exception as error:  # a bug must be recorded as a failed run, and must not end the worker
            log.exception("unexpected", root=self._store.name, job=job.name)
            return Result(), error

    def _record(self, job: Job, error: BaseException | None) -> None:
        """Record the outcome of a scheduled run (or of `jobs run`) for `jobs`, the log and subscribers."""
        result, reason = _outcome(error)
        self._store.journal.jobs.record_end(job.name, result, self._clock.wall(), reason)
        if error is None:
            note_rules(self._store, job.name)
        if job.name == BACKUP_JOB:
            note_backups(self._store, self._clock.wall())
        again = result == "busy" and job.name in self._busy_s
        if result != "busy":
            self._busy_s.pop(job.name, None)
        elif job.by == "schedule":
            pause = self._busy_s.get(job.name, MIN_BUSY_S)
            self._timetable.retry(self._store.name, job.name, pause)
            self._busy_s[job.name] = min(MAX_BUSY_S, pause * 2)
        if reason is not None:
            tell = log.debug if again else log.warning
            tell("job", root=self._store.name, job=job.name, result=result, reason=reason)
        self._report(job.name, result, reason)

    def _report(self, name: str, result: str, reason: str | None) -> None:
        self._tell("job", {"root": self._store.name, "job": name, "result": result, "reason": reason})


def _busy(store: Store, error: ChangingError) -> BusyError:
    reason = f"root {store.name}: {error.filename}: {error.strerror}"
    return BusyError(reason, hint="nothing was changed; try again when its writer pauses")


def _too_large(store: Store, error: TooLargeError) -> LimitExceededError:
    """Return the error for a file above the size limit: not a disk error, and the other files continue."""
    reason = f"root {store.name}: {error.filename}: {error.strerror}, so nothing is moved or copied"
    return LimitExceededError(
        reason, hint=f"split the file by hand; here memoryd reads no files above {store.max_bytes // MB} MB"
    )


def _in_the_way(store: Store, error: OSError) -> ConflictError:
    """Return the error for a link, directory or special file in place of a file or directory: not a disk error."""
    reason = f"root {store.name}: {error.filename}: {error.strerror}"
    hint = "nothing was changed; `memoryd check` names what is in the way: replace it, then try again"
    return ConflictError(reason, hint=hint, data={"changed": [str(error.filename)]})


def _outcome(error: BaseException | None) -> tuple[str, str | None]:
    if error is None:
        return "ok", None
    if isinstance(error, GuardError):
        return "refused_by_guard", error.message
    if isinstance(error, (BusyError, ShuttingDownError)):
        return "busy", error.message
    if isinstance(error, MemorydError):
        return "failed", error.message
    return "failed", f"unexpected: {type(error).__name__}, see the log"
