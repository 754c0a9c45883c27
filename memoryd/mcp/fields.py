"""The fields of a memory, layout by layout, as an agent is told them. The daemon checks them; unknown ones are kept."""

from __future__ import annotations

from typing import Any

_STRINGS = {"type": "array", "items": {"type": "string"}}

_FIELDS: dict[str, Any] = {
    "content": {
        "type": "string",
        "description": "The memory itself. jsonl-store (at most 5000 characters), json-files, session-files, "
        "user-document: required.",
    },
    "title": {
        "type": "string",
        "description": "markdown-topics: the title of the entry. session-files: required, at most 100 characters.",
    },
    "type": {
        "type": "string",
        "description": "jsonl-store, required: core, learning or task. json-files: free. session-files, required: "
        "decision, insight, learning, correction, commitment, pattern_seed, workflow_note, gap, …",
    },
    "category": {
        "type": "string",
        "description": "jsonl-store (at most 50 characters), user-document: free. session-files: code, system, "
        "technical, data, workflow, task, …",
    },
    "tags": {**_STRINGS, "description": "jsonl-store (at most 10, each at most 30 characters), json-files."},
    "importance": {
        "type": ["string", "number"],
        "description": "jsonl-store: high, medium or low. user-document: a number from 0 to 1.",
    },
    "task_metadata": {
        "type": "object",
        "description": "jsonl-store, type task: {status: in-progress | blocked | completed, blockers?: [text], "
        "completed_at?: ISO time, outcome?: text}.",
    },
    "summary": {"type": "string", "description": "json-files: one line."},
    "confidence": {"type": "number", "description": "json-files: from 0 to 1."},
    "entities": {**_STRINGS, "description": "json-files: the names it is about."},
    "context": {"type": "string", "description": "markdown-topics: when this applies."},
    "problem": {"type": "string", "description": "markdown-topics: what was wrong."},
    "solution": {"type": "string", "description": "markdown-topics: what helped."},
    "code": {"type": "string", "description": "markdown-topics: an example."},
    "date": {"type": "string", "description": "markdown-topics: YYYY-MM-DD; today where it is left out."},
    "text": {
        "type": "string",
        "description": "markdown-topics: a whole entry, beginning with `## YYYY-MM-DD: Title`, instead of the fields.",
    },
    "confidence_score": {"type": "integer", "description": "session-files: 50 to 100."},
    "source_chunk": {
        "type": "string",
        "description": "session-files: the exchange, with **User:** and **Assistant:**.",
    },
    "reasoning": {"type": "string", "description": "session-files: why."},
    "related_entities": {
        "type": "array",
        "items": {"type": "object"},
        "description": "session-files: [{type, raw, slug: text or null, resolved: bool}].",
    },
    "topics": {**_STRINGS, "description": "user-document."},
    "embedding": {
        "type": "array",
        "items": {"type": "number"},
        "description": "user-document: of the size of the file's others; made by memoryd where it has a model of it.",
    },
}

MEMORY: dict[str, Any] = {
    "description": "The fields of the memory, by the layout of its root (memory_status tells the layout). Other fields "
    "are kept as they are. Ids and times are set by memoryd.",
    "properties": _FIELDS,
    "additionalProperties": True,
}

CHANGES: dict[str, Any] = {
    "description": "The fields to change, with their new values; null takes a field away; all others stay. The same "
    "fields as in add_memory's `memory`.",
    "additionalProperties": True,
}
