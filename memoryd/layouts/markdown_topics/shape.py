"""What tells the layout from changelogs, journals and documentation, whose headings are dated as well."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memoryd.layouts.folder import Folder
from memoryd.layouts.markdown_topics.blocks import outline
from memoryd.layouts.markdown_topics.checking import unquoted
from memoryd.layouts.markdown_topics.naming import ARCHIVE, INDEX, SUFFIX

_TITLE = re.compile(rb"#[ \t]+Memory Index[ \t]*", re.IGNORECASE)
_TOPICS = re.compile(rb"##[ \t]+Topics[ \t]*", re.IGNORECASE)
_LABEL = re.compile(rb"\*\*(Context|Problem|Solution|Code):\*\*")
_STORED = re.compile(rb"^\*Memory stored\b[^\n]*\*", re.MULTILINE | re.IGNORECASE)


def shape(folder: Folder) -> str | None:
    """An index of the known form, or topic files of whose entries most have the labels."""
    if "" in folder.marked:
        return None
    if INDEX in folder.files and is_index(folder.head(INDEX)):
        return f'{INDEX} has the headings "Memory Index" and "Topics"'
    return _labelled(folder)


def is_index(content: bytes) -> bool:
    headings = [line.text.rstrip(b"\r") for line in outline(content).walk() if not line.quoted]
    return any(map(_TITLE.fullmatch, headings)) and any(map(_TOPICS.fullmatch, headings))


def _labelled(folder: Folder) -> str | None:
    marked = tuple(f"{path}/" for path in folder.marked)
    inner = re.compile(r"(?:^|/)memor(?:y|ies)/")  # a store of its own in somebody's project: that one is meant

    def is_topic(path: str) -> bool:
        hidden = path.startswith((".", ARCHIVE)) or "/." in path
        return (
            "/" in path and path.endswith(SUFFIX) and not hidden and not (path.startswith(marked) or inner.search(path))
        )

    dated, fitting = 0, []
    for path in folder.first(is_topic):
        found = outline(folder.head(path))
        dated += len(found.sections)
        fitting += [f"{path}:{section.line}" for section in found.sections if _fits(unquoted(found, section))]
    return f"{fitting[0]} has the labels of a memory" if 2 * len(fitting) > dated else None


def _fits(pieces: Iterable[bytes]) -> bool:
    text = b"\n".join(pieces)
    return len(set(_LABEL.findall(text))) > 1 or _STORED.search(text) is not None
