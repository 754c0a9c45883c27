"""What the demo says, on the terminal and in `demo.json`: each line with the claim by which it can be checked."""

from __future__ import annotations

import os
import time
from typing import Any, TextIO

from memoryd.cli.screen import shown, wants_fancy

MARKS = {  # kind of line: mark, its stand-in where only ASCII can be shown, style
    "note": ("·", "-", "dim"),
    "found": ("✗", "!", "yellow"),
    "did": ("✓", "+", "green"),
    "agent": ("›", ">", "cyan"),
    "failed": ("✗", "X", "bold red"),
    "plain": (" ", " ", "default"),
}


class Voice:
    """`claims` grows with every line that says something about the files. `live`: somebody looks on."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.live = out.isatty()
        self._fancy = wants_fancy(out, os.environ)
        self._console: Any = None
        self._began = time.monotonic()
        self._unicode = _can_show(out, "✗✓›·…")
        self.claims: list[dict[str, Any]] = []

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def title(self, text: str) -> None:
        """The head of a scene."""
        if self._fancy:
            self._draw_title(text)
        else:
            self._plain(f"\n{text}")

    def say(self, kind: str, text: str, claim: str | None = None, **facts: Any) -> None:
        """One line; `claim` and `facts` are what a program can check of it."""
        at = round(self.seconds, 3)
        if claim is not None:
            self.claims.append({"claim": claim, **facts, "at_s": at, "said": text})
        mark, ascii_mark, style = MARKS[kind]
        mark = mark if self._unicode else ascii_mark
        left = f"{at:5.1f} s" if kind != "plain" else " " * 7
        if self._fancy:
            self._draw(left, mark, style, shown(text))
        else:
            self._plain(f"{left}  {mark} {shown(text)}")

    def _plain(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def _draw_title(self, text: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - for a terminal only

        self._rich().print()
        self._rich().print(Text(text, style="bold"))

    def _draw(self, left: str, mark: str, style: str, text: str) -> None:
        """Three columns, so that a long text wraps beneath itself."""
        from rich.table import Table  # noqa: PLC0415 - for a terminal only
        from rich.text import Text  # noqa: PLC0415 - only when needed

        row = Table.grid(padding=(0, 1))
        row.add_column(no_wrap=True, width=8)
        row.add_column(no_wrap=True, width=1)
        row.add_column(overflow="fold")
        plain = style in ("green", "yellow", "default")
        row.add_row(Text(left, style="dim"), Text(mark, style=style), Text(text, style="" if plain else style))
        self._rich().print(row)

    def _rich(self) -> Any:
        from rich.console import Console  # noqa: PLC0415 - 50 ms, for a terminal only

        self._console = self._console or Console(file=self._out, highlight=False)
        return self._console


def _can_show(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `3 files`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def cut(text: str, length: int = 26) -> str:
    """The beginning of a text, marked where it goes on."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
