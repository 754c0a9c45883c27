"""How far a hit can be trusted, and what no memory holds.

The limits were chosen with tests.bench.finding: nine of ten right first hits are at least `likely`, and most first hits
of questions that no memory answers are `weak`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from msgspec.structs import replace

from memoryd.core.index import IndexReader
from memoryd.core.query import Mode, Term
from memoryd.core.secrets import redact
from memoryd.core.vectors import agent_model
from memoryd.core.words import tokens
from memoryd.search.embedding import minilm
from memoryd.search.period_words import NUMBERS, time_words_in
from memoryd.search.periods import TIME_WORDS
from memoryd.search.query_terms import MAX_CHARS, ParsedQuery, inner_words
from memoryd.search.ranking import ALL, PHRASE, Candidate, score_of_words
from memoryd.search.semantic import EXACT, TEXT_POWER, TEXT_WEIGHT, without_name
from memoryd.search.snippets import REDACTED

Confidence = Literal["sure", "likely", "weak"]

# What a hit loses if no memory has a name that is asked for, or if it has the name, and no memory another word asked
# for (tests.bench.finding).
MISSING_NAME = 0.13
# What a hit by both searches loses if the question is dense, and gains if it has many words that say little. Of few and
# rare words, some memory always seems to be about them; an answer to a long sentence in plain words has few in common
# with it. Of values from 0.15 to 0.5 the one with which most questions without an answer have a weak first hit, while
# in each set of tests.bench.finding nine of ten right first hits are likely. A hit with every word of the question as
# written loses nothing.
DENSE = 0.4
# What a hit without a number of the question loses, which leaves it weak: turbine 17 does not answer for turbine 22.
WITHOUT_NUMBER = 1.0
MAX_WITH_NUMBER = 1_000  # memories; a number that more of them have is not looked for


class Limits(NamedTuple):
    """The lowest scores of hits that are likely, and sure."""

    likely: float
    sure: float


BY_TEXT, BY_MEANING, BY_BOTH = Limits(0.2, 0.5), Limits(0.38, 0.6), Limits(0.45, 0.6)
# With vectors of MiniLM, by which right hits have lower cosines; agents that store vectors of this size use it, too.
MINILM = (minilm.NAME, agent_model(minilm.SIZE))
BY_SENTENCES, BY_SENTENCES_AND_TEXT = Limits(0.25, 0.6), Limits(0.32, 0.6)
# Of the mean cosine of two embedders, to which the text adds half of what it adds to a score, and rare words nothing:
# that a memory is about the subject does not show that it answers (tests.bench.finding).
BY_RERANK = Limits(0.42, 0.6)

# Four or more letters and digits (`2FA` and `K8s` are words), or letters with signs that no sentence has: `0x80070422`,
# `CVE-2024-3094`, `parse_v7`, `a.b.c`, `/etc/hosts`, `https://example.org`, `ines@example.org`.
MAX_IDENTIFIER_CHARS = 100
PUNCTUATION = ".,;:!?\"'()[]`"  # around a word of a question
_IDENTIFIER = re.compile(
    r"(?=\S*\d)(?=\S*[^\W\d])\S{4,}|\S*\w_\w\S*|\w+(?:[.:/\\]\w+){2,}\S*"
    r"|(?:\w+:/|~|\.{1,2})?/\w\S*[/.]\S+|\w[\w.+-]*@[\w-]+\.\w\S*"
)
_NUMBER_AT_END = re.compile(r"[\W_]\d+$")
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_RUNS = re.compile(r"\d+|\D+")
_MEASURE = re.compile(r"\d+([.,]\d+)?(st|nd|rd|th|s|k|x|am|pm|h|min|ms|kg|g|km|cm|mm|m|l|kb|mb|gb|tb)", re.IGNORECASE)
_SPELT = {number: word for word, number in NUMBERS.items() if word.isalpha()} | {
    20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety",
}  # fmt: skip


class Missing(NamedTuple):
    """The words of a question that no memory has; whether one of them is a name; the identifiers among them if nothing
    else is asked for. `numbers`: for each number of the question, the keys of the memories with it."""

    words: tuple[str, ...] = ()
    name: bool = False
    identifiers: tuple[str, ...] = ()
    numbers: tuple[Collection[int], ...] = ()


def missing_words(reader: IndexReader, query: ParsedQuery, period: str = "") -> Missing:
    """Return the informative words of a query that no memory has in any form, without those that name a period."""
    named = frozenset(tokens(period))
    times = TIME_WORDS | named
    words = tuple(word for word in query.informative if word.text not in times)
    absent = [word for word, count in zip(words, reader.term_frequencies(words), strict=True) if not count]
    counts = reader.term_frequencies([query.form_of(word) for word in absent]) if absent else []
    lacking = [word.text for word, count in zip(absent, counts, strict=True) if not count]
    if lacking:
        elsewhere = time_words_in(query.raw[:MAX_CHARS])
        lacking = [word for word in lacking if word not in elsewhere]
    identifiers = [each for each in _missing_identifiers(reader, query) if not named.issuperset(tokens(each))]
    numbers = _with_numbers(reader, words, query)
    if not lacking and not identifiers:
        return Missing(numbers=numbers)
    parts = {part for piece in identifiers for part in tokens(piece)}
    names = frozenset(inner_words(query.raw[:MAX_CHARS], str.isupper))
    rest = [word for word in words if word.text not in parts]
    return Missing(
        (*(word for word in lacking if word not in parts), *identifiers),
        bool(identifiers) or any(word in names or _DIGIT.search(word) for word in lacking),
        tuple(identifiers) if len(rest) <= 1 else (),
        numbers,
    )


def _with_numbers(reader: IndexReader, words: Sequence[Term], query: ParsedQuery) -> tuple[Collection[int], ...]:
    """Return for each number among some words of a query the keys of the memories with it, however it is written."""
    if _DIGIT.search(query.raw) is None:
        return ()
    before = {word: last for last, word in pairwise(["", *(word.text for word in query.words)])}
    numbers = [_number(word.text, before[word.text]) for word in words if _DIGIT.search(word.text)]
    found = reader.keys_with(numbers, MAX_WITH_NUMBER) if numbers else ()
    return tuple(keys for keys in found if keys is not None)


def _number(word: str, before: str) -> Term:
    """Return a term for a number in any form: `9` is `09`, `nine` and after `gpt` also `gpt9`; `80th` is `80` and
    `eighty`, and `5gb` is `5 gb`."""
    runs = _RUNS.findall(word)
    forms = [" ".join(runs)] if len(runs) > 1 else [before + word]
    if runs[0].isdecimal():
        value = int(runs[0])
        forms += [str(value), f"0{value}", _SPELT.get(value, "")]
    return Term(word, forms=tuple(filter(None, forms)))


def without_secrets(words: Sequence[str], question: str) -> list[str]:
    """Return the words of a question for an answer, as they are written there but for capitals, with the mark of each
    secret in place of its words.

    The whole question is searched: a word alone may be half of a secret, or one only by the words around it.
    """
    spellings = spellings_in(question)
    written = [spellings.get(word, word) for word in words]
    redacted = redact(question)
    if redacted == question:
        return written
    rest = unicodedata.normalize("NFC", redacted.lower())
    shown = [word for word in written if word.lower() in rest]
    return shown if len(shown) == len(words) else [*shown, *dict.fromkeys(REDACTED.findall(redacted))]


def spellings_in(question: str) -> dict[str, str]:
    """Return the words of a question beyond ASCII, by the form in which the index has them: without accents and, of a
    script without spaces, as pairs of characters."""
    found: dict[str, str] = {}
    for word in () if question.isascii() else _WORD.findall(unicodedata.normalize("NFC", question.lower())):
        split = tokens(word)
        found |= {f"{one} {other}": one + other for one, other in pairwise(split)}
        if len(split) == 1:
            found[split[0]] = word
    return found


def _missing_identifiers(reader: IndexReader, query: ParsedQuery) -> list[str]:
    pieces = (piece.strip(PUNCTUATION) for piece in query.pieces)
    found = {
        piece: " ".join(tokens(piece))
        for piece in pieces
        if not piece.isalpha() and len(piece) <= MAX_IDENTIFIER_CHARS and _is_identifier(piece)
    }
    if not found:
        return []
    terms = [term for term in query.exact if term.text in found.values()]
    counts = dict(zip([term.text for term in terms], reader.term_frequencies(terms) if terms else [], strict=True))
    return [piece for piece, text in found.items() if counts.get(text) == 0]


def ends_with_number(identifier: str) -> bool:
    """True for `CVE-2024-3094` or `16.4.1`, but not for a hash, of which mostly the beginning is written."""
    return _NUMBER_AT_END.search(identifier) is not None


def _is_identifier(piece: str) -> bool:
    return _IDENTIFIER.fullmatch(piece) is not None and _MEASURE.fullmatch(piece) is None


def with_confidence(
    found: Sequence[Candidate], missing: Missing, mode: Mode, *, points: bool, density: float = 0.0
) -> list[Candidate]:
    """Return the hits with their confidence, by their scores in this mode. `density`: of the question."""
    return [_judged(each, missing, mode, points, density) for each in found]


def _judged(found: Candidate, missing: Missing, mode: Mode, points: bool, density: float) -> Candidate:
    limits, score, lost = _limits(found, mode), found.score, MISSING_NAME * missing.name
    if points and (words := score_of_words(found)) is not None:  # a word earns points however common it is
        limits, score = BY_TEXT, words
    elif found.why.get("named") and score < EXACT and not points:  # that it has the name does not show that it answers
        score, lost = without_name(found), MISSING_NAME * bool(missing.words)
    if any(found.key not in keys for keys in missing.numbers):
        lost = WITHOUT_NUMBER
    if limits is BY_BOTH and score < EXACT and found.why.get("match") != ALL.name:
        score -= DENSE * density
    confidence = _confidence(score - lost, limits, certain=not missing.words)
    return replace(found, confidence=confidence, lost=lost)


def confidence_of_rerank(found: Candidate, cosine: float) -> str:
    """Return the confidence of a hit that another embedder judges by this cosine; only one that was sure stays sure."""
    if found.why.get("match") == PHRASE.name:
        return found.confidence
    score = mean_cosine(found, cosine, 0.5) + TEXT_WEIGHT / 2 * found.text**TEXT_POWER - found.lost
    return _confidence(score, BY_RERANK, certain=found.confidence == "sure")


def mean_cosine(found: Candidate, cosine: float, share: float) -> float:
    """Return the mean of a cosine by another embedder, which has this share, and that of the search, if it compared
    vectors."""
    before = found.why.get("semantic")
    return share * cosine + (1 - share) * before["cosine"] if isinstance(before, dict) else cosine


def _confidence(score: float, limits: Limits, *, certain: bool) -> Confidence:
    if score < limits.likely:
        return "weak"
    return "sure" if score >= limits.sure and certain else "likely"


def _limits(found: Candidate, mode: Mode) -> Limits:
    """Return the limits of the search that found a hit: by text, or by vectors of MiniLM or of any other model."""
    semantic = found.why.get("semantic")
    if mode == "text" or isinstance(semantic, str):
        return BY_TEXT
    if isinstance(semantic, dict) and semantic["model"] in MINILM:
        return BY_SENTENCES_AND_TEXT if mode == "hybrid" else BY_SENTENCES
    return BY_BOTH if mode == "hybrid" else BY_MEANING
