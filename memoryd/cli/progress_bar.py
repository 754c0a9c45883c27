"""A bar on the terminal while the daemon does long work for a command: what is done, the rate and the time left.

It asks `status` on a connection of its own, because the one of the command is waiting for its answer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memoryd.cli.screen import printable
from memoryd.cli.views_status import format_progress
from memoryd.control.client import Client
from memoryd.errors import MemorydError

FIRST_S = 0.7  # before the bar appears: most commands are done by then
EVERY_S = 0.25


@contextmanager
def progress_bar(path: str, root: object = None) -> Iterator[None]:
    """Show the long work of this root, or of any, until the block ends; nothing if standard error is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(path, root, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(EVERY_S * 4)


def _follow(path: str, root: object, ended: threading.Event) -> None:
    """Draw the bar until the work has ended. A daemon that does not answer ends the bar, not the command."""
    if ended.wait(FIRST_S):
        return
    from rich.console import Console  # noqa: PLC0415 - 60 ms, only for work that takes longer
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 - as above

    text = TextColumn("{task.description}", markup=False)
    with Progress(text, BarColumn(bar_width=10), console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}
        try:
            with Client(path, timeout=2) as client:
                while not ended.wait(EVERY_S):
                    rows = client.call("status", {"root": root} if root else {}).get("roots", [])
                    shown = {str(row["name"]): row["progress"] for row in rows if row.get("progress")}
                    for name in [each for each in tasks if each not in shown]:
                        bars.remove_task(tasks.pop(name))
                    for name, progress in shown.items():
                        if name not in tasks:
                            tasks[name] = bars.add_task("", total=progress["total"])
                        line = printable(f"{name}: {format_progress(progress)}")
                        bars.update(tasks[name], total=progress["total"], completed=progress["done"], description=line)
        except MemorydError:
            return  # the command itself reports what is wrong
