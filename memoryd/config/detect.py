"""Where agents usually keep memories: a modest list of places, looked at once and never written to."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
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


# Where other programs keep theirs, with `*` for one name: looked at so that they can be called by their names.
OTHER_PLACES = (".claude/projects/*/memory", ".codex/memories", ".serena/memories/global")
OTHER_LOCAL_PLACES = ("memory-bank", ".serena", ".serena/memories", ".openclaw/workspace")


class Detected(NamedTuple):
    """A directory whose content has the shape of one layout, or (`layout` None) is another program's; `why` is a
    sentence for people."""

    path: str
    layout: str | None
    why: str


def looked_for(home: str, cwd: str | None = None) -> list[str]:
    """The places that `detect` looks at, in order, whether or not they are there."""
    places = [os.path.join(home, *place.split("/")) for place in HOME_PLACES]
    if cwd is not None:
        places += [os.path.join(cwd, *place.split("/")) for place in LOCAL_PLACES]
    return list(dict.fromkeys(places))


def detect(home: str, look: Callable[[str], tuple[str | None, str] | None], cwd: str | None = None) -> list[Detected]:
    """The known places whose content `look` has something to say of: a layout and what shows it, or None and whose
    store it is.

    Told by content alone: the folder names `memory` and `memories` are used by programs whose files
    memoryd does not know. One directory reached by two names counts once.
    """
    found: list[Detected] = []
    seen: set[str] = set()
    for place in (*looked_for(home, cwd), *_others(home, cwd)):
        real = os.path.realpath(place)
        if real in seen or not os.path.isdir(real):
            continue
        seen.add(real)
        told = look(real)
        if told is not None:
            found.append(Detected(place, *told))
    return found


def _others(home: str, cwd: str | None) -> Iterator[str]:
    for place in OTHER_PLACES:
        yield from sorted(glob.glob(os.path.join(glob.escape(home), place)))
    for place in OTHER_LOCAL_PLACES if cwd is not None else ():
        yield os.path.join(str(cwd), place)
