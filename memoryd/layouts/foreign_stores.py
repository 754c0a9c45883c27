"""Stores of other programs that memoryd can name but has no layout for; it leaves them alone."""

from __future__ import annotations

import re
from collections import Counter

from memoryd.layouts.directory import Directory, first_value

_BANK = frozenset(
    f"{name}.md"
    for name in (
        "projectbrief", "productContext", "activeContext", "systemPatterns", "techContext", "progress", "decisionLog",
    )
)  # fmt: skip
_DAY_NOTE = re.compile(r"(?:memory/)?\d{4}-\d{2}-\d{2}[^/]*\.md", re.ASCII)
_LINK = re.compile(rb"^[-*] \[[^\]\n]*\]\(([^)\n]+\.md)\)", re.MULTILINE)
_PERMALINK = re.compile(rb"\A---\r?\n(?:[^\n]*\n)*?permalink:", re.MULTILINE)
_GRAPH = ({"name", "entityType", "observations"}, {"from", "to", "relationType"})


def identify_store(directory: Directory) -> str | None:
    """Return a description of the store for people, or None if it is not recognised."""
    names = set(directory.files)
    if ".anthropic-memory-store" in names:
        return "a store of the Anthropic memory tool"
    if {"memory/history.jsonl", "memory/MEMORY.md"} <= names or {"history.jsonl", "MEMORY.md"} <= names:
        return "a nanobot workspace"
    if "raw_memories.md" in names and any(path.startswith("rollout_summaries/") for path in names):
        return "Codex memories"
    if any(map(_DAY_NOTE.fullmatch, names)) and ("SOUL.md" in names or {"AGENTS.md", "USER.md"} <= names):
        return "an OpenClaw workspace"
    if "project.yml" in names and any(path.startswith("memories/") and path.endswith(".md") for path in names):
        return "Serena memories"
    banks = Counter(path.rpartition("/")[0] for path in names if path.rpartition("/")[2] in _BANK)
    if any(count > 2 for count in banks.values()):
        return "a memory bank (projectbrief.md, activeContext.md, …)"
    return _identify_by_content(directory)


def _identify_by_content(directory: Directory) -> str | None:
    if "MEMORY.md" in directory.files:
        linked = {target.decode("utf-8", "replace") for target in _LINK.findall(directory.head("MEMORY.md"))}
        if linked & set(directory.files):
            notes = sum(path.endswith(".md") for path in directory.files) - 1
            return f"Claude Code auto memory (MEMORY.md and {notes} {'note' if notes == 1 else 'notes'})"
    if any(_is_graph(directory.head(path)) for path in directory.first(_may_be_graph)):
        return "an MCP knowledge graph (entities and relations, one per line)"
    if sum(_PERMALINK.match(directory.head(path)) is not None for path in directory.first(_is_note)) > 1:
        return "basic-memory notes (with permalinks)"
    return None


def _may_be_graph(path: str) -> bool:
    return "/" not in path and (path.endswith(".jsonl") or path == "memory.json")


def _is_note(path: str) -> bool:
    return path.endswith(".md")


def _is_graph(head: bytes) -> bool:
    values = [first_value(line) for line in head.splitlines()[:20] if line.strip()]
    matching = [value for value in values if isinstance(value, dict) and any(keys <= value.keys() for keys in _GRAPH)]
    return 2 * len(matching) > len(values)
