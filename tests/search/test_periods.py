"""Times in questions: which period is meant, and what that does to the order of the hits."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memoryd.core.index import IndexUnavailable
from memoryd.core.query import Filters
from memoryd.search.periods import parse_bound, period_in, prefers_newest
from memoryd.search.query_terms import parse_query
from memoryd.search.ranking import Candidate
from memoryd.search.times import MAX_OF_SUBJECT, prefer_times
from tests.search.stored import DAY, NOW, Stored, memory, search_all

WEDNESDAY = datetime(2026, 11, 25, 12, tzinfo=UTC).astimezone()


def day(text: str) -> float:
    """The beginning of a day here."""
    return datetime.fromisoformat(text).replace(tzinfo=WEDNESDAY.tzinfo).timestamp()


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("what broke yesterday", "2026-11-24", "2026-11-25"),
        ("what broke today?", "2026-11-25", "2026-11-26"),
        ("outage last week", "2026-11-16", "2026-11-23"),
        ("this week", "2026-11-23", "2026-11-30"),
        ("plans of last month", "2026-10-01", "2026-11-01"),
        ("flood in the last year", "2025-01-01", "2026-01-01"),
        ("a journey in May", "2026-05-01", "2026-06-01"),
        ("a journey in December", "2025-12-01", "2026-01-01"),
        ("the fair of May 2024", "2024-05-01", "2024-06-01"),
        ("in 2025", "2025-01-01", "2026-01-01"),
        ("what was done on 2026-02-28", "2026-02-28", "2026-03-01"),
        ("on Monday", "2026-11-23", "2026-11-24"),
        ("last Wednesday", "2026-11-18", "2026-11-19"),
        ("three days ago", "2026-11-22", "2026-11-23"),
        ("2 weeks ago", "2026-11-09", "2026-11-16"),
        ("2 quarters ago", "2026-04-01", "2026-07-01"),
        ("five days ago", "2026-11-20", "2026-11-21"),
        ("a couple of weeks ago", "2026-11-09", "2026-11-16"),
        ("what failed this morning", "2026-11-25", "2026-11-26"),
        ("the alarm last night", "2026-11-24", "2026-11-25"),
        ("the party last weekend", "2026-11-21", "2026-11-23"),
        ("costs of the last quarter", "2026-07-01", "2026-10-01"),
        ("sales in Q3", "2026-07-01", "2026-10-01"),
        ("sales of Q4 2025", "2025-10-01", "2026-01-01"),
        ("the race in early May", "2026-05-01", "2026-06-01"),
        ("the race of mid-September", "2026-09-01", "2026-10-01"),
        ("the trip last summer", "2026-06-01", "2026-09-01"),
        ("the storm of last autumn", "2025-09-01", "2025-12-01"),
        ("what grew this autumn", "2026-09-01", "2026-12-01"),
        ("skiing last winter", "2025-12-01", "2026-03-01"),
        ("the summer of 2024", "2024-06-01", "2024-09-01"),
        ("changes since May", "2026-05-01", None),
        ("changes before May", None, "2026-05-01"),
        ("the party on 3 March", "2026-03-03", "2026-03-04"),
        ("what was said on March 3rd, 2025?", "2025-03-03", "2025-03-04"),
        ("the 3rd of December", "2025-12-03", "2025-12-04"),
        ("born on 29 February", "2024-02-29", "2024-03-01"),
        ("invoices of Feb 2026", "2026-02-01", "2026-03-01"),
        ("changes since Oct", "2026-10-01", None),
        ("yesterday's outage", "2026-11-24", "2026-11-25"),
        ("sales in Q4/2025", "2025-10-01", "2026-01-01"),
        ("changes between March and May", "2026-03-01", "2026-06-01"),
        ("from 2026-01-05 to 2026-01-07 ill", "2026-01-05", "2026-01-08"),
        ("errors of yesterday and today", "2026-11-24", "2026-11-26"),
        ("in May and spring boot", "2026-05-01", "2026-06-01"),
        ("decided in April and may be reverted", "2026-04-01", "2026-05-01"),
        ("sales 2025 Q2", "2025-04-01", "2025-07-01"),
        ("sales of 2025-Q2", "2025-04-01", "2025-07-01"),
        ("sales in the second quarter of 2025", "2025-04-01", "2025-07-01"),
        ("sales of the 3rd quarter 2025", "2025-07-01", "2025-10-01"),
        ("costs in the first quarter", "2026-01-01", "2026-04-01"),
        ("the invoice of 03.05.2026.", "2026-05-03", "2026-05-04"),
        ("Rechnung vom 3.5.2026", "2026-05-03", "2026-05-04"),
        ("backup 2026/05/03 failed", "2026-05-03", "2026-05-04"),
        ("from 03.05.2026 to 07.05.2026", "2026-05-03", "2026-05-08"),
    ],
)
def test_a_period_is_the_days_it_names(question: str, since: str | None, until: str | None) -> None:
    found = period_in(question, WEDNESDAY.timestamp())
    assert found is not None
    assert found.since == (day(since) if since else None)
    assert found.until == (day(until) if until else None)
    assert found.words in question
    assert not set(found.words.split()) & set(found.rest.split()) - {"the", "in", "of"}


@pytest.mark.parametrize(
    "question",
    [
        "may I deploy",
        "march of the ants",
        "room 2024",
        "port 8080",
        "2026-02-30",
        "2026-13",
        "9999-12-31",
        "0001-01-01",
        "q1 0001",
        "the week",
        "in the house",
        "trips of the last years",
        "an error in spring boot",
        "heating in winter",
        "answer to Q3",
        "the 5 may fail",
        "a message from Jan",
        "on 31 April 2025",
        "on 29 February 2023",
        "a few days ago",
        "the second quarter of the match",
        "host 10.03.05.2026",
        "version 3.5.2026.1",
        "logs/2026/05/03/errors",
        "on 31.02.2026",
        "what is due next week",
        "dentist tomorrow",
        "the trip in May next year",
        "termine am nächsten Montag",
        "was steht in den nächsten drei Tagen an",
        "Zahnarzt morgen früh",
        "rendez-vous de la semaine prochaine",
        "la cita de mañana",
        "el próximo mes",
    ],
)
def test_other_words_are_no_period(question: str) -> None:
    assert period_in(question, WEDNESDAY.timestamp()) is None


def test_the_last_winter_is_one_that_has_ended() -> None:
    january = datetime(2027, 1, 15, 12, tzinfo=UTC).astimezone().timestamp()
    last, this = (period_in(f"snow {which} winter", january) for which in ("last", "this"))
    assert last is not None
    assert this is not None
    assert (last.since, last.until) == (day("2025-12-01"), day("2026-03-01"))
    assert (this.since, this.until) == (day("2026-12-01"), day("2027-03-01"))


def test_some_days_weeks_or_months_end_now() -> None:
    now = WEDNESDAY.timestamp()
    for words, days in (("the last few weeks", 21), ("the past couple of months", 60), ("the last seven days", 7)):
        found = period_in(f"what happened in {words}", now)
        assert found is not None
        assert (found.since, found.until) == (day("2026-11-25") - days * DAY, now)


def test_bounds_of_filters() -> None:
    now = WEDNESDAY.timestamp()
    assert parse_bound("30d", now, end=False) == now - 30 * DAY
    assert parse_bound("last week", now, end=False) == day("2026-11-16")
    assert parse_bound("last week", now, end=True) == day("2026-11-23")
    assert parse_bound("2026-01-31", now, end=True) == datetime(2026, 2, 1, tzinfo=UTC).timestamp()
    assert parse_bound("2026-01-31T10:00:00Z", now, end=True) == datetime(2026, 1, 31, 10, tzinfo=UTC).timestamp()
    assert parse_bound("now", now, end=True) == now
    assert parse_bound("whenever", now, end=False) is None


@pytest.mark.parametrize(
    ("words", "since", "until"),
    [
        ("after 2026-05-01", "2026-05-02", None),
        ("since Monday", "2026-11-23", None),
        ("before June", None, "2026-06-01"),
        ("until yesterday", None, "2026-11-25"),
    ],
)
def test_a_bound_does_not_include_more_than_its_words(words: str, since: str | None, until: str | None) -> None:
    now = WEDNESDAY.timestamp()
    assert parse_bound(words, now, end=False) == (day(since) if since else None)
    assert parse_bound(words, now, end=True) == (day(until) if until else None)


def test_hours_and_minutes_are_counted_from_now() -> None:
    now = WEDNESDAY.timestamp()
    assert parse_bound("2 hours ago", now, end=False) == now - 7_200
    assert parse_bound("the last 24 hours", now, end=False) == now - DAY
    assert parse_bound("half an hour", now, end=False) is None
    found = period_in("what did I write an hour ago", now)
    assert found is not None
    assert (found.since, found.until) == (now - 3_600, now)


@pytest.fixture
def berlin(local_zone: Callable[[str], None]) -> None:
    local_zone("Europe/Berlin")


@pytest.mark.usefixtures("berlin")
def test_a_period_begins_at_midnight_of_its_own_offset() -> None:
    """In Berlin, clocks were two hours ahead of UTC in May 2026 and one hour in November."""
    now = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
    found = period_in("a journey in May", now)
    assert found is not None
    assert str(found) == "in May: 2026-04-30T22:00Z to 2026-05-31T22:00Z"
    assert str(period_in("on 25 October", now)) == "on 25 October: 2026-10-24T22:00Z to 2026-10-25T23:00Z"


@pytest.mark.usefixtures("berlin")
def test_a_date_in_digits_is_a_day_in_utc_in_a_question_and_in_a_filter() -> None:
    now = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
    start, end = datetime(2026, 10, 25, tzinfo=UTC).timestamp(), datetime(2026, 10, 26, tzinfo=UTC).timestamp()
    for words in ("2026-10-25", "2026/10/25", "25.10.2026", "on 2026-10-25"):
        found = period_in(f"the outage {words}", now)
        assert found is not None
        assert (found.since, found.until) == (start, end)
        assert (parse_bound(words, now, end=False), parse_bound(words, now, end=True)) == (start, end)
    assert parse_bound("2026-10", now, end=False) == datetime(2026, 10, 1, tzinfo=UTC).timestamp()
    assert parse_bound("after 2026-10-25", now, end=False) == end
    assert parse_bound("25 October", now, end=False) == start - 7_200


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("now", ["2026-03-29T01:30:00+00:00", "2026-10-25T01:30:00+00:00"])
def test_hours_and_minutes_are_counted_whatever_the_clocks_do(now: str) -> None:
    seconds = datetime.fromisoformat(now).timestamp()
    for words, since, until in (("last 2 hours", -7200, 0), ("10 minutes ago", -600, -540), ("last hour", -3600, 0)):
        found = period_in(words, seconds)
        assert found is not None
        assert (found.since, found.until) == (seconds + since, seconds + until)


@pytest.mark.usefixtures("berlin")
def test_days_end_now_also_in_the_hour_that_comes_twice() -> None:
    now = datetime(2026, 10, 25, 1, 30, tzinfo=UTC).timestamp()
    assert parse_bound("the last 7 days", now, end=True) == now


@pytest.mark.parametrize("zone", ["UTC+25", "UTC-25", "UTC+23", "UTC-167:59"])
def test_a_day_begins_at_midnight_of_any_zone(zone: str, local_zone: Callable[[str], None]) -> None:
    """TZ may name an offset of more than a day."""
    local_zone(zone)
    now = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
    midnight, today = time.localtime(parse_bound("yesterday", now, end=False)), time.localtime(now)
    assert midnight[3:6] == (0, 0, 0)
    assert today.tm_yday - midnight.tm_yday == 1


def test_the_last_week_of_a_new_year_is_in_the_old_one() -> None:
    friday = datetime(2027, 1, 1, 12, tzinfo=UTC).astimezone().timestamp()
    for words, since, until in (
        ("last week", "2026-12-21", "2026-12-28"),
        ("this week", "2026-12-28", "2027-01-04"),
        ("last month", "2026-12-01", "2027-01-01"),
        ("last quarter", "2026-10-01", "2027-01-01"),
    ):
        found = period_in(words, friday)
        assert found is not None
        assert (found.since, found.until) == (day(since), day(until))


def test_what_holds_now() -> None:
    assert prefers_newest("the current baseline")
    assert prefers_newest("who is on call NOW?")
    assert prefers_newest("what broke recently")
    assert prefers_newest("the most recent price")
    assert prefers_newest("who is our dentist at present?")
    assert not prefers_newest("how to know the currents")


@pytest.mark.parametrize(
    "question",
    [
        "aktuelle Preise der Kantine",
        "die neueste Version",
        "wer hat derzeit Bereitschaft",
        "gegenwärtige Miete",
        "le prix actuel de la cantine",
        "la derniere version du modèle",
        "qui est de garde maintenant",
        "el precio actual de la comida",
        "la última versión",
        "quién está de guardia ahora",
        "die aktuellen Fehler der letzten Woche",
    ],
)
def test_what_holds_now_in_another_language(question: str) -> None:
    assert prefers_newest(question)


@pytest.mark.parametrize(
    "question", ["the actual cause of the outage", "actual cause", "die letzte Version", "on est dans la rue", "Aktuar"]
)
def test_other_words_do_not_ask_for_what_holds_now(question: str) -> None:
    assert not prefers_newest(question)


def test_the_last_week_in_french_does_not_ask_for_what_holds_now(stored: Stored) -> None:
    stored.texts("la panne du serveur de la semaine dernière")
    assert "newest" not in stored.hits("la panne de la semaine dernière")[0]["why"]
    assert "newest" in stored.hits("la dernière panne du serveur")[0]["why"]


def test_of_versions_the_newest_is_first_in_another_language(stored: Stored) -> None:
    stored.put(
        memory("old", "Preise der Kantine: Mittagessen 7 Euro", age=290, weight=1.0, uses=50),
        memory("new", "Preise der Kantine: Mittagessen 9 Euro", age=20, weight=0.0),
        *(memory(f"other {n}", f"Modelleisenbahn, Teil {n}", age=0) for n in range(30)),
    )
    assert stored.ids("Preise der Kantine")[:2] == ["old", "new"]
    found = stored.search("aktuelle Preise der Kantine")
    assert [hit["id"] for hit in found["hits"]][:2] == ["new", "old"]
    assert "missing_words" not in found


def test_of_versions_the_newest_is_first_if_asked_for(stored: Stored) -> None:
    stored.put(
        memory("old", "baseline of the ranking model: run 31", age=290, weight=1.0, uses=50),
        memory("new", "baseline of the ranking model: run 74", age=20, weight=0.0),
        *(memory(f"other {n}", f"the model railway, part {n}", age=0) for n in range(30)),
    )
    assert stored.ids("baseline of the ranking model")[:2] == ["old", "new"]
    assert stored.ids("current baseline of the ranking model")[:2] == ["new", "old"]
    assert stored.hits("latest baseline")[0]["why"]["newest"] > 0.8


def test_the_newest_is_first_although_it_has_fewer_of_the_words(stored: Stored) -> None:
    stored.put(
        memory("old", "All services run on Python 3.10.", age=480),
        memory("new", "All services have been upgraded to Python 3.13.", age=10),
        *(memory(f"other {n}", f"the model railway, part {n}", age=0) for n in range(30)),
    )
    assert stored.ids("which Python do all services run on")[:2] == ["old", "new"]
    assert stored.ids("which Python do all services run on at present")[:2] == ["new", "old"]


UPTIME = (
    memory("old", "The provider promises its shops 99.5 percent uptime.", age=380),
    memory("new", "A contract with the shops: 99.9 percent uptime, else ten percent are paid back.", age=31),
    memory("other", "The shops are closed on Monday.", age=0),
    *(memory(f"other {n}", f"the model railway, part {n}", age=0) for n in range(30)),
)


def test_the_newest_of_a_subject_is_preferred_more_than_others(stored: Stored) -> None:
    """The subject is the rarest word that the best memory shares with another: the uptime, not the shops."""
    stored.put(*UPTIME)
    assert stored.ids("uptime promise to the shops of Berlin")[:3] == ["old", "new", "other"]
    new, old, other = stored.hits("latest uptime promise to the shops of Berlin")[:3]
    assert [new["id"], old["id"], other["id"]] == ["new", "old", "other"]
    assert new["why"]["newest"] > 2 * other["why"]["newest"]


def test_a_word_of_one_memory_or_of_many_names_no_subject(stored: Stored) -> None:
    stored.put(*UPTIME)
    [alone] = stored.hits("promise of Berlin now")
    before = stored.hits("uptime promise of Berlin now")
    stored.put(*(memory(f"more {n}", "the uptime of a server in the cellar", age=500) for n in range(MAX_OF_SUBJECT)))
    after = stored.hits("uptime promise of Berlin now")
    gains = {
        name: {hit["id"]: hit["why"]["newest"] for hit in hits} for name, hits in (("before", before), ("after", after))
    }
    assert alone["why"]["newest"] == gains["after"]["old"] < gains["before"]["old"]


def test_two_words_name_a_subject_though_neither_does_alone(stored: Stored) -> None:
    """The rarest word, the window, is shared only with a memory about another subject."""
    stored.put(
        memory("old", "Deploy window for the billing service: Tuesdays before the shops open.", age=412),
        memory("new", "Billing now deploys on Thursdays; Tuesdays collided with the dunning run.", age=38),
        memory("glass", "The window in the hall is cleaned in March.", age=38),
        *(memory(f"deploy {n}", f"deploys are announced in channel {n}", age=38) for n in range(MAX_OF_SUBJECT)),
        *(memory(f"billing {n}", f"billing of customer {n}", age=38) for n in range(MAX_OF_SUBJECT)),
        *(memory(f"railway {n}", f"the model railway, part {n}", age=38) for n in range(100)),
    )
    assert stored.ids("deploy window for billing")[0] == "old"
    gains = {hit["id"]: hit["why"]["newest"] for hit in stored.hits("current deploy window for billing")}
    assert [*gains].index("new") < [*gains].index("old")
    assert gains["new"] > 2 * gains["glass"]


PORTS = (
    memory("first", "Port of the staging server of Moorly: 4000.", age=868),
    memory("second", "Moved the staging server of Moorly from port 4000 to port 4410.", age=512),
    memory("third", "The staging server of Moorly now answers on 4455.", age=410),
    *(memory(f"other {n}", f"the model railway, part {n}", age=0) for n in range(30)),
)


def test_the_last_version_holds_now_however_old_it_is(stored: Stored) -> None:
    stored.put(*PORTS)
    assert stored.ids("what is the port of the staging server of Moorly?")[0] == "first"
    assert stored.ids("what is the current port of the staging server of Moorly?")[0] == "third"


def test_what_is_asked_of_today_holds_now(stored: Stored) -> None:
    stored.put(
        memory("old", "Contact at the marina of Lauwersoog: Jildou.", age=500),
        memory("new", "Lauwersoog: it is Wout who answers by now.", age=200),
        *(memory(f"other {n}", f"the model railway, part {n}", age=0) for n in range(30)),
    )
    assert stored.ids("who is the contact at Lauwersoog")[0] == "old"
    assert stored.ids("who is the contact at Lauwersoog today?")[0] == "new"
    assert not any("newest" in hit["why"] for hit in stored.hits("contact at Lauwersoog in the last 7 days"))


@pytest.mark.parametrize(
    "question",
    [
        "what was the port of the staging server of Moorly originally?",
        "port of the staging server of Moorly at the very beginning",
        "what did the staging server of Moorly use as a port before the last change?",
        "before the change, what was the port of the staging server of Moorly?",
    ],
)
def test_an_earlier_version_is_first_if_asked_for(stored: Stored, question: str) -> None:
    stored.put(*PORTS, memory("railway", "The staging of the railway", age=900))
    hits = stored.hits(question)
    assert hits[0]["id"] in ("first", "second")
    assert not any("oldest" in hit["why"] for hit in hits if hit["id"] == "railway")
    assert hits[0]["why"]["oldest"] > next(hit["why"]["oldest"] for hit in hits if hit["id"] == "third") == 0


def test_no_version_is_asked_for_by_what_comes_before_something_else(stored: Stored) -> None:
    stored.put(*PORTS)
    hits = stored.hits("which port must the staging server of Moorly have before moving it?")
    assert not any("oldest" in hit["why"] for hit in hits)


def test_a_question_for_a_time_alone_lists_its_memories(stored: Stored) -> None:
    stored.put(
        memory("gift", "Idea for the birthday: a record player.", age=1),
        memory("dentist", "The dentist has moved.", age=1.1),
        memory("writing", "Never write down what nobody will read.", age=40),
        memory("report", "What was written yesterday is in the report.", age=500),
    )
    for mode in ("text", "hybrid"):
        hits = stored.hits("what did you write down yesterday?", mode=mode)
        assert [hit["id"] for hit in hits][:2] == ["gift", "dentist"]
        assert hits[0]["why"]["period"].startswith("yesterday: ")
        assert "writing" in [hit["id"] for hit in hits], "the rest comes below"
        assert hits[0]["score"] > hits[1]["score"] > hits[2]["score"]
    assert stored.ids("what did the dentist write yesterday?")[0] == "dentist"


def test_a_period_is_preferred_and_explained(stored: Stored) -> None:
    stored.put(
        memory("old", "outage of the checkout", age=100),
        memory("new", "an outage of two hours in which the shop could not be reached at all", age=1),
        memory("other", "lunch", age=1),
    )
    first, second = stored.hits("outage yesterday")[:2]
    assert (first["id"], second["id"]) == ("new", "old")
    assert first["why"]["period"].startswith("yesterday: ")
    assert "period" not in second["why"]
    assert stored.ids("outage", until=NOW - 50 * DAY) == ["old"]


ROOMS = (
    memory("first", "Mother has moved into the house by the sea: number 12 is her room.", age=430),
    memory("second", "Number of mother's room: 31.", age=70),
    *(memory(f"other {n}", f"the model railway, part {n}", age=430) for n in range(30)),
)


def test_what_held_in_a_period_is_preferred_though_it_was_written_before(stored: Stored) -> None:
    stored.put(*ROOMS)
    assert stored.ids("what is the number of mother's room")[:2] == ["second", "first"]
    first, second = stored.hits("what was the number of mother's room in May 2026")[:2]
    assert [first["id"], second["id"]] == ["first", "second"]
    assert first["why"]["held_in"].startswith("in May 2026: ")
    assert "held_in" not in second["why"]
    assert stored.search("which number was mother's room in May 2026")["period"]["empty"] is True


def test_what_held_in_a_period_is_first_however_well_a_later_version_matches(stored: Stored) -> None:
    stored.put(*ROOMS)
    question = "number of mother's room in May 2026"
    with stored.catalogue.reader() as reader:
        [first], [second] = (reader.keys_of(each, Filters()) for each in ("first", "second"))
        found = [Candidate(second, 0.9, {}), Candidate(first, 0.1, {})]
        period = period_in(question, NOW)
        ranked = prefer_times(reader, parse_query(question), found, period, None, NOW)
    assert [each.key for each in ranked] == [first, second]


def test_a_memory_that_names_the_period_is_the_answer_whenever_it_was_written(stored: Stored) -> None:
    stored.put(*ROOMS, memory("report", "In May 2026 the number of mother's room was 25.", age=10))
    hits = stored.hits("number of mother's room in May 2026")
    assert hits[0]["id"] == "report"
    assert not any("held_in" in hit["why"] for hit in hits)


def test_what_was_written_in_a_period_is_preferred_to_what_held_before(stored: Stored) -> None:
    stored.put(*ROOMS, memory("between", "Mother's room is number 20 for two weeks.", age=250))
    hits = stored.hits("which number was mother's room in May 2026")
    assert hits[0]["id"] == "between"
    assert not any("held_in" in hit["why"] for hit in hits)


def test_nothing_held_before_the_first_memory_of_a_subject(stored: Stored) -> None:
    stored.put(*ROOMS)
    assert not any("held_in" in hit["why"] for hit in stored.hits("which number was mother's room in May 2024"))


def test_one_shared_word_does_not_tell_what_held(stored: Stored) -> None:
    stored.put(
        memory("budget", "What is left of the budget goes to the boat.", age=100),
        memory("engine", "The engine of the boat overheats.", age=90),
        *(memory(f"other {n}", f"the model railway, part {n}", age=100) for n in range(30)),
    )
    assert not any("held_in" in hit["why"] for hit in stored.hits("laying up the boat yesterday"))


@pytest.mark.parametrize(
    ("question", "words", "since", "until"),
    [
        ("was haben wir gestern entschieden?", "gestern", "2026-11-24", "2026-11-25"),
        ("Ausfall in der letzten Woche", "in der letzten Woche", "2026-11-16", "2026-11-23"),
        ("Rechnung vor drei Tagen", "vor drei Tagen", "2026-11-22", "2026-11-23"),
        ("Messe am 3. März 2026", "am 3. März 2026", "2026-03-03", "2026-03-04"),
        ("Ausgaben im Jahr 2024", "im Jahr 2024", "2024-01-01", "2025-01-01"),
        ("Fehler seit Montag", "seit Montag", "2026-11-23", None),
        ("Umsatz im zweiten Quartal 2025", "im zweiten Quartal 2025", "2025-04-01", "2025-07-01"),
        ("Umsatz im 2. Quartal 2025", "im 2. Quartal 2025", "2025-04-01", "2025-07-01"),
        ("les ventes du deuxième trimestre 2025", "du deuxième trimestre 2025", "2025-04-01", "2025-07-01"),
        ("ventas del segundo trimestre de 2025", "del segundo trimestre de 2025", "2025-04-01", "2025-07-01"),
        ("qu'avons-nous décidé hier ?", "hier", "2026-11-24", "2026-11-25"),
        ("pannes de la semaine derniere", "de la semaine derniere", "2026-11-16", "2026-11-23"),
        ("la panne d'il y a deux semaines", "il y a deux semaines", "2026-11-09", "2026-11-16"),
        ("factures avant août", "avant août", None, "2026-08-01"),
        ("achats en 2024", "en 2024", "2024-01-01", "2025-01-01"),
        ("qué decidimos ayer", "ayer", "2026-11-24", "2026-11-25"),
        ("los fallos de la semana pasada", "de la semana pasada", "2026-11-16", "2026-11-23"),
        ("la factura de hace tres días", "de hace tres días", "2026-11-22", "2026-11-23"),
        ("la feria del 3 de marzo de 2025", "del 3 de marzo de 2025", "2025-03-03", "2025-03-04"),
    ],
)
def test_a_period_may_be_named_in_another_language(
    question: str, words: str, since: str | None, until: str | None
) -> None:
    found = period_in(question, WEDNESDAY.timestamp())
    assert found is not None
    assert found.words == words
    assert found.rest == " ".join(question.replace(words, " ").split())
    assert (found.since, found.until) == (day(since) if since else None, day(until) if until else None)


@pytest.mark.parametrize(
    ("question", "words", "rest"),
    [
        ("der Fehler 404 letzte Woche", "letzte Woche", "der Fehler 404"),
        ("Fehler 503 seit gestern", "seit gestern", "Fehler 503"),
        ("el error 503 desde ayer", "desde ayer", "el error 503"),
        ("les pannes de ces 3 derniers jours", "de ces 3 derniers jours", "les pannes"),
    ],
)
def test_a_number_beside_a_period_is_no_part_of_it(question: str, words: str, rest: str) -> None:
    found = period_in(question, WEDNESDAY.timestamp())
    assert found is not None
    assert (found.words, found.rest) == (words, rest)
    assert found.since is not None
    assert found.since > day("2026-11-15")


@pytest.mark.parametrize(
    "question",
    [
        "was ist hier passiert",
        "hier oben",
        "was hat Mai gesagt",
        "mars rover",
        "die letzte Version",
        "mes amis",
        "the hoy",
    ],
)
def test_words_of_another_language_that_name_no_time(question: str) -> None:
    assert period_in(question, WEDNESDAY.timestamp()) is None


def test_bounds_in_other_languages() -> None:
    now = WEDNESDAY.timestamp()
    decomposed = unicodedata.normalize("NFD", "la semaine dernière")
    for words in ("letzte Woche", "la semaine dernière", decomposed, "la semana pasada"):
        assert parse_bound(words, now, end=False) == day("2026-11-16")
        assert parse_bound(words, now, end=True) == day("2026-11-23")
    assert parse_bound("was gestern war", now, end=False) is None


def test_a_time_in_another_language_is_preferred_and_not_missing(stored: Stored) -> None:
    stored.put(memory("old", "Ausfall der Kasse", age=30), memory("new", "Ausfall der Kasse und des Lagers", age=1))
    assert stored.ids("Ausfall der Kasse")[0] == "old"
    found = stored.search("Ausfall der Kasse gestern")
    assert "missing_words" not in found
    assert (found["hits"][0]["id"], found["hits"][0]["why"]["period"][:8]) == ("new", "gestern:")


def test_few_small_words_are_part_of_a_period() -> None:
    """With any number, a question of 4,000 characters took 1.5 s: each word was tried as the first of a run."""
    found = period_in("in in in in in in May", WEDNESDAY.timestamp())
    assert found is not None
    assert found.words == "in in in in May"


def test_the_answer_names_the_period_and_whether_any_memory_is_of_it(stored: Stored) -> None:
    stored.put(memory("old", "outage of the checkout", age=100), memory("lunch", "lunch of the team", age=1))
    found = stored.search("outage yesterday")
    assert found["hits"][0]["id"] == "old"
    assert found["period"] == {
        "words": "yesterday",
        "since": "2027-01-14T00:00:00Z",
        "until": "2027-01-15T00:00:00Z",
        "empty": False,
    }
    assert stored.search("outage last week")["period"]["empty"] is True
    assert stored.search("lunch yesterday")["period"]["empty"] is False
    assert stored.search("lunch yesterday", type="task")["period"]["empty"] is True
    assert stored.search("outage since May")["period"]["until"] is None
    assert "period" not in stored.search("outage")


def test_a_phrase_in_quotation_marks_names_no_period(stored: Stored) -> None:
    stored.texts("the outage of yesterday morning")
    assert "period" not in stored.search('"outage of yesterday"')
    assert stored.search('"lunch of yesterday"')["period"]["words"] == "of yesterday"


def test_a_period_may_be_misspelt(stored: Stored) -> None:
    stored.put(memory("a", "lunch as yesterday", age=1))
    found = stored.search("lunch yesetrday")
    assert found["hits"][0]["why"]["read_as"] == {"yesetrday": "yesterday"}
    assert found["period"]["words"] == "yesterday"


@pytest.mark.parametrize(
    "question",
    [
        "dentist tomorrow",
        "dentist next week",
        "dentist nächste Woche",
        "dentist demain",
        "dentist la semaine prochaine",
        "dentist el próximo mes",
        "dentist am 03.05.2026",
        "dentist 2026/05/03",
    ],
)
def test_a_time_is_not_missing_and_excludes_nothing(question: str, stored: Stored) -> None:
    stored.texts("The dentist is called Doctor Weber")
    found = stored.search(question, mode="hybrid")
    assert [hit["id"] for hit in found["hits"]] == ["m0"]
    assert "missing_words" not in found


def test_the_period_is_that_of_the_question_though_a_root_cannot_be_read(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.put(memory("lunch", "lunch of the team", age=1))
    other = Stored(tmp_path / "other.sqlite", name="other")

    def refuse() -> None:
        raise IndexUnavailable("damaged")

    monkeypatch.setattr(other.catalogue, "reader", refuse)
    assert search_all([stored, other], "lunch yesterday")["period"]["words"] == "yesterday"
    monkeypatch.undo()
    other.close()
