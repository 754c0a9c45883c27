"""Find the forms of a word: the words of the index that have its stem.

Stems are those of Snowball in English and in the language of the question (German, French, Spanish). Its function words
show the language; a question without any may be in each of them. Words in the index have no accents, so accents that
mark the ending of a verb are tried. In English, some related words with different stems match (`decide`, `decision`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from os.path import commonprefix
from typing import TYPE_CHECKING

from memoryd.core.query import Term
from memoryd.core.words import STOP_WORDS
from memoryd.errors import MemorydError

if TYPE_CHECKING:
    from Stemmer import Stemmer

    from memoryd.core.index import IndexReader

MIN_PREFIX = 4  # letters of a stem that is used as a prefix, which also finds compounds
MIN_WORD = 3
MAX_START = 4  # letters that all forms of a word begin with: `decide` and `decision` share four
MAX_ENDING = 8  # letters by which a form may be longer than the word
MAX_FORMS = 12  # of one word
MAX_CHANGED = 2  # letters at the end of a stem that its word does not have there: `tie` of `tying`
_UMLAUT = re.compile("[aou]e")  # of which the German stemmer removes the `e`, anywhere in a word

# Without the words that are as frequent in English texts.
_GERMAN = """
aber als am auf aus bei beim bis das dass dem den der des die durch ein eine einem einen einer es fur gegen hat ich
ihr im ist kann mit nach nicht noch nur oder sich sie sind uber um und unter vom von vor wann warum was welche welchem
welchen welcher welches wem wen wenn wer werden wessen wie wieviel wieviele wir wird wo woher wohin zum zur zwischen
"""
_FRENCH = """
au aux avec ce ces combien comment dans de des du elle en est et il je la laquelle le lequel les lesquelles lesquels
leur leurs mais ne nous ou par pas peut plus pour pourquoi quand que quel quelle quelles quels qui quoi sa sans se ses
son sont sur un une vous
"""
_SPANISH = """
al como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde el ella en entre es esta este fue ha
hasta la las lo los mas nos para pero por porque que quien quienes se sin sobre son su sus un una y
"""
_FUNCTION_WORDS = {
    "english": STOP_WORDS,
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
}
_ENGLISH = ("english",)
_ALL = tuple(_FUNCTION_WORDS)
# Endings of verbs that the stemmer recognises by their accent: `corrió`, `réparé`.
_ACCENTED = {"french": {"e": "é"}, "spanish": {"a": "á", "e": "é", "o": "ó"}}
# The end of an English stem -> that of a related word.
_RELATED = {
    "is": "id",  # decision, decide
    "us": "ud",  # conclusion, conclude
    "ens": "end",  # extension, extend
    "ans": "and",  # expansion, expand
    "miss": "mit",  # permission, permit
    "script": "scrib",  # description, describe
    "cept": "ceiv",  # reception, receive
    "duct": "duc",  # production, produce
    "ifi": "if",  # verify, verification
    "or": "",  # editor, edit
}
_RELATED_ENDS = tuple(_RELATED)
# English words whose forms have different stems; without the most frequent words.
_IRREGULAR = """
break broke broken; bring brought; build built; buy bought; catch caught; child children; choose chose chosen;
draw drew drawn; drive drove driven; eat ate eaten; fall fell fallen; foot feet; forget forgot forgotten;
freeze froze frozen; grow grew grown; hide hidden; lend lent; lose lost; man men; meet met; mouse mice; pay paid;
person people; ride rode ridden; rise rose risen; run ran; sell sold; send sent; shake shook shaken; sing sang sung;
sleep slept; speak spoke spoken; spend spent; steal stole stolen; swim swam swum; teach taught; throw threw thrown;
tooth teeth; understand understood; wake woke woken; wear wore worn; win won; woman women; write wrote written
"""
_GROUPS = [tuple(group.split()) for group in _IRREGULAR.split(";")]
_GROUP_OF = {word: group for group in _GROUPS for word in group}
_lock = threading.Lock()  # a stemmer is used by one thread at a time


def languages_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return English and the languages that have the most function words in a question; all if it has none."""
    counts = {language: len(known.intersection(words)) for language, known in _FUNCTION_WORDS.items()}
    most = max(counts.values())
    return tuple(language for language, count in counts.items() if language in _ENGLISH or count == most)


@cache
def function_words(languages: tuple[str, ...]) -> frozenset[str]:
    """Return the function words of these languages."""
    return frozenset().union(*(_FUNCTION_WORDS[language] for language in languages))


@lru_cache(maxsize=16_384)
def stems(word: str, languages: tuple[str, ...]) -> frozenset[str]:
    """Return the stems of a word in these languages, and those of related words."""
    with _lock:
        return frozenset(stem for language in languages for stem in _stems(word, language))


def _stems(word: str, language: str) -> list[str]:
    stem = _stemmer(language).stemWord
    found = [stem(word)]
    if language in _ENGLISH:
        if found[0].endswith(_RELATED_ENDS):
            related = (found[0][: -len(end)] + other for end, other in _RELATED.items() if found[0].endswith(end))
            found += [each for each in related if len(each) >= MIN_PREFIX]
    elif accented := _ACCENTED.get(language, {}).get(word[-1]):
        found.append(stem(word[:-1] + accented))
    return found


@cache
def _stemmer(language: str) -> Stemmer:
    try:
        import Stemmer  # noqa: PLC0415 - loaded with the first question
    except ImportError as error:
        raise MemorydError(f"the package PyStemmer cannot be loaded: {error}", hint="reinstall memoryd") from error
    return Stemmer.Stemmer(language, 0)


@lru_cache(maxsize=4_096)
def stem_prefix(word: str, languages: tuple[str, ...] = _ENGLISH) -> str | None:
    """Return the prefix that a word shares with its shortest stem; None if it is too short to be searched for."""
    with _lock:
        found = [_stemmer(each).stemWord(word) for each in languages]
    prefix = min((commonprefix([word, stem]) for stem in found), key=len)  # noqa: RUF071 - characters are compared
    return prefix if len(prefix) >= MIN_PREFIX else None


@lru_cache(maxsize=4_096)
def _start(word: str, languages: tuple[str, ...]) -> str:
    """Return the letters that all forms of a word begin with."""
    return commonprefix([word, *stems(word, languages)]).rstrip("eiy")[:MAX_START]  # noqa: RUF071 - see above


def word_form(reader: IndexReader, word: str, languages: tuple[str, ...]) -> Term | None:
    """Return a term for a word of a question in these languages: its prefix, and the other words of the index with the
    same stem. None if it has no stem."""
    if len(word) < MIN_WORD or not (word.isascii() and word.isalpha()) or word in STOP_WORDS:
        return None
    prefix = stem_prefix(word, _ENGLISH if languages == _ALL else languages)
    forms = (form for each in _irregular(word) for form in _words_with_stem_of(reader, each, prefix, languages))
    return Term(prefix or word, prefix is not None, tuple(dict.fromkeys(f for f in forms if f != word))[:MAX_FORMS])


@lru_cache(maxsize=4_096)
def _irregular(word: str) -> tuple[str, ...]:
    """Return the word, and the irregular forms of its verb or noun in English."""
    with _lock:
        stem = _stemmer("english").stemWord(word)
    return (word, *_GROUP_OF.get(word, _GROUP_OF.get(stem, ())))


def _words_with_stem_of(
    reader: IndexReader, word: str, prefix: str | None, languages: tuple[str, ...]
) -> Sequence[str]:
    """Return the words of the index that share a stem with the word, without those that begin with `prefix`."""
    start = _start(word, languages)
    near = reader.words_beginning(start) if len(start) > 1 else []
    longest = len(word) + MAX_ENDING
    other = [each for each in near if len(each) <= longest and not (prefix and each.startswith(prefix))]
    return sharing_a_stem(tuple(other), word, languages) if other else ()


@lru_cache(maxsize=1_024)
def sharing_a_stem(others: tuple[str, ...], word: str, languages: tuple[str, ...]) -> Sequence[str]:
    """Return those of the other words that share a stem with the word, as `stems` finds them, but all at once."""
    wanted = stems(word, languages)
    beginnings = _beginnings(wanted)
    german = "german" in languages
    others = tuple(each for each in others if each.startswith(beginnings) or (german and _UMLAUT.search(each)))
    if not others:
        return ()
    found: set[str] = set()
    with _lock:
        for language in languages:
            accepted = wanted | _related_to(wanted) if language in _ENGLISH else wanted
            stem_all, accented = _stemmer(language).stemWords, _ACCENTED.get(language)
            found.update(each for each, stem in zip(others, stem_all(others), strict=True) if stem in accepted)
            if accented is None:
                continue
            marked = {each[:-1] + accented[each[-1]]: each for each in others if each[-1] in accented}
            stemmed = zip(marked.values(), stem_all(list(marked)), strict=True)
            found.update(each for each, stem in stemmed if stem in wanted)
    return [each for each in others if each in found]


def _beginnings(wanted: frozenset[str]) -> tuple[str, ...]:
    """Return the letters with which words begin that can have one of the wanted stems or a related one."""
    return tuple({each[: max(len(each) - MAX_CHANGED, 1)] for each in wanted | _related_to(wanted)})


@lru_cache(maxsize=4_096)
def _related_to(wanted: frozenset[str]) -> frozenset[str]:
    """Return the English stems that have one of the wanted ones as a related stem."""
    return frozenset(
        each[: len(each) - len(other)] + end
        for each in wanted
        for end, other in _RELATED.items()
        if each.endswith(other) and len(each) >= MIN_PREFIX
    )
