"""The stamps of a document set anew, in the form that is found in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from memoryd.core.json_elements import last, setting
from memoryd.core.text import Edit
from memoryd.layouts.one_document import decode
from memoryd.layouts.user_document.cutting import Taken
from memoryd.layouts.user_document.reading import STAMPS
from memoryd.layouts.user_document.stamps import like


def stamped(data: bytes, taken: Taken, now: float, keys: Collection[str]) -> Iterator[Edit]:
    """`updated_at` changes with every save, `last_deduplicated_at` with every run of that."""
    found = [last(taken.members, key) for key in STAMPS]
    written = [decode(member.value.of(data)) if member else None for member in found]
    example = next((each for each in written if isinstance(each, str)), None)
    stamp = json.dumps(like(example, now)).encode()
    for key in keys:
        yield setting(data, taken.members, taken.value.start, key, stamp)
