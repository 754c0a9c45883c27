"""Decisions of the daemon's main loop: when to supervise the rest and when to warm up, whether the clock jumped, where
something was mounted, and whether a thread hangs."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable

from memoryd.control.server import Server
from memoryd.engine.deadlines import NEVER
from memoryd.engine.worker import Worker

TICK_S = 10.0  # between two checks of the paths of idle roots: no event reports a new mount, link or parent
TOGETHER_S = 0.1  # what is due this soon is done at once, so that it needs no wake-up of its own
CORRECTION_S = 5.0  # a clock that is corrected differs by no more from one step to the next
WARM_UP_S = 1.0  # from READY to the first try to load what a search needs, and between tries while the daemon works
_OCTAL = re.compile(r"\\([0-7]{3})")  # as the kernel writes a blank in a path
STUCK_S = 300.0  # a thread that does nothing for this long hangs; an idle one wakes up five times meanwhile


class ClockWatch:
    """Detects that the machine slept or that the clock was set, by comparing two clocks from step to step.

    The wall clock goes on during suspend and jumps when it is set; the monotonic clock does neither (on Linux it stops
    during suspend). If they disagree about the length of a step, timers and watches cannot be trusted.
    """

    def __init__(self) -> None:
        self._previous: tuple[float, float] | None = None

    def step(self, wall: float, monotonic: float) -> float | None:
        """Return the seconds by which the wall clock jumped since the last step (negative: set back), or None.

        Each jump is reported once. The first step only remembers.
        """
        previous, self._previous = self._previous, (wall, monotonic)
        if previous is None:
            return None
        jump = (wall - previous[0]) - (monotonic - previous[1])
        return jump if abs(jump) > CORRECTION_S else None


class MountWatch:
    """Notices mounts and unmounts, which cause no event of a file: the kernel marks its table of them as changed.
    `table`: its descriptor, which `select` reports as exceptional; None where there is no such table."""

    def __init__(self) -> None:
        self.table: int | None = None
        with contextlib.suppress(OSError):
            self.table = os.open("/proc/self/mountinfo", os.O_RDONLY)
        self._mounts = self._read()

    def step(self) -> list[str]:
        """Return where something was mounted or unmounted since the last step."""
        before, self._mounts = self._mounts, self._read()
        return [_OCTAL.sub(lambda code: chr(int(code[1], 8)), point) for _, point in before ^ self._mounts]

    def _read(self) -> set[tuple[str, str]]:
        """Read the id and the place of each mount."""
        if self.table is None:
            return set()
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
            return {(words[0], words[4]) for words in map(str.split, table)}


class WarmUp:
    """Decides when to load what the first search would wait for: once, when no root is at work. Other programs do not
    delay it: the start took the machine for longer, and the wait would have no end. `due` is in monotonic seconds."""

    def __init__(self, ready: float) -> None:
        self.due = ready + WARM_UP_S

    def step(self, now: float, *, working: bool) -> bool:
        """Return True once, at the time to load."""
        if now < self.due:
            return False
        self.due = now + WARM_UP_S if working else NEVER
        return not working


class Liveness:
    """Detects threads that hang, by comparing their progress at successive checks. Work on a slow disk is no hang: it
    makes progress. The main thread makes the checks; the watcher has a probe of its own."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, float]] = {}

    def check(self, now: float, workers: Iterable[Worker], server: Server) -> str | None:
        """Return a message that names the threads that hang; None if none does. `now` is monotonic."""
        signs: dict[str, object] = {f"root {each.name}": each.progress for each in workers}
        signs["control socket"] = server.heartbeats
        server.request_heartbeat()
        self._seen = {name: self._latest(name, sign, now) for name, sign in signs.items()}
        stuck = [name for name, (_, since) in self._seen.items() if now - since > STUCK_S]
        return f"{', '.join(stuck)}: no progress for {STUCK_S:.0f} s" if stuck else None

    def _latest(self, name: str, sign: object, now: float) -> tuple[object, float]:
        """Return the progress of a thread, and the time of its last change."""
        before = self._seen.get(name)
        return before if before is not None and before[0] == sign else (sign, now)


def seconds_to_tick(wall: float) -> float:
    """Return the seconds until the next tick, just after a whole multiple of `TICK_S`: most jobs fall on these."""
    left = TICK_S - wall % TICK_S + TOGETHER_S / 10
    return left if left > TOGETHER_S else left + TICK_S


def whole_ticks(seconds: float) -> float:
    """Return the most whole ticks within these seconds, in seconds; if there is none, the seconds."""
    return seconds - seconds % TICK_S or seconds
