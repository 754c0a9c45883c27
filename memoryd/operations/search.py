"""Search over roots: what is found, where it stands, why it is there, and how fresh the answer is.

No memory file is opened: everything comes from the catalogues, through readers that are lent for the time of a
question. Nothing here waits for a worker. Being found is no access.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from memoryd.catalogue import Catalogue
from memoryd.catalogue.rows import plain
from memoryd.catalogue.searching import FIELDS, Memory
from memoryd.core.asking import Filters, Mode
from memoryd.core.dates import iso
from memoryd.core.policy import Policy
from memoryd.log import get_logger
from memoryd.operations.prompting import pasted
from memoryd.search.asked import Asked as Words
from memoryd.search.candidates import Candidate
from memoryd.search.engine import Embedded, Engine, Question, Taste
from memoryd.search.explaining import Needle, fold, names, needles, snippet, spots
from memoryd.search.scoring import Points
from memoryd.search.semantic import Like

log = get_logger(__name__)

Found = TypeVar("Found")
LIMIT = 10  # hits, where no number is asked for
FOLLOWED = ("ok", "degraded", "read_only")  # states of a root whose changes are taken in as they come
BEHIND = ("paused", "scanning")


@dataclass(frozen=True, slots=True)
class Place:
    """One root as it is asked. `state` is that of the root's status, `lag_ms` the worker's."""

    name: str
    catalogue: Catalogue
    layout: str | None
    state: str
    generation: int
    lag_ms: int
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question. `user` names whose memories are meant where a layout keeps users apart; `max_tokens` asks for whole
    memories ready to paste. `like` stands in place of words; `but` is the one memory (root, key) that is left out."""

    query: str
    filters: Filters = field(default_factory=Filters)
    mode: Mode = "hybrid"
    limit: int = LIMIT
    max_tokens: int | None = None
    user: str | None = None
    like: Like | None = None
    but: tuple[str, int] | None = None


class Hit(NamedTuple):
    place: Place
    memory: Memory
    found: Candidate


EMBEDDED = Embedded()


def search(
    places: Sequence[Place], asked: Asked, *, now: float, clock: Callable[[], float], engine: Engine = EMBEDDED
) -> dict[str, Any]:
    """The result of `memory.search`: hits[{root, id, path, line, title, snippet, score, why, type, tags, created,
    archived, layout, owner?}], took_ms, fresh{NAME: {state, generation, lag_ms, withheld?}}, and with `max_tokens`
    `embedding` (text) and `tokens`. `now` is wall clock seconds, `clock` monotonic seconds."""
    began = clock()
    words = Words(plain(asked.query))
    fresh = {place.name: freshness(place) for place in places}
    hits: list[Hit] = []
    for place in places:
        hits += _found(place, asked, words, now, engine, fresh[place.name])
    hits.sort(key=lambda hit: (-round(hit.found.score, 6), hit.place.name))  # of equals in a root the engine decides
    hits = hits[: asked.limit]
    result: dict[str, Any] = {}
    if asked.max_tokens is not None:
        text, kept = pasted([(hit.place.name, hit.memory) for hit in hits], asked.max_tokens)
        hits = [hits[number] for number in kept]
        result = {"embedding": text, "tokens": -(-len(text) // 4)}
    sought = needles(words)
    shown = [_shown(hit, sought) for hit in hits]
    return {"hits": shown, **result, "took_ms": round((clock() - began) * 1000, 3), "fresh": fresh}


def freshness(place: Place) -> dict[str, Any]:
    """`fresh`: every change known of is in the answer; `stale`: some are not, or are not followed now; `unknown`: the
    root cannot be looked at, or is in doubt, so that only what was known before can be told."""
    state = "unknown"
    if place.state in FOLLOWED:
        state = "stale" if place.lag_ms else "fresh"
    elif place.state in BEHIND:
        state = "stale"
    return {"state": state, "generation": place.generation, "lag_ms": place.lag_ms}


def _found(place: Place, asked: Asked, words: Words, now: float, engine: Engine, fresh: dict[str, Any]) -> list[Hit]:
    def look(reader: Catalogue) -> list[Hit]:
        filters = of_one_user(reader, asked.filters, asked.user, fresh)
        if filters is None:
            return []
        limit = asked.limit + (asked.but is not None)
        question = Question(words, filters, asked.mode, limit, now, _taste(place), asked.like)
        found = [each for each in engine.find(reader, question) if (place.name, each.key) != asked.but]
        memories = reader.words.memories([each.key for each in found])
        return [Hit(place, memories[each.key], each) for each in found if each.key in memories]

    return looked(place, fresh, look)


def looked(place: Place, fresh: dict[str, Any], look: Callable[[Catalogue], list[Found]]) -> list[Found]:
    """What one state of a root's catalogue shows. Where it cannot be read (it is a cache, and may be damaged or gone at
    any time) the answer says so instead of failing for all roots."""
    try:
        with place.catalogue.reader() as reader, reader.words.snapshot():
            return look(reader)
    except sqlite3.DatabaseError as error:
        log.warning("catalogue_unreadable", root=place.name, reason=str(error))
        fresh |= {"state": "unknown", "withheld": "what is known of this root cannot be read just now"}
        return []


def of_one_user(reader: Catalogue, filters: Filters, user: str | None, fresh: dict[str, Any]) -> Filters | None:
    """Users are strictly apart: of a root with several nothing is told unless one is named; None means so."""
    owners = reader.words.owners()
    if not owners:
        return filters if user is None else None
    if user is not None:
        return replace(filters, owner=user)
    if len(owners) > 1:
        fresh["withheld"] = "memories of several users: name one with `user`"
        return None
    return filters


def _taste(place: Place) -> Taste:
    if place.layout != "markdown-topics":
        return Taste(fill=place.layout == "json-files")
    set_ = place.policy
    return Taste(
        Points(
            set_.score_keyword,
            set_.score_context,
            set_.score_tag,
            set_.score_recency,
            set_.score_decay,
            set_.score_uses,
        )
    )


def _shown(hit: Hit, sought: Sequence[Needle]) -> dict[str, Any]:
    memory, found = hit.memory, hit.found
    above = spots(sought, fold(f"{memory.title}\n{memory.labels}\n{memory.tags}"))
    titled = [spot for spot in above if spot[1] <= len(memory.title)]
    inside = spots(sought, fold(memory.body))
    there = (titled, len(above) > len(titled), inside)
    why = {
        "terms": names(sought, [*above, *inside]),
        "fields": [name for name, found_there in zip(FIELDS, there, strict=True) if found_there],
        **found.why,
    }
    shown = placed(hit.place, memory)
    shown["snippet"] = snippet(sought, inside, memory.body) or snippet(sought, titled, memory.title)
    shown["score"] = round(found.score, 6)
    shown["why"] = why
    return shown


def placed(place: Place, memory: Memory) -> dict[str, Any]:
    """What search and list tell of one memory."""
    owner = {"user": memory.owner} if memory.owner else {}
    return {
        "root": place.name,
        "id": memory.id,
        "path": memory.path,
        "line": memory.line,
        "title": memory.title,
        "type": memory.type,
        "tags": memory.tags.split("\n") if memory.tags else [],
        "created": iso(memory.created) if memory.created is not None else None,
        "archived": memory.archived,
        "layout": place.layout,
        **owner,
    }
