"""The methods about the daemon itself: its state, its configuration, its end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from memoryd import __version__
from memoryd.config.reading import load
from memoryd.config.show import diff, effective
from memoryd.control.answering import Answer
from memoryd.control.metrics import render
from memoryd.log import set_level
from memoryd.service.answers.asked import Host, Params, Table
from memoryd.service.report import families, status

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon


def process_handlers(daemon: Daemon) -> Table:
    host = ProcessHandlers(daemon)
    return {
        "ping": host.ping,
        "status": host.status,
        "metrics": host.metrics,
        "config.show": host.config_show,
        "config.validate": host.config_validate,
        "config.reload": host.config_reload,
        "log.level": host.log_level,
        "shutdown": host.shutdown,
    }


class ProcessHandlers(Host):
    def ping(self, params: Params) -> Answer:
        del params
        daemon = self._daemon
        return {
            "pid": os.getpid(),
            "version": __version__,
            "instance": daemon.instance,
            "uptime_s": daemon.uptime_s,
        }

    def status(self, params: Params) -> Answer:
        name = params.get("root")
        broken = self._roots.broken(name)
        workers = [] if name is not None and broken else self._roots.named(name)
        return status(self._daemon, workers, broken)

    def metrics(self, params: Params) -> Answer:
        del params
        return {"text": render(families(self._daemon, self._roots.all()))}

    def config_show(self, params: Params) -> Answer:
        del params
        return effective(self._daemon.config)

    def config_validate(self, params: Params) -> Answer:
        del params
        daemon = self._daemon
        return _difference(diff(daemon.config, load(daemon.places, daemon.extra, known_limits=daemon.known_limits)))

    def config_reload(self, params: Params) -> Answer:
        return _difference(self._daemon.reload(dry_run=bool(params.get("dry_run"))))

    def log_level(self, params: Params) -> Answer:
        if params.get("level") is not None:
            set_level(params["level"])
            self._daemon.log_level = params["level"]
        return {"level": self._daemon.log_level}

    def shutdown(self, params: Params) -> Answer:
        del params
        self._daemon.ask_to_stop()
        return {"stopping": True, "pid": os.getpid()}


def _difference(found: Any) -> dict[str, Any]:
    return {"added": list(found.added), "changed": list(found.changed), "removed": list(found.removed)}
