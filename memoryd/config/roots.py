"""Which directory a root means, what it is called, and that no two of them share a file.

This looks at the disk (links, files in the place of directories) and changes nothing there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

NAME_RULE = "letters, digits and . _ - + @, with / between parts, at most 64 characters, not beginning with -"

_PART = r"[\w.][\w.+@-]*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_UNFIT = re.compile(r"[^\w.+@-]+")

Complain = Callable[[int, str], None]  # (place in the list, what is wrong)


class Spot(NamedTuple):
    """Where one root lies. `where` names it in messages: a line of the file, or the command line."""

    path: str
    where: str


def read_name(value: object) -> str:
    """A name that can be typed in a shell and used as a relative path; ValueError says the rule."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > 64:
        raise ValueError(f"{value!r} is no name for a root; allowed: {NAME_RULE}")
    if {".", ".."} & set(value.split("/")):
        raise ValueError(f"{value!r} holds . or .. as a part; allowed: {NAME_RULE}")
    return value


def derive_name(path: str, taken: Iterable[str]) -> str:
    """The last parts of the path, as few as make it unique: `memories`, else `agents/memories`, ..."""
    used = set(taken)
    parts = [_UNFIT.sub("-", part).lstrip("-") for part in path.split("/")]
    parts = [part for part in parts if part.strip(".")] or ["root"]
    for count in range(1, len(parts) + 1):
        name = "/".join(parts[-count:])
        if name not in used and len(name) <= 64:
            return name
    base, number = parts[-1][:56], 2
    while f"{base}-{number}" in used:
        number += 1
    return f"{base}-{number}"


def expand(written: str, base: str | None) -> str:
    """The absolute path that is meant; `base` is what a relative one is relative to, if anything.

    ValueError where it is relative to nothing, or names a user that this machine does not know.
    """
    path = os.path.expanduser(written)
    if path.startswith("~"):
        raise ValueError(f"{written!r} names a home directory that this machine does not know")
    if not os.path.isabs(path):
        if base is None:
            raise ValueError(f"{written!r} is relative; allowed: an absolute path, or one that begins with ~/")
        path = os.path.join(base, path)
    return os.path.normpath(path) if ".." not in path.split("/") else path


def real_directory(path: str) -> str:
    """The path with all links resolved. It need not be there; ValueError when it is no directory."""
    try:
        real = os.path.realpath(path)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return real
    except NotADirectoryError:
        raise ValueError(f"{path!r} lies beneath a file; allowed: a directory") from None
    except PermissionError:
        return real  # it may be readable once the daemon runs; until then the root says why it is not
    except (OSError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be a directory: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISDIR(mode):
        kind = "a file" if stat.S_ISREG(mode) else "a pipe, socket or device"
        raise ValueError(f"{path!r} is {kind}; allowed: a directory")
    return real


def written_path(display: str, real: str) -> str:
    """The path as the user wrote it where it leads to the root: a link that is changed later is noticed."""
    written = os.path.abspath(os.path.expanduser(display))
    return written if os.path.realpath(written) == os.path.realpath(real) else real


def too_wide(path: str) -> str | None:
    """Why a directory is no memory store, whatever lies in it, unless somebody names its layout."""
    home = os.path.realpath(os.path.expanduser("~"))
    if path == home:
        return "is your home directory"
    if _beneath(home, path):
        return "holds home directories"
    programs = [os.path.realpath(os.path.join(home, name)) for name in (".claude", ".config")]
    return "holds the files of whole programs" if path in programs else None


def find_overlaps(spots: Sequence[Spot], state_dir: str, complain: Complain) -> None:
    """Complain of each root that is the same as, inside or around an earlier one or the state directory."""
    state = os.path.realpath(state_dir)
    state_chain = _chain(state)
    chains = [_chain(spot.path) for spot in spots]
    for place, spot in enumerate(spots):
        relation = _relation(spot.path, chains[place], state, state_chain)
        if relation:
            complain(place, f"{spot.path!r} is {relation} the state directory {state!r}; keep them apart")
        for earlier in range(place):
            other = spots[earlier]
            relation = _relation(spot.path, chains[place], other.path, chains[earlier])
            if relation:
                known = f"the root {other.path!r} ({other.where})"
                complain(place, f"{spot.path!r} is {relation} {known}; roots may not overlap")


def _relation(path: str, chain: list[_Identity], other: str, other_chain: list[_Identity]) -> str | None:
    if path == other or (chain[0] and chain[0] == other_chain[0]):
        return "the same directory as"
    if _beneath(path, other) or (other_chain[0] and other_chain[0] in chain):
        return "inside"
    if _beneath(other, path) or (chain[0] and chain[0] in other_chain):
        return "around"
    return None


def _beneath(path: str, other: str) -> bool:
    return path.startswith(other.rstrip("/") + "/")


_Identity = tuple[int, int] | None


def _chain(path: str) -> list[_Identity]:
    """Device and inode of a directory and of all above it, None where there is none to be had.

    This finds what names alone do not: bind mounts, and names that differ only in case.
    """
    chain: list[_Identity] = []
    while True:
        chain.append(_identity(path))
        above = os.path.dirname(path)
        if above == path:
            return chain
        path = above


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_ino else None
