"""What tells the layout from other folders of JSON files."""

from __future__ import annotations

from memoryd.layouts.folder import Folder
from memoryd.layouts.json_files import names
from memoryd.layouts.json_files.schema import TYPES


def shape(folder: Folder) -> str | None:
    """An index with a map of files and a list by time, or a memory file that holds a memory."""
    index = folder.json(names.INDEX) if names.INDEX in folder.files else None
    if is_index(index):
        return f"{names.INDEX} has a fileIndex and a temporalIndex"
    return next((f"{path} holds a memory" for path in folder.first(names.is_memory) if _is_memory(folder, path)), None)


def is_index(content: object) -> bool:
    if not isinstance(content, dict):
        return False
    return isinstance(content.get("fileIndex"), dict) and isinstance(content.get("temporalIndex"), list)


def _is_memory(folder: Folder, path: str) -> bool:
    native = folder.json(path)
    if not isinstance(native, dict) or not all(isinstance(native.get(key), str) for key in ("id", "content")):
        return False
    return "summary" in native or "confidence" in native or native.get("type") in TYPES
