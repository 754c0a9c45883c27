"""Methods on roots: list, add, remove, pause, resume and confirm."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future

from memoryd.config import edit
from memoryd.config.settings import COMMAND_LINE
from memoryd.control.methods.method_types import Result
from memoryd.control.methods.status import RootAddRequest, RootRequest, RootsResult
from memoryd.core.defaults import Mode
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import ConflictError, MemorydError, UnknownRootError, UsageError
from memoryd.service.daemon import Daemon
from memoryd.service.futures import gather
from memoryd.service.handlers.base import Handlers, Table
from memoryd.service.report import broken_row, root_row


def root_handlers(daemon: Daemon) -> Table:
    """Return the handlers of methods on roots."""
    methods = RootHandlers(daemon)
    return {
        "root.list": methods.list_roots,
        "root.add": methods.add,
        "root.remove": methods.remove,
        "root.pause": methods.pause,
        "root.resume": methods.resume,
        "root.confirm": methods.confirm,
    }


class RootHandlers(Handlers):
    """Methods on roots."""

    def _rows(self, workers: list[Worker]) -> RootsResult:
        return RootsResult(roots=[root_row(self._daemon, worker) for worker in workers])

    def _find_worker(self, request: RootRequest) -> Worker:
        written = request.name if request.name is not None else request.path or ""
        if not written or (request.name and not written.startswith(("/", "~"))):
            return self._roots.named(written)[0]
        path = os.path.realpath(os.path.expanduser(written))
        for worker in self._roots.named(None):
            if os.path.realpath(worker.status.path) == path:
                return worker
        raise UnknownRootError(f"no root is at {path}", hint="`memoryd root list` shows them")

    def list_roots(self, request: RootRequest) -> RootsResult:
        """Return one root, or all of them."""
        if request.name is None and request.path is None:
            result = self._rows(self._roots.all())
            result.roots += map(broken_row, self._roots.broken())
            return result
        return self._rows([self._find_worker(request)])

    def add(self, request: RootAddRequest) -> Future[Result]:
        """Add a root to the configuration file and start its worker. Raises UsageError."""
        daemon = self._daemon
        if not request.path:
            raise UsageError("the path is empty", hint="name a directory")
        path = os.path.abspath(os.path.expanduser(request.path))
        if os.path.exists(path) and not os.path.isdir(path):
            raise UsageError(f"{path} is not a directory", hint="a root must be a directory")
        if not os.path.lexists(path) and request.layout in (None, "auto"):
            raise UsageError(f"{path} does not exist", hint="give --layout for a directory that will be created later")
        if os.path.isdir(path) and os.stat(path).st_uid not in (os.geteuid(), 0):
            raise UsageError(f"{path} belongs to another user", hint="a root must belong to the daemon's user")
        named = {"name": request.name, "layout": request.layout}
        table = {"path": path, **{key: value for key, value in named.items() if value is not None}}
        target, state_dir = daemon.places.config_target, daemon.places.state_dir
        with self._roots.changing():  # else two edits at once could both start from the same text
            before = edit.text_of(target)
            added = edit.add_root(target, table, state_dir=state_dir, extra_roots=daemon.extra)
            with edit.restored_on_error(target, before):
                daemon.reload_unguarded()
        worker = self._roots.named(added.name)[0]
        return self._publish_row(worker, worker.submit(Job("catch-up")))  # which runs after its first scan

    def remove(self, request: RootRequest) -> RootsResult:
        """Remove a root from the configuration file and stop its worker."""
        daemon = self._daemon
        worker = self._find_worker(request)
        rows = self._rows([worker])
        target, state_dir = daemon.places.config_target, daemon.places.state_dir
        with self._roots.changing():
            before, extra = edit.text_of(target), daemon.extra
            configured = daemon.config.root(worker.name)
            if configured is not None and configured.position is not None:
                edit.remove_root(target, worker.name, state_dir=state_dir)
            else:
                daemon.forget_path(worker.status.path)
            try:
                with edit.restored_on_error(target, before):
                    daemon.reload_unguarded()
            except MemorydError:
                daemon.extra = extra
                raise
        return rows

    def pause(self, request: RootRequest) -> Future[Result]:
        """Suspend work on a root until it is resumed."""
        worker = self._find_worker(request)
        return self._publish_row(worker, worker.pause())

    def resume(self, request: RootRequest) -> Future[Result]:
        """End a pause, or accept the content of a suspect root."""
        worker = self._find_worker(request)
        return self._publish_row(worker, worker.resume())

    def confirm(self, request: RootRequest) -> Future[Result]:
        """Accept the recognised layout of a root. Raises ConflictError if it stays in observe mode all the same."""
        worker = self._find_worker(request)
        return self._publish_row(worker, worker.confirm(), lambda: self._require_maintained(worker))

    def _require_maintained(self, worker: Worker) -> None:
        if self._roots.current(worker).store.policy.mode is not Mode.OBSERVE:
            return
        configured = self._daemon.config.root(worker.name)
        origin = COMMAND_LINE if configured is None else configured.origins["mode"]
        line = origin.rpartition(":")[2]
        hint = f'remove `mode = "observe"` at {self._daemon.places.config}:{line}, then `memoryd reload`'
        raise ConflictError(
            f"the layout of {worker.name} is confirmed, but it stays in observe mode: nothing is written there",
            hint="run memoryd without --observe" if origin == COMMAND_LINE else hint,
        )

    def _publish_row(
        self, worker: Worker, done: Future[Result], require: Callable[[], None] = lambda: None
    ) -> Future[Result]:
        """Once `done` completes, publish the state of a root to subscribers of the topic `root` and return its row, or
        the error that `require` raises."""

        def row(_: object) -> RootsResult:
            serving = self._roots.current(worker)
            status = serving.status
            self._roots.tell("root", {"root": worker.name, "state": status.state, "reason": "; ".join(status.reasons)})
            require()
            return self._rows([serving])

        return gather({worker.name: done}, row)
