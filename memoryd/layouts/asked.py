"""What somebody asks to have stored or changed, held against rules, and written as JSON.

Shared by the layouts whose memories are JSON objects. A refusal names fields and rules and never a value: what was
refused may be the very thing that must not be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.secrets import redact
from memoryd.errors import InvalidMemoryError, UsageError

_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_NAME = 80  # characters of a field's name that are shown


class Breach(NamedTuple):
    """One rule that a field breaks, worded so that "FIELD: RULE" is a sentence of what is right."""

    field: str
    rule: str


class Rule(NamedTuple):
    """`told` says what `fits` asks for."""

    fits: Callable[[Any], bool]
    told: str


def refuse(breaches: Iterable[Breach], hint: str = "nothing was stored; mend the fields named") -> None:
    """Raises InvalidMemoryError, naming the first and listing all, when there is any."""
    found = list(dict.fromkeys(Breach(_shown(breach.field), breach.rule) for breach in breaches))
    if not found:
        return
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    findings = [breach._asdict() for breach in found]
    message = f"{found[0].field}: {found[0].rule}{more}"
    raise InvalidMemoryError(message, hint=hint, data={"findings": findings})


def broken(rules: Mapping[str, Rule], native: Mapping[str, Any], fields: Collection[str]) -> Iterator[Breach]:
    """Those of `fields` whose value in `native` does not fit its rule; a field that is not there breaks none."""
    for field, rule in rules.items():
        if field in fields and field in native and not rule.fits(native[field]):
            yield Breach(field, rule.told)


def unwritable(native: Mapping[Any, Any]) -> Iterator[Breach]:
    """Fields that no JSON text in UTF-8 can hold: NaN, half surrogates, what is no JSON at all, bottomless nests."""
    if written(native) is not None:
        return
    for key, value in native.items():
        if not isinstance(key, str):
            yield Breach(str(type(key).__name__), "the name of a field is a text")
        elif written({key: value}) is None:
            yield Breach(_shown(key), "is a JSON value that UTF-8 can write")


def written(native: Mapping[Any, Any]) -> bytes | None:
    """`compact`; None where `unwritable` tells why not."""
    if not all(isinstance(key, str) for key in native):
        return None
    try:
        return compact(native)
    except (TypeError, ValueError, RecursionError):
        return None


def _shown(field: str) -> str:
    return redact(field.encode("utf-8", "replace").decode("utf-8"))[:_NAME]


def place(where: Mapping[str, str], layout: str, wanted: str = "") -> str:
    """The one place that means something in this layout, "" where none is wanted; raises UsageError for any other,
    and where the wanted one is missing."""
    given = {key: value for key, value in where.items() if value}
    other = next((key for key in given if key != wanted), None)
    if other is not None:
        raise UsageError(f"{other}: means nothing in a root of the layout {layout}")
    if wanted and wanted not in given:
        raise UsageError(f"{wanted}: is missing; the layout {layout} needs it")
    return given.get(wanted, "")


def differing(native: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What of `changes` is not so already; None stands for a field that goes."""

    def is_so(key: str, value: Any) -> bool:
        if value is None or key not in native:
            return value is None and key not in native
        return json.dumps(native[key]) == json.dumps(value)  # Python holds True and 1 for equal

    return {key: value for key, value in changes.items() if not is_so(key, value)}


def changed(native: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The memory as it is after the changes."""
    return {key: value for key, value in {**native, **changes}.items() if value is not None or key not in changes}


def compact(value: Any) -> bytes:
    """Minified and unescaped. Raises TypeError, ValueError or RecursionError for what `unwritable` names."""
    return _COMPACT.encode(value).encode()


def beside(value: Any, lead: bytes) -> bytes:
    """Written as its neighbours are: over several lines where `lead`, the white space before the first member of the
    object, begins a line; then two spaces deeper each."""
    if b"\n" not in lead:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2).encode()
    return text.replace(b"\n", b"\n" + lead.rpartition(b"\n")[2])


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    """A whole number from 0 to where every JSON reader still counts exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def is_zoned_stamp(value: Any) -> bool:
    stamp = parse_stamp(value)
    return stamp is not None and stamp.zoned


STAMP = Rule(is_zoned_stamp, "is a time in ISO 8601 form with its zone")
FLAG = Rule(is_flag, "is true or false")
COUNT = Rule(is_count, "is a whole number of 0 or more")
TEXTS = Rule(is_texts, "is a list of texts")
