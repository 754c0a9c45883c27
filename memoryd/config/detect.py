"""Detection of memory directories in the usual places, for `memoryd init`: read once, never written."""

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


# The directories of other programs, with `*` for one name, so that `init` can name these programs.
OTHER_PLACES = (".claude/projects/*/memory", ".codex/memories", ".serena/memories/global")
OTHER_LOCAL_PLACES = ("memory-bank", ".serena", ".serena/memories", ".openclaw/workspace")


class Detected(NamedTuple):
    """A directory in the format of one layout, or with `layout` None that of another program; `why` is for people."""

    path: str
    layout: str | None
    why: str


def candidate_paths(home: str, cwd: str | None = None) -> list[str]:
    """List the paths that `detect` checks, in order, whether or not they exist."""
    places = [os.path.join(home, *place.split("/")) for place in HOME_PLACES]
    if cwd is not None:
        places += [os.path.join(cwd, *place.split("/")) for place in LOCAL_PLACES]
    return list(dict.fromkeys(places))


def detect(
    home: str, recognise: Callable[[str], tuple[str | None, str] | None], cwd: str | None = None
) -> list[Detected]:
    """Find memory directories in the usual places.

    `recognise` reads a directory and returns its layout and the reason, or None and the program it belongs to, or None
    if it is neither. Only content decides: programs whose files memoryd does not know also use the directory names
    `memory` and `memories`. A directory that is reached by two names counts once.
    """
    found: list[Detected] = []
    seen: set[str] = set()
    for place in (*candidate_paths(home, cwd), *_other_paths(home, cwd)):
        real = os.path.realpath(place)
        if real in seen or not os.path.isdir(real):
            continue
        seen.add(real)
        recognised = recognise(real)
        if recognised is not None:
            found.append(Detected(place, *recognised))
    return found


def _other_paths(home: str, cwd: str | None) -> Iterator[str]:
    for place in OTHER_PLACES:
        yield from sorted(glob.glob(os.path.join(glob.escape(home), place)))
    for place in OTHER_LOCAL_PLACES if cwd is not None else ():
        yield os.path.join(str(cwd), place)
