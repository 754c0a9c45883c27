"""Notice that a thread of the watching library died, and restart watching with growing pauses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memoryd.log import get_logger

log = get_logger(__name__)

MAX_PAUSE_S = 60.0
CALM_S = 120.0  # after this long without trouble the next restart is immediate again


class ThreadGuard:
    """Hooks into `threading.excepthook`, the only place that reports the death of a library's thread.

    `ours` says whether a thread is guarded; `died` is called on that dying thread. All others go to the
    previous hook.
    """

    def __init__(self, ours: Callable[[threading.Thread], bool], died: Callable[[str], None]) -> None:
        self._ours = ours
        self._died = died
        self._hook = self._on_exception  # one object, so that `remove` can tell whether it is still in place
        self._previous = threading.excepthook
        self._installed = False

    def install(self) -> None:
        """Notice threads that die, from now on."""
        if not self._installed:
            self._previous, threading.excepthook = threading.excepthook, self._hook
            self._installed = True

    def remove(self) -> None:
        """Remove the hook; if another hook was installed after ours, ours stays and passes everything on."""
        if self._installed and threading.excepthook is self._hook:
            threading.excepthook = self._previous
        self._installed = False

    def _on_exception(self, args: threading.ExceptHookArgs) -> None:
        if not self._installed or args.thread is None or not self._ours(args.thread):
            self._previous(args)
            return
        log.error("a watching thread died", thread=args.thread.name, error=repr(args.exc_value))
        self._died(args.thread.name)


class Restarter:
    """Runs `rebuild` on its own thread until it returns True, then calls `done`. One restart at a time.

    The pause before a restart grows from 0 over 1 s to a minute while trouble goes on, so that a directory that
    changes faster than it can be watched does not cost a full scan every second.
    """

    def __init__(self, rebuild: Callable[[str], bool], done: Callable[[], None]) -> None:
        self._rebuild = rebuild
        self._done = done
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._busy = False
        self._pause_s = 0.0
        self._last = float("-inf")

    def schedule(self, reason: str) -> None:
        """Start a restart unless one is running. Returns at once, so a dying thread may call it."""
        with self._lock:
            if self._busy or self._stopped.is_set():
                return
            self._busy = True
        threading.Thread(target=self._run, args=(reason,), name="memoryd-watch-restart", daemon=True).start()

    def stop(self) -> None:
        """Stop restarting."""
        self._stopped.set()

    def _run(self, reason: str) -> None:
        if time.monotonic() - self._last > CALM_S:
            self._pause_s = 0.0
        while not self._stopped.wait(self._pause_s):
            self._pause_s = min(MAX_PAUSE_S, max(1.0, self._pause_s * 2))
            with self._lock:
                self._busy = False  # trouble from here on concerns the new watches
            if self._rebuild(reason):
                self._last = time.monotonic()
                self._done()
                return
            with self._lock:
                if self._busy:  # later trouble has started another restart
                    return
                self._busy = True
