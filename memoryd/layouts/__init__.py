"""Floor 2, pure: one module per on-disk layout behind one protocol. Text and time in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from memoryd.core.policy import Policy
from memoryd.layouts.base import Layout
from memoryd.layouts.folder import Folder
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


def recognise(folder: Folder) -> dict[str, str]:
    """The layouts whose shape the folder has, each with what shows it; exactly one is needed to tend it."""
    shown = {name: layout.recognises(folder) for name, layout in LAYOUTS.items()}
    return {name: why for name, why in shown.items() if why is not None}
