"""A memory between two layouts: what `convert` reads from one and stores in the other.

It exists only during a conversion, because the layouts share no field: each layout maps its own fields to the common
ones in `export`, and the common ones to its own in `draft`, beside the table of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct, field

from memoryd.core.records import JsonObject, NativeMemory, Record

_MAX_HEADLINE = 100  # characters
DEFAULT_NAME = "memories"  # of a topic or session, where the memory names none


class Portable(Struct, frozen=True):
    """A memory of one layout in terms of all. Times are in seconds since the epoch; an attribute that says nothing
    beyond a default of the layout is empty.

    `text` is what the agent wrote, never redacted or cut. `location` names topic, session or user, by the parameters of
    `add`. `details` are the native fields that no other attribute stands for.
    """

    text: str
    title: str = ""
    type: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    importance: float | None = None  # from 0 to 1
    confidence: float | None = None  # from 0 to 1
    created: float | None = None
    updated: float | None = None
    used: float | None = None
    uses: int = 0
    archived: bool = False
    owner: str = ""
    embedding: Sequence[float] | None = None
    location: Mapping[str, str] = field(default_factory=dict)
    details: NativeMemory = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The category, or else the type: what a layout with one of them stores there."""
        return self.category or self.type

    @property
    def headline(self) -> str:
        """The title, or else the first line of the text, at most 100 characters."""
        return self.title or self.text.strip().partition("\n")[0].strip()[:_MAX_HEADLINE].strip()

    @property
    def titled_text(self) -> str:
        """The text, below its title unless it contains that: for a layout without titles."""
        return self.text if self.title in self.text else f"{self.title}\n\n{self.text}"


class Draft(Struct, frozen=True):
    """A memory to store. `carried` names the attributes of `Portable` that it holds completely, `changes` says what of
    the rest is stored differently, by kind. `now` is the time given to the writer.

    If `location` is not valid, `fallback` is used. Two memories with the same `key` must not share a location.
    """

    memory: JsonObject
    carried: Collection[str]
    now: float
    location: Mapping[str, str] = field(default_factory=dict)
    fallback: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)


def export_record(record: Record, text: bytes) -> Portable:
    """Return a memory in terms of all layouts by its record alone: its fields are those that the record does not stand
    for. An id in the form of a path names its topic."""
    del text
    topic, _, subtopic = record.id.rpartition("/")
    return Portable(
        record.text,
        record.title,
        record.type,
        topic,
        record.tags,
        importance=record.weight,
        created=record.created,
        used=later(record.used, record.created),
        uses=record.uses,
        archived=record.archived,
        owner=record.owner,
        embedding=record.embedding,
        location={"topic": topic, "subtopic": subtopic} if topic else {},
        details=record.native,
    )


def _no_draft(memory: Portable, created: float) -> Draft:
    return Draft({}, (), created, changes={"read-only": memory.headline})


class Exchange(Struct, frozen=True):
    """The mapping of a layout.

    - `export(record, text)`: read a memory, whose bytes are `text`.
    - `outside(data)`: the fields or texts of a file that belong to no memory, by name; those that say nothing are left
      out.
    - `draft(memory, created)`: the memory to store, with the time it was created.

    Times are stored to `precision_s` seconds. `newest_first`: a new memory is stored above those of its file.
    `independent`: the memories of a file can all be planned on the content that has the first one.
    """

    export: Callable[[Record, bytes], Portable] = export_record
    outside: Callable[[bytes], NativeMemory] = lambda _: {}
    draft: Callable[[Portable, float], Draft] = _no_draft
    precision_s: float = 0.001
    newest_first: bool = False
    independent: bool = False


def details(native: NativeMemory, known: Mapping[str, Callable[[object], bool]]) -> JsonObject:
    """Return the fields that say something and are not known, or do not fit what is known of them."""
    return {
        key: value
        for key, value in native.items()
        if value not in (None, "", [], {}, False) and not (key in known and known[key](value))
    }


def later(stamp: object, created: float | None) -> float | None:
    """Return a time after the creation, else None."""
    after = isinstance(stamp, int | float) and stamp > (created or 0)
    return float(stamp) if after and isinstance(stamp, int | float) else None
