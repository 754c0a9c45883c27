"""The daemon: started bottom up, stopped top down. The main thread waits for signals and supervises the rest.

SIGHUP reloads the configuration. The log goes to standard error, see `memoryd.log`.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from memoryd import __version__
from memoryd.config.load import load, observed
from memoryd.config.places import Places
from memoryd.config.settings import Config
from memoryd.config.show import Difference, diff
from memoryd.control.connection import Limits
from memoryd.control.endpoint import adopt
from memoryd.control.server import Handler, Server
from memoryd.core.defaults import Limit
from memoryd.disk.daemon_lock import prepare_private, take
from memoryd.disk.disk_errors import probe_write, refusal, remedy
from memoryd.disk.processes import trim_heap
from memoryd.engine.deadlines import NEVER
from memoryd.engine.interfaces import Clock
from memoryd.engine.worker import Pace, Worker
from memoryd.errors import AlreadyRunningError, DeniedError, DiskError, MemorydError
from memoryd.layouts.registry import known_limits
from memoryd.log import get_logger, set_level, set_listener
from memoryd.service.notify import Notifier
from memoryd.service.roots import Roots
from memoryd.service.state_files import HeldLock
from memoryd.service.supervision import (
    TOGETHER_S,
    ClockWatch,
    Liveness,
    MountWatch,
    WarmUp,
    seconds_to_tick,
    whole_ticks,
)

log = get_logger(__name__)

WATCHER_TICKS = 6  # between two checks of the watcher
TRIM_CPU_S = 0.1  # processor time between two returns of free memory: an idle process frees none
HAND_OVER_S = 0.5  # for clients that are connected when the daemon stops, if the socket outlives it


Serve = Callable[["Daemon"], Mapping[str, Handler]]
"""Creates the handler of each control method, by name, for a daemon."""


class Daemon:
    """One daemon per state directory. `extra` holds the roots of the command line, `serve` makes the handlers of
    control methods.

    Raises ConfigError if the configuration is invalid.
    """

    def __init__(
        self,
        places: Places,
        extra: list[tuple[str, str | None]],
        serve: Serve,
        log_level: str | None = None,
        *,
        observe: bool = False,
    ) -> None:
        self.places = places
        self.extra = extra
        self._serve_methods = serve
        self.clock = Clock()
        self.instance = uuid.uuid4().hex
        self.known_limits: Mapping[str, Limit] = known_limits()
        self._observe = observe
        self.config: Config = self._load(places)
        self._fixed_level = log_level
        self.log_level = log_level or self.config.daemon.log_level
        self.notice: str | None = None
        self._began = self.clock.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        self._stopping = False
        self._reload_asked = False
        self._is_passed = False
        self._notifier = Notifier(os.environ)
        self.roots = Roots(places.state_dir, self.clock, self._wake)
        self._server: Server | None = None
        self._clockwatch = ClockWatch()
        self._mounts = MountWatch()
        self._liveness = Liveness()
        self._shown = ""
        self._ticks = 0
        self._trimmed_at = 0.0  # in processor time

    @property
    def uptime_s(self) -> float:
        """Seconds since the daemon was created."""
        return round(self.clock.monotonic() - self._began, 3)

    # --- start and end

    def run(self, listener: socket.socket | None = None) -> int:
        """Serve until told to stop; return the exit code. `listener`: a control socket that was passed in."""
        self._take_signals()
        prepare_private(self.places.state_dir)
        self._is_passed = listener is not None
        self._held = self._take_lock(adopt(listener).path if listener is not None else None)
        try:
            self.roots.check_owners(self.config, [root.name for root in self.config.roots])
            hello = {"version": __version__, "pid": os.getpid(), "instance": self.instance}
            limits = Limits(clients=self.config.daemon.max_clients)
            self._server = Server(listener or self.places.socket, self._serve_methods(self), hello, limits=limits)
            self.roots.tell = self._server.publish
            set_listener(self._publish_log)
            self._server.open()
            self._held.owned.publish(self._sidecar(self._server.path))
            return self._serve()
        finally:
            set_listener(None)
            if self._server is not None:
                self._server.close(0.5)
            self._held.release(keep_sidecar=self._is_passed)  # clients find the socket, and start the next daemon

    def _take_lock(self, socket: str | None) -> HeldLock:
        return HeldLock(take(os.path.join(self.places.state_dir, "instance.lock"), self._sidecar(socket)))

    def _publish_log(self, event: Mapping[str, Any]) -> None:
        """Send what is logged to the subscribers of the topic `log`."""
        assert self._server is not None
        self._server.publish("log", {name: value for name, value in event.items() if name not in ("topic", "at")})

    def _serve(self) -> int:
        self.roots.start()
        names = [root.name for root in self.config.roots]
        self.roots.apply(self.config, self._pace(), names, (), starting=True)
        assert self._server is not None
        self._server.start()  # not before the roots are there: a sync of no root would be a stale ok
        log.info("started", socket=self._server.path, state=self.places.state_dir, roots=len(self.config.roots))
        self._await_first_check()
        if not self._stopping:
            log.info("ready", seconds=self.uptime_s)
            self._notifier.ready(self._summary())
            gc.collect()
            gc.freeze()
            trim_heap()
        self._loop()
        return self._end()

    def _await_first_check(self) -> None:
        """Wait until every root has been checked once, which is what READY means. For a large root, ask the service
        manager for more time."""
        for worker in self.roots.all():
            while not worker.ready.wait(0.2) and not self._stopping:
                self._drain_wake()
                self.roots.timetable.run_due()
                if self._is_alive():
                    self._notifier.extend_timeout(30.0)
                    self._show_states()

    def _end(self) -> int:
        log.info("stopping")
        self._notifier.stopping()
        assert self._server is not None
        self._server.hand_over(HAND_OVER_S)
        self._server.drain()
        clean = self.roots.stop()
        self._server.close(0.5)
        log.info("stopped", clean=clean, seconds=self.uptime_s)
        return 0

    def _sidecar(self, socket: str | None) -> dict[str, object]:
        """Return what clients find in `instance.json`. `passed`: the socket outlives this process."""
        place = {"socket": socket, "passed": self._is_passed} if socket else {}
        return {"instance": self.instance, "version": __version__, **place}

    def _pace(self) -> Pace:
        daemon = self.config.daemon
        return Pace(daemon.settle_ms / 1000, daemon.settle_cap_ms / 1000, daemon.quiet_s, daemon.quiet_cap_s)

    # --- the main loop

    def _loop(self) -> None:
        """Wake up for a signal, for trouble, for a job, for a ping, and at each tick to supervise the rest."""
        interval = self._notifier.watchdog_interval_s()
        tick = self.clock.monotonic()
        ping = NEVER if interval is None else tick
        warm = WarmUp(tick)
        while not self._stopping:
            job_s = self.roots.timetable.next_due() - self.clock.wall()
            self._sleep(min(min(tick, ping, warm.due) - self.clock.monotonic(), job_s))
            if self._reload_asked:
                self._reload_asked = False
                self._reload_by_signal()
            now = self.clock.monotonic()
            jump = self._clockwatch.step(self.clock.wall(), now)
            if jump is not None:
                self.roots.after_jump(jump)
            self.roots.settle_troubles()
            self.roots.timetable.run_due()
            self._show_states()
            if now >= tick - TOGETHER_S:
                tick = now + seconds_to_tick(self.clock.wall())
                self._supervise()
            if warm.step(now, working=any(worker.step != "idle" for worker in self.roots.all())):
                self.roots.warm_up()
            if interval is not None and now >= ping - TOGETHER_S:
                ping = now + whole_ticks(interval)
                if self._is_alive():
                    self._notifier.watchdog()

    def _sleep(self, seconds: float) -> None:
        table = [] if self._mounts.table is None else [self._mounts.table]
        _, _, mounted = select.select([self._wake_read], [], table, max(0.0, seconds))
        self._drain_wake()
        if mounted:
            self.roots.after_mounts(self._mounts.step())

    def _supervise(self) -> None:
        self.roots.check_places()
        self._renew_state()
        self._ticks += 1
        if self._ticks % WATCHER_TICKS == 0:
            self.roots.check_watcher()
        spent = time.process_time()
        if spent - self._trimmed_at > TRIM_CPU_S:
            self._trimmed_at = spent
            trim_heap()

    def _renew_state(self) -> None:
        """Begin anew with state that was deleted or replaced: what is recorded in a deleted file would be lost with the
        end of this process. If another daemon has taken the state directory meanwhile, end."""
        assert self._server is not None
        if not self._held.is_lost() and not self.roots.state_files.changed():
            return
        try:
            with self.roots.changing():
                if self._held.is_lost():
                    prepare_private(self.places.state_dir)
                    lost, self._held = self._held, self._take_lock(self._server.path)
                    lost.release()
                    self.roots.watcher.rebuild("state deleted")
                names = self.roots.state_files.take_lost(self.roots.tell)
                self.roots.apply(self.config, self._pace(), names, ())
        except AlreadyRunningError as error:
            log.error("state directory taken", reason=error.message)  # noqa: TRY400 - by another process, no fault of ours
            self._stopping = True
        except (MemorydError, OSError) as error:
            log.error("state directory not created", reason=str(error))  # noqa: TRY400 - as above

    def _is_alive(self) -> bool:
        """Return True if no thread hangs; otherwise report which does to the log and the service manager."""
        assert self._server is not None
        hung = self._liveness.check(self.clock.monotonic(), self.roots.all(), self._server)
        if hung is not None and hung != self._shown:
            self._shown = hung
            log.error("hangs", what=hung)
            self._notifier.status(hung)
        return hung is None

    def _show_states(self) -> None:
        """Report changed root states to the service manager."""
        states = self._summary()
        if states != self._shown:
            self._shown = states
            self._notifier.status(states)

    def _summary(self) -> str:
        failed = [f"{each.name} failed" for each in self.roots.broken()]
        return ", ".join([*map(_state_line, self.roots.all()), *failed])

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
        """Stop by command; the reply is sent before the server closes."""
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

    def _load(self, places: Places) -> Config:
        config = load(places, self.extra, known_limits=self.known_limits)
        return observed(config) if self._observe else config

    def reload(self, *, dry_run: bool = False) -> Difference:
        """Read, check, compare and apply the configuration; on any error the running one stays as it was. Roots that
        could not start are tried again."""
        try:
            with self.roots.changing():
                return self.reload_unguarded(dry_run=dry_run)
        except MemorydError as error:
            if not dry_run:
                self.notice = f"the last reload failed: {error.message}"
            raise

    def reload_unguarded(self, *, dry_run: bool = False) -> Difference:
        """Reload as `reload` does, for a caller that has the right to change the set of roots."""
        places = self.places.current()
        new = self._load(places)
        found = diff(self.config, new)
        if dry_run:
            return found
        broken = (each.name for each in self.roots.broken() if each.name not in (*found.changed, *found.removed))
        names = [*found.changed, *found.added, *broken]
        self.roots.check_owners(new, found.added)
        if names:
            _require_writable(places.state_dir)
        self._notifier.reloading()
        self.places, self.config = places, new
        self.log_level = self._fixed_level or new.daemon.log_level
        set_level(self.log_level)
        self.roots.apply(new, self._pace(), names, found.removed)
        self._notifier.ready(self._summary())
        self.notice = None
        log.info("reloaded", added=found.added, changed=found.changed, removed=found.removed)
        return found

    def _reload_by_signal(self) -> None:
        try:
            self.reload()
        except MemorydError as error:
            # A manager that asked for the reload waits for both words, whatever came of it.
            self._notifier.reloading()
            self._notifier.ready(self.notice or "")
            log.error("reload failed", reason=error.message, hint=error.hint)  # noqa: TRY400 - bad words of a user, no fault of ours

    def forget_path(self, path: str) -> None:
        """Drop a root of the command line that was removed at run time."""
        self.extra = [(each, layout) for each, layout in self.extra if os.path.abspath(each) != path]


def _require_writable(state_dir: str) -> None:
    """Raise DiskError or DeniedError if a root that starts could not write its state: the ones that run need not."""
    try:
        probe_write(state_dir)
    except OSError as error:
        message, code = f"the state directory {state_dir} cannot be written: {error.strerror}", refusal(error)
        if code is None:
            raise DeniedError(message, hint="nothing was changed; correct its mode and try again") from error
        hint = f"nothing was changed; {remedy(error)}, and try again"
        raise DiskError(message, hint=hint, data={"code": code}) from error


def _state_line(worker: Worker) -> str:
    """Return the name and state of a root, and how far its work is if that takes long."""
    progress = worker.store.progress.current()
    state = f"{worker.name} {worker.status.state}"
    return state if progress is None else f"{state}, {progress.step} {progress.percent} %"
