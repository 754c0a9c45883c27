"""What tells the layout from other files that lie in folders of days."""

from __future__ import annotations

from memoryd.layouts.folder import Folder
from memoryd.layouts.session_files import naming


def shape(folder: Folder) -> str | None:
    return next((f"{path} holds a session" for path in folder.first(naming.session_path) if _fits(folder, path)), None)


def _fits(folder: Folder, path: str) -> bool:
    """A session with memories of a type and a title; one that has none must be named as its file is."""
    content, named = folder.json(path), naming.session_path(path)
    if not isinstance(content, dict) or not isinstance(content.get("session_id"), str) or named is None:
        return False
    memories = content.get("memories")
    if not isinstance(memories, list):
        return False
    if not memories:
        return bool(content["session_id"] == named.session)
    return 2 * sum(map(_is_memory, memories)) > len(memories)


def _is_memory(native: object) -> bool:
    return isinstance(native, dict) and all(isinstance(native.get(key), str) for key in ("type", "title"))
