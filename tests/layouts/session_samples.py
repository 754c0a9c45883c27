"""Sessions as the Cursor Memory commands write them, for every test of that layout."""

from __future__ import annotations

import json
from typing import Any

CHUNK = "**User:** which one?\n**Assistant:** this one."
TWENTY = " ".join(f"word{chr(97 + n)}" for n in range(20))  # twenty different words, no number among them


def memory(title: str = "Use msgspec", content: str = "It is fast.", **fields: Any) -> dict[str, Any]:
    """A memory that fits the schema, in the seed's own order of keys; a field of None is left out."""
    made = {
        "type": "decision",
        "category": "technical",
        "title": title,
        "content": content,
        "source_chunk": CHUNK,
        "reasoning": "measured",
        "alternatives": [{"option": "json", "why_not": "slower"}],
        "selected_option": "msgspec",
        "confidence_score": 80,
        "related_entities": [{"type": "project", "raw": "memoryd", "slug": "memoryd", "resolved": True}],
        "tools_mentioned": ["pytest"],
        "urls_mentioned": ["https://example.org"],
        "target_agents": ["reviewer"],
    }
    return {key: value for key, value in {**made, **fields}.items() if value is not None}


def session(*memories: Any, name: str = "2026-01-30-14-30-00-fix-bug", **fields: Any) -> dict[str, Any]:
    stamp = f"{name[:10]}T{name[11:19].replace('-', ':')}Z"
    made = {
        "session_id": name,
        "timestamp": stamp,
        "last_updated": stamp,
        "extraction_count": 1,
        "memories": list(memories),
        "suggestions": [],
    }
    return {key: value for key, value in {**made, **fields}.items() if value is not None}


def text(native: Any) -> bytes:
    """As the program writes it: two spaces, unescaped, a final newline."""
    return json.dumps(native, indent=2, ensure_ascii=False).encode() + b"\n"


def path_of(name: str) -> str:
    return f"{name[:10]}/{name[11:]}.json"
