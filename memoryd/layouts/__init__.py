"""Floor 2, pure: one module per on-disk layout behind one protocol. Text and time in, values out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from memoryd.core.policy import Policy
from memoryd.layouts.base import Layout
from memoryd.layouts.json_files import JsonFiles
from memoryd.layouts.jsonl_store import JsonlStore
from memoryd.layouts.markdown_topics import MarkdownTopics
from memoryd.layouts.session_files import SessionFiles
from memoryd.layouts.storing import Storing
from memoryd.layouts.user_document import UserDocument


class WholeLayout(Layout, Storing, Protocol):
    """Reading, upkeep and storing."""


_ALL: tuple[WholeLayout, ...] = (JsonFiles(), MarkdownTopics(), UserDocument(), SessionFiles(), JsonlStore())
LAYOUTS: Mapping[str, WholeLayout] = {layout.name: layout for layout in _ALL}


def configured(layout: WholeLayout | None, policy: Policy) -> WholeLayout | None:
    """The layout as the policy wants its files read."""
    if isinstance(layout, MarkdownTopics) and layout.sensitive_words != policy.sensitive_words:
        return MarkdownTopics(sensitive_words=policy.sensitive_words)
    return layout


def recognise(files: Collection[str], head: Callable[[str], bytes]) -> list[str]:
    """Names of the layouts whose shape the folder has; exactly one is needed to tend it.

    `files` are relative paths, `head(path)` gives the first kilobytes of one of them."""
    return [name for name, layout in LAYOUTS.items() if layout.recognises(files, head)]
