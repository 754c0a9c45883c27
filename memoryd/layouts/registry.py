"""The list of all layouts.

Every command needs the names, so a layout is imported only when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memoryd.core.defaults import Limit
    from memoryd.layouts.directory import Directory
    from memoryd.layouts.protocol import Layout

# The layout `some-name` is the value SOME_NAME of the module `memoryd.layouts.some_name`.
NAMES = (
    "json-files",
    "markdown-topics",
    "user-document",
    "session-files",
    "jsonl-store",
    "notes",
)
LAYOUT_CHOICES = ("auto", *NAMES)  # what a user may name: a layout, or that it is to be recognised


class _Layouts(Mapping[str, "Layout"]):
    def __getitem__(self, name: str) -> Layout:
        if name not in NAMES:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


LAYOUTS: Mapping[str, Layout] = _Layouts()


@cache
def _load(name: str) -> Layout:
    module = name.replace("-", "_")
    layout: Layout = getattr(import_module(f"memoryd.layouts.{module}"), module.upper())
    return layout


def known_limits() -> dict[str, Limit]:
    """Return the default limit of each file, by path, over all layouts."""
    return {path: limit for each in LAYOUTS.values() for path, limit in each.files.limits.items()}


def recognise(directory: Directory) -> dict[str, str]:
    """Return each layout that the directory may have, with the evidence for it. The layout of a root is detected only
    if there is exactly one."""
    evidence = {name: layout.reader.recognise(directory) for name, layout in LAYOUTS.items()}
    return {name: why for name, why in evidence.items() if why is not None}
