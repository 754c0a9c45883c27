"""Put the times that a German, French or Spanish question names into English: `letzte Woche`, `il y a trois jours`.

Only the words are translated, one by one; which days are meant is decided in `search.periods`. Accents may be left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from memoryd.core.words import tokens
from memoryd.search.stems import languages_of

NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
# Patterns of the English words that count units of time, and of these units.
COUNT = "|".join([r"\d{1,3}", *(word.replace(" ", r"\ ") for word in NUMBERS)])
UNIT = "minute|hour|day|week|month|quarter|year"
# English: the words for it. Those that name no time alone are in `_SMALL`.
_GERMAN = """
today: heute; yesterday: gestern; the day before yesterday: vorgestern; last night: gestern abend, letzte nacht
this morning: heute morgen, heute fruh; tomorrow: morgen
day: tag, tage, tagen; week: woche, wochen; month: monat, monats, monate, monaten; year: jahr, jahres, jahre, jahren
hour: stunde, stunden; minute: minuten; quarter: quartal, quartals; weekend: wochenende
monday: montag; tuesday: dienstag; wednesday: mittwoch; thursday: donnerstag; friday: freitag; saturday: samstag
sunday: sonntag; january: januar, janner; february: februar; march: marz, maerz; april: april; may: mai; june: juni
july: juli; august: august; september: september; october: oktober; november: november; december: dezember
summer: sommer; autumn: herbst; winter: winter; spring: fruhling, fruhjahr
"""
_FRENCH = """
today: aujourd'hui; yesterday: hier; the day before yesterday: avant-hier; last night: hier soir; this morning: ce matin
day: jour, jours; week: semaine, semaines; month: mois; year: an, ans, annee, annees, l'an, l'annee
hour: heure, heures; minute: minutes; quarter: trimestre; weekend: week-end
monday: lundi; tuesday: mardi; wednesday: mercredi; thursday: jeudi; friday: vendredi; saturday: samedi
sunday: dimanche; january: janvier; february: fevrier; march: mars; april: avril; may: mai; june: juin; july: juillet
august: aout; september: septembre; october: octobre; november: novembre; december: decembre
tomorrow: demain; summer: l'ete; autumn: l'automne; winter: l'hiver; spring: printemps
"""
_SPANISH = """
today: hoy; tomorrow: manana; yesterday: ayer; the day before yesterday: anteayer, antes de ayer; last night: anoche
this morning: esta manana
day: dia, dias; week: semana, semanas; month: mes, meses; year: ano, anos; hour: hora, horas; minute: minutos
quarter: trimestre; weekend: fin de semana
monday: lunes; tuesday: martes; wednesday: miercoles; thursday: jueves; friday: viernes; saturday: sabado
sunday: domingo; january: enero; february: febrero; march: marzo; april: abril; may: mayo; june: junio; july: julio
august: agosto; september: septiembre, setiembre; october: octubre; november: noviembre; december: diciembre
summer: verano; autumn: otono; winter: invierno; spring: primavera
"""
_SMALL = {
    "german": """
last: letzte, letzten, letzter, letztes, letztem, vergangene, vergangenen, vergangener, vergangenes, vorige, vorigen
last: voriger, voriges; next: nachste, nachsten, nachster, nachstes, kommende, kommenden
this: diese, diesen, dieser, dieses, diesem; since: seit, ab; after: nach; before: vor
until: bis; in: im, in; on: am, an; the: der, den, dem, des, die, das; from: von, vom; between: zwischen; and: und
one: ein, einem, einen, einer; two: zwei; three: drei; four: vier; five: funf, fuenf; six: sechs; seven: sieben
eight: acht; nine: neun; ten: zehn; first: erste, ersten, erstes; second: zweite, zweiten, zweites
third: dritte, dritten, drittes; fourth: vierte, vierten, viertes
""",
    "french": """
last: dernier, derniere, derniers, dernieres, passe, passee; this: ce, cet, cette, ces; since: depuis
next: prochain, prochaine, prochains, prochaines; after: apres; before: avant; until: jusqu'a, jusqu'en
in: en, dans; on the: le; the: la, les; of: de; of the: du, des
between: entre; and: et; ago: il y a; one: un, une; two: deux; three: trois; four: quatre; five: cinq; six: six
seven: sept; eight: huit; nine: neuf; ten: dix; first: premier; second: deuxieme, second; third: troisieme
fourth: quatrieme
""",
    "spanish": """
last: pasado, pasada, pasados, pasadas, ultimo, ultima, ultimos, ultimas; this: este, esta, estos, estas; since: desde
next: proximo, proxima, proximos, proximas
after: despues de; before: antes de; until: hasta; in: en; on the: el; the: la, los, las; of: de; of the: del
between: entre; and: y; ago: hace; one: un, una; two: dos; three: tres; four: cuatro; five: cinco; six: seis
seven: siete; eight: ocho; nine: nueve; ten: diez; first: primer; second: segundo; third: tercer; fourth: cuarto
""",
}
# Words of questions for what holds now, without accents; French and Spanish have no other word for `latest`.
_NEWEST = {
    "german": """
aktuell aktuelle aktuellem aktuellen aktueller aktuelles derzeit derzeitige derzeitigen gegenwartig gegenwartige
gegenwartigen jetzt jetzige jetzigen momentan neueste neuesten neuester neuestes neuste neusten zurzeit
""",
    "french": """
actuel actuelle actuellement actuelles actuels dernier derniere dernieres derniers maintenant recemment recent recente
recentes recents
""",
    "spanish": """
actual actuales actualmente ahora reciente recientemente recientes ultima ultimas ultimo ultimos
""",
}
NEWEST = {language: frozenset(words.split()) for language, words in _NEWEST.items()}
_TIMES = {"german": _GERMAN, "french": _FRENCH, "spanish": _SPANISH}
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_WORD = re.compile(r"[a-z]+")
_HERE = re.compile(r"\bhier\b")  # German for `here`
# The order of English words: `week last`, `ago three day`, `before three day` (`vor drei Tagen`), `three last day`.
_ORDER = (
    (re.compile(r"\byear (?=\d{4}\b)"), ""),
    (re.compile(rf"\b(?:ago|before) ({COUNT}) ({UNIT})\b"), r"\1 \2 ago"),
    (re.compile(rf"\b(?:the|this) ({COUNT}) last ({UNIT})\b"), r"the last \1 \2"),
    (re.compile(r"\b([a-z]+) last\b(?! [a-z\d])"), r"last \1"),
)


class Translated(NamedTuple):
    """A run of words that name times, and small words beside them, in English; its start and end in the question."""

    english: str
    start: int
    end: int


class _Language(NamedTuple):
    """The English of its words; what finds a word that names a time, any word, and a run of words and numbers."""

    english: Mapping[str, str]
    time: re.Pattern[str]
    word: re.Pattern[str]
    run: re.Pattern[str]


def translated_times(question: str) -> Iterator[Translated]:
    """Yield the times that a question (in form NFC) names in another language than English."""
    plain = question.lower() if question.isascii() else "".join(map(_bare, question))
    if _YEAR.search(plain) is None and _every_time().isdisjoint(_WORD.findall(plain)):
        return
    languages = languages_of(tokens(question))
    for name in (each for each in _TIMES if each in languages):
        language = _language(name)
        for found in language.run.finditer(plain):
            words = found.group()
            if name == "french" and "german" in languages and words != plain.strip():
                words = _HERE.sub("", words)
            if language.time.search(words):
                yield Translated(_translated(words, language), *found.span())


def time_words_in(question: str) -> frozenset[str]:
    """Return the words with which a question names times in another language than English."""
    question = unicodedata.normalize("NFC", question)
    return frozenset(word for run in translated_times(question) for word in tokens(question[run.start : run.end]))


def _translated(words: str, language: _Language) -> str:
    english = language.word.sub(lambda each: language.english[each.group()], words)
    english = " ".join(english.replace(".", "").split())
    for order, english_order in _ORDER:
        english = order.sub(english_order, english)
    return english


def _bare(letter: str) -> str:
    return "'" if letter == "’" else unicodedata.normalize("NFD", letter)[0].lower()[:1]


@cache
def _language(name: str) -> _Language:
    times, small = _table(_TIMES[name]), _table(_SMALL[name])
    word = _either({**times, **small})
    one = rf"(?:\d{{1,4}}\.?|{word})(?!\w)"
    patterns = (
        rf"(?<!\w){_either(times)}(?!\w)|{_YEAR.pattern}",
        rf"(?<!\w){word}(?!\w)",
        rf"(?<!\w){one}(?:\s+{one})*",
    )
    return _Language({**times, **small}, *map(re.compile, patterns))


@cache
def _every_time() -> frozenset[str]:
    """Return the words of all languages that name a time, or end a name of one."""
    return frozenset(_WORD.findall(words)[-1] for table in _TIMES.values() for words in _table(table))


def _table(rows: str) -> Mapping[str, str]:
    split = (row.split(":") for row in re.split(r"[;\n]", rows) if row.strip())
    return {word.strip(): english.strip() for english, words in split for word in words.split(",")}


def _either(words: Mapping[str, str]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"
