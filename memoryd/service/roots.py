"""All roots of the daemon: their workers, and the watcher and timetable that give them hints."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memoryd.config.roots import too_wide, written_path
from memoryd.config.schema import Config, RootConfig, SearchConfig
from memoryd.core.schedule import Adaptive, Cron, Every, parse_schedule
from memoryd.disk.database import JournalError
from memoryd.disk.journal import Journal
from memoryd.disk.ownership import own_directory
from memoryd.disk.refusal import refusal
from memoryd.disk.tree import Tree
from memoryd.engine.clock import Clock
from memoryd.engine.jobs import runnable
from memoryd.engine.worker import Pace, Worker
from memoryd.errors import RootMissingError, ShuttingDownError, UnknownRootError
from memoryd.log import get_logger
from memoryd.operations.vectors import vector_maker
from memoryd.search.semantic import Semantic
from memoryd.service.meaning import meaning_of
from memoryd.service.timetable import Timetable
from memoryd.service.watcher import Watcher
from memoryd.store import Store
from memoryd.store.store import state_place

log = get_logger(__name__)

MISSED_GRACE_S = 60.0  # a run this late counts as missed; it is caught up once
STOP_S = 4.0  # how long a worker may take to come to a safe end
CHANGE_S = 2.0  # how long a question waits for a change of the roots


def first_armed(journal: Journal, job: str, cron: Cron, now: float) -> float:
    """When this line was first put on the timetable: a time that passed since while nobody was there is caught up."""
    armed = journal.get_meta("armed", {})
    line, at = armed.get(job, ("", now))
    if line == cron.text and at <= now:
        return float(at)
    journal.set_meta("armed", {**armed, job: [cron.text, now]})
    return now


@dataclass(frozen=True, slots=True)
class Broken:
    """A root whose own state cannot be used, so that it has no worker; the other roots are served."""

    name: str
    path: str
    layout: str | None
    mode: str
    reason: str
    hint: str

    def error(self) -> RootMissingError:
        return RootMissingError(f"root {self.name}: {self.reason}", hint=self.hint)


class Roots:
    """Thread-safe; `wake` is called when the main loop has trouble to look at."""

    def __init__(
        self,
        state_dir: str,
        clock: Clock,
        tell: Callable[[str, dict[str, Any]], None],
        wake: Callable[[], None],
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._tell = tell
        self._wake = wake
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        self._ending = False
        self._workers: dict[str, Worker] = {}
        self._broken: dict[str, Broken] = {}
        self._troubles: deque[tuple[str, str | None]] = deque(maxlen=1000)
        self._search: SearchConfig | None = None
        self.meaning = Semantic(None)
        self.watcher = Watcher(self._touched, self._troubled, os.path.join(state_dir, "probe"))
        self.timetable = Timetable(self._due, clock.wall)

    # --- life

    def start(self) -> None:
        self.watcher.start()
        self.timetable.start()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Which roots there are is changed by one at a time, and by nobody once the end has come: of two workers of one
        root the second never gets it, and nobody knows the first."""
        with self._changing:
            if self._ending:
                raise ShuttingDownError("the daemon is shutting down", hint="start it again with `memoryd run`")
            yield

    def _await_change(self, most_s: float) -> None:
        """What is being changed is known then."""
        if self._changing.acquire(timeout=most_s):
            self._changing.release()

    def stop(self) -> bool:
        """Doors first, then the workers, all at once; False when one had to be abandoned."""
        self._ending = True
        self._await_change(STOP_S)
        self.timetable.shutdown()
        self.watcher.stop()
        workers = self.all()
        enders = [threading.Thread(target=worker.stop, args=(STOP_S,)) for worker in workers]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        return not any(worker.alive for worker in workers)

    def apply(self, config: Config, pace: Pace, names: Iterable[str], removed: Iterable[str]) -> None:
        """Stop the removed roots, start those of `names` (anew where they run)."""
        wanted = list(names)
        for name in (*removed, *wanted):
            self._end(name)
        if config.search != self._search:
            self._search, self.meaning = config.search, meaning_of(config.search, os.environ)
        for name in wanted:
            root = config.root(name)
            assert root is not None
            self._begin(root, pace)

    def check_owners(self, config: Config, names: Iterable[str]) -> None:
        """AlreadyRunningError when another daemon tends one of these roots, before anything is begun."""
        ours = {os.path.realpath(worker.store.path) for worker in self.all()}
        for name in names:
            root = config.root(name)
            if root is None or root.path in ours:  # also under a new name
                continue
            try:
                with Tree(root.path) as tree, own_directory(tree.fd, tree.path):
                    pass
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # its worker reports it and goes on looking

    def _begin(self, root: RootConfig, pace: Pace) -> None:
        path = written_path(root.display_path, root.path)
        if root.external:
            os.makedirs(path, exist_ok=True)
        layout = None if root.layout == "auto" else root.layout
        place = state_place(self._state_dir, path)
        try:
            store = Store(root.name, path, layout, root.policy, place)
        except (JournalError, OSError) as error:
            if refusal(error, self._state_dir) is not None:
                raise  # the disk that all roots keep their state on
            self._note_broken(root, path, place, error)
            return
        store.too_wide = too_wide(root.path)
        embedder = self.meaning.embedder
        if embedder is not None:
            store.embed = vector_maker(embedder, store.may_last)
        worker = Worker(store, pace, self._clock, self, self._tell, embedder)
        with self._lock:
            self._workers[root.name] = worker
        worker.start()

    def _note_broken(self, root: RootConfig, path: str, place: str, error: JournalError | OSError) -> None:
        if isinstance(error, JournalError):
            reason, hint = error.message, error.hint or ""
        else:
            reason, hint = (
                f"its state in {place} cannot be used: {error.strerror}",
                "correct its mode or move it away, then start memoryd again",
            )
        layout = None if root.layout == "auto" else root.layout
        broken = Broken(root.name, path, layout, str(root.policy.mode), reason, hint)
        log.error("root failed", root=root.name, reason=reason, hint=hint)
        self._tell("health", {"root": root.name, "reason": reason})
        with self._lock:
            self._broken[root.name] = broken

    def _end(self, name: str) -> None:
        self.timetable.remove(name)
        with self._lock:
            self._broken.pop(name, None)
            worker = self._workers.pop(name, None)
        if worker is not None:
            worker.stop(STOP_S)

    # --- reading

    def all(self) -> list[Worker]:
        with self._lock:
            return list(self._workers.values())

    def broken(self, name: str | None = None) -> list[Broken]:
        """Those without a worker: one, or all of them for None."""
        with self._lock:
            return [each for each in self._broken.values() if name in (None, each.name)]

    def named(self, name: str | None) -> list[Worker]:
        """One root, or all of them for None; UnknownRootError with the names there are. While roots are being changed
        it waits for that, though not for long: one that is begun anew is not gone."""
        self._await_change(CHANGE_S)
        with self._lock:
            if name is None:
                return list(self._workers.values())
            if name in self._workers:
                return [self._workers[name]]
            if name in self._broken:
                raise self._broken[name].error()
            known = ", ".join([*self._workers, *self._broken]) or "none"
        raise UnknownRootError(f"there is no root {name!r}", hint=f"the roots are: {known}")

    def job_rows(self, worker: Worker) -> list[dict[str, Any]]:
        """The schedule of one root, with what happened last; of one whose worker has ended nobody can tell that."""
        try:
            times = worker.store.journal.job_times()
        except JournalError:
            if not worker.ends:
                raise
            times = {}
        rows: list[dict[str, Any]] = []
        for job in runnable(worker.store):
            time = times.get(job)
            rows.append(
                {
                    "name": job,
                    "root": worker.name,
                    "schedule": worker.store.policy.schedule.get(job, "off"),
                    "last_run": time.last_end if time else None,
                    "last_result": time.last_result if time else None,
                    "last_error": time.last_error if time else None,
                    "next_run": self.timetable.next_run(worker.name, job),
                    "runs": time.runs if time else 0,
                    "failures": time.failures if time else 0,
                    "missed": time.missed if time else 0,
                }
            )
        return rows

    def schedule(self, worker: Worker) -> None:
        """Put a root's jobs on the timetable; the layout must be known. What is overdue runs at once."""
        times = worker.store.journal.job_times()
        now = self._clock.wall()
        policy = worker.store.policy
        for job in runnable(worker.store):
            schedule = parse_schedule(policy.schedule.get(job, "off"))
            if job == "rescan" and isinstance(schedule, Adaptive):
                continue  # the worker keeps the pace of that one itself
            last = times[job].last_success if job in times else None
            if isinstance(schedule, Every) and last is not None and now - last > schedule.seconds + MISSED_GRACE_S:
                worker.store.journal.job_missed(job, int((now - last) // schedule.seconds))
            if last is None and isinstance(schedule, Cron):
                last = first_armed(worker.store.journal, job, schedule, now)
            self.timetable.set(worker.name, job, schedule, last, now, timezone=policy.timezone)

    # --- hints for the workers

    def watch(self, root: str, path: str) -> bool:
        return self.watcher.watch(root, path)

    def unwatch(self, root: str) -> None:
        self.watcher.unwatch(root)

    def coverage(self, root: str, directories: list[tuple[int, int]]) -> tuple[int, int]:
        found = self.watcher.coverage(root, directories)
        return found.wanted, found.held

    def limit_hint(self) -> str:
        return self.watcher.limit_hint()

    def retry(self, root: str, job: str, after_s: float) -> None:
        """Once more after a while, unless the schedule has it sooner."""
        at, planned = self._clock.wall() + after_s, self.timetable.next_run(root, job)
        if planned is None or planned > at:
            self.timetable.arm(root, job, at)

    def scheduled(self, root: str) -> None:
        """The worker knows its layout now."""
        with self._lock:
            worker = self._workers.get(root)
        if worker is not None:
            self.schedule(worker)

    # --- from the threads of watcher and timetable: only enqueue

    def _touched(self, root: str, path: str | None, deleted: bool) -> None:
        worker = self._workers.get(root)
        if worker is not None:
            worker.touch(path, deleted)

    def _due(self, root: str, job: str) -> None:
        worker = self._workers.get(root)
        if worker is not None:
            worker.fall_due(job)

    def _troubled(self, reason: str, root: str | None) -> None:
        self._troubles.append((reason, root))
        self._wake()

    # --- the main loop's part

    def settle_troubles(self) -> None:
        """After lost events or a broken watcher: watch anew where that helps, and scan.

        An overflow broke nothing, and the scan finds what it hid, directories without a watch as well. To watch
        anew each time cost a whole processor while writers that never paused overflowed the queue again and
        again."""
        reasons: dict[str, set[str | None]] = {}
        while self._troubles:
            reason, root = self._troubles.popleft()
            reasons.setdefault(reason, set()).add(root)
        for reason, roots in reasons.items():
            log.warning("watching is in doubt", reason=reason)
            self._tell("health", {"reason": f"watching: {reason}"})
            if reason == "probe":
                self.watcher.rebuild(reason)
            for worker in self.all():
                if None in roots or worker.name in roots or reason in ("probe", "overflow"):
                    worker.doubt(reason)

    def after_jump(self, seconds: float) -> None:
        """The wall clock jumped, or the machine slept: watch, scan and reckon the schedule anew."""
        log.warning("clock jump or sleep", seconds=round(seconds, 1))
        self.timetable.rearm_all(self._clock.wall())
        self.watcher.rebuild("clock")
        for worker in self.all():
            worker.doubt("clock jump")

    def check_watcher(self) -> None:
        """Every few seconds: threads that died, a probe that travels the whole way, memory that nobody needs."""
        watched = [worker for worker in self.all() if worker.status.watch.mode == "events"]
        dead = self.watcher.alive()
        gone = {f"emitter:{worker.name}" for worker in self.all()} - {f"emitter:{w.name}" for w in watched}
        if [problem for problem in dead if problem not in gone]:
            log.warning("a watching thread is dead", threads=dead)
            self.watcher.rebuild("thread-died")
            for worker in self.all():
                worker.doubt("watcher thread died")
        self.watcher.probe(self._clock.monotonic())
        self.meaning.tidy(self._clock.wall())
