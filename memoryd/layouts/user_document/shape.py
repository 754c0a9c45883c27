"""What tells the layout: its path is rare, and its document has a list of memories."""

from __future__ import annotations

from memoryd.layouts.folder import Folder
from memoryd.layouts.user_document import reading


def shape(folder: Folder) -> str | None:
    for path in folder.first(lambda path: f"/{path}".endswith(f"/{reading.FILE}")):
        content = folder.json(path)
        if isinstance(content, dict) and isinstance(content.get("memories"), list):
            return f"{path} has a list of memories"
    return None
