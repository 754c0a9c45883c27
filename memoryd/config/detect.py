"""Detection of memory directories in the usual places and in a bounded tree, for `memoryd init`: nothing is written."""

from __future__ import annotations

import glob
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
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

MAX_DEPTH = 4  # levels below the directory that a walk starts from
MAX_DIRECTORIES = 5_000  # that a walk lists
STORE_NAMES = ("memory", "memories")
_HIDDEN_PLACES = (".claude/memory", ".claude/memories", ".cursor/memory", ".cursor/memories", ".agents/memories")
_TESTS = ("test", "tests", "fixtures")  # a store in one of these is data of a test, as in a clone of memoryd
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "target", "Library", *_TESTS})
_USERS = "__long-memories"  # beneath the directory of each user of a user-document
# The names of files and directories that a store of some layout may have; the content decides.
_TELLTALE = re.compile(r".*\.jsonl|_index\.json|memory_\d+\.json|MEMORY\.md|index\.md|\d{4}-\d\d-\d\d", re.ASCII)


class Detected(NamedTuple):
    """A directory in the format of one layout, or with `layout` None one that cannot be used; `why` and `hint` are for
    people."""

    path: str
    layout: str | None
    why: str
    hint: str = ""


class Walk(NamedTuple):
    """The directories of a tree that may be stores. `complete` is False if the tree has more directories than a walk
    lists; `unreadable` are those that could not be listed."""

    paths: list[str]
    complete: bool
    unreadable: list[str]


Recognise = Callable[[str], tuple[str | None, str] | tuple[str | None, str, str] | None]
"""Reads a directory: returns its layout and the reason; or None with the reason why it cannot be used, and what to do;
or None if there is nothing to say about it."""


def candidate_paths(home: str, cwd: str) -> list[str]:
    """List the paths that `detect` checks, in order, whether or not they exist."""
    places = [os.path.join(home, *place.split("/")) for place in HOME_PLACES]
    places += [os.path.join(cwd, *place.split("/")) for place in LOCAL_PLACES]
    return list(dict.fromkeys(places))


def detect(home: str, recognise: Recognise, cwd: str) -> list[Detected]:
    """Find memory directories in the usual places.

    Only content decides: programs whose files memoryd does not know also use the directory names `memory` and
    `memories`.
    """
    return examine((*candidate_paths(home, cwd), *_other_paths(home, cwd)), recognise)


def examine(places: Iterable[str], recognise: Recognise, named: Collection[str] = ()) -> list[Detected]:
    """Find memory directories among these paths. One that is reached by two names counts once. Roots may not overlap: a
    directory around an earlier store is left out, and so is one inside it that has the same layout; one of another
    layout is returned as not usable. Where one of the `named`, which nothing but a person's word makes a candidate,
    contains stores of its own layout and of others, those are used instead."""
    found: list[tuple[str, Detected]] = []
    seen: set[str] = set()
    stores: list[str] = []
    for place in places:
        real = os.path.realpath(place)
        if real in seen or not os.path.isdir(real) or any(_contains(real, store) for store in stores):
            continue
        seen.add(real)
        recognised = recognise(real)
        if recognised is None or (recognised[0] is None and any(_contains(store, real) for store in stores)):
            continue
        found.append((real, Detected(place, *recognised)))
        if recognised[0] is not None:
            stores.append(real)
    return list(_without_overlaps(found, named))


def _without_overlaps(found: list[tuple[str, Detected]], named: Collection[str]) -> Iterator[Detected]:
    """Yield what can be a root, and why the rest cannot. `found` has the real path of each directory."""
    while found:
        (real, place), *found = found
        inside = [each for each in found if place.layout is not None and _contains(real, each[0])]
        others = [each for _, each in inside if each.layout != place.layout]
        if others and place.path in named and len(others) < len(inside):
            why = f"looks like {place.layout} ({place.why}), but contains stores of other layouts"
            yield Detected(place.path, None, why, "roots may not overlap: the stores in it are used instead")
            continue
        yield place
        for each in others:
            why = f"looks like {each.layout} ({each.why}), but is inside {place.path}"
            yield Detected(
                each.path, None, why, f"roots may not overlap: move it out, or use it instead of {place.path}"
            )
        found = [each for each in found if each not in inside]


def walk(top: str, max_directories: int = MAX_DIRECTORIES) -> Walk:
    """List the directories at and below `top` that may be stores, the shallow ones first. Links and hidden directories
    are not entered, but the usual hidden places of each directory are listed."""
    paths: dict[str, None] = {}
    unreadable: list[str] = []
    queue, entered = deque([(top, 0)]), 0
    while queue and entered < max_directories:
        (directory, depth), entered = queue.popleft(), entered + 1
        try:
            with os.scandir(directory) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            unreadable.append(directory)
            continue
        if any(map(_TELLTALE.fullmatch, names)):
            paths[directory] = None
        if names.get(_USERS):
            paths[os.path.dirname(directory)] = None
        hidden = (place for place in _HIDDEN_PLACES if names.get(place.partition("/")[0]))
        paths |= dict.fromkeys(os.path.join(directory, place) for place in hidden)
        for name in sorted(name for name, is_directory in names.items() if is_directory):
            path = os.path.join(directory, name)
            if name in STORE_NAMES:
                paths[path] = None
            if depth < MAX_DEPTH and not name.startswith(".") and name not in _SKIPPED:
                queue.append((path, depth + 1))
    return Walk(sorted(paths, key=lambda path: path.count("/")), not queue, unreadable)


def _contains(path: str, other: str) -> bool:
    return f"{other}/".startswith(f"{path.rstrip('/')}/")


def _other_paths(home: str, cwd: str) -> Iterator[str]:
    for place in OTHER_PLACES:
        yield from sorted(glob.glob(os.path.join(glob.escape(home), place)))
    for place in OTHER_LOCAL_PLACES:
        yield os.path.join(cwd, place)
