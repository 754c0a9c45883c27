"""Modes of new files and directories in a shared store: that of the siblings, or else that of the root.

The daemon's umask excludes other users, which is right for its own files. In a store shared with a group or with all
users, an agent of another user could then neither read a new memory nor write into a new directory.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from memoryd.disk.tree import Tree

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700
_OTHERS = 0o077
_MAX_SIBLINGS = 64  # siblings that are examined; a directory may contain any number


def shared_file_mode(tree: Tree, path: str) -> int:
    """Return the mode for a new file in an existing directory: the most common one of siblings with its suffix."""
    directory, ending = path.rpartition("/")[0], os.path.splitext(path)[1]
    if not tree.mode_of(directory) & _OTHERS:
        return PRIVATE_FILE

    def alike(entry: os.DirEntry[str]) -> bool:
        return entry.name.endswith(ending) and entry.is_file(follow_symlinks=False)

    return _most_common_mode(tree, directory, alike) & 0o666 | PRIVATE_FILE


def shared_directory_mode(tree: Tree, path: str) -> int:
    """Return the mode for a directory just created, or about to be: the most common one of its siblings."""
    parent, _, name = path.rpartition("/")
    if not tree.mode_of(parent) & _OTHERS:
        return PRIVATE_DIRECTORY

    def alike(entry: os.DirEntry[str]) -> bool:
        return entry.name != name and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)

    return _most_common_mode(tree, parent, alike) & 0o777 | PRIVATE_DIRECTORY


def _most_common_mode(tree: Tree, directory: str, alike: Callable[[os.DirEntry[str]], bool]) -> int:
    fd = tree.open_directory(directory)
    try:
        with os.scandir(fd) as entries:
            modes = Counter(_modes(entries, alike))
    finally:
        os.close(fd)
    return modes.most_common(1)[0][0] if modes else tree.mode_of("")


def _modes(entries: Iterator[os.DirEntry[str]], alike: Callable[[os.DirEntry[str]], bool]) -> Iterator[int]:
    for entry in islice(filter(alike, entries), _MAX_SIBLINGS):
        with suppress(FileNotFoundError):  # removed meanwhile
            yield stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
