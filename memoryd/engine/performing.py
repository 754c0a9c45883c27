"""Performing one job: every failure becomes an answer, and scheduled runs are written down."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from memoryd.disk.nodes import ChangingError, TooLargeError
from memoryd.engine.clock import Clock
from memoryd.engine.hints import Hints, Tell
from memoryd.engine.jobs import Job
from memoryd.errors import (
    BusyError,
    DeniedError,
    DiskError,
    GuardError,
    LimitExceededError,
    MemorydError,
    ShuttingDownError,
)
from memoryd.log import get_logger
from memoryd.store import Store
from memoryd.store.lockable import WouldWaitError

log = get_logger(__name__)

BATCH_PAUSE_S = 0.5  # between the batches of a job that moves a bounded number at a time
BUSY_RETRY_S = 30.0  # a scheduled job that found no gap between the writers tries again


class Performing:
    """Used by whoever has the root's turn. `trouble` is told of a failing disk and words it for people."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hints: Hints,
        tell: Tell,
        trouble: Callable[[BaseException | None], MemorydError],
    ) -> None:
        self._store = store
        self._clock = clock
        self._hints = hints
        self._tell = tell
        self._trouble = trouble
        self._ahead = clock.wall() - clock.boot()

    def recorded(self, job: Job, work: Callable[[Job], dict[str, Any]]) -> tuple[dict[str, Any], BaseException | None]:
        """The same as `attempt`, written down before it runs, so that a crash in the middle shows, and after. Raises
        what the journal says where it cannot be."""
        self._store.journal.job_started(job.name, self._clock.wall())
        self._compare_clocks(job)
        result, error = self.attempt(job, work)
        self._record(job, error)
        if error is None and job.by == "schedule" and result.get("waiting"):
            self._hints.retry(self._store.name, job.name, BATCH_PAUSE_S)
        return result, error

    def _compare_clocks(self, job: Job) -> None:
        """What somebody runs by hand says that the clock is right as it is."""
        ahead = self._clock.wall() - self._clock.boot()
        if job.by == "command" and job.name == "archive":
            self._ahead = ahead
        self._store.jumped_s = ahead - self._ahead

    def attempt(self, job: Job, work: Callable[[Job], dict[str, Any]]) -> tuple[dict[str, Any], BaseException | None]:
        """The result, or the error that is the answer instead."""
        try:
            return work(job), None
        except WouldWaitError:
            raise  # it is tried again by somebody who can wait
        except MemorydError as error:
            if isinstance(error, DeniedError) and isinstance(error.__cause__, OSError):
                trouble = self._trouble(error.__cause__)  # the disk's refusal, in the words of a floor below
                return {}, trouble if isinstance(trouble, DiskError) else error
            return {}, error
        except ChangingError as error:
            return {}, _busy(self._store, error)
        except TooLargeError as error:
            return {}, _too_large(self._store, error)
        except (OSError, sqlite3.Error) as error:
            return {}, self._trouble(error)
        except Exception as error:  # a bug must not pass for a run that never was, nor end the worker
            log.exception("unexpected", root=self._store.name, job=job.name)
            return {}, error

    def _record(self, job: Job, error: BaseException | None) -> None:
        """The outcome of a scheduled run (or of `jobs run`): for `jobs`, the log and whoever listens."""
        result, reason = _outcome(error)
        self._store.journal.job_ended(job.name, result, self._clock.wall(), reason)
        if result == "busy" and job.by == "schedule":
            self._hints.retry(self._store.name, job.name, BUSY_RETRY_S)
        if reason is not None:
            log.warning("job", root=self._store.name, job=job.name, result=result, reason=reason)
        self._tell("job", {"root": self._store.name, "job": job.name, "result": result, "reason": reason})


def _busy(store: Store, error: ChangingError) -> BusyError:
    reason = f"root {store.name}: {error.filename}: {error.strerror}"
    return BusyError(reason, hint="nothing was changed; try again when its writer pauses")


def _too_large(store: Store, error: TooLargeError) -> LimitExceededError:
    """A file that is not read is no fault of the disk, and the other files go on."""
    reason = f"root {store.name}: {error.filename}: {error.strerror}, so nothing is moved or copied"
    return LimitExceededError(reason, hint="split the file by hand; memoryd does not read files above 64 MB")


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
