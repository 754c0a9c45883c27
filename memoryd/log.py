"""Log set-up: console lines on a terminal, JSON lines otherwise. Contents of memories are never logged."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

# structlog imports rich and pygments when it finds them: 4 MB and 200 ms that a daemon has no use for.
# A None in sys.modules marks a module as not importable; it is lifted again for whoever draws tables.
_hidden = "rich" not in sys.modules
if _hidden:
    sys.modules["rich"] = None  # type: ignore[assignment]  # None bars the import

import structlog  # noqa: E402 - must come after the lines above

if _hidden:
    del sys.modules["rich"]

LEVELS = ("debug", "info", "warning", "error")


class _Sink:
    """A stream that never raises: a full disk or a closed terminal must not stop the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            self._stream.write(text.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError):
            self.lost += 1

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1


class _Forward(logging.Handler):
    """Brings the stdlib loggers of our libraries into the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger(record.name)
        log.log(max(record.levelno, logging.DEBUG), record.getMessage())


_level = logging.INFO
_NUMBERS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}


def _filter(_: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _NUMBERS.get(method, logging.INFO) < _level:
        raise structlog.DropEvent
    return event


def configure(*, style: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """`style` is auto, console or json; auto means console on a terminal."""
    out = stream or sys.stderr
    console = style == "console" or (style == "auto" and out.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=out.isatty()) if console else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            _filter,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file=_Sink(out)),  # type: ignore[arg-type]  # has write and flush
        cache_logger_on_first_use=False,
    )
    set_level(level)
    root = logging.getLogger()
    root.handlers[:] = [_Forward(level=logging.WARNING)]


def set_level(level: str) -> None:
    """Takes effect at once, for every logger."""
    global _level  # noqa: PLW0603 - the one process-wide switch, changed by `log-level`
    _level = logging.getLevelNamesMapping()[level.upper()]


def get_logger(name: str) -> Any:
    return structlog.get_logger(module=name)
