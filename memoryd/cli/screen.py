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
    import re
    from typing import TextIO

GOOD, WARNING, BAD = 28, 130, 160  # of the 256 colours: as clear on white as on black, whatever the theme
DATE_AFTER_S = 60 * 86_400
MIN_WIDTH = 16  # columns: in less, no character of two columns fits beside the indentation
_STYLES = {
    **dict.fromkeys(("ok", "done", "yes", "valid", "fixable"), f"38;5;{GOOD}"),
    **dict.fromkeys(
        ("warning", "near", "degraded", "suspect", "paused", "stale", "scanning", "read_only"), f"38;5;{WARNING}"
    ),
    **dict.fromkeys(("error", "over", "failed", "missing", "no", "damaged"), f"38;5;{BAD}"),
    "header": "1",
    "rule": "2",
    "matched": f"1;38;5;{WARNING}",
}


class Screen:
    """A text stream for results. With `fancy` it is a terminal of `width` columns: tables are drawn and times are
    relative to `now`; otherwise only plain lines are written. `colour` is as `fancy` unless given."""

    def __init__(
        self, out: TextIO, *, fancy: bool, colour: bool | None = None, width: int = 80, now: float | None = None
    ) -> None:
        self._out = out
        self._fancy = fancy
        self._colour = fancy if colour is None else colour
        self.width = width
        self._now = time.time() if now is None else now

    def line(self, text: str = "") -> None:
        """Write text and a newline."""
        self._out.write(printable(text, keep="\n\t") + "\n")

    def heading(self, text: str, marked: re.Pattern[str] | None = None) -> None:
        """Write a line, in bold on a terminal, with what is marked in another colour. It is never wrapped."""
        self._out.write(self._mark(printable(text), marked, "header") + "\n")

    def paragraph(self, text: str | Sequence[str], indent: int = 2, marked: re.Pattern[str] | None = None) -> None:
        """Write an indented text, with what is marked in another colour. On a terminal it is wrapped between words, or
        between the given parts."""
        rows = [printable(text if isinstance(text, str) else " ".join(text), keep="\t")]
        if self._fancy:
            from memoryd.cli.tables import wrap  # noqa: PLC0415 - for a terminal only

            rows = wrap(rows[0] if isinstance(text, str) else [*map(printable, text)], self.width - indent)
        for row in rows:
            self._out.write(f"{' ' * indent}{self._mark(row, marked)}\n")

    def _mark(self, text: str, marked: re.Pattern[str] | None, cell: str = "") -> str:
        """Return the text in the colour of `cell`, with what is marked in a colour of its own."""
        parts, at = [], 0
        for match in marked.finditer(text) if marked else ():
            parts += [self.styled(text[at : match.start()], cell), self.styled(match[0], "matched")]
            at = match.end()
        return "".join((*parts, self.styled(text[at:], cell)))

    @property
    def fancy(self) -> bool:
        """True if the output is a terminal."""
        return self._fancy

    def when(self, at: object) -> str:
        """Format a time: relative to now on a terminal, a date if far away; else local date and time. A dash
        for nothing."""
        seconds = epoch_of(at)
        if not self._fancy or seconds is None:
            return format_time(at)
        age = self._now - seconds
        return format_time(at)[:10] if abs(age) > DATE_AFTER_S else format_age(age)

    def table(
        self,
        headers: Sequence[str],
        rows: Iterable[Sequence[object]],
        empty: str = "none",
        *,
        wrapped: Sequence[str] = (),
        one_line: Sequence[str] = (),
        spare: Sequence[str] = (),
    ) -> None:
        """Write a table, or the text `empty` if there are no rows. On a terminal only the columns in `wrapped` and
        `one_line` are ever broken or cut, and only those in `spare` left out."""
        cells = [[printable(str(cell)) for cell in row] for row in rows]
        if not cells:
            self.line(empty)
        elif self._fancy:
            from memoryd.cli.tables import draw  # noqa: PLC0415 - for a terminal only

            texts = {"wrapped": wrapped, "one_line": one_line, "spare": spare}
            for line in draw(headers, cells, self.width, **texts, style=self.styled):
                self._out.write(line + "\n")
        else:
            self._align([[header.upper() for header in headers], *cells])

    def note(self, text: str) -> None:
        """Write a line that is cut to the width of a terminal, and whole elsewhere."""
        if self._fancy:
            from memoryd.cli.tables import cut  # noqa: PLC0415 - for a terminal only

            text = cut(printable(text), self.width)
        self.line(text)

    def fields(self, pairs: Iterable[tuple[str, object]], indent: int = 2) -> None:
        """Write aligned lines of `name  value`; pairs without a value are left out."""
        lines = [(name, printable(str(value))) for name, value in pairs if value not in (None, "")]
        width = max((len(name) for name, _ in lines), default=0)
        for name, value in lines:
            self._out.write(f"{' ' * indent}{name:<{width}}  {self.styled(value, value)}\n")

    def _align(self, rows: list[list[str]]) -> None:
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        for row in rows:
            line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            self._out.write(line.rstrip() + "\n")

    def styled(self, text: str, cell: str) -> str:
        """Return the text in the colour of a table cell with the content `cell`."""
        code = _STYLES.get(cell.partition(" ")[0]) if self._colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def wants_fancy(out: TextIO, env: Mapping[str, str]) -> bool:
    """Return True for a terminal with colour: not if NO_COLOR is set or the terminal is dumb."""
    return _is_terminal(out, env) and not env.get("NO_COLOR")


def _is_terminal(out: TextIO, env: Mapping[str, str]) -> bool:
    return out.isatty() and env.get("TERM") != "dumb"


def make_screen(out: TextIO) -> Screen:
    """Return a screen for the stream, fancy if it is a terminal. Without colour the tables stay."""
    env = os.environ
    width = max(MIN_WIDTH, _width(out, env))
    return Screen(out, fancy=_is_terminal(out, env), colour=wants_fancy(out, env), width=width)


def _width(out: TextIO, env: Mapping[str, str]) -> int:
    if env.get("COLUMNS", "").isdecimal() and int(env["COLUMNS"]) > 0:
        return int(env["COLUMNS"])
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


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


def format_age(seconds: float) -> str:
    """Format how long ago a time was, or, if negative, how far away it is."""
    if abs(seconds) < 1:
        return "now"
    duration = format_duration(float(int(abs(seconds)))).replace(".0 ", " ")
    return f"{duration} ago" if seconds > 0 else f"in {duration}"


def format_time(at: object) -> str:
    """Format a time as local date and time: epoch seconds, or UTC text with `Z`. Return other text unchanged and a dash
    for nothing."""
    seconds = epoch_of(at)
    if seconds is None:
        return str(at) if at else "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return str(at)


def epoch_of(at: object) -> float | None:
    """Return seconds since the epoch of a number, or of UTC text such as 2026-11-25T09:30:00Z; else None."""
    if isinstance(at, (int, float)) and not isinstance(at, bool):
        return float(at)
    if not isinstance(at, str) or at[10:11] != "T" or at[-1] != "Z":
        return None
    from datetime import datetime  # noqa: PLC0415 - 2 ms, only for a time

    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return None
