"""Recognise the layout of a directory by its file names and the start of a few files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from memoryd.core.ignore import is_ignored
from memoryd.core.records import Role
from memoryd.core.secrets import redact
from memoryd.disk.tree import Tree
from memoryd.errors import DeniedError, UsageError
from memoryd.layouts.directory import HEAD_SIZE, Directory
from memoryd.layouts.foreign_stores import identify_store
from memoryd.layouts.registry import LAYOUTS, recognise
from memoryd.log import get_logger
from memoryd.store import Store

log = get_logger(__name__)

MAX_FILES = 20_000  # files; a larger directory is not a memory store but a home directory or a disk
_AUXILIARY_ROLES = (Role.BACKUP, Role.LOCK, Role.TEMP)  # files that do not make a store
_SUBDIRECTORIES = ("memories", "memory")  # subdirectories in which programs keep their store


class Recognition(Struct, frozen=True):
    """The result of recognising a directory.

    `matches`: each matching layout with the reason. `subdirectory`: a directory below that matches instead. `refusal`:
    why the directory was not examined. `known`: the program whose store it is, if no layout supports it.
    """

    matches: Mapping[str, str] = field(default_factory=dict)
    subdirectory: str | None = None
    refusal: str | None = None
    known: str | None = None

    @property
    def layout(self) -> str | None:
        """The only matching layout; None if there is none or more than one."""
        return next(iter(self.matches)) if len(self.matches) == 1 else None


class LayoutMismatch(NamedTuple):
    """The reason why the configured layout does not fit. `foreign`: the store belongs to another program, so nothing is
    written."""

    why: str
    foreign: bool = False


def recognise_layout(tree: Tree, ignore: tuple[str, ...] = ()) -> Recognition:
    """Recognise the layout of a directory. Raises OSError if it cannot be read."""
    directory = _directory(tree, ignore)
    if directory is None:
        return Recognition(refusal=f"contains more than {MAX_FILES:,} files")
    matches = {name: _printable(why) for name, why in recognise(directory).items()}
    candidates = () if matches else _SUBDIRECTORIES
    subdirectory = next((name for name in candidates if recognise(directory.within(name))), None)
    known = None if matches or subdirectory else identify_store(directory)
    return Recognition(matches, subdirectory, known=known)


def existing_directory(path: str, hint: str = "check the spelling; name an existing directory") -> str:
    """Return the real path of a directory that a person named. Raises UsageError if there is none (`hint` is what to do
    then), DeniedError if this user may not read it."""
    real = os.path.realpath(os.path.expanduser(path))
    try:
        os.stat(os.path.join(real, "."))
        os.scandir(real).close()
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist", hint=hint) from error
    except NotADirectoryError as error:
        raise UsageError(f"{path} is not a directory", hint="name the directory that contains the memories") from error
    except PermissionError as error:
        remedy = "run the command as a user who may, or correct the mode"
        raise DeniedError(f"{path} may not be read by this user", hint=remedy) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be used: {error.strerror}", hint="name an existing directory") from error
    return real


def unusable(recognised: Recognition) -> str:
    """Return why a directory without a recognised layout cannot be a root."""
    if recognised.refusal is not None:
        return recognised.refusal
    if recognised.known is not None:
        return f"looks like {recognised.known}; memoryd has no layout for it"
    if recognised.matches:
        return f"looks like {' and like '.join(recognised.matches)}"
    return "has the files of no layout"


def advice(path: str, recognised: Recognition) -> str:
    """Return what a person can do about a directory without a recognised layout."""
    if recognised.subdirectory is not None:
        return f"the memories are in {os.path.join(path, recognised.subdirectory)}; name that directory"
    if recognised.matches:
        return f"choose one with --layout: {', '.join(recognised.matches)}"
    if recognised.known is not None:
        return f"`memoryd root add {shlex.quote(path)} --layout notes` lets it be searched; nothing is written there"
    return "name the directory that contains the memories; `memoryd help layouts` describes the layouts"


def no_layout_reason(path: str, recognised: Recognition) -> str:
    """Return why no layout is used for the root at this path: none fits what is there, or more than one does."""
    if recognised.refusal is not None:
        skipped = f"{path} {recognised.refusal}, so layout detection was skipped"
        return f"{skipped}; name the memory directory itself, or its layout in the configuration"
    if recognised.known is not None:
        return f"looks like {recognised.known}; memoryd has no layout for it and changes nothing here"
    if recognised.subdirectory is not None:
        place = os.path.join(path, recognised.subdirectory)
        return f"the memories are in {place}; name that directory instead of this one"
    named = " or ".join(f'layout = "{name}"' for name in recognised.matches or LAYOUTS)
    if recognised.matches:
        shown = " and like ".join(f"{name} ({why})" for name, why in recognised.matches.items())
        return f"it looks like {shown}; name its layout in the configuration: {named}"
    left = "nothing in it has the shape of a layout, so it is left alone"
    return f"{left}; for a new store name its layout in the configuration: {named}"


def recognise_root(store: Store) -> Recognition:
    """Recognise the layout of a root. If exactly one matches, the store uses it from now on."""
    if store.too_wide is not None:
        return Recognition(refusal=store.too_wide)
    found = recognise_layout(store.tree, store.policy.ignore)
    if found.layout is not None:
        store.guess(found.layout, found.matches[found.layout])
        log.info("layout recognised", root=store.name, layout=found.layout, why=found.matches[found.layout])
    return found


def layout_mismatch(store: Store) -> LayoutMismatch | None:
    """Return why the configured layout does not fit the files of the root; None if it fits, or the root is empty.

    The search index must be current.
    """
    layout = store.layout
    if layout is None:
        return None
    harmless = layout.writer is None or not layout.reader.reads_any_text  # it writes nothing, or only what it can read
    if harmless and store.catalogue.has_records():
        return None
    directory = _directory(store.tree, store.policy.ignore)
    if directory is None or layout.reader.recognise(directory) is not None:
        return None
    known = identify_store(directory)
    if known is not None:
        return LayoutMismatch(
            f"looks like {known}; memoryd has no layout for it and changes nothing here", foreign=True
        )
    if store.catalogue.has_records():
        return None
    present = [
        path for path in directory.files if store.role(path) not in _AUXILIARY_ROLES and not path.startswith(".")
    ]
    layout_files = [path for path in present if _belongs_to_layout(store, path)]
    unread = [each.path for each in store.files().values() if each.units and each.path in layout_files]
    if not unread and (layout_files or not present):
        return None
    found = recognise_layout(store.tree, store.policy.ignore)
    other = f"; it looks like {' and like '.join(found.matches)}" if found.matches else ""
    below = f"; the memories are in {os.path.join(store.path, found.subdirectory)}" if found.subdirectory else ""
    what = "of its files can be read" if unread else "of the files here belongs to it"
    return LayoutMismatch(f"the layout {layout.name} does not fit: none {what}{other}{below}")


def _belongs_to_layout(store: Store, path: str) -> bool:
    role = store.role(path)
    if role is Role.SOURCE:
        return path in store.known_layout.reader.source_paths([path])
    return role in (Role.ARCHIVE, Role.INDEX)


def _directory(tree: Tree, ignore: tuple[str, ...]) -> Directory | None:
    """List a directory; return None if it has more than `MAX_FILES` files."""
    scan = tree.scan(lambda directory: is_ignored(f"{directory}/", ignore), MAX_FILES)
    if not scan.complete:
        return None

    def head(path: str) -> bytes:
        try:
            return tree.read_range(path, 0, HEAD_SIZE)
        except OSError:
            return b""  # an unreadable file counts as empty; the other files decide

    files = [path for path in scan.files if not is_ignored(path, ignore)]
    return Directory(files, (*scan.directories, *scan.skipped), head)


def _printable(why: str) -> str:
    """Make a reason safe to show: it contains names of files, which may hold anything."""
    return redact("".join(each if each.isprintable() else " " for each in why))
