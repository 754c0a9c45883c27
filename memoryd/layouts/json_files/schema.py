"""One memory: which fields it has, what they mean for the index, and what a new one looks like.

Only a text `id` is required; every other field is optional, unknown ones are kept (real files have more than the
seed names, and the seed's own example fewer). A field of another type is told and read as if it were missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from memoryd.core.dates import parse_stamp
from memoryd.core.digest import sha256
from memoryd.core.secrets import headline
from memoryd.layouts.json_files.names import time_of

TYPES = ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")

# The server rewrites these on every read, so a change of nothing else is no change of the memory.
ACCESS_FIELDS = frozenset({"lastAccessed", "accessCount", "relevanceScore"})

_ID = re.compile(r"mem_([0-9]{1,15})_[0-9a-z]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


class Facts(NamedTuple):
    """`problems` names the fields of a wrong type; `values` are the facts of the record (plain JSON). `text` is the
    content, with the summary where the title does not say all of it."""

    id: str
    type: str
    archived: bool
    created: float
    used: float
    title: str
    tags: tuple[str, ...]
    values: dict[str, Any]
    problems: tuple[str, ...]
    text: str

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.values["entities"], self.type) if self.type else tuple(self.values["entities"])

    @property
    def weight(self) -> float:
        """By relevance, as the server sorts what it finds; its `confidence` says how sure a memory is, not what it
        is worth."""
        return float(min(max(self.values["relevance"], 0), 1))


def read_memory(native: Mapping[str, Any], path: str, mtime: float) -> Facts:
    """The corrected values of an object that has a text `id`. Never raises."""
    sound = {key: native[key] for key, fits in _FIELDS.items() if native.get(key) is not None and fits(native[key])}
    wrong = tuple(key for key in _FIELDS if native.get(key) is not None and key not in sound)
    created = _created(native["id"], sound, path, mtime)
    updated = _seconds(sound.get("lastUpdated"))
    tags = tuple(dict.fromkeys(map(clean, sound.get("tags", ()))))
    values = {
        "created": created,
        "timestamp": iso_ms(created),
        "version": sound.get("version", 1),
        "updated": updated,
        "relevance": sound.get("relevanceScore", 1),
        "access": sound.get("accessCount", 0),
        "tags": list(tags),
        "entities": list(dict.fromkeys(map(clean, sound.get("entities", ())))),
        "project": clean(sound.get("projectId", "")),
    }
    content, summary = clean(sound.get("content", "")), clean(sound.get("summary", ""))
    title = headline(summary or content)
    return Facts(
        clean(native["id"]),
        clean(sound.get("type", "")),
        sound.get("archived", False),
        created,
        max(created, updated or created, _seconds(sound.get("lastAccessed")) or created),
        title,
        tags,
        values,
        wrong,
        content if not summary or summary == title else f"{content}\n{summary}",
    )


def has_usual_id(identity: str) -> bool:
    """`mem_<epoch ms>_<base36>`."""
    return _ID.fullmatch(identity) is not None


def meaning(native: Mapping[str, Any], text: bytes) -> str:
    """A digest that stays equal while only access statistics, key order or white space change."""
    kept = {key: value for key, value in native.items() if key not in ACCESS_FIELDS}
    try:
        return sha256(msgspec.json.encode(kept, order="deterministic"))
    except (ValueError, OverflowError, RecursionError):
        return sha256(text)  # what cannot be written anew (lone surrogates) is compared as it stands


def clean(text: str) -> str:
    """Without lone surrogates, which JSON can name and UTF-8 cannot write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def iso_ms(seconds: float) -> str:
    """`2026-01-31T10:00:00.000Z`, as the server's JSON.stringify writes a date."""
    ms = min(max(round(seconds * 1000), _FIRST_MS), _LAST_MS)
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def render_new(fields: Mapping[str, Any], *, identity: str, created: float) -> bytes:
    """The file of a new memory: version 1, never used, full relevance, not archived, unless `fields` say otherwise; two
    spaces, no final newline. What it says comes first, then what the server counts, as that writes it."""
    stamp = fields.get("created", iso_ms(created))
    counted = {
        "id": identity,
        "version": 1,
        "created": stamp,
        "lastAccessed": stamp,
        "accessCount": 0,
        "relevanceScore": 1,
        "archived": False,
    }
    said = {key: value for key, value in fields.items() if key not in counted}
    return msgspec.json.format(msgspec.json.encode({**said, **counted, **fields}), indent=2)


def new_id(created: float, number: int) -> str:
    """`mem_1748681950340_nrs0enwdu` from the time and a random number, of which 46 bits are shown."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    shown = "".join(digits[number // 36**place % 36] for place in range(8, -1, -1))
    return f"mem_{round(created * 1000)}_{shown}"


def _created(identity: str, sound: Mapping[str, Any], path: str, mtime: float) -> float:
    """`created`, else the milliseconds in the id, else the name as local time of an unknown zone, else mtime."""
    stamped = _seconds(sound.get("created"))
    if stamped is not None:
        return stamped
    match = _ID.fullmatch(identity)
    if match and int(match[1]) <= _LAST_MS:
        return int(match[1]) / 1000
    named = time_of(path)
    return named if named is not None else mtime


def _seconds(value: object) -> float | None:
    stamp = parse_stamp(value)
    return stamp.seconds if stamp else None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_stamp(value: object) -> bool:
    return parse_stamp(value) is not None


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def is_number(value: object) -> bool:
    """Finite, and whole ones only where every JSON reader still counts exactly."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**53
    return isinstance(value, float) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and is_number(value) and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_FIELDS: Mapping[str, Callable[[object], bool]] = {
    "content": _is_text,
    "summary": _is_text,
    "type": _is_text,
    "confidence": is_number,
    "tags": _is_texts,
    "entities": _is_texts,
    "version": _is_count,
    "created": _is_stamp,
    "lastAccessed": _is_stamp,
    "lastUpdated": _is_stamp,
    "accessCount": _is_count,
    "relevanceScore": is_number,
    "archived": _is_flag,
    "projectId": _is_text,
}
