"""Jobs: what the doors ask of a root, as values, and the table that says which operation each one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from memoryd.core.findings import summary
from memoryd.core.policy import JOBS
from memoryd.errors import UsageError
from memoryd.operations import archive as archiving
from memoryd.operations import backup as backing
from memoryd.operations import check as checking
from memoryd.operations import locks as locking
from memoryd.operations.dedupe import dedupe
from memoryd.operations.permissions import tighten
from memoryd.operations.prune import prune
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.verify import tidy_state
from memoryd.store import Store
from memoryd.store.commit import Done

# Destructive upkeep waits for a pause of the writers.
QUIET_JOBS = ("archive", "limits", "prune", "dedupe")
# Upkeep that writes: nothing of it happens unattended in observe mode.
WRITING_JOBS = (*QUIET_JOBS, "backup", "locks", "permissions")


@dataclass(slots=True)
class Job:
    """`by` is command or schedule; `due` (monotonic) is when a scheduled one fell due;
    `recorded` ones are written down among the job times."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by: str = "command"
    due: float = 0.0
    recorded: bool = False
    future: Future[dict[str, Any]] = field(default_factory=Future)

    def begin(self) -> bool:
        """False where nobody waits for it any more. One that was begun may be begun again."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def refuse(self, error: BaseException) -> None:
        if self.begin():
            self.future.set_exception(error)

    def answer(self, result: dict[str, Any], error: BaseException | None) -> None:
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


Operation = Callable[[Store, Mapping[str, Any], str, float], dict[str, Any]]


def _done(done: Done, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"plan": done.plan.public(), **more}
    if done.plan.waiting:
        result["waiting"] = done.plan.waiting
    return result | ({"receipt": done.receipt} if done.receipt is not None else {})


def _archive(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    ids = params.get("ids") or None
    return _done(archiving.archive(store, now, by=by, ids=ids, dry_run=bool(params.get("dry_run"))))


def _limits(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    return _done(archiving.enforce_limits(store, now, by=by, dry_run=bool(params.get("dry_run"))))


def _prune(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    return _done(prune(store, now, by=by, dry_run=bool(params.get("dry_run"))))


def _dedupe(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    threshold, dry_run = params.get("threshold"), bool(params.get("dry_run"))
    as_job = bool(params.get("as_job"))
    return _done(dedupe(store, now, by=by, threshold=threshold, dry_run=dry_run, as_job=as_job))


def _repair(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    return _done(repair(store, now, codes=params.get("codes") or None, dry_run=bool(params.get("dry_run"))))


def _permissions(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    return _done(tighten(store, now, by=by, dry_run=bool(params.get("dry_run"))))


def _backup_create(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    made = backing.create_backups(store, now, file=params.get("file"), dry_run=bool(params.get("dry_run")))
    return {"created": made, **_backups(store, now, params, verify=False)}


def _backup_list(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    return _backups(store, now, params, verify=False)


def _backup_verify(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    return _backups(store, now, params, verify=True)


def _backups(store: Store, now: float, params: Mapping[str, Any], *, verify: bool) -> dict[str, Any]:
    found = backing.list_backups(store, now, file=params.get("file"), verify=verify)
    at = params.get("at")
    return {"backups": [each for each in found if at in (None, each["id"])]}


def _restore(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    file, at, dry_run = params.get("file"), params.get("at"), bool(params.get("dry_run"))
    done, difference = backing.restore(store, now, file=file, at=at, dry_run=dry_run)
    return _done(done, **difference)


def _undo(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    return _done(undo(store, str(params["receipt"]), now, dry_run=bool(params.get("dry_run"))))


def _check(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del params, by
    found = checking.check(store, now)
    return {"findings": [checking.public(store.name, each) for each in found], "summary": summary(found)}


def _locks(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    swept = locking.sweep_locks(store, now, params.get("monotonic"), by=by)
    return {"locks": [report.public() for report in swept]}


def _lock_list(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    path, found = params.get("path"), locking.list_locks(store, now)
    wanted = [report for report in found if path is None or locking.named(store, report.path, path)]
    return {"locks": [report.public() for report in wanted]}


def _lock_clear(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    del by
    path, force = params.get("path"), bool(params.get("force"))
    return {"locks": [report.public() for report in locking.clear_lock(store, now, path=path, force=force)]}


def _plan(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    """What each job would do now; nothing is changed and no lock is taken."""
    del params, by
    dry = {"dry_run": True}
    every = {"archive": _archive, "limits": _limits, "prune": _prune, "dedupe": _dedupe, "permissions": _permissions}
    jobs = {name: operation for name, operation in every.items() if name in runnable(store)}
    actions: list[dict[str, Any]] = []
    for name, operation in jobs.items():
        planned = operation(store, dry, "plan", now)["plan"]["actions"]
        actions += [{**action, "job": name} for action in planned]
    return {"actions": actions}


def _verify(store: Store, params: Mapping[str, Any], by: str, now: float) -> dict[str, Any]:
    return {**_backup_verify(store, params, by, now), **tidy_state(store)}


OPERATIONS: Mapping[str, Operation] = {
    "archive": _archive,
    "limits": _limits,
    "prune": _prune,
    "dedupe": _dedupe,
    "repair": _repair,
    "permissions": _permissions,
    "backup": _backup_create,
    "backup.create": _backup_create,
    "backup.list": _backup_list,
    "backup.verify": _backup_verify,
    "backup.restore": _restore,
    "undo": _undo,
    "check": _check,
    "plan": _plan,
    "locks": _locks,
    "lock.list": _lock_list,
    "lock.clear": _lock_clear,
    "verify": _verify,
}

# Performed by the worker itself: they are about its own reading in.
OWN = ("sync", "reindex", "rescan", "pause", "resume", "confirm", "catch-up")
# Commands that only look: they may run on a root that must not be written to.
LOOKS = ("check", "plan", "backup.list", "backup.verify", "lock.list", "sync", "rescan", "verify", "memory.get")


def runnable(store: Store) -> tuple[str, ...]:
    """The scheduled jobs that mean something for the root's layout."""
    return store.layout.jobs if store.layout else ("rescan",)


def require_job(store: Store, name: str) -> None:
    if name not in runnable(store):
        known = ", ".join(runnable(store))
        why = "means nothing for its layout" if name in JOBS else "is no job"
        raise UsageError(f"root {store.name}: {name} {why}", hint=f"its jobs are {known}")
