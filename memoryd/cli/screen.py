"""Output for people: tables and colour on a terminal, aligned plain text elsewhere."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from memoryd.control.wire import readable

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any, TextIO

_STYLES = {
    "ok": "green",
    "done": "green",
    "yes": "green",
    "warning": "yellow",
    "near": "yellow",
    "degraded": "yellow",
    "suspect": "yellow",
    "paused": "yellow",
    "stale": "yellow",
    "error": "red",
    "over": "red",
    "failed": "red",
    "missing": "red",
    "no": "red",
}


class Screen:
    """A text stream for results. With `fancy`, tables are drawn by rich; otherwise only plain lines are written."""

    def __init__(self, out: TextIO, *, fancy: bool) -> None:
        self._out = out
        self._fancy = fancy
        self._console: Any = None

    def line(self, text: str = "") -> None:
        """Write text and a newline."""
        self._out.write(printable(text, keep="\n\t") + "\n")

    def heading(self, text: str) -> None:
        """Write a line, in bold on a terminal."""
        self._out.write(f"\x1b[1m{printable(text)}\x1b[0m\n" if self._fancy else printable(text) + "\n")

    @property
    def fancy(self) -> bool:
        """True if the output is a terminal with colour."""
        return self._fancy

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "none") -> None:
        """Write a table, or the text `empty` if there are no rows."""
        cells = [[printable(str(cell)) for cell in row] for row in rows]
        if not cells:
            self.line(empty)
        elif self._fancy:
            self._draw(headers, cells)
        else:
            self._align([[header.upper() for header in headers], *cells])

    def fields(self, pairs: Iterable[tuple[str, object]], indent: int = 2) -> None:
        """Write aligned lines of `name  value`; pairs without a value are left out."""
        lines = [(name, printable(str(value))) for name, value in pairs if value not in (None, "")]
        width = max((len(name) for name, _ in lines), default=0)
        for name, value in lines:
            self._out.write(f"{' ' * indent}{name:<{width}}  {value}\n")

    def _align(self, rows: list[list[str]]) -> None:
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        for row in rows:
            line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            self._out.write(line.rstrip() + "\n")

    def _draw(self, headers: Sequence[str], rows: list[list[str]]) -> None:
        from rich import box  # noqa: PLC0415 - 50 ms, for a terminal only
        from rich.console import Console  # noqa: PLC0415 - only when needed
        from rich.table import Table  # noqa: PLC0415 - only when needed
        from rich.text import Text  # noqa: PLC0415 - only when needed

        self._console = self._console or Console(file=self._out, highlight=False)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for header in headers:
            table.add_column(header, overflow="fold")
        for row in rows:
            table.add_row(*[Text(cell, style=_STYLES.get(cell, "")) for cell in row])
        self._console.print(table)


def wants_fancy(out: TextIO, env: Mapping[str, str]) -> bool:
    """Return True for a terminal, unless NO_COLOR is set or the terminal is dumb."""
    return out.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def make_screen(out: TextIO) -> Screen:
    """Return a screen for the stream, fancy if it is a terminal."""
    return Screen(out, fancy=wants_fancy(out, os.environ))


def print_json(document: object) -> None:
    """Print one JSON document, indented on a terminal."""
    out = sys.stdout
    utf8 = (out.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not utf8, indent=2 if out.isatty() else None)
    out.write((text if text.isprintable() else "".join(map(_escaped, text))) + "\n")
    out.flush()


def _escaped(char: str) -> str:
    """Escape DEL, C1 and bidirectional controls, which JSON allows unescaped but a terminal would interpret."""
    if char == "\n" or char.isprintable():
        return char
    return json.dumps(char)[1:-1] if ord(char) > 0x7F else f"\\u{ord(char):04x}"


def printable(text: str, keep: str = "") -> str:
    """Return the text with control characters escaped, except those in `keep`. File names may contain sequences that a
    terminal would interpret."""
    text = readable(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def format_size(value: object) -> str:
    """Format bytes as 0 B, 999 B, 1.5 KB or 2.0 MB (1024-based, like the limits); a dash if not a number."""
    if not isinstance(value, (int, float)):
        return "-"
    amount = float(value)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def format_duration(seconds: object) -> str:
    """Format seconds as 1.5 s, 30 s, 5 min, 3 h or 2 d; a dash if not a number."""
    if not isinstance(seconds, (int, float)):
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if abs(seconds) >= 10 else f"{seconds:.1f} s"


def format_time(at: object) -> str:
    """Format epoch seconds as local date and time; return text unchanged and a dash for nothing."""
    if isinstance(at, (int, float)) and not isinstance(at, bool):
        try:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        except (OverflowError, ValueError, OSError):
            return str(at)
    return str(at) if at else "-"


def yes_no(value: object) -> str:
    """Return "yes" for a true value, else "no"."""
    return "yes" if value else "no"
