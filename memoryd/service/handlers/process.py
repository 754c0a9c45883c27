"""Methods on the daemon itself: status, metrics, configuration, log level and shutdown."""

from __future__ import annotations

import os

from memoryd import __version__
from memoryd.config.load import load
from memoryd.config.show import diff, effective
from memoryd.control.methods.method_types import NoParameters
from memoryd.control.methods.process import (
    ConfigResult,
    LogLevelRequest,
    LogLevelResult,
    MetricsResult,
    ReloadRequest,
    ReloadResult,
    ShutdownResult,
    ValidateResult,
)
from memoryd.control.methods.shared import RootsRequest
from memoryd.control.methods.status import PingResult, StatusResult
from memoryd.control.metrics import render
from memoryd.log import set_level
from memoryd.service.daemon import Daemon
from memoryd.service.handlers.base import Handlers, Table
from memoryd.service.report import families, status


def process_handlers(daemon: Daemon) -> Table:
    """Return the handlers of methods on the daemon."""
    methods = ProcessHandlers(daemon)
    return {
        "ping": methods.ping,
        "status": methods.status,
        "metrics": methods.metrics,
        "config.show": methods.config_show,
        "config.validate": methods.config_validate,
        "config.reload": methods.config_reload,
        "log.level": methods.log_level,
        "shutdown": methods.shutdown,
    }


class ProcessHandlers(Handlers):
    """Methods on the daemon."""

    def ping(self, _: NoParameters) -> PingResult:
        """Return process id, version, instance and uptime of the daemon."""
        daemon = self._daemon
        return PingResult(pid=os.getpid(), version=__version__, instance=daemon.instance, uptime_s=daemon.uptime_s)

    def status(self, request: RootsRequest) -> StatusResult:
        """Return the status of the daemon and of one root, or all of them."""
        broken = self._roots.broken(request.root)
        workers = [] if request.root is not None and broken else self._roots.named(request.root)
        return status(self._daemon, workers, broken)

    def metrics(self, _: NoParameters) -> MetricsResult:
        """Render the metrics of the daemon and its roots."""
        return MetricsResult(text=render(families(self._daemon, self._roots.all())))

    def config_show(self, _: NoParameters) -> ConfigResult:
        """Return the configuration in force."""
        return ConfigResult(**effective(self._daemon.config))

    def config_validate(self, _: NoParameters) -> ValidateResult:
        """Read the configuration file and return what a reload would change. Raises ConfigError."""
        daemon = self._daemon
        changes = diff(daemon.config, load(daemon.places.current(), daemon.extra, known_limits=daemon.known_limits))
        return ValidateResult(added=list(changes.added), changed=list(changes.changed), removed=list(changes.removed))

    def config_reload(self, request: ReloadRequest) -> ReloadResult:
        """Apply the configuration file and return what changed. Raises ConfigError."""
        dry_run = request.dry_run
        changes = self._daemon.reload(dry_run=dry_run)
        return ReloadResult(
            dry_run=dry_run,
            added=list(changes.added),
            changed=list(changes.changed),
            removed=list(changes.removed),
        )

    def log_level(self, request: LogLevelRequest) -> LogLevelResult:
        """Set the log level if one is given, and return the level in force."""
        if request.level is not None:
            set_level(request.level)
            self._daemon.log_level = request.level
        return LogLevelResult(level=self._daemon.log_level)

    def shutdown(self, _: NoParameters) -> ShutdownResult:
        """Ask the daemon to stop."""
        self._daemon.ask_to_stop()
        return ShutdownResult(stopping=True, pid=os.getpid())
