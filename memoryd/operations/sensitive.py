"""May this be stored? Asked first, over every text of the memory, and never answered with what was found.

Unmistakable tokens are refused everywhere. Topic files are held against their seed's own list too, of which the five
general words can be lifted. What only its surroundings show to be a secret is stored, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from memoryd.core.plan import Action, Kind
from memoryd.core.records import Base
from memoryd.core.secrets import SUGGESTION, VIOLATION, Judgement, judge, redact
from memoryd.core.text import splice
from memoryd.errors import SensitiveError
from memoryd.layouts.storing import Stored, StoringView
from memoryd.operations.second_opinion import second_opinion
from memoryd.store import Store

BY_THE_SEED = ("markdown-topics",)  # layouts whose seed has a list of its own
SHORT = 200  # characters; a secret that is the whole value of a field is no longer
_COMMON, _MOST_CLEAN = 24, 512  # characters of a text, and of its name, that is remembered as clean; such texts

_clean: set[tuple[str, str, str, bool]] = set()  # names, types, tags: the same ones come with every memory


class _Text(NamedTuple):
    """A string of the memory, the name it stands under, and whether it is such a name itself."""

    text: str
    name: str
    is_name: bool = False


def require_storable(
    store: Store, memory: Mapping[str, Any], *, where: Mapping[str, str] | None = None, allow_words: bool = False
) -> tuple[str, ...]:
    """Warnings for what may be stored; SensitiveError, naming the field and the pattern, for what may not. `where` are
    the names of its place, which files and folders get, and with them every list and log."""
    mode = _mode(store)
    warnings: dict[str, None] = {}
    names = ((field, _Text(name, "", is_name=True)) for field, name in (where or {}).items())
    texts = ((field, found) for field, value in memory.items() for found in _texts(field, value))
    for field, found in chain(names, texts):
        blocked, patterns = _judged(found, mode, allow_words, second=store.policy.secrets_second_opinion)
        if blocked is not None:
            data = {"field": redact(str(field)), "pattern": blocked}
            raise SensitiveError(VIOLATION, hint=SUGGESTION, data=data)
        for pattern in patterns:
            warnings[f"{redact(str(field))}: looks like a secret ({pattern}); it was stored all the same"] = None
    return tuple(warnings)


def require_storable_entry(store: Store, view: StoringView, stored: Stored, *, allow_words: bool = False) -> Stored:
    """`stored` again, where the entry may stand in its file as it will: with labels made of names of fields, numbers,
    and what an update leaves. Only where the seed judges whole entries; SensitiveError where it may not."""
    assert store.layout is not None
    if store.layout.name not in BY_THE_SEED or (mode := _mode(store)) == "off":
        return stored
    for action in stored.plan.actions:
        if action.copy or action.path != stored.path:
            continue
        blocked = judge(_entry(store, view, action, stored.id), mode, allow_words).blocked
        if blocked is not None:
            raise SensitiveError(VIOLATION, hint=SUGGESTION, data={"field": "the whole entry", "pattern": blocked})
    return stored


def _entry(store: Store, view: StoringView, action: Action, identity: str) -> str:
    """The text of the memory as the action leaves it; all of the file where the layout finds no such memory there."""
    assert store.layout is not None
    before = view.content(action.path) or b""
    after = action.data if action.kind is Kind.CREATE else splice(before, action.edits)
    document = store.layout.parse(action.path, after, now=view.now, mtime=view.now, base=Base())
    span = next((record.span for record in document.records if record.id == identity), None)
    return (after if span is None else span.of(after)).decode("utf-8", "replace")


def _mode(store: Store) -> str:
    assert store.layout is not None
    return store.policy.secrets or ("seed" if store.layout.name in BY_THE_SEED else "shapes")


def _judged(found: _Text, mode: str, allow_words: bool, *, second: bool) -> Judgement:
    """Names of fields are no texts, and `key` is a good name; but a token in one is a token."""
    if mode == "off":
        return Judgement(None)
    blocked, warned = _looked_at(found.text, found.name, "shapes" if found.is_name else mode, allow_words)
    if blocked is None and second:
        blocked, more = second_opinion(found.text)
        warned += more
    return Judgement(blocked, warned)


def _looked_at(text: str, name: str, mode: str, allow_words: bool) -> Judgement:
    """By itself, and where it is short beside the name it stands under."""
    asked = text, name, mode, allow_words
    if asked in _clean:
        return Judgement(None)
    blocked, warned = judge(text, mode, allow_words)
    if blocked is None and mode == "seed":  # the name becomes text there: `**Name:** what it says`
        blocked = judge(f"**{name}:** {text}", mode, allow_words).blocked
    if len(text) <= SHORT:
        warned += judge(f"{name}: {text}", "shapes").warnings
    if max(len(text), len(name)) <= _COMMON and not blocked and not warned:
        if len(_clean) >= _MOST_CLEAN:
            _clean.clear()
        _clean.add(asked)
    return Judgement(blocked, warned)


def _texts(name: str, value: object) -> Iterator[_Text]:
    """Every string in it, however deep."""
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
