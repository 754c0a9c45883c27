"""Floor 2, pure: one module per on-disk layout behind one protocol. Text and time in, values out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from memoryd.layouts.base import Layout
from memoryd.layouts.jsonl_store import JsonlStore

LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in (JsonlStore(),)}


def recognise(files: Collection[str], head: Callable[[str], bytes]) -> list[str]:
    """Names of the layouts whose shape the folder has; exactly one is needed to tend it.

    `files` are relative paths, `head(path)` gives the first kilobytes of one of them."""
    return [name for name, layout in LAYOUTS.items() if layout.recognises(files, head)]
