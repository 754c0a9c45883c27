"""May this be stored? Asked first, over every text of the memory, and never answered with what was found.

Unmistakable tokens are refused everywhere. Topic files are held against their seed's own list too, of which the five
general words can be lifted. What only looks like an assignment of a secret is stored, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.core.secrets import SUGGESTION, VIOLATION, check_sensitive, redact
from memoryd.errors import SensitiveError
from memoryd.store import Store

BY_THE_SEED = ("markdown-topics",)  # layouts whose seed has a list of its own


def require_storable(store: Store, memory: Mapping[str, Any], *, allow_words: bool = False) -> tuple[str, ...]:
    """Warnings for what may be stored; SensitiveError, naming the field and the pattern, for what may not."""
    assert store.layout is not None
    mode = store.policy.secrets or ("seed" if store.layout.name in BY_THE_SEED else "shapes")
    if mode == "off":
        return ()
    for name, value in memory.items():
        for text, is_name in _strings({name: value}):
            # Names of fields are no texts, and `key` is a good name; but a token in one is a token.
            pattern = check_sensitive(text, allow_words, "shapes" if is_name else mode)
            if pattern is not None:
                data = {"field": redact(str(name)), "pattern": pattern}
                raise SensitiveError(VIOLATION, hint=SUGGESTION, data=data)
    return ()


def _strings(value: object) -> Iterator[tuple[str, bool]]:
    """Every string in it, however deep, and whether it is the name of a field."""
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, str):
            yield found, False
        elif isinstance(found, Mapping):
            yield from ((str(key), True) for key in found)
            pending += found.values()
        elif isinstance(found, list | tuple):
            pending += found
