"""What each tool takes, as types: their JSON schema is what an agent reads, and its arguments are checked by them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from memoryd.control.parameters import nearest
from memoryd.errors import UsageError
from memoryd.mcp.fields import CHANGES, MEMORY

_MOST = 100

Count = Annotated[int, Meta(ge=1, le=_MOST)]
Offset = Annotated[int, Meta(ge=0)]
Tokens = Annotated[int, Meta(ge=1, le=100_000)]
Mode = Annotated[Literal["hybrid", "text", "semantic"], Meta(extra_json_schema={"type": "string"})]
Text = Annotated[str, Meta(min_length=1)]

Root = Annotated[str | UnsetType, Meta(description="The root (memory directory) by its name; left out: all of them.")]
OneRoot = Annotated[str | UnsetType, Meta(description="The root of the memory, where the id stands in several.")]
Type = Annotated[str | UnsetType, Meta(description="Only memories of this type, e.g. learning, task, decision.")]
Tags = Annotated[list[str] | UnsetType, Meta(description="Only memories that have every one of these tags.")]
Since = Annotated[str | UnsetType, Meta(description="Only memories since this date (2026-01-31) or age (7d, 24h).")]
Archived = Annotated[bool | UnsetType, Meta(description="true: archived memories too.")]
User = Annotated[
    str | UnsetType,
    Meta(
        description="user-document: only this user's memories. Users are kept apart: where there are several, none's "
        "are shown unless one is named here."
    ),
]
SensitiveWords = Annotated[
    bool | UnsetType,
    Meta(
        description="true: store although it contains a word like 'key' or 'token'. Never lifts the refusal of real "
        "secrets. Use it only when the text holds no secret value."
    ),
]
Id = Annotated[str, Meta(min_length=1, description="The id, as search_memories and list_memories give it.")]


class Arguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is not given stays unset."""


class Search(Arguments):
    query: Annotated[Text, Meta(description="What to look for: words, a phrase, a name, an error message; any text.")]
    root: Root = UNSET
    type: Type = UNSET
    tags: Tags = UNSET
    since: Since = UNSET
    archived: Archived = UNSET
    user: User = UNSET
    mode: Annotated[Mode | UnsetType, Meta(description="hybrid (default): by words and by meaning.")] = UNSET
    limit: Annotated[Count | UnsetType, Meta(description="At most so many memories (default 10).")] = UNSET
    max_tokens: Annotated[
        Tokens | UnsetType,
        Meta(description="Give whole memories instead of snippets, best first, of so many tokens together at most."),
    ] = UNSET


class Get(Arguments):
    id: Id
    root: OneRoot = UNSET
    embedding: Annotated[bool | UnsetType, Meta(description="true: with the numbers of a stored embedding.")] = UNSET
    offset: Annotated[
        Offset | UnsetType,
        Meta(description="For a very long memory: its text from this character on, then from each next_offset."),
    ] = UNSET


class Listing(Arguments):
    root: Root = UNSET
    type: Type = UNSET
    tags: Tags = UNSET
    since: Since = UNSET
    archived: Archived = UNSET
    user: User = UNSET
    limit: Annotated[Count | UnsetType, Meta(description="At most so many a page.")] = UNSET
    cursor: Annotated[str | UnsetType, Meta(description="`next_cursor` of the page before.")] = UNSET


class Add(Arguments):
    memory: Annotated[dict[str, Any], Meta(extra_json_schema=MEMORY)]
    root: Annotated[
        str | UnsetType, Meta(description="Where to store it; may be left out only where there is one root.")
    ] = UNSET
    topic: Annotated[Text | UnsetType, Meta(description="markdown-topics, required: the topic (a folder).")] = UNSET
    subtopic: Annotated[
        Text | UnsetType, Meta(description="markdown-topics, required: the subtopic (a file in it, without .md).")
    ] = UNSET
    user: Annotated[Text | UnsetType, Meta(description="user-document, required: whose memory it is.")] = UNSET
    session: Annotated[
        Text | UnsetType,
        Meta(description="session-files, required: the session id, YYYY-MM-DD-HH-MM-SS-session-name."),
    ] = UNSET
    allow_sensitive_words: SensitiveWords = UNSET


class Update(Arguments):
    id: Id
    root: OneRoot = UNSET
    changes: Annotated[dict[str, Any] | UnsetType, Meta(extra_json_schema=CHANGES)] = UNSET
    allow_sensitive_words: SensitiveWords = UNSET
    touch: Annotated[
        bool | UnsetType,
        Meta(description="true: count it as used, so that upkeep keeps it longer (layouts with access statistics)."),
    ] = UNSET


class Forget(Arguments):
    id: Id
    root: OneRoot = UNSET


class Status(Arguments):
    root: Annotated[str | UnsetType, Meta(description="Only this root.")] = UNSET


A = TypeVar("A", bound=Arguments)


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, in one piece."""
    _, parts = msgspec.json.schema_components([kind])
    made = dict(parts[kind.__name__])
    made.pop("title", None)
    made.pop("description", None)
    return made


def checked(kind: type[Arguments], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as given, of the right types. UsageError names the first that is wrong, never its value.

    Some agents send null for what they leave out, numbers as text, and objects and lists as JSON text: all three
    are taken for what they mean."""
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name in given:
        if name not in known:
            raise UsageError("there is an argument that this tool does not take", hint=nearest(name, known))
    meant = {name: _unpacked(value, schema(kind), name) for name, value in given.items() if value is not None}
    try:
        made: dict[str, Any] = msgspec.to_builtins(msgspec.convert(meant, kind, strict=False))
    except msgspec.ValidationError as error:
        raise UsageError(_reason(error, kind)) from None
    return made


def _unpacked(value: Any, whole: Mapping[str, Any], name: str) -> Any:
    if not isinstance(value, str) or whole["properties"][name].get("type") not in ("object", "array"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _reason(error: msgspec.ValidationError, kind: type[Arguments]) -> str:
    """What msgspec found; its one message that quotes a value is said in our words."""
    text = str(error)
    if text.startswith("Invalid enum value"):
        return f"`mode` is one of {', '.join(schema(kind)['properties']['mode']['enum'])}"
    return text.replace("$.", "")
