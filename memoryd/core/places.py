"""The places of memories in files, and the unique ids of memories that have the same id.

Some layouts store the id in the memory, so that a copied line or file has the id of another memory. Such memories get a
suffix that depends on their content alone: it is the same wherever they are, and is never written to a file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.core.records import Role
from memoryd.core.spans import Fingerprint


class Place(NamedTuple):
    """The location of a memory as last read: bytes `start` to `end` of the file with this fingerprint and digest.

    `recently_modified` as in `FileRow`. `archived`: the memory is marked as archived; its file may also be an archive.
    `id` is the id in the file, `content` a digest of its text, and `unique_id` the id with a suffix if other memories
    have the id too (see `with_unique_ids`).
    """

    path: str
    role: str
    start: int
    end: int
    line: int
    id: str
    archived: bool
    fingerprint: Fingerprint
    digest: str
    recently_modified: bool
    key: int
    content: str
    unique_id: str

    @property
    def is_shared(self) -> bool:
        """True if other memories have its id."""
        return self.unique_id != self.id

    def has_unique_id(self, identity: str) -> bool:
        """True if this is its unique id, or was while other memories had its id."""
        return identity == (self.unique_id if self.is_shared else with_suffix(self.id, self.content))

    @property
    def live(self) -> bool:
        """True if it is neither marked as archived nor in an archive file."""
        return self.role == Role.SOURCE and not self.archived


ID_SUFFIX = re.compile(r"~[0-9a-f]{6}(\.\d+)?")
"""The suffix that makes duplicate ids unique."""
_WITH_SUFFIX = re.compile(rf"(.*){ID_SUFFIX.pattern}", re.DOTALL)


def id_without_suffix(identity: str) -> str | None:
    """Return the id before the suffix that makes it unique; None if it has none."""
    match = _WITH_SUFFIX.fullmatch(identity)
    return match[1] if match else None


def with_suffix(identity: str, content: str) -> str:
    """Return the unique id of the first memory with this id and this digest of its content."""
    return f"{identity}~{content[:6]}"


def with_unique_ids(places: Sequence[Place]) -> list[Place]:
    """Set the unique ids of all places of one id: `~` and six digits of the content's digest if several memories have
    the id; of those with equal contents all but the first get `.2`, `.3`. A copy in an archive, as after a crash, is
    the same memory."""
    uses: Counter[str] = Counter()
    ids: dict[str, str] = {}
    marked: list[Place] = []
    for place in sorted(places, key=lambda each: (each.role == Role.ARCHIVE, each.path, each.start)):
        unique = ids.get(place.content) if place.role == Role.ARCHIVE else None
        if unique is None:
            base = with_suffix(place.id, place.content)
            uses[base] += 1
            unique = base if uses[base] == 1 else f"{base}.{uses[base]}"
        ids.setdefault(place.content, unique)
        marked.append(place._replace(unique_id=unique))
    if len({each.unique_id for each in marked}) == 1:
        return [each._replace(unique_id=each.id) for each in marked]
    return marked
