"""The daemon: built upward, stopped downward. The main thread waits for signals and watches over the rest."""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import socket
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from memoryd import __version__
from memoryd.config.detect import looked_for
from memoryd.config.places import Places
from memoryd.config.reading import load
from memoryd.config.schema import Config
from memoryd.config.show import Difference, diff
from memoryd.control.connection import Limits
from memoryd.control.server import Server
from memoryd.core.policy import Limit
from memoryd.disk.ownership import prepare_private, take
from memoryd.disk.processes import trim_heap
from memoryd.disk.refusal import refusal
from memoryd.engine.clock import Clock
from memoryd.engine.worker import Pace
from memoryd.errors import ConfigError, DeniedError, DiskError, MemorydError
from memoryd.layouts import LAYOUTS
from memoryd.log import configure, get_logger, set_level
from memoryd.service.answers import handlers
from memoryd.service.clockwatch import ClockWatch
from memoryd.service.notify import Notifier, listen_fds
from memoryd.service.roots import Roots
from memoryd.service.timetable import BEAT_S

log = get_logger(__name__)

TICK_S = 2.0
WATCHER_CHECK_S = 15.0
DISK_PAUSE_S = 15.0  # before the end of a start that the disk refused, under systemd
STUCK_S = 300.0  # a worker that shows no progress for this long is taken for hung


def run(
    places: Places,
    *,
    paths: Sequence[str] = (),
    layout: str | None = None,
    log_format: str = "auto",
    log_level: str | None = None,
) -> int:
    """Run until told to stop; the exit code. Raises MemorydError where it cannot begin."""
    os.umask(0o077)
    faulthandler.enable()
    daemon = Daemon(places, [(path, layout) for path in paths], log_level)
    asked = daemon.config.daemon.log_format if log_format == "auto" else log_format
    configure(style=asked, level=daemon.log_level)
    try:
        return daemon.run()
    except (OSError, sqlite3.OperationalError) as error:
        raise _unusable(places.state_dir, error) from error


def _unusable(state_dir: str, error: OSError | sqlite3.OperationalError) -> MemorydError:
    """Missing rights stay until somebody grants them; what a disk refuses may pass, so another start is worth it."""
    message = f"the state directory {state_dir} cannot be used: {error}"
    code = refusal(error, state_dir)
    if code is None:
        return DeniedError(message, hint="correct its mode, or name another with --state-dir")
    if "NOTIFY_SOCKET" in os.environ:
        # systemd gives up after five starts in a minute: each of them lasts long enough not to get there.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(DISK_PAUSE_S)
    return DiskError(message, hint="make room or mend the disk, or name another with --state-dir", data={"code": code})


class Daemon:
    """One a state directory. `extra` are the roots of the command line."""

    def __init__(self, places: Places, extra: list[tuple[str, str | None]], log_level: str | None = None) -> None:
        self.places = places
        self.extra = extra
        self.clock = Clock()
        self.instance = uuid.uuid4().hex
        self.known_limits: Mapping[str, Limit] = {
            path: limit for each in LAYOUTS.values() for path, limit in each.limits.items()
        }
        self.config: Config = load(places, extra, known_limits=self.known_limits)
        if not self.config.roots:
            raise _no_roots(places)
        self._fixed_level = log_level
        self.log_level = log_level or self.config.daemon.log_level
        self.notice: str | None = None
        self._began = self.clock.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        self._stopping = False
        self._reload_asked = False
        self._notifier = Notifier(os.environ)
        self.roots = Roots(places.state_dir, self.clock, self.tell, self._wake)
        self._server: Server | None = None
        self._clockwatch = ClockWatch()
        self._seen_progress: dict[str, tuple[int, float]] = {}
        self._shown = ""

    @property
    def uptime_s(self) -> float:
        return round(self.clock.monotonic() - self._began, 3)

    # --- life

    def run(self) -> int:
        prepare_private(self.places.state_dir)
        inherited = listen_fds(os.environ, os.getpid())
        address = socket.socket(fileno=inherited[0][0]) if inherited else self.places.socket
        owner = take(os.path.join(self.places.state_dir, "instance.lock"), self._sidecar(None))
        try:
            self.roots.check_owners(self.config, [root.name for root in self.config.roots])
            hello = {"version": __version__, "pid": os.getpid(), "instance": self.instance}
            limits = Limits(clients=self.config.daemon.max_clients)
            self._server = Server(address, handlers(self), hello, limits=limits)
            self._server.open()
            owner.publish(self._sidecar(self._server.path))
            return self._serve()
        finally:
            if self._server is not None:
                self._server.close(0.5)
            owner.release()

    def _serve(self) -> int:
        self._take_signals()
        self.roots.start()
        self.roots.apply(self.config, self._pace(), [root.name for root in self.config.roots], ())
        assert self._server is not None
        self._server.start()  # not before the roots are there: a sync of no root would be a stale ok
        log.info("started", socket=self._server.path, state=self.places.state_dir, roots=len(self.config.roots))
        self._await_first_look()
        if not self._stopping:
            self._notifier.ready(self._summary())
            log.info("ready", seconds=self.uptime_s)
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 20)  # an index of ten thousand memories is many short-lived rows
            trim_heap()
        self._loop()
        return self._end()

    def _await_first_look(self) -> None:
        """READY means that every root has been looked at; a big one may ask the service manager for time."""
        for worker in self.roots.all():
            while not worker.ready.wait(0.2) and not self._stopping:
                self._drain_wake()
                self._notifier.extend_timeout(30.0)

    def _end(self) -> int:
        log.info("stopping")
        self._notifier.stopping()
        assert self._server is not None
        self._server.drain()
        clean = self.roots.stop()
        self._server.close(0.5)
        log.info("stopped", clean=clean, seconds=self.uptime_s)
        return 0

    def _sidecar(self, socket: str | None) -> dict[str, Any]:
        return {"instance": self.instance, "version": __version__, **({"socket": socket} if socket else {})}

    def _pace(self) -> Pace:
        daemon = self.config.daemon
        return Pace(daemon.settle_ms / 1000, daemon.settle_cap_ms / 1000, daemon.quiet_s, daemon.quiet_cap_s)

    # --- the main loop

    def _loop(self) -> None:
        """Wakes for a signal, for trouble, and every other second to watch over the rest."""
        next_ping = next_check = self.clock.monotonic()
        interval = self._notifier.watchdog_interval_s()
        while not self._stopping:
            select.select([self._wake_read], [], [], min(TICK_S, interval or TICK_S))
            self._drain_wake()
            if self._reload_asked:
                self._reload_asked = False
                self._reload_by_signal()
            now = self.clock.monotonic()
            self._watch_clock(now)
            self.roots.settle_troubles()
            self._show_states()
            if now >= next_check:
                next_check = now + WATCHER_CHECK_S
                self.roots.check_watcher()
                trim_heap()
            if interval is not None and now >= next_ping and self._healthy(now):
                next_ping = now + interval
                self._notifier.watchdog()

    def _watch_clock(self, now: float) -> None:
        jump = self._clockwatch.step(self.clock.wall(), now)
        if jump is not None:
            self.roots.after_jump(jump)

    def _healthy(self, now: float) -> bool:
        """Every worker moved or rests, and the timetable ticks. Slow disks are no fault: progress counts."""
        for worker in self.roots.all():
            count, since = self._seen_progress.get(worker.name, (-1, now))
            if worker.progress != count or worker.step == "idle":
                self._seen_progress[worker.name] = (worker.progress, now)
            elif now - since > STUCK_S or not worker.alive:
                self._notifier.status(f"root {worker.name} hangs in {worker.step}")
                return False
        return self.roots.timetable.tick_age() < 4 * BEAT_S

    def _show_states(self) -> None:
        """The service manager shows how the roots are, not how they were when they began."""
        states = self._summary()
        if states != self._shown:
            self._shown = states
            self._notifier.status(states)

    def _summary(self) -> str:
        failed = [f"{each.name} failed" for each in self.roots.broken()]
        return ", ".join([*(f"{worker.name} {worker.status.state}" for worker in self.roots.all()), *failed])

    # --- signals

    def _take_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)

    def _on_stop(self, number: int, frame: object) -> None:
        del frame
        if self._stopping:
            os._exit(128 + number)  # the second signal: at once
        self._stopping = True

    def _on_reload(self, number: int, frame: object) -> None:
        del number, frame
        self._reload_asked = True

    def ask_to_stop(self) -> None:
        """By command; the reply is sent before the server closes."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            return  # it is awake already

    def _drain_wake(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            return

    # --- configuration

    def reload(self, *, dry_run: bool = False) -> Difference:
        """Read, check, compare, apply; on any error the running configuration stays as it was."""
        with self.roots.changing():
            new = load(self.places, self.extra, known_limits=self.known_limits)
            found = diff(self.config, new)
            everything = (new.daemon, new.search) != (self.config.daemon, self.config.search)
            if dry_run:
                return found
            self.roots.check_owners(new, found.added)
            self._notifier.reloading()
            kept = [root.name for root in new.roots if root.name not in (*found.added, *found.changed)]
            self.config = new
            self.log_level = self._fixed_level or new.daemon.log_level
            set_level(self.log_level)
            names = [*found.changed, *found.added, *(kept if everything else ())]
            self.roots.apply(new, self._pace(), names, found.removed)
            self._notifier.ready(self._summary())
            self.notice = None
            log.info("reloaded", added=found.added, changed=found.changed, removed=found.removed)
            return found

    def _reload_by_signal(self) -> None:
        try:
            self.reload()
        except MemorydError as error:
            self.notice = f"the last reload failed: {error.message}"
            # A manager that asked for the reload waits for both words, whatever came of it.
            self._notifier.reloading()
            self._notifier.ready(self.notice)
            log.error("reload failed", reason=error.message, hint=error.hint)  # noqa: TRY400 - bad words of a user, no fault of ours

    def forget_path(self, path: str) -> None:
        """A root of the command line that was removed at run time."""
        self.extra = [(each, layout) for each, layout in self.extra if os.path.abspath(each) != path]

    # --- events

    def tell(self, topic: str, event: dict[str, Any]) -> None:
        if self._server is not None:
            self._server.publish(topic, event)


def _no_roots(places: Places) -> ConfigError:
    looked = "\n  ".join(looked_for(os.path.expanduser("~"), os.getcwd()))
    return ConfigError(
        f"there is no memory directory to tend. Configuration: {places.config_target} "
        f"(no [[root]] in it, or no such file). Usual places:\n  {looked}",
        hint="name one: `memoryd run DIRECTORY`, or write a configuration: `memoryd init`",
    )
