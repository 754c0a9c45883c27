"""What the demo prints: titles and timed lines, wrapped to the width of the terminal, coloured on a terminal only."""

from __future__ import annotations

import os
import shutil
import textwrap
import time
from typing import TextIO

import click

from memoryd.cli.screen import printable, wants_fancy

MARKS = {  # kind of line: mark, colour
    "note": ("·", "bright_black"),
    "found": ("✗", "yellow"),
    "done": ("✓", "green"),
    "agent": ("›", "cyan"),
    "failed": ("✗", "red"),
}
INDENT = " " * 11
WIDEST = 100


class Narrator:
    """Prints to `out`; `live` is true on a terminal, where a person reads along."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.live = out.isatty()
        self._colour = wants_fancy(out, os.environ)
        self._began = time.monotonic()
        self._width = min(shutil.get_terminal_size((80, 24)).columns, WIDEST)

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def title(self, text: str) -> None:
        """Print the title of a scene after an empty line."""
        self.plain("")
        self.plain(click.style(printable(text), bold=True) if self._colour else printable(text))

    def say(self, kind: str, text: str) -> None:
        """Print one timed line with the mark of its kind (a key of MARKS); a long text wraps below itself."""
        mark, colour = MARKS[kind]
        rows = textwrap.wrap(printable(text), max(self._width - len(INDENT), 20), break_on_hyphens=False)
        head = f"{self.seconds:5.1f} s"
        if self._colour:
            head, mark = click.style(head, dim=True), click.style(mark, fg=colour)
        self.plain(f"{head}  {mark} " + f"\n{INDENT}".join(rows))

    def plain(self, text: str) -> None:
        """Print a line as it is, not wrapped: commands are copied from it."""
        self._out.write(text + "\n")
        self._out.flush()


def shorten(text: str, length: int = 40) -> str:
    """The beginning of a text in quotation marks, with an ellipsis where it goes on."""
    return f"“{text if len(text) <= length else text[: length - 1].rstrip() + '…'}”"
