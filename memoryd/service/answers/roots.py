"""The methods about roots as such: which there are, which come and go, which rest."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from memoryd.config import edit
from memoryd.control.answering import Answer
from memoryd.engine.worker import Worker
from memoryd.errors import UnknownRootError, UsageError
from memoryd.service.answers.asked import Host, Params, Table
from memoryd.service.gather import gather
from memoryd.service.report import broken_row, root_row

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon


def root_handlers(daemon: Daemon) -> Table:
    host = RootHandlers(daemon)
    return {
        "root.list": host.root_list,
        "root.add": host.root_add,
        "root.remove": host.root_remove,
        "root.pause": host.root_pause,
        "root.resume": host.root_resume,
        "root.confirm": host.root_confirm,
    }


class RootHandlers(Host):
    def _rows(self, workers: list[Worker]) -> dict[str, Any]:
        return {"roots": [root_row(self._daemon, worker) for worker in workers]}

    def _one(self, params: Params) -> Worker:
        name = str(params.get("name") or params["path"])
        if params.get("name") and not name.startswith(("/", "~")):
            return self._roots.named(name)[0]
        path = os.path.realpath(os.path.expanduser(name))
        for worker in self._roots.all():
            if os.path.realpath(worker.status.path) == path:
                return worker
        raise UnknownRootError(f"no root is at {path}", hint="`memoryd root list` shows them")

    def root_list(self, params: Params) -> Answer:
        if params.get("name") is None and params.get("path") is None:
            rows = self._rows(self._roots.all())["roots"]
            return {"roots": [*rows, *map(broken_row, self._roots.broken())]}
        return self._rows([self._one(params)])

    def root_add(self, params: Params) -> Answer:
        daemon = self._daemon
        path = os.path.abspath(os.path.expanduser(params["path"]))
        if os.path.exists(path) and not os.path.isdir(path):
            raise UsageError(f"{path} is no directory", hint="a root is a directory")
        if os.path.isdir(path) and os.stat(path).st_uid not in (os.geteuid(), 0):
            raise UsageError(f"{path} belongs to another user", hint="a root must belong to the daemon's user")
        table = {"path": path, **{k: params[k] for k in ("name", "layout") if params.get(k) is not None}}
        with self._roots.changing():  # two at once would both begin with the same text
            added = edit.add_root(daemon.places.config_target, table, state_dir=daemon.places.state_dir)
        daemon.reload()
        return self._rows(self._roots.named(added.name))

    def root_remove(self, params: Params) -> Answer:
        daemon = self._daemon
        worker = self._one(params)
        rows = self._rows([worker])
        configured = daemon.config.root(worker.name)
        if configured is not None and configured.position is not None:
            with self._roots.changing():
                edit.remove_root(daemon.places.config_target, worker.name, state_dir=daemon.places.state_dir)
        else:
            daemon.forget_path(worker.status.path)
        daemon.reload()
        return rows

    def root_pause(self, params: Params) -> Answer:
        worker = self._one(params)
        return self._told(worker, worker.pause())

    def root_resume(self, params: Params) -> Answer:
        worker = self._one(params)
        return self._told(worker, worker.resume())

    def root_confirm(self, params: Params) -> Answer:
        worker = self._one(params)
        return self._told(worker, worker.confirm())

    def _told(self, worker: Worker, done: Future[dict[str, Any]]) -> Answer:
        """The row as it is then, which is also news for whoever follows the topic `root`."""

        def row(_: object) -> dict[str, Any]:
            seen = worker.status
            self._daemon.tell("root", {"root": worker.name, "state": seen.state, "reason": "; ".join(seen.reasons)})
            return self._rows([worker])

        return gather({worker.name: done}, row)
