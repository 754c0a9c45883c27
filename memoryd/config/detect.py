"""Where agents usually keep memories: a modest list of places, looked at once and never written to."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

# Beneath the home directory, then beneath the working directory.
HOME_PLACES = (
    ".claude/agents/memories",
    ".claude/memories",
    ".claude/memory",
    ".cursor/memories",
    ".cursor/memory",
    ".agents/memories",
    ".agents/memory",
)
LOCAL_PLACES = ("memories", "memory", ".claude/memory", ".cursor/memories", "data/memories")


class Detected(NamedTuple):
    """A directory whose content has the shape of one layout; `why` is a sentence for people."""

    path: str
    layout: str
    why: str


def looked_for(home: str, cwd: str | None = None) -> list[str]:
    """The places that `detect` looks at, in order, whether or not they are there."""
    places = [os.path.join(home, *place.split("/")) for place in HOME_PLACES]
    if cwd is not None:
        places += [os.path.join(cwd, *place.split("/")) for place in LOCAL_PLACES]
    return list(dict.fromkeys(places))


def detect(home: str, recognise: Callable[[str], str | None], cwd: str | None = None) -> list[Detected]:
    """The known places whose content `recognise` gives a layout for.

    Told by content alone: the folder names `memory` and `memories` are used by programs whose files
    memoryd does not know. One directory reached by two names counts once.
    """
    found: list[Detected] = []
    seen: set[str] = set()
    for place in looked_for(home, cwd):
        real = os.path.realpath(place)
        if real in seen or not os.path.isdir(real):
            continue
        seen.add(real)
        layout = recognise(real)
        if layout is not None:
            found.append(Detected(place, layout, f"its files have the shape of {layout}"))
    return found
