"""Types and JSON schemas of the arguments and results of the tools, made from the requests and results of the control
methods.

Agents read the schemas; the types check their arguments. Only the descriptions, and arguments that a method does not
have, are defined here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from memoryd.control.methods.memories import (
    AddRequest,
    GetRequest,
    GetResult,
    ListRequest,
    ListResult,
    MemoryRequest,
    SearchRequest,
    SearchResult,
    UpdateRequest,
)
from memoryd.control.methods.method_types import Param, Request, Result
from memoryd.control.methods.shared import RootsRequest
from memoryd.control.methods.status import StatusResult
from memoryd.control.parameters import name_hint
from memoryd.core.records import JsonObject
from memoryd.errors import UsageError

Schema = JsonObject

_MAX_RESULTS = 100  # memories in one result

# --- arguments


class Argument(NamedTuple):
    """One argument as described to an agent. `non_empty`: an empty text is refused; `maximum`: the largest number;
    `kind`: the type of an argument that the method does not have."""

    help: str
    required: bool = False
    non_empty: bool = False
    maximum: int | None = None
    kind: type[bool] | None = None


def _arguments(name: str, request: type[Request], described: Mapping[str, Argument]) -> type[Struct]:
    """Make the type of a tool's arguments: the described fields of the request, and arguments of the tool alone."""
    params = {param.name: param for param in request.params()}
    fields: list[tuple[str, Any, Any]] = []
    for field, argument in described.items():
        kind = argument.kind or _type(params[field], argument)
        meta = Meta(description=argument.help)
        if argument.required:
            fields.append((field, Annotated[kind, meta], msgspec.NODEFAULT))
        else:
            fields.append((field, Annotated[kind | UnsetType, meta], UNSET))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _type(param: Param, argument: Argument) -> Any:
    if param.choices:
        return Annotated[Literal[param.choices], Meta(extra_json_schema={"type": "string"})]
    match param.type:
        case "str":
            return Annotated[str, Meta(min_length=1)] if argument.non_empty else str
        case "int":
            return Annotated[int, Meta(ge=param.minimum, le=argument.maximum or param.maximum)]
        case "float":
            return Annotated[float, Meta(ge=param.minimum, le=param.maximum)]
        case "bool":
            return bool
        case "list":
            return list[str]
        case _:
            return JsonObject


_ROOT = Argument("The root (memory directory) by its name (default: all roots).")
_ONE_ROOT = Argument("The root of the memory, if several roots have the id.")
_ID = Argument("The id, as search_memories and list_memories return it.", required=True, non_empty=True)
_FILTERS = {
    "type": Argument("Only memories of this type, e.g. learning, task, decision."),
    "tags": Argument("Only memories that have all of these tags."),
    "since": Argument("Only memories since this date (2026-01-31, UTC), age (7d, 24h) or period (last week, in May)."),
    "until": Argument("Only memories up to this date or period, including its last day; the same forms as since."),
    "archived": Argument("true: archived memories too."),
    "user": Argument(
        "user-document: only this user's memories. Users are kept separate: if a root has several, none of their "
        "memories are shown unless one user is named here."
    ),
}
_SENSITIVE_WORDS = Argument(
    "true: store it even if it contains a word like 'key' or 'token'. Real secrets are refused all the same. Use it "
    "only if the text contains no secret value."
)

Search = _arguments(
    "Search",
    SearchRequest,
    {
        "query": Argument(
            "What to look for: words, a phrase, a name, an error message; any text. If all of it is in quotation "
            "marks, only memories with exactly this phrase, if there are any.",
            required=True,
            non_empty=True,
        ),
        "root": _ROOT,
        **_FILTERS,
        "mode": Argument("hybrid (default): by words and by meaning."),
        "rerank": Argument("minilm: rank the best 20 again with a better model, slower."),
        "min_score": Argument("Leave out results with a lower score (0 to 1); each result also has a confidence."),
        "limit": Argument("Maximum number of results (default 10).", maximum=_MAX_RESULTS),
        "max_tokens": Argument(
            "Return whole memories instead of snippets, best first, up to this many tokens in total."
        ),
    },
)
Get = _arguments(
    "Get",
    GetRequest,
    {
        "id": _ID,
        "root": _ONE_ROOT,
        "embedding": Argument("true: with the numbers of a stored embedding.", kind=bool),
        "offset": Argument(
            "For a very long memory: return its text from this character on; continue with next_offset."
        ),
    },
)
Listing = _arguments(
    "Listing",
    ListRequest,
    {
        "root": _ROOT,
        **_FILTERS,
        "limit": Argument("Maximum number of memories per page.", maximum=_MAX_RESULTS),
        "cursor": Argument("`next_cursor` of the previous page."),
    },
)
Add = _arguments(
    "Add",
    AddRequest,
    {
        "memory": Argument("", required=True),
        "root": Argument("Where to store it; required if there are several roots."),
        "topic": Argument("markdown-topics, required: the topic (a directory).", non_empty=True),
        "subtopic": Argument("markdown-topics, required: the subtopic (a file in it, without .md).", non_empty=True),
        "user": Argument("user-document, required: whose memory it is.", non_empty=True),
        "session": Argument(
            "session-files, required: the session id, YYYY-MM-DD-HH-MM-SS-session-name.", non_empty=True
        ),
        "allow_sensitive_words": _SENSITIVE_WORDS,
    },
)
Update = _arguments(
    "Update",
    UpdateRequest,
    {
        "id": _ID,
        "root": _ONE_ROOT,
        "changes": Argument(""),
        "allow_sensitive_words": _SENSITIVE_WORDS,
        "touch": Argument(
            "true: count it as used, so that upkeep keeps it longer (layouts with access statistics).", kind=bool
        ),
    },
)
Forget = _arguments("Forget", MemoryRequest, {"id": _ID, "root": _ONE_ROOT})
Status = _arguments("Status", RootsRequest, {"root": Argument("Only this root.")})


def arguments_schema(kind: type[Struct]) -> Schema:
    """Return the JSON schema of a tool's arguments without references."""
    schema = _schema_of(kind)
    schema["required"] = [field.name for field in msgspec.structs.fields(kind) if field.required]
    schema["additionalProperties"] = False
    for name, build in (("memory", _memory_schema), ("changes", _changes_schema)):
        if name in schema["properties"]:
            schema["properties"][name] = {"type": "object", **build()}
    return schema


def check_arguments(kind: type[Struct], given: Mapping[str, object]) -> JsonObject:
    """Return the arguments, converted to their types. Raises UsageError that names the first wrong argument, never its
    value.

    Some agents send null for omitted arguments, numbers as text, and objects and lists as JSON text: all are accepted.
    """
    properties = _schema_of(kind)["properties"]
    for name in given:
        if name not in properties:
            fields = next((each for each in ("memory", "changes") if each in properties), None)
            misplaced = fields is not None and name in field_schemas()
            hint = f"give the fields of the memory in `{fields}`" if misplaced else name_hint(name, properties)
            raise UsageError("unknown argument", hint=hint)
    values = {name: _unpacked(value, properties[name]) for name, value in given.items() if value is not None}
    try:
        checked: JsonObject = msgspec.to_builtins(msgspec.convert(values, kind, strict=False))
    except msgspec.ValidationError as error:
        raise UsageError(_reason(error, properties)) from None
    return checked


def _unpacked(value: object, schema: Schema) -> object:
    if not isinstance(value, str) or schema.get("type") not in ("object", "array"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _reason(error: msgspec.ValidationError, properties: Mapping[str, Schema]) -> str:
    """Return msgspec's message; the one that quotes a value is replaced."""
    text = str(error)
    if text.startswith("Invalid enum value"):
        name = text.rpartition("`$.")[2].rstrip("`")  # "Invalid enum value 'fuzzy' - at `$.mode`"
        return f"`{name}` is one of {', '.join(properties[name]['enum'])}"
    return text.replace("$.", "")


# --- the fields of a memory, by layout

_TEXT, _NUMBER, _OBJECT = {"type": "string"}, {"type": "number"}, {"type": "object"}
_FIELD_TYPES: Mapping[str, Mapping[str, object]] = {
    "text": _TEXT,
    "texts": {"type": "array", "items": _TEXT},
    "integer": {"type": "integer"},
    "number": _NUMBER,
    "numbers": {"type": "array", "items": _NUMBER},
    "object": _OBJECT,
    "objects": {"type": "array", "items": _OBJECT},
}


def _memory_schema() -> Schema:
    return {
        "description": "The fields of the memory, by the layout of its root (see memory_status). Other "
        "fields are kept as they are. Ids and times are set by memoryd.",
        "properties": field_schemas(),
        "additionalProperties": True,
    }


def _changes_schema() -> Schema:
    return {
        "description": "The fields to change, with their new values; null removes a field; all others stay. The same "
        "fields as in add_memory's `memory`.",
        "additionalProperties": True,
    }


def field_schemas() -> dict[str, dict[str, object]]:
    """Return the JSON schema of the fields of all layouts by name; the description says what each layout expects."""
    from memoryd.layouts.registry import LAYOUTS  # noqa: PLC0415 - loads every layout, for the list of tools only

    schemas: dict[str, dict[str, object]] = {}
    for name, layout in LAYOUTS.items():
        for field, spec in layout.fields.items():
            schema = schemas.setdefault(field, {**_FIELD_TYPES[spec.type], "description": ""})
            schema["type"] = _either(schema["type"], _FIELD_TYPES[spec.type]["type"])
            required = ", required" if spec.required else ""
            schema["description"] = f"{schema['description']} {name}{required}: {spec.help}.".lstrip()
    return schemas


def _either(one: object, other: object) -> object:
    """Return the JSON schema type that allows both."""
    listed = one if isinstance(one, list) else [one]
    return one if other in listed else [*listed, other]


# --- results; other members are allowed, because the daemon may return more

_URI: Schema = {"type": "string", "description": "The memory as a resource."}
_WHERE = ("root", "id", "uri")
# The fields of a root that `memory_status` returns.
ROOT_FIELDS = (
    "name", "path", "layout", "mode", "state", "reasons", "memories", "archived", "findings", "limits", "lag_ms",
)  # fmt: skip


def answer_schema(result: type[Result]) -> Schema:
    """Return the JSON schema of what a tool returns: the result of its method with a `uri` for each memory. Only
    members that are always there are required."""
    schema = _schema_of(result)
    members = schema["properties"]
    if result is StatusResult:
        rows = members["roots"]["items"]
        rows["properties"] = {name: rows["properties"][name] for name in ROOT_FIELDS}
        rows["required"] = ["name", "layout", "state"]
        kept_members = {name: members[name] for name in ("version", "roots", "pid", "uptime_s")}
        missing = {**_TEXTS, "description": "Roots that this server was started for and that are not there."}
        return {"type": "object", "properties": {**kept_members, "missing": missing}, "required": ["version", "roots"]}
    for rows in ("hits", "memories"):
        if result in (SearchResult, ListResult) and rows in members:
            members[rows] = {"type": "array", "items": _with_uri(members[rows]["items"])}
            return {"type": "object", "properties": members, "required": [rows]}
    if result is GetResult:
        del members["text"], members["errors"]  # the first is in `memory` too, the second is not for agents
        members["left_out"] = {**_TEXTS, "description": "Fields left out for their length (embeddings)."}
    return _with_uri(schema)


def _with_uri(row: Schema) -> Schema:
    return {"type": "object", "properties": {**row["properties"], "uri": _URI}, "required": list(_WHERE)}


_TEXTS: Schema = {"type": "array", "items": _TEXT}


def _schema_of(kind: type[Struct]) -> Schema:
    """Return the JSON schema of a type without references, docstrings and `required`: docstrings are for programmers,
    and another version of the daemon may return fewer members."""
    _, parts = msgspec.json.schema_components([kind])
    schema: Schema = _inlined(parts[kind.__name__], parts)
    return schema


def _inlined(schema: Any, parts: Mapping[str, Schema]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**_inlined(parts[name], parts), **{key: value for key, value in schema.items() if key != "$ref"}}
    if "properties" in schema:
        return {"type": "object", "properties": {k: _inlined(v, parts) for k, v in schema["properties"].items()}}
    inlined = {key: _inlined(value, parts) for key, value in schema.items() if key != "default"}
    kinds = inlined.pop("anyOf", None)
    return inlined if kinds is None else {**inlined, "type": [kind["type"] for kind in kinds]}
