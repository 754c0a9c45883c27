"""Which layout a directory has, by what lies in it. Bounded: names are listed, and a few files are read, none of them
beyond its beginning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memoryd.core.secrets import redact
from memoryd.core.skipping import skips
from memoryd.disk.tree import Tree
from memoryd.layouts import recognise
from memoryd.layouts.folder import HEAD, Folder

MOST = 20_000  # files of a directory whose layout is looked for: more are no memory store but a home or a disk
_BELOW = ("memories", "memory")  # where programs keep the store inside of their own directory


@dataclass(frozen=True, slots=True)
class Look:
    """`shapes`: each layout that fits, with what shows it. `meant` is the folder below that has one instead;
    `refused` says why nobody looks for one here."""

    shapes: Mapping[str, str] = field(default_factory=dict)
    meant: str | None = None
    refused: str | None = None

    @property
    def layout(self) -> str | None:
        """The one that fits."""
        return next(iter(self.shapes)) if len(self.shapes) == 1 else None


def look_at(tree: Tree, ignore: tuple[str, ...] = ()) -> Look:
    """Raises OSError when the directory cannot be read."""
    scan = tree.scan(lambda folder: skips(f"{folder}/", ignore), MOST)
    if not scan.whole:
        return Look(refused=f"holds more than {MOST:,} files")

    def head(path: str) -> bytes:
        try:
            return tree.read_range(path, 0, HEAD)
        except OSError:
            return b""  # what cannot be read shows nothing; whether that matters the rest decides

    files = [path for path in scan.files if not skips(path, ignore)]
    folder = Folder(files, (*scan.directories, *scan.skipped), head)
    shapes = {name: _sayable(why) for name, why in recognise(folder).items()}
    below = () if shapes else _BELOW
    return Look(shapes, next((name for name in below if recognise(folder.within(name))), None))


def _sayable(why: str) -> str:
    """It names files, and a name may hold anything."""
    return redact("".join(each if each.isprintable() else " " for each in why))
