"""Read a misspelt word of a question as the nearest word that a memory has.

A word counts as misspelt if no memory has it in any form. A compound is read as the memories write it, as one word or
two (`wifi`, `wi-fi`). Any other word is read as one that differs by one letter (added, left out, replaced) or by two
neighbours that changed places; one that begins alike comes first. A common English word is left as it is: its meaning
is searched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from msgspec.structs import replace

from memoryd.core.index import IndexReader
from memoryd.core.query import Term
from memoryd.core.words import tokens
from memoryd.search.confidence import PUNCTUATION, Missing, spellings_in
from memoryd.search.embedding.static import is_common_word, words_within
from memoryd.search.periods import period_in
from memoryd.search.query_terms import MAX_CHARS, ParsedQuery, parse_query
from memoryd.search.ranking import Candidate
from memoryd.search.semantic import Question
from memoryd.search.stems import languages_of

MIN_LETTERS = 5  # shorter words have too many neighbours
MIN_LETTERS_ELSEWHERE = 6  # in a question in another language, of which no common words are known
_PERHAPS_ENGLISH = (languages_of(("the",)), languages_of(()))
MAX_COMPOUND = 100  # letters: each way to split a word is a column of a query
MIN_PART = 2  # letters of a part of a compound
MAX_CORRECTED = 3  # words of one question
_NAME = re.compile(r"[A-Za-z0-9]+")
WHY = "read_as"  # the member of `why`: each misspelt word with the word it is read as


class Reading(NamedTuple):
    """A question with its misspelt words replaced; `words` has each with its replacement."""

    question: Question
    words: Mapping[str, str]

    def explain(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Return the hits with the replaced words in their `why`."""
        if not self.words:
            return list(found)
        return [replace(each, why={**each.why, WHY: dict(self.words)}) for each in found]


def read_question(reader: IndexReader, question: Question, missing: Missing) -> Reading:
    """Replace the misspelt words among those that no memory has. If only an identifier is asked for, it is not
    misspelt, but it may be written in another way."""
    if not missing.words:
        return Reading(question, {})
    words = {**_joined(reader, question.query, missing.words), **_split(reader, question.query, missing.words)}
    wrong = [each for each in missing.words if each.isalpha() and each not in words]
    shortest = MIN_LETTERS if question.query.languages in _PERHAPS_ENGLISH else MIN_LETTERS_ELSEWHERE
    for word in () if missing.identifiers else wrong[:MAX_CORRECTED]:
        near = _parts(reader, word)
        if near is None and len(word) >= shortest and not is_common_word(word):
            near = _nearest(reader, word)
        if near is not None:
            words[word] = near
    if not words:
        return Reading(question, {})
    spellings = spellings_in(question.query.raw)
    words = {spellings.get(word, word): other for word, other in words.items()}
    query = replace(parse_query(with_replaced(question.query.raw, words)), forms=question.query.forms)
    period = period_in(query.raw[:MAX_CHARS], question.now)
    return Reading(replace(question, query=query, period=period), words)


def with_replaced(text: str, words: Mapping[str, str]) -> str:
    """Return the text with each of these words replaced."""
    text = unicodedata.normalize("NFC", text)
    if not words:
        return text
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
    return pattern.sub(lambda match: words.get(match.group().lower(), match.group()), text)


def _parts(reader: IndexReader, word: str) -> str | None:
    """Return the most frequent way to write a word as two: `wifi` as `wi-fi`; None if no memory has one."""
    if not 2 * MIN_PART <= len(word) <= MAX_COMPOUND:
        return None
    ways = [(word[:at], word[at:]) for at in range(MIN_PART, len(word) - MIN_PART + 1)]
    counts = reader.term_frequencies([Term(f"{one} {two}") for one, two in ways])
    count, (one, two) = max(zip(counts, ways, strict=True))
    return f"{one}-{two}" if count else None


def _joined(reader: IndexReader, query: ParsedQuery, missing: Sequence[str]) -> dict[str, str]:
    """Return the pieces such as `wi-fi` that memories have as one word."""
    pieces = [unicodedata.normalize("NFC", each).strip(PUNCTUATION) for each in query.pieces]
    found = {piece: "".join(tokens(piece)) for piece in pieces if "-" in piece or "_" in piece}
    asked = {piece: word for piece, word in found.items() if not {piece, *tokens(piece)}.isdisjoint(missing)}
    return {piece.lower(): asked[piece] for piece in _in_memories(reader, asked)}


def _split(reader: IndexReader, query: ParsedQuery, missing: Sequence[str]) -> dict[str, str]:
    """Return the words such as `maxPoolSize` or `PAY1234` that memories have as several words."""
    lacking = {each.lower() for each in missing}
    found = {word.lower(): word for piece in query.pieces for word in _NAME.findall(piece)}
    ways = {word: tokens(" ".join(words_within(name))) for word, name in found.items() if word in lacking}
    asked = {word: " ".join(parts) for word, parts in ways.items() if len(parts) > 1}
    return {word: "-".join(ways[word]) for word in _in_memories(reader, asked)}


def _in_memories(reader: IndexReader, asked: Mapping[str, str]) -> list[str]:
    """Return the keys of the words and phrases that any memory has."""
    counts = reader.term_frequencies([Term(each) for each in asked.values()]) if asked else []
    return [key for key, count in zip(asked, counts, strict=True) if count]


def _nearest(reader: IndexReader, word: str) -> str | None:
    """Return the most frequent word that differs by one letter; None if there is none."""
    near = words_near(reader, word) or _beginning_otherwise(reader, word)
    if not near:
        return None
    counts = reader.term_frequencies([Term(each) for each in near])
    count, _, best = max((count, -at, each) for at, (count, each) in enumerate(zip(counts, near, strict=True)))
    return best if count else None


def _beginning_otherwise(reader: IndexReader, word: str) -> list[str]:
    """Return the words that differ by their first letter, or by the first two, which changed places."""
    rest = word[1:]
    others = (
        rest,
        f"{rest[0]}{word[0]}{rest[1:]}",
        *(f"{letter}{end}" for letter in ascii_lowercase for end in (rest, word)),
    )
    return reader.known_words([each for each in others if each != word])


def words_near(reader: IndexReader, word: str) -> list[str]:
    """Return the words with the same first letter that differ by one letter, in order. A difference is in one half and
    leaves the other as it is, unless the two letters in the middle changed places."""
    half = len(word) // 2
    swapped = f"{word[: half - 1]}{word[half]}{word[half - 1]}{word[half + 1 :]}"
    alike = [
        *reader.words_beginning(word[:half]),
        *reader.words_beginning(word[0], word[half:]),
        *reader.known_words([swapped]),
    ]
    return sorted({each for each in alike if is_one_letter_apart(word, each)})


def is_one_letter_apart(one: str, other: str) -> bool:
    """True if one letter was added, left out or replaced, or two neighbours changed places."""
    if abs(len(one) - len(other)) > 1:
        return False
    short, long = sorted((one, other), key=len)
    at = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1] + short[at + 2 :]
    return one != other and (short[at + 1 :] == long[at + 1 :] or swapped == long[at:])
