"""Which layout a directory has, by what lies in it. Bounded: names are listed, and a few files are read, none of them
beyond its beginning."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from memoryd.core.records import Role
from memoryd.core.secrets import redact
from memoryd.core.skipping import skips
from memoryd.disk.tree import Tree
from memoryd.layouts import recognise
from memoryd.layouts.folder import HEAD, Folder
from memoryd.layouts.markdown_topics import MarkdownTopics
from memoryd.layouts.unsupported import known_store
from memoryd.store import Store

MOST = 20_000  # files of a directory whose layout is looked for: more are no memory store but a home or a disk
_BESIDE = (Role.BACKUP, Role.LOCK, Role.TEMP)  # left-overs that make no store
_BELOW = ("memories", "memory")  # where programs keep the store inside of their own directory


@dataclass(frozen=True, slots=True)
class Look:
    """`shapes`: each layout that fits, with what shows it. `meant` is the folder below that has one instead;
    `refused` says why nobody looks for one here, `known` whose store it is where no layout knows it."""

    shapes: Mapping[str, str] = field(default_factory=dict)
    meant: str | None = None
    refused: str | None = None
    known: str | None = None

    @property
    def layout(self) -> str | None:
        """The one that fits."""
        return next(iter(self.shapes)) if len(self.shapes) == 1 else None


class Misfit(NamedTuple):
    """`another`: it is the store of another program, so nothing is written in it."""

    why: str
    another: bool = False


def look_at(tree: Tree, ignore: tuple[str, ...] = ()) -> Look:
    """Raises OSError when the directory cannot be read."""
    folder = _folder(tree, ignore)
    if folder is None:
        return Look(refused=f"holds more than {MOST:,} files")
    shapes = {name: _sayable(why) for name, why in recognise(folder).items()}
    below = () if shapes else _BELOW
    meant = next((name for name in below if recognise(folder.within(name))), None)
    return Look(shapes, meant, known=None if shapes or meant else known_store(folder))


def misfit(store: Store) -> Misfit | None:
    """What speaks against the layout that was named, by what lies in the root; None where nothing does, as in an empty
    one. The catalogue must be up to date."""
    files = store.files().values()
    if any(each.records for each in files) and not isinstance(store.layout, MarkdownTopics):
        return None
    folder = _folder(store.tree, store.policy.ignore)
    if folder is None or store.layout is None or store.layout.recognises(folder) is not None:
        return None
    known = known_store(folder)
    if known is not None:
        return Misfit(f"looks like {known}; memoryd has no layout for it yet and leaves it alone", another=True)
    if any(each.records for each in files):
        return None
    present = [path for path in folder.files if store.role(path) not in _BESIDE and not path.startswith(".")]
    own = [path for path in present if _is_own(store, path)]
    unread = [each.path for each in files if each.units and each.path in own]
    if not unread and (own or not present):
        return None
    look = look_at(store.tree, store.policy.ignore)
    other = f"; it looks like {' and like '.join(look.shapes)}" if look.shapes else ""
    meant = f"; the memories lie in {os.path.join(store.path, look.meant)}" if look.meant else ""
    what = "of its files can be read" if unread else "of the files here belongs to it"
    return Misfit(f"the layout {store.layout.name} does not fit: none {what}{other}{meant}")


def _is_own(store: Store, path: str) -> bool:
    assert store.layout is not None
    role = store.role(path)
    return path in store.layout.live_paths([path]) if role is Role.SOURCE else role in (Role.ARCHIVE, Role.INDEX)


def _folder(tree: Tree, ignore: tuple[str, ...]) -> Folder | None:
    """None where it has more files than are looked through."""
    scan = tree.scan(lambda folder: skips(f"{folder}/", ignore), MOST)
    if not scan.whole:
        return None

    def head(path: str) -> bytes:
        try:
            return tree.read_range(path, 0, HEAD)
        except OSError:
            return b""  # what cannot be read shows nothing; whether that matters the rest decides

    files = [path for path in scan.files if not skips(path, ignore)]
    return Folder(files, (*scan.directories, *scan.skipped), head)


def _sayable(why: str) -> str:
    """It names files, and a name may hold anything."""
    return redact("".join(each if each.isprintable() else " " for each in why))
