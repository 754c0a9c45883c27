"""A real daemon that tells which modules of the house a piece of its work passes.

Run as a program (`python -m tests.tracing ARGUMENTS`) it is `memoryd ARGUMENTS` with a profile function in every
thread. `TracedDaemon` starts that, and talks to it through files beside its configuration.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import memoryd
from tests.daemon import Daemon, until

PLACE = "MEMORYD_TRACE"
HOUSE = Path(memoryd.__file__).parent


class TracedDaemon(Daemon):
    """`passed(act)` is what was executed in the daemon while `act` ran."""

    def command(self, *words: str) -> list[str]:
        """As the daemon's own, with the profile function."""
        self.env[PLACE] = str(self.base)
        command = super().command(*words)
        return [each if each != "memoryd" else "tests.tracing" for each in command]

    def passed(self, act: Callable[[], object]) -> frozenset[str]:
        """The modules, as `store/commit.py`, of which some function was called meanwhile."""
        self._order("begin")
        act()
        self._order("end")
        return frozenset((self.base / "passed").read_text().splitlines())

    def _order(self, name: str) -> None:
        order = self.base / name
        order.touch()
        until(lambda: not order.exists(), f"the trace obeys {name}")


class Trace:
    """Which code objects were entered since `begin`."""

    def __init__(self) -> None:
        self._seen: set[CodeType] = set()

    def enter(self, frame: FrameType, event: str, _: object) -> None:
        """The profile function of every thread."""
        if event == "call":
            self._seen.add(frame.f_code)

    def obey(self, place: Path) -> None:
        """On a thread of its own: do what the files say."""
        while True:
            time.sleep(0.002)
            if (place / "begin").exists():
                self._seen.clear()
                (place / "begin").unlink()
            if (place / "end").exists():
                (place / "passed").write_text("\n".join(sorted(self.modules())))
                (place / "end").unlink()

    def modules(self) -> set[str]:
        """Modules of memoryd; what an import runs is no work."""
        codes = [code for code in self._seen.copy() if code.co_name != "<module>"]
        paths = {Path(code.co_filename) for code in codes}
        return {str(path.relative_to(HOUSE)) for path in paths if path.is_relative_to(HOUSE)}


def main() -> int:
    """Run memoryd under the trace."""
    from memoryd.cli.main import run  # noqa: PLC0415 - not for whoever only starts it

    trace = Trace()
    threading.Thread(target=trace.obey, args=[Path(os.environ[PLACE])], daemon=True).start()
    threading.setprofile(trace.enter)
    sys.setprofile(trace.enter)
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
