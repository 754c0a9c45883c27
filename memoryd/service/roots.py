"""All roots of the daemon: their workers, and the watcher and timetable that drive them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from memoryd.config.roots import too_wide, written_path
from memoryd.config.settings import Config, RootConfig
from memoryd.control.methods.upkeep import JobRow
from memoryd.core.index import IndexUnavailable
from memoryd.disk.daemon_lock import lock_directory
from memoryd.disk.disk_errors import FILE_LIMIT_HINT, refusal, remedy
from memoryd.disk.journal.database import JournalError
from memoryd.disk.processes import file_limit, trim_heap
from memoryd.disk.tree import Tree
from memoryd.engine.health import SEARCH_TOPIC
from memoryd.engine.interfaces import Change, Clock, Tell
from memoryd.engine.worker import Pace, Worker
from memoryd.errors import BusyError, DiskError, MemorydError, RootMissingError, ShuttingDownError, UnknownRootError
from memoryd.log import get_logger
from memoryd.operations.memories import vector_maker
from memoryd.search.modes import warm_up
from memoryd.service.schedule import arm_jobs, job_rows
from memoryd.service.search_models import SearchModels
from memoryd.service.state_files import STATE_TOPIC, StateFiles
from memoryd.service.timetable import Timetable
from memoryd.service.watching.watcher import Watcher
from memoryd.store import Store
from memoryd.store.priority import SearchPriority
from memoryd.store.store import state_place

log = get_logger(__name__)

STOP_S = 4.0  # how long a worker may take to come to a safe end
CHANGE_S = 2.0  # how long a question waits for a change of the roots
FILES_PER_ROOT = 18  # open files: 14 of an idle one (databases, inotify), and those of the work
FILES_RESERVED = 48  # open files of the daemon itself and its clients


class Broken(Struct, frozen=True):
    """A root without a worker because its state directory is unusable, or the system has no more threads; the other
    roots are served."""

    name: str
    path: str
    layout: str | None
    mode: str
    reason: str
    hint: str

    def error(self) -> RootMissingError:
        """Return the error that answers every request for this root."""
        return RootMissingError(f"root {self.name}: {self.reason}", hint=self.hint)


class Roots:
    """The workers by root name, thread-safe. `wake` is called when the main loop has trouble to handle or a job to
    start earlier."""

    def __init__(
        self,
        state_dir: str,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self.tell: Tell = _no_subscribers  # until the server is there
        self._wake = wake
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        self.ending = False
        self._workers: dict[str, Worker] = {}
        self._broken: dict[str, Broken] = {}
        self._troubles: deque[tuple[str, str | None]] = deque(maxlen=1000)
        self.state_files = StateFiles()
        self.searches = SearchPriority(clock.monotonic)
        self.models = SearchModels()
        self.watcher = Watcher(self._touched, self._troubled, os.path.join(state_dir, "probe"))
        self.timetable = Timetable(self._due, clock.wall, wake)

    # --- start and end

    def start(self) -> None:
        """Start the watcher."""
        self.watcher.start()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the only right to change the set of roots, until the block ends. Raises ShuttingDownError once the
        daemon stops. Two changes at once could start two workers of one root."""
        with self._changing:
            if self.ending:
                raise ShuttingDownError("the daemon is shutting down", hint="start it again with `memoryd run`")
            yield

    def _await_change(self, most_s: float) -> bool:
        """Wait until a change of the set of roots is complete, at most `most_s` seconds. False if it is not."""
        complete = self._changing.acquire(timeout=most_s)
        if complete:
            self._changing.release()
        return complete

    def stop(self) -> bool:
        """Stop timetable and watcher, then all workers at once; return False if one had to be abandoned."""
        self.ending = True
        self._await_change(STOP_S)
        self.timetable.clear()
        self.watcher.stop()
        workers = self.all()
        enders = [threading.Thread(target=worker.stop, args=(STOP_S,)) for worker in workers]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        return not any(worker.alive for worker in workers)

    def apply(
        self, config: Config, pace: Pace, names: Iterable[str], removed: Iterable[str], *, starting: bool = False
    ) -> None:
        """Stop the removed roots, then start (or restart) those of `names`. A root that is restarted stays known
        meanwhile, else a request that names no root would be carried out on the others. Raises OSError if the daemon is
        `starting` and the disk refuses the state of a root; later that ends no more than the root."""
        wanted = list(names)
        for name in removed:
            self._remove(name)
        for name in wanted:
            self.timetable.remove(name)
            for worker in self._workers_named(name):
                self._stop(worker)
        self.models.configure(config.search)
        for name in wanted:
            root = config.root(name)
            assert root is not None
            self._begin(root, pace, starting=starting)

    def check_owners(self, config: Config, names: Iterable[str]) -> None:
        """Raise AlreadyRunningError if another daemon owns one of these roots, before anything is started."""
        ours = {os.path.realpath(worker.store.path) for worker in self.all()}
        for name in names:
            root = config.root(name)
            if root is None or root.path in ours:  # also under a new name
                continue
            try:
                with Tree(root.path) as tree, lock_directory(tree.fd, tree.path):
                    pass
            except OSError:  # it is missing, or its disk or server fails
                continue  # its worker reports it and goes on looking

    def _begin(self, root: RootConfig, pace: Pace, *, starting: bool) -> None:
        path = written_path(root.display_path, root.path)
        layout = None if root.layout == "auto" else root.layout
        place = state_place(self._state_dir, path)
        if root.external:
            _create_external(root.name, path)
        try:
            self._require_files(root.name)
            store = Store(root.name, path, layout, root.policy, place)
        except (JournalError, DiskError, OSError) as error:
            if starting and refusal(error) is not None:
                raise  # the disk that all roots keep their state on
            self.state_files.forget(root.name)
            self._note_broken(root, path, place, error)
            return
        store.too_wide = too_wide(root.path)
        store.root_findings[SEARCH_TOPIC] = self.models.findings
        store.root_findings[STATE_TOPIC] = self.state_files.note(root.name, place)
        store.searches = self.searches
        embedder = self.models.meaning.embedder
        if embedder is not None:
            store.embed = vector_maker(embedder)
        worker = Worker(store, pace, self._clock, self.watcher, self, self.tell, embedder=embedder)
        with self._lock:
            self._broken.pop(root.name, None)
            before, self._workers[root.name] = self._workers.get(root.name), worker
        if before is not None:
            before.hand_over(worker.submit)
        try:
            worker.start()
        except RuntimeError as error:
            self._note_broken(root, path, place, error)

    def _require_files(self, name: str) -> None:
        """Raise DiskError if a further root would take the open files that the other roots and the clients need."""
        with self._lock:
            others = sum(each != name for each in self._workers)
        most = max(0, (file_limit() - FILES_RESERVED) // FILES_PER_ROOT)
        if others >= most:
            message = f"it cannot be served: the limit of {file_limit()} open files is enough for {most} roots"
            raise DiskError(message, hint=f"{FILE_LIMIT_HINT}, then start memoryd again", data={"code": "io-error"})

    def _note_broken(
        self, root: RootConfig, path: str, place: str, error: MemorydError | OSError | RuntimeError
    ) -> None:
        if isinstance(error, MemorydError):
            reason, hint = error.message, error.hint or ""
        elif isinstance(error, RuntimeError):
            reason = f"it cannot be served: {error}"
            hint = "end other processes or raise the limit on threads, then `memoryd reload`"
        else:
            reason = f"its state in {place} cannot be used: {error.strerror or error}"
            do = "correct its mode or move it away" if refusal(error) is None else remedy(error)
            hint = f"{do}, then `memoryd reload`"
        layout = None if root.layout == "auto" else root.layout
        broken = Broken(root.name, path, layout, str(root.policy.mode), reason, hint)
        log.error("root failed", root=root.name, reason=reason, hint=hint)
        self.tell("health", {"root": root.name, "reason": reason})
        with self._lock:
            self._broken[root.name] = broken
            before = self._workers.pop(root.name, None)
        if before is not None:
            before.hand_over(lambda job: job.refuse(broken.error()))

    def _remove(self, name: str) -> None:
        self.timetable.remove(name)
        self.state_files.forget(name)
        with self._lock:
            self._broken.pop(name, None)
            worker = self._workers.pop(name, None)
        if worker is not None:
            self._stop(worker)
            worker.hand_over(lambda job: job.refuse(_removed(name)))

    def _stop(self, worker: Worker) -> None:
        """Stop a worker that a reload ends, and the watch of its directory: if it ends too late to be waited for, its
        successor may watch another directory under the same name."""
        worker.stop(STOP_S, restarts=True)
        self.watcher.unwatch(worker.name)

    # --- reading

    def all(self) -> list[Worker]:
        """Return all workers."""
        with self._lock:
            return list(self._workers.values())

    def broken(self, name: str | None = None) -> list[Broken]:
        """Return the roots without a worker: the one of that name, or all of them for None."""
        with self._lock:
            return [each for each in self._broken.values() if name in (None, each.name)]

    def named(self, name: str | None) -> list[Worker]:
        """Return one worker, or all of them for None; UnknownRootError lists the known names. Waits briefly for a
        running change: a root that is being added is not unknown. Raises BusyError while it may be. What is submitted
        to a worker that a reload has ended waits for its successor."""
        complete = self._await_change(CHANGE_S)
        with self._lock:
            found = self._workers_named(name)
            if found or name is None:
                return found
            if name in self._broken:
                raise self._broken[name].error()
            known = ", ".join([*self._workers, *self._broken]) or "none"
        if not complete:
            raise BusyError(f"root {name!r} is not known yet: a reload is running", hint="try again in a moment")
        raise UnknownRootError(f"there is no root {name!r}", hint=f"the roots are: {known}")

    def _workers_named(self, name: str | None) -> list[Worker]:
        with self._lock:
            return [worker for each, worker in self._workers.items() if name in (None, each)]

    def readable(self, name: str | None) -> list[Worker]:
        """Return workers as `named` does, whose stores can be read. Raises BusyError while a root restarts: an answer
        without its memories would look complete."""
        return [self.successor(worker) if worker.ends else worker for worker in self.named(name)]

    def current(self, worker: Worker) -> Worker:
        """Return the worker that now serves the root of this one, or this one if the root is gone."""
        with self._lock:
            return self._workers.get(worker.name, worker)

    def successor(self, worker: Worker) -> Worker:
        """Return the worker that a change of the roots started in place of this one, or this one if none follows.
        Raises BusyError if that takes long."""
        complete, found = self._await_change(CHANGE_S), self.current(worker)
        if found.ends and not complete:
            raise BusyError(f"root {found.name} is being restarted by a reload", hint="try again in a moment")
        return found

    def job_rows(self, worker: Worker) -> list[JobRow]:
        """Return the schedule of one root with the last outcomes."""
        return job_rows(worker, self.timetable, self._clock.wall())

    # --- the timetable of the workers

    def retry(self, root: str, job: str, after_s: float) -> None:
        """Run a job again after a while, unless the schedule runs it sooner."""
        at, planned = self._clock.wall() + after_s, self.timetable.next_run(root, job)
        if planned is None or planned > at:
            self.timetable.arm(root, job, at)

    def scheduled(self, root: str) -> None:
        """Schedule the jobs of a root whose layout became known."""
        for worker in self._workers_named(root):
            if not worker.ends:
                arm_jobs(worker, self.timetable, self._clock.wall())

    # --- from the threads of watcher and timetable: only enqueue

    def _touched(self, root: str, path: str | None, kind: Change) -> bool:
        worker = self._workers.get(root)
        return worker is not None and worker.touch(path, kind)

    def _due(self, root: str, job: str) -> None:
        worker = self._workers.get(root)
        if worker is not None and not worker.ends:
            worker.enqueue_scheduled(job)

    def _troubled(self, reason: str, root: str | None) -> None:
        for worker in self.all():
            if worker.name == root and reason in ("root-gone", "root-moved"):
                worker.look_soon()
            elif root in (None, worker.name):
                worker.touch(None)  # before a later event can end a barrier
        if reason == "root-moved":
            return  # no event was missed
        self._troubles.append((reason, root))
        self._wake()

    # --- the main loop's part

    def check_places(self) -> None:
        """Wake the workers whose directory was moved, replaced or covered by a mount."""
        for worker in self.all():
            if worker.root.health.has_moved():
                worker.look_soon()

    def after_mounts(self, places: Collection[str]) -> None:
        """Scan the roots at or below which something was mounted or unmounted."""
        for worker in self.all():
            real = os.path.realpath(worker.status.path)
            if any(f"{place}/".startswith(f"{real}/") for place in places):
                worker.look_soon()
                worker.request_rescan("mount")

    def settle_troubles(self) -> None:
        """Handle lost events and a broken watcher: rebuild the watches if that helps, and rescan.

        An overflow breaks nothing, and the scan finds what it hid, including directories without a watch. Rebuilding
        each time cost a whole processor while busy writers overflowed the queue again and again.
        """
        reasons: dict[str, set[str | None]] = {}
        while self._troubles:
            reason, root = self._troubles.popleft()
            reasons.setdefault(reason, set()).add(root)
        for reason, roots in reasons.items():
            log.warning("file watching may be incomplete", reason=reason)
            self.tell("health", {"reason": f"watching: {reason}"})
            if reason == "probe":
                self.watcher.rebuild(reason)
            for worker in self.all():
                if None in roots or worker.name in roots or reason in ("probe", "overflow"):
                    worker.request_rescan(reason)

    def after_jump(self, seconds: float) -> None:
        """Rebuild watches, rescan and recompute the schedule after a clock jump or a suspend."""
        log.warning("clock jump or sleep", seconds=round(seconds, 1))
        self.timetable.rearm_all(self._clock.wall())
        self.watcher.rebuild("clock")
        for worker in self.all():
            worker.request_rescan("clock jump")

    def warm_up(self) -> None:
        """Load what the first search of each root would wait for. Whatever fails, such as a package that cannot be
        imported or a lack of memory, must not end the daemon: the first search reports it."""
        for worker in self.all():
            try:
                with worker.store.catalogue.reader() as reader:
                    warm_up(reader, self.models.meaning, self._clock.wall())
            except (IndexUnavailable, MemorydError) as error:
                log.warning("search_not_loaded", root=worker.name, reason=str(error))
            except Exception:
                log.exception("search_not_loaded", root=worker.name)

    def check_watcher(self) -> None:
        """Check every few seconds for dead threads, send a probe through the whole watcher, and free unused memory."""
        watched = [worker for worker in self.all() if worker.status.watch.mode == "events"]
        dead = self.watcher.alive()
        gone = {f"emitter:{worker.name}" for worker in self.all()} - {f"emitter:{w.name}" for w in watched}
        if [problem for problem in dead if problem not in gone]:
            log.warning("watcher thread died", threads=dead)
            self.watcher.rebuild("thread-died")
            for worker in self.all():
                worker.request_rescan("watcher thread died")
        self.watcher.probe(self._clock.monotonic())
        now = self._clock.wall()
        released = self.models.tidy(now)
        for worker in self.all():
            worker.store.catalogue.release_idle(now)
        if released:
            trim_heap()  # else it would stay with this process until it has worked again


def _create_external(name: str, path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:  # the worker reports a directory that is missing
        log.warning("directory not created", root=name, path=path, reason=error.strerror)


def _removed(name: str) -> UnknownRootError:
    return UnknownRootError(f"there is no root {name!r} any more: a reload removed it", hint="`memoryd root list`")


def _no_subscribers(topic: str, event: dict[str, object]) -> None:
    """Publish to nobody: no client is connected yet."""
