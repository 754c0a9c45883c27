"""By which words a memory of a session is found, and what it is worth. Everything is read leniently: a member of
another type says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.layouts.one_document import sound, text_of
from memoryd.layouts.session_files.schema import HIGHEST, confidence


def said(native: Mapping[str, Any]) -> str:
    """All that a memory says beside its title: content, reason, what it was taken from, and the ways not taken."""
    texts = [text_of(native, key) for key in ("content", "reasoning", "source_chunk")]
    for each in _objects(native, "alternatives"):
        texts += (text_of(each, "option"), text_of(each, "why_not"))
    texts.append(text_of(native, "selected_option"))
    return "\n".join(filter(None, texts))


def tags(native: Mapping[str, Any]) -> tuple[str, ...]:
    """Tools named and entities recognised: the only ones a memory of this layout has."""
    slugs = (text_of(each, "slug") for each in _objects(native, "related_entities"))
    return tuple(dict.fromkeys(each for each in (*_texts(native, "tools_mentioned"), *slugs) if each))


def labels(native: Mapping[str, Any]) -> tuple[str, ...]:
    """Category, entities as found and as recognised, tools, addresses, and the agents it is meant for."""
    found = [text_of(native, "category")]
    for each in _objects(native, "related_entities"):
        found += (text_of(each, "raw"), text_of(each, "slug"))
    for key in ("tools_mentioned", "urls_mentioned", "target_agents"):
        found += _texts(native, key)
    return tuple(dict.fromkeys(filter(None, found)))


def worth(native: Mapping[str, Any]) -> float | None:
    """The confidence as a part of one; None where no number says it."""
    score = native.get("confidence_score")
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    return min(max(confidence(native) / HIGHEST, 0.0), 1.0)


def _texts(native: Mapping[str, Any], key: str) -> Iterator[str]:
    found = native.get(key)
    return (sound(each) for each in found if isinstance(each, str)) if isinstance(found, list) else iter(())


def _objects(native: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    found = native.get(key)
    return (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())
