"""Prefer memories of the time that a question asks about: of a period that it names, what holds now, or held at first.

A memory about the same subject replaces an older one, mostly in other words. So what held in a period in which nothing
was written about a subject is what was written last before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain

from msgspec.structs import replace

from memoryd.core.index import IndexReader, Memory
from memoryd.core.query import Filters
from memoryd.search.periods import TIME_WORDS, Period, Version
from memoryd.search.query_terms import ParsedQuery
from memoryd.search.ranking import ALL, PHRASE, Candidate, below, recency

IN_PERIOD = 0.3  # what is added to the score of a memory of the time that a question names, or that held then
# The share of its score that a memory of today gains if the question asks for what holds now. Of the memories about the
# subject of the best one, which replace each other in other words, the last one gains more, whenever it was written, or
# the first one if the question asks for that (tests.bench.finding, also with "now" after each question).
NEWEST, VERSION = 0.4, 1.3
MAX_OF_SUBJECT = 10  # memories; a word in more of them names no subject
MAX_OF_PAIR = 100  # memories; words in more of them name none even two at a time


def filters_within(period: Period, given: Filters) -> Filters:
    """Return the filters for those memories that are also of this period."""
    since = max((each for each in (given.since, period.since) if each is not None), default=None)
    until = min((each for each in (given.until, period.until) if each is not None), default=None)
    return replace(given, since=since, until=until)


def newest_first(
    reader: IndexReader, given: Filters, period: Period, found: Sequence[Candidate], limit: int
) -> list[Candidate]:
    """Return at most `limit` candidates: the newest memories of a period, then those that were found. Scores fall with
    age, so that several roots compare."""
    newest = reader.newest(filters_within(period, given), limit)
    known = {each.key for each in newest}
    end = period.until if period.until is not None else max((each.created or 0.0 for each in newest), default=0.0)
    why = {"period": str(period)}
    first = [Candidate(each.key, recency(each.created, end), why, confidence="likely") for each in newest]
    return [*first, *below([each for each in found if each.key not in known], first, limit)]


def prefer_times(
    reader: IndexReader,
    query: ParsedQuery,
    found: Sequence[Candidate],
    period: Period | None,
    version: Version | None,
    now: float,
) -> list[Candidate]:
    """Sort candidates again: those of the period, and those of the `version` that is asked for, before others unless
    these match much better. Their `why` tells what counted. `now` in seconds."""
    shared = _shared_words(reader, query, found)
    versions = _with_two(shared)
    subject = versions or _with_rarest(shared)
    memories = reader.memories([*{*(each.key for each in found), *subject}])
    held = _held_in(period, [memories[key] for key in versions if key in memories], found)
    best_version = max((each.score for each in found if each.key in versions), default=0.0)
    dates = [memories[key].created for key in subject if key in memories]
    last = max((each for each in dates if each is not None), default=now)
    explained: list[Candidate] = []
    for each in found:
        created = memories[each.key].created if each.key in memories else None
        why, score = dict(each.why), each.score
        if period is not None and period.contains(created):
            why["period"] = str(period)
        elif held is not None and each.key == held.key:
            why["held_in"] = str(period)
            score = best_version  # the others match no better: they did not hold then
        if version == "newest":
            worth, latest = (VERSION, last) if each.key in subject else (NEWEST, now)
            why["newest"] = round(worth * recency(created, latest), 4)
        elif version == "oldest" and each.key in subject and created is not None:
            why["oldest"] = round(VERSION * (1 - recency(created, last)), 4)
        explained.append(replace(each, score=score, why=why))
    ranked = weigh_times(explained, period=period is not None, version=version is not None)
    return sorted(ranked, key=lambda each: (-each.score, -each.key))


def weigh_times(found: Sequence[Candidate], *, period: bool, version: bool) -> list[Candidate]:
    """Return candidates with scores, 0..1, that count the times in their `why`: those of a period if the question names
    one, and how new or old they are if it asks for a version. The scores of several roots are comparable."""
    full = (1 + IN_PERIOD * period) * (1 + VERSION * version)
    return [replace(each, score=_with_time(each) / full) for each in found]


def is_of_period(found: Candidate) -> bool:
    """True if `prefer_times` preferred a candidate for the period that the question names."""
    return "period" in found.why or "held_in" in found.why


def version_worth(found: Candidate) -> float | None:
    """Return what a candidate gains for how new or old it is; None if the question asks for no version of it."""
    worth = found.why.get("newest", found.why.get("oldest"))
    return worth if isinstance(worth, float) else None


def _with_time(found: Candidate) -> float:
    return (found.score + IN_PERIOD * is_of_period(found)) * (1 + (version_worth(found) or 0.0))


def _held_in(period: Period | None, versions: Sequence[Memory], found: Sequence[Candidate]) -> Memory | None:
    """Return the version of a subject that held in a period in which none was written. None if a memory has all words
    of the question, also those that name the period."""
    if period is None or period.since is None or any(period.contains(each.created) for each in versions):
        return None
    if any(each.why.get("match") in (PHRASE.name, ALL.name) for each in found):
        return None
    before = [each for each in versions if each.created is not None and each.created < period.since]
    return max(before, key=lambda each: (each.created, each.key), default=None)


def _shared_words(reader: IndexReader, query: ParsedQuery, found: Sequence[Candidate]) -> list[Collection[int]]:
    """Return for each word of the question that the best candidate shares with few others the memories with it."""
    words = [query.form_of(word) for word in query.informative if word.text not in TIME_WORDS]
    if not words or not found:
        return []
    best = max(found, key=lambda each: each.score).key
    return [keys for keys in reader.keys_with(words, MAX_OF_PAIR) if keys is not None and best in keys]


def _with_two(shared: Sequence[Collection[int]]) -> Collection[int]:
    """Return the memories that share two words with the best one: they are about its subject."""
    counts = Counter(chain.from_iterable(shared))
    subject = {key for key, count in counts.items() if count > 1}
    return subject if len(subject) > 1 else ()


def _with_rarest(shared: Sequence[Collection[int]]) -> Collection[int]:
    """Return the memories with the rarest word that the best one shares with any; none if it is a common one."""
    return min((keys for keys in shared if 1 < len(keys) <= MAX_OF_SUBJECT), key=len, default=())
