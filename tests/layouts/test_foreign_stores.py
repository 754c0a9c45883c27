"""Stores of other programs are called by their names, and nothing else is."""

from __future__ import annotations

import pytest

from memoryd.layouts.foreign_stores import identify_store
from tests.layouts.contract import directory_of
from tests.lookalikes import DATA, DOCUMENTS, PROGRAMS, STORES

KNOWN = {
    "Claude Code": "Claude Code auto memory (MEMORY.md and 2 notes)",
    "OpenClaw": "an OpenClaw workspace",
    "knowledge graph": "an MCP knowledge graph (entities and relations, one per line)",
    "Serena": "Serena memories",
    "memory bank": "a memory bank (projectbrief.md, activeContext.md, …)",
    "basic-memory": "basic-memory notes (with permalinks)",
    "nanobot": "a nanobot workspace",
    "Codex": "Codex memories",
    "memory tool": "a store of the Anthropic memory tool",
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_known_program_is_named(name: str) -> None:
    assert identify_store(directory_of(PROGRAMS[name])) == KNOWN.get(name)


@pytest.mark.parametrize("name", sorted({**DOCUMENTS, **DATA}))
def test_no_other_directory_is_identified(name: str) -> None:
    assert identify_store(directory_of({**DOCUMENTS, **DATA}[name])) is None


@pytest.mark.parametrize("name", sorted(STORES))
def test_no_store_of_a_layout_is_called_so(name: str) -> None:
    assert identify_store(directory_of(STORES[name][1])) is None
