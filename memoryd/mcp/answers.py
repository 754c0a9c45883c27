"""What each tool gives back, as JSON schemas. Open: the daemon may tell more."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer"}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_URI: Schema = {"type": "string", "description": "The memory as a resource."}
_WHERE: dict[str, Schema] = {"root": _TEXT, "id": _TEXT, "uri": _URI}
_SUMMARY: dict[str, Schema] = {
    "path": {"type": "string", "description": "The file, relative to its root."},
    "line": {"type": ["integer", "null"]},
    "title": _MAYBE_TEXT,
    "type": _MAYBE_TEXT,
    "tags": _list(_TEXT),
    "archived": {"type": "boolean"},
    "layout": _MAYBE_TEXT,
}

SEARCH = _object(
    {
        "hits": _list(
            _object(
                _WHERE,
                {
                    **_SUMMARY,
                    "snippet": _TEXT,
                    "score": _NUMBER,
                    "why": {"type": "object", "description": "What the score is made of."},
                },
            )
        )
    },
    {
        "took_ms": _NUMBER,
        "fresh": {
            "type": "object",
            "description": "{root: {state, generation, lag_ms, withheld?}}: how current and how full.",
        },
        "embedding": {"type": "string", "description": "With max_tokens: the memories as one text, ready to use."},
        "tokens": {"type": "integer", "description": "How many tokens that is, about."},
    },
)

GET = _object(
    _WHERE,
    {
        **_SUMMARY,
        "memory": {"type": "object", "description": "As its agent wrote it; `text` where it is markdown."},
        "left_out": {**_list(_TEXT), "description": "Fields left out for their length (embeddings)."},
        "part": {"type": "string", "description": "With offset, instead of `memory`: some of its text."},
        "next_offset": {"type": "integer", "description": "Where the text goes on; absent at its end."},
    },
)

LIST = _object(
    {"memories": _list(_object(_WHERE, _SUMMARY))},
    {"next_cursor": {"type": "string", "description": "Give it as `cursor` for the next page; absent at the end."}},
)

CHANGED = _object(
    _WHERE,
    {
        "path": _SUMMARY["path"],
        "receipt": {"type": ["string", "null"], "description": "`memoryd undo RECEIPT` takes the change back."},
        "warnings": {"type": "array", "description": "What was stored and yet looks like a secret."},
    },
)

STATUS = _object(
    {
        "version": _TEXT,
        "roots": _list(
            _object(
                {"name": _TEXT, "layout": _MAYBE_TEXT, "state": _TEXT},
                {
                    "path": _TEXT,
                    "mode": _TEXT,
                    "reasons": _list(_TEXT),
                    "memories": _COUNT,
                    "archived": _COUNT,
                    "findings": {"type": "object", "description": "{error, warning, info}: numbers of findings."},
                    "limits": _list({"type": "object"}),
                    "lag_ms": {"type": ["number", "null"]},
                },
            )
        ),
    },
    {
        "pid": _COUNT,
        "uptime_s": _NUMBER,
        "missing": {**_list(_TEXT), "description": "Roots that this server was started for and that are not there."},
    },
)
