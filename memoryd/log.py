"""Logging to standard error: console lines on a terminal, JSON lines elsewhere. Memory content is never logged.

Where standard error is a file that nobody else rotates, as under launchd, `configure` is given its path and bounds it.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, TextIO

# structlog imports rich and pygments if they are installed: 4 MB and 200 ms that the daemon does not need.
# None in sys.modules makes an import fail; the entry is removed afterwards, for the code that draws tables.
# It also imports asyncio, for loggers that are awaited: 3 MB more, with ssl. A stand-in imports it when it is used.


class _Asyncio(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("asyncio"), name)


_hidden = {
    name: each for name, each in {"rich": None, "asyncio": _Asyncio("asyncio")}.items() if name not in sys.modules
}
sys.modules.update(_hidden)  # type: ignore[arg-type]  # None makes the import fail

import structlog  # noqa: E402 - must follow the lines above

for _name in _hidden:
    del sys.modules[_name]

MAX_LOG_BYTES = 5_000_000
LEVELS = ("debug", "info", "warning", "error")


class _Sink:
    """A text stream that never raises: a full disk or a closed terminal must not stop the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            self._stream.write(text.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError):
            pass  # the event is lost

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _BoundedSink(_Sink):
    """A sink for a stream that appends to the file at `path`. When the file is too big, its content moves to `path`.1,
    in place of what is there; the file itself stays, because the manager that opened it writes to it as well."""

    def __init__(self, stream: TextIO, path: str) -> None:
        super().__init__(stream)
        self._path = path
        self._limit = MAX_LOG_BYTES

    def flush(self) -> None:
        super().flush()
        with suppress(OSError):  # no such file, or no space for the copy: the file grows by a tenth before another try
            size = os.stat(self._path).st_size
            if size > self._limit:
                self._limit = size + MAX_LOG_BYTES // 10
                shutil.copyfile(self._path, f"{self._path}.1")
                os.truncate(self._path, 0)
                self._limit = MAX_LOG_BYTES


class _Forward(logging.Handler):
    """A handler that passes records of standard library loggers (those of our dependencies) on to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger(record.name)
        log.log(max(record.levelno, logging.DEBUG), record.getMessage())


_level = logging.INFO
_NUMBERS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}


_listener: Callable[[Mapping[str, Any]], None] | None = None


def set_listener(listener: Callable[[Mapping[str, Any]], None] | None) -> None:
    """Call a function with each event that is logged, as {level, event, module, ...}; None ends that. It must not wait
    and must not log."""
    global _listener  # noqa: PLW0603 - as the level, one for the process
    _listener = listener


def _tell_listener(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _listener is not None:
        _listener({name: value for name, value in event.items() if name != "exc_info"})
    return event


def _filter(_: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _NUMBERS.get(method, logging.INFO) < _level:
        raise structlog.DropEvent
    return event


def _for_people(*, colours: bool) -> list[Any]:
    """Return the processors that show local times and no modules, so that most events fit on a line."""
    return [
        lambda _, __, event: {name: value for name, value in event.items() if name != "module"},
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        structlog.processors.format_exc_info,
        structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=0, pad_level=False),
    ]


_FOR_PROGRAMS = (
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    structlog.processors.JSONRenderer(),
)

Clean = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function that removes from a log event what must not be logged (secrets)."""


def configure(
    *,
    style: str = "auto",
    level: str = "info",
    stream: TextIO | None = None,
    clean: Clean = lambda event: event,
    path: str = "",
) -> None:
    """Set up logging to `stream` (default: standard error). `path`: the file behind it if its size is to be bounded.

    `style` is auto, console or json; auto means console on a terminal, else json. Each event passes through `clean`.
    """
    out = stream or sys.stderr
    console = style == "console" or (style == "auto" and out.isatty())
    sink = _BoundedSink(out, path) if path else _Sink(out)
    structlog.configure(
        processors=[
            _filter,
            lambda _, __, event: dict(clean(event)),
            structlog.processors.add_log_level,
            _tell_listener,
            *(_for_people(colours=out.isatty()) if console else _FOR_PROGRAMS),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file=sink),  # type: ignore[arg-type]  # has write and flush
        cache_logger_on_first_use=False,
    )
    set_level(level)
    root = logging.getLogger()
    root.handlers[:] = [_Forward(level=logging.WARNING)]


def set_level(level: str) -> None:
    """Set the lowest level that is logged, for every logger at once."""
    global _level  # noqa: PLW0603 - the one process-wide switch, changed by `log-level`
    _level = logging.getLevelNamesMapping()[level.upper()]


def get_logger(name: str) -> Any:
    """Return a structlog logger whose events carry `module=name`."""
    return structlog.get_logger(module=name)


class RateLimit:
    """A limit for repeated log messages: each goes out at most once in `PAUSE_S` seconds, with the number suppressed.

    Keeps a client that fails in a loop from filling the disk. Thread-safe.
    """

    PAUSE_S = 60.0
    MAX_MESSAGES = 100  # messages remembered at a time

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: dict[str, tuple[float, int]] = {}

    def __len__(self) -> int:
        """Return the number of messages remembered."""
        return len(self._sent)

    def suppressed(self, message: str) -> int | None:
        """Return how often `message` was suppressed since it last went out; None if it is to be suppressed now."""
        now = self._clock()
        with self._lock:
            at, count = self._sent.get(message, (now - self.PAUSE_S, 0))
            if now - at < self.PAUSE_S:
                self._sent[message] = (at, count + 1)
                return None
            if len(self._sent) >= self.MAX_MESSAGES:
                self._sent.clear()
            self._sent[message] = (now, 0)
            return count
