"""Redact tokens in the names, ids and messages of an answer, event or log record.

A file name or id may look like a token. It is needed unchanged to open the file, but must not be shown. Contents of
memories are redacted where they enter the search index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from operator import is_not
from typing import TypeVar

from msgspec import Struct, UnsetType, inspect
from msgspec.structs import replace

from memoryd.core.secrets.detect import redact_tokens

NAME_KEYS = frozenset(
    {"id", "ids", "path", "paths", "file", "files", "owner", "user", "gone", "changed", "suggested", "written"}
    | {"message", "hint", "reason", "reasons", "summary", "evidence", "why", "what", "withheld", "error"}
)
CONTENT_KEYS = frozenset({"memory", "text", "part", "diff"})  # requested content is returned unchanged
MAX_CACHED = 200  # characters
_PLAIN = (
    inspect.StrType, inspect.LiteralType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.NoneType,
)  # fmt: skip
_NO_TEXT = frozenset({bool, int, float, type(None), UnsetType})
_NO_NAMES = _NO_TEXT | {str}  # where the key is no name

Values = TypeVar("Values", bound=Struct | Mapping[str, object])

# The names of an answer mostly stood in an earlier one.
_redact_short = lru_cache(2048)(redact_tokens)


def redact_values(values: Values) -> Values:
    """Return the values with each token redacted in what is a name by its key; the same object if there is none."""
    redacted: Values = _redact("", values)  # type: ignore[assignment]  # a copy is of the type of its original
    return redacted


def _redact(key: str, value: object) -> object:
    if isinstance(value, str):
        return _redact_name(value) if key in NAME_KEYS else value
    if isinstance(value, (list, tuple)):
        if key not in NAME_KEYS and _NO_NAMES.issuperset(map(type, value)):
            return value
        items = [_redact(key, item) for item in value]
        return items if any(map(is_not, items, value)) else value
    if key in CONTENT_KEYS:
        return value
    if isinstance(value, Struct):
        changed = _changed_members([(name, getattr(value, name)) for name in _fields_with_names(type(value))])
        return replace(value, **changed) if changed else value
    if isinstance(value, (dict, Mapping)):  # a dict needs no slow check of its abstract class
        changed = _changed_members(value.items())
        return {**value, **changed} if changed else value
    return value


def _changed_members(members: Iterable[tuple[str, object]]) -> dict[str, object]:
    changed: dict[str, object] = {}
    for name, value in members:
        skipped = _NO_TEXT if name in NAME_KEYS else _NO_NAMES
        if type(value) not in skipped and (redacted := _redact(name, value)) is not value:
            changed[name] = redacted
    return changed


@cache
def _fields_with_names(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields that are names, or hold members that may be: the others need not be looked at."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return tuple(field.name for field in info.fields if field.name in NAME_KEYS or not _is_plain(field.type))


def _is_plain(kind: inspect.Type) -> bool:
    """True for text and numbers, and lists of them."""
    if isinstance(kind, inspect.Metadata):
        return _is_plain(kind.type)
    if isinstance(kind, inspect.UnionType):
        return all(map(_is_plain, kind.types))
    return _is_plain(kind.item_type) if isinstance(kind, inspect.ListType) else isinstance(kind, _PLAIN)


def _redact_name(name: str) -> str:
    return _redact_short(name) if len(name) <= MAX_CACHED else redact_tokens(name)
