"""The end-to-end check that events still arrive: a file created in our own directory must cause an event.

Running threads prove nothing: watchdog's reader can die, or a stream can fall silent, while everything
reports that it runs. The file is in the state directory, never in a root, on the same inotify descriptor.
"""

from __future__ import annotations

import contextlib
import os
import threading

MISSES_THAT_COUNT = 2  # one miss can be a machine under load


class Probe:
    """One probe file at a time in `directory`; missed when its event takes over `timeout_s` (monotonic)."""

    def __init__(self, directory: str, timeout_s: float) -> None:
        self.directory = directory
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._name = ""
        self._laid_at: float | None = None
        self._misses = 0
        self._count = 0

    def lay(self, now: float) -> bool:
        """Check the outstanding probe and create the next one; True if the second one in a row was missed.

        While a probe is outstanding and not overdue nothing happens. Raises OSError if the file cannot be
        created (a full disk proves nothing about the watcher); a missing directory counts as a probe that
        will be missed.
        """
        with self._lock:
            if self._laid_at is not None and now - self._laid_at < self.timeout_s:
                return False
            self._misses = self._misses + 1 if self._laid_at is not None else 0
            blind = self._misses >= MISSES_THAT_COUNT
            if blind:
                self._misses = 0
            self._count += 1
            self._name = f"probe-{os.getpid()}-{self._count}"
            self._laid_at = now
        try:
            self._touch(self._name)
        except FileNotFoundError:
            return blind
        except OSError:
            self.forget()
            raise
        return blind

    def note_event(self, name: str) -> None:
        """Note the event of a file called `name`. Called by the thread that reports events: no I/O."""
        with self._lock:
            if name == self._name:
                self._laid_at = None
                self._misses = 0

    def outstanding(self, now: float) -> float | None:
        """Return the seconds the current probe has been waiting for its event; None after it arrived."""
        with self._lock:
            return None if self._laid_at is None else max(0.0, now - self._laid_at)

    def forget(self) -> None:
        """Reset the probe for a new watcher."""
        with self._lock:
            self._laid_at = None
            self._misses = 0

    def _touch(self, name: str) -> None:
        path = os.path.join(self.directory, name)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileExistsError):  # left by a process with our PID: removing it is an event too
            os.close(os.open(path, flags, 0o600))
        os.unlink(path)
