"""What every engine of an index must do, as `core/index.py` says it; asked of SQLite and of a toy."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.findings import Finding
from memoryd.core.index import Before, FileChanges, FileRow, IndexReader, IndexWriter, MonthCount, RoleTotals
from memoryd.core.places import ID_SUFFIX
from memoryd.core.query import Filters, Term, TextQuery
from memoryd.core.records import Document, Record, ReplacedRange
from memoryd.core.spans import Fingerprint, Span
from memoryd.core.vectors import pack_floats
from memoryd.core.words import tokens
from tests.examples import examples
from tests.index.records import EVERYTHING, found, keys, put, put_texts, record, row

TOKEN = "ghp_" + "a1B2c3D4" * 5
MODEL = "letters"
Opens = Callable[[str], IndexWriter]


def terms(text: str) -> tuple[Term, ...]:
    return tuple(map(Term, tokens(text)))


class TestFiles:
    def test_a_file_is_returned_as_stored(self, index: IndexWriter) -> None:
        one = row("a", 2, lines=2, units=3, broken=1, recently_modified=True, pending=True, facts={"n": [1, "x"]})
        index.replace(one, Document("a", (record(0), record(1))))
        put(index, "b")
        assert index.file("a") == one
        assert index.files() == {"a": one, "b": row("b")}
        assert index.file("c") is None
        assert {each.path: each[1:] for each in index.summaries()}["a"] == ("source", 100, 3, 1, 2, {"n": [1, "x"]})
        assert index.totals() == (2, 200)

    def test_the_totals_follow_every_change(self, index: IndexWriter) -> None:
        def sized(path: str, size: int) -> FileRow:
            return row(path)._replace(fingerprint=Fingerprint(1, 2, size, 4, 5))

        assert index.totals() == (0, 0)
        index.replace(sized("a", 10), Document("a", ()))
        index.add([(sized("b", 20), Document("b", ())), (sized("c", 30), Document("c", ()))])
        assert index.totals() == (3, 60)
        index.replace(sized("a", 11), Document("a", ()))
        assert index.totals() == (3, 61)
        index.append(sized("a", 15), Document("a", ()))
        index.restamp(sized("b", 25))
        assert index.totals() == (3, 70)
        index.replace_range(sized("c", 31), ReplacedRange(Span(0, 0), 0, 1, 1), Document("c", ()))
        assert index.totals() == (3, 71)
        index.forget("b")
        index.forget("unknown")
        assert index.totals() == (2, 46)
        index.clear()
        assert index.totals() == (0, 0)

    def test_files_added_together_are_those_added_one_by_one(self, engine: Opens) -> None:
        one, other = engine("one"), engine("other")
        secret = replace(record(1), text=f"it is {TOKEN}")
        files = [
            (row("a", 2), Document("a", (record(0), secret), (Finding("field-type", "a", f"no {TOKEN}", 1),))),
            (row("b"), Document("b", ())),
            (row("c", 1), Document("c", (replace(record(0), embedding=[1.0, 2.0]),))),
        ]
        one.add(files)
        for each in files:
            other.replace(*each)
        assert one.files() == other.files()
        assert one.findings() == other.findings()
        assert one.newest(EVERYTHING, 9) == other.newest(EVERYTHING, 9)
        assert [*one.entries(["a", "b", "c"])] == [*other.entries(["a", "b", "c"])]
        assert said(one) == said(other)
        assert one.take_new_findings() == other.take_new_findings()
        one.close()
        other.close()

    def test_a_scan_differs_unless_the_files_are_unchanged_and_were_read_completely(self, index: IndexWriter) -> None:
        whole, found = row("a", 3), Fingerprint(1, 2, 3, 4, 5)
        index.replace(whole._replace(fingerprint=found), Document("a", ()))
        unchanged = FileChanges([], [], {}, 3)
        assert index.compare({"a": found}) == index.compare({"a": found._replace(mode=0o600, nlink=2)}) == unchanged
        for field in ("dev", "inode", "size", "mtime_ns", "ctime_ns"):
            assert index.compare({"a": found._replace(**{field: 9})}) == unchanged._replace(changed=["a"])
        for doubt in ({"pending": True}, {"recently_modified": True}, {"digest": ""}):
            index.restamp(whole._replace(fingerprint=found, **doubt))
            assert index.compare({"a": found}) == unchanged._replace(changed=["a"])

    def test_a_scan_has_new_files_and_misses_others(self, index: IndexWriter) -> None:
        kept, gone = os.fsdecode(b"\xff\xe4"), "göne"
        found = Fingerprint(1, 2, 3, 4, 5)
        for path, records in ((kept, 2), (gone, 3)):
            index.replace(row(path, records)._replace(fingerprint=found), Document(path, ()))
        assert index.compare({"z": found, kept: found, "b": found}) == FileChanges(["z", "b"], [], {gone: 3}, 5)

    def test_totals_are_counted_for_each_role(self, index: IndexWriter) -> None:
        assert index.totals_by_role() == {}
        for path, role, records in (("a", "source", 3), ("b", "archive", 4), ("c", "source", 0)):
            index.replace(row(path, records)._replace(role=role), Document(path, ()))
        size = row("a").fingerprint.size
        assert index.totals_by_role() == {"source": RoleTotals(2, 3, 2 * size), "archive": RoleTotals(1, 4, size)}

    def test_restamp_changes_the_file_alone(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra")
        changed = row("a", 1)._replace(fingerprint=Fingerprint(1, 2, 3, 4, 5), pending=True)
        index.restamp(changed)
        assert index.file("a") == changed
        assert found(index, "zebra") == ["a#m0"]

    def test_an_empty_index(self, index: IndexWriter) -> None:
        assert (index.size, index.totals(), index.files(), index.findings()) == (0, (0, 0), {}, [])
        assert (index.owners(), index.newest(EVERYTHING, 9), index.take_new_findings()) == ((), [], [])
        index.forget("a")
        index.clear()


class TestRecords:
    @pytest.mark.parametrize("files", [5, 400])
    @pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled"])
    def test_entries_come_in_the_given_order(self, index: IndexWriter, files: int, order: str) -> None:
        """Also for files without records, unknown ones, and such as nobody asks for."""
        counts = {f"memory_{number}_é\udcff.json": number % 4 for number in range(files)}
        with index.batch():
            for path, count in counts.items():
                put(index, path, *(record(n, id=f"{path}#{n}", facts={"n": n}) for n in range(count)))
        wanted = sorted([*counts, "unknown", "memory_x"])[2:]
        if order == "reversed":
            wanted.reverse()
        if order == "shuffled":
            random.Random(7).shuffle(wanted)
        assert [(each.path, each.id, each.line, dict(each.facts)) for each in index.entries(wanted)] == [
            (path, f"{path}#{n}".encode("utf-8", "replace").decode(), n + 1, {"n": n})
            for path in wanted
            for n in range(counts.get(path, 0))
        ]

    def test_live_ones_are_counted_once(self, index: IndexWriter) -> None:
        put(index, "a", record(0, id="x"), record(1, id="x"), record(2), record(3, archived=True))
        assert index.live_count("a") == 2
        assert index.live_count("b") == 0

    def test_a_file_without_memories_has_none(self, index: IndexWriter) -> None:
        put(index, "a")
        assert not index.has_records()
        put(index, "b", record(0))
        assert index.has_records()

    def test_places_are_those_of_the_id_or_of_its_suffixed_ones(self, index: IndexWriter) -> None:
        put(index, "a", *(record(n, id=f"x{each}") for n, each in enumerate(("~0a1b2c", "~0a1b2c.1", "~other", "y"))))
        put(index, "b", record(0, id="y"), record(1, id="y~0a1b2c"), record(2, id="y", archived=True))
        assert sorted(each.id for each in index.places("x")) == ["x~0a1b2c", "x~0a1b2c.1"]
        first, second = sorted(index.places("y"))
        assert (first.path, first.start, first.end, first.line, first.live) == ("b", 0, 9, 1, True)
        assert (second.start, second.live, second.fingerprint) == (20, False, row("b").fingerprint)
        assert index.places("z") == []

    def test_memories_with_the_same_id_have_unique_ids(self, index: IndexWriter) -> None:
        put(index, "b", record(0, "two", id="x"), record(1, "one", id="x"), record(2, id="y"))
        put(index, "a", record(0, "one", id="x"))
        put(index, "old", record(0, "two", id="x", archived=True), record(1, id="y", archived=True))
        index.restamp(row("old", 2)._replace(role="archive"))
        by_place = {(each.path, each.start): each for each in index.places("x")}
        one, two = by_place["a", 0].unique_id, by_place["b", 0].unique_id
        assert ID_SUFFIX.fullmatch(one, 1)
        assert {each: place.unique_id for each, place in by_place.items()} == {
            ("a", 0): one,
            ("b", 0): two,
            ("b", 10): f"{one}.2",
            ("old", 0): two,
        }
        assert one != two
        assert [(each.path, each.start) for each in index.places(f"{one}.2")] == [("b", 10)]
        assert [each.path for each in sorted(index.places(two))] == ["b", "old"]
        assert [each.is_shared for each in index.places("y")] == [False, False], "a memory and its copy in the archive"
        assert index.unique_ids(["x", "y"]) == {each.key: each.unique_id for each in by_place.values()}
        assert index.unique_ids([]) == {}
        with index.reader() as reader:
            assert reader.unique_ids(["x"]) == index.unique_ids(["x"])
        index.forget("a")
        put(index, "b", record(0, "one", id="x"))
        index.forget("old")
        with index.reader() as reader:
            assert reader.unique_ids(["x"]) == {}
        assert [(each.path, each.unique_id) for each in index.places(one)] == [("b", "x")], "the last one with the id"
        assert index.places(two) == []

    def test_live_memories_that_are_archived_as_well_are_listed(self, index: IndexWriter) -> None:
        put(index, "b", record(0, id="x"), record(1, id="y"), record(2, id="z", archived=True))
        put(index, "a", record(0, id="w"), record(1, id="x"))
        assert index.also_archived() == []
        for path in ("old", "older"):
            copies = tuple(record(n, id=each, archived=True) for n, each in enumerate("xzv"))
            index.replace(row(path, 3)._replace(role="archive"), Document(path, copies))
        assert [(each.path, each.id, each.line) for each in index.also_archived()] == [("a", "x", 2), ("b", "x", 1)]

    def test_an_append_keeps_what_is_known(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra")
        index.append(row("a", 2), Document("a", (record(1, "giraffe"),)))
        assert [each.id for each in index.entries(["a"])] == ["m0", "m1"]
        assert [each.id for each in index.entries_from("a", 10)] == ["m1"]
        assert index.file("a") == row("a", 2)

    def test_it_tells_which_files_changed_and_from_where_on_they_only_grew(self, index: IndexWriter) -> None:
        put_texts(index, "a", "one", "two")
        put_texts(index, "b", "three")
        assert index.take_changes() is None
        follows = index.take_changes() is not None  # an engine need not
        index.append(row("a", 3), Document("a", (record(2, "four"),)))
        index.append(row("a", 4), Document("a", (record(3, "five"),)))
        index.replace_range(row("b", 2), ReplacedRange(Span(10, 10), 0, 10, 1), Document("b", (record(1, "six"),)))
        assert index.take_changes() == ({"a": 20, "b": 10} if follows else None)
        index.append(row("a", 5), Document("a", (record(4, "seven"),)))
        index.replace_range(row("a", 5), ReplacedRange(Span(0, 10), 1, 10, 1), Document("a", (record(0, "eight"),)))
        index.append(row("a", 6), Document("a", (record(5, "nine"),)))
        index.forget("b")
        assert index.take_changes() == ({"a": 0, "b": 0} if follows else None)

    def test_a_range_is_replaced_and_what_is_below_moves(self, index: IndexWriter) -> None:
        put_texts(index, "a", "one", "two", "three", "four")
        before = keys(index)
        new = Record(Span(10, 12), 2, "n", "note", "", None, None, (), False, {}, text="two")
        index.replace_range(row("a", 3), ReplacedRange(Span(10, 30), 2, 3, 1), Document("a", (new,)))
        assert [(each.id, each.line) for each in index.entries(["a"])] == [("m0", 1), ("n", 2), ("m3", 3)]
        [moved] = index.places("m3")
        assert (moved.start, moved.end) == (13, 22)
        assert {text: key for text, key in before.items() if text != "three"} == keys(index)

    def test_reads_are_noted(self, index: IndexWriter) -> None:
        put(index, "a", record(0, "zebra"), record(1, "zebra", uses=3))
        put(index, "b", record(0, "zebra"))
        index.set_access("a", {"m0": 7, "unknown": 1})
        assert {(each.path, each.id): each.uses for each in index.newest(EVERYTHING, 9)} == {
            ("a", "m0"): 7,
            ("a", "m1"): 3,
            ("b", "m0"): 0,
        }
        assert sorted(match.uses for match in index.match(TextQuery(terms("zebra")), EVERYTHING, 9)) == [0, 3, 7]


class TestFindings:
    BAD = Finding("field-type", "a", "no number", 1, "m0")
    WORSE = Finding("invalid-json", "a", "no JSON", 2)

    def test_they_are_listed_and_counted(self, index: IndexWriter) -> None:
        put(index, "b", findings=[replace(self.BAD, path="b")])
        put(index, "a", findings=[self.WORSE, self.BAD])
        assert index.findings() == [self.BAD, self.WORSE, replace(self.BAD, path="b")]
        assert index.finding_counts() == {("a", "field-type"): 1, ("a", "invalid-json"): 1, ("b", "field-type"): 1}
        assert index.finding_counts("b") == {("b", "field-type"): 1}
        index.forget("a")
        assert index.finding_counts() == {("b", "field-type"): 1}

    def test_only_new_findings_are_reported_as_new(self, index: IndexWriter) -> None:
        put(index, "a", findings=[self.BAD])
        assert [each.finding for each in index.take_new_findings()] == [self.BAD]
        put(index, "a", findings=[replace(self.BAD, line=5), self.WORSE])
        assert [each.finding for each in index.take_new_findings()] == [self.WORSE], "a line that moved is none"
        assert index.take_new_findings() == []

    def test_an_append_replaces_what_is_about_the_whole_file(self, index: IndexWriter) -> None:
        put(index, "a", findings=[self.BAD, self.WORSE])
        index.append(row("a"), Document("a", (), (replace(self.WORSE, line=9),)), recounted=("invalid-json",))
        assert index.findings() == [self.BAD, replace(self.WORSE, line=9)]


class TestMemories:
    def test_what_goes_is_found_no_more(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra", "giraffe")
        put_texts(index, "b", "zebra")
        assert sorted(found(index, "zebra")) == ["a#m0", "b#m0"]
        put_texts(index, "a", "giraffe")
        assert found(index, "zebra") == ["b#m0"]
        index.forget("b")
        assert found(index, "zebra") == []
        index.clear()
        assert found(index, "giraffe") == []

    def test_a_text_that_stays_keeps_its_key_and_its_vector(self, index: IndexWriter) -> None:
        """A file rewritten for one memory must not cost the vectors of a thousand others."""
        put_texts(index, "a", "one", "two", "three")
        before = keys(index)
        index.put_vectors(MODEL, [(key, b"1234") for key in before.values()])
        put_texts(index, "a", "three", "new", "one")
        after = keys(index)
        assert (after["one"], after["three"]) == (before["one"], before["three"])
        assert {text for text, key in after.items() if index.vector(key)} == {"one", "three"}

    def test_a_key_is_never_used_again(self, index: IndexWriter) -> None:
        seen = [0]
        for number in range(5):
            put_texts(index, "a", f"text {number}")
            if number % 2:
                index.clear()
                put_texts(index, "a", f"again {number}")
            [key] = keys(index).values()
            assert key > seen[-1]
            seen.append(key)

    def test_equal_texts_have_keys_of_their_own(self, index: IndexWriter) -> None:
        put_texts(index, "a", "same", "same", "same")
        assert sorted(found(index, "same")) == ["a#m0", "a#m1", "a#m2"]
        assert index.size == 3
        put_texts(index, "a", "same")
        assert found(index, "same") == ["a#m0"]

    def test_nothing_enters_unredacted(self, index: IndexWriter) -> None:
        put(
            index,
            "a",
            record(0, f"use {TOKEN} here", title=f"title {TOKEN}", tags=(TOKEN,), type=TOKEN, facts={"x": [TOKEN]}),
            findings=[Finding("field-type", "a", f"no {TOKEN}", 1)],
        )
        [held], [entry] = index.newest(EVERYTHING, 9), list(index.entries(["a"]))
        told = f"{held} {entry} {index.findings()} {index.missing_vectors(MODEL, 0, 9)}"
        assert TOKEN not in told
        assert told.count("[redacted:") >= 7

    def test_newest_first_and_a_page_at_a_time(self, index: IndexWriter) -> None:
        chance = random.Random(3)
        made = [record(n, id=f"m{n % 7}", created=chance.choice([None, 1.0, 2.0, 3.0])) for n in range(40)]
        put(index, "a", *made)
        every = index.newest(EVERYTHING, 100)
        order = [(each.created is not None, each.created or 0.0, each.id, each.key) for each in every]
        assert order == sorted(order, reverse=True)
        pages, last = [], None
        while page := index.newest(EVERYTHING, 7, last):
            pages += page
            last = Before(page[-1].created, page[-1].id, page[-1].key)
        assert pages == every
        assert index.newest(EVERYTHING, 100, Before(2.0, "", 0, same=True)) == [
            each for each in every if each.created is None or each.created <= 2.0
        ]

    def test_they_are_counted_by_month(self, index: IndexWriter) -> None:
        assert index.months(EVERYTHING) == []
        january, march = 1767225600.0, 1772323200.0  # the first seconds of these months of 2026
        put(
            index,
            "a",
            record(0, created=january),
            record(1, created=march - 0.5, owner="ann"),
            record(2, created=march, archived=True),
            record(3, created=march + 1),
            record(4),
            record(5, created=-1.0, archived=True),
        )
        assert index.months(EVERYTHING) == [
            MonthCount("2026-03", 1, 1),
            MonthCount("2026-02", 1, 0),
            MonthCount("2026-01", 1, 0),
            MonthCount("1969-12", 0, 1),
            MonthCount(None, 1, 0),
        ]
        assert index.months(Filters()) == [MonthCount(f"2026-0{n}", 1, 0) for n in (3, 2, 1)] + [MonthCount(None, 1, 0)]
        assert index.months(Filters(owner="ann")) == [MonthCount("2026-02", 1, 0)]

    def test_filters(self, index: IndexWriter) -> None:
        put(
            index,
            "a",
            record(0, "zebra", created=10.0),
            record(1, "zebra", tags=("test", "two words"), created=20.0, owner="ann"),
            record(2, "zebra", tags=("testing",), type="task", owner="bob"),
            record(3, "zebra", tags=("test",), archived=True, created=40.0),
        )
        expected = {
            Filters(): [0, 1, 2],
            Filters(archived=True): [0, 1, 2, 3],
            Filters(type="task"): [2],
            Filters(tags=("test",)): [1],
            Filters(tags=("test",), archived=True): [1, 3],
            Filters(tags=("test", "two words")): [1],
            Filters(tags=("two",)): [],
            Filters(tags=("",)): [],
            Filters(since=20.0): [1],
            Filters(until=20.0): [0],
            Filters(since=20.0, until=20.1): [1],
            Filters(owner="bob"): [2],
            Filters(owner=""): [0],
        }
        substring = TextQuery((Term("ebr"),), "substring")
        for filters, numbers in expected.items():
            ids = {f"m{number}" for number in numbers}
            assert {each.id for each in index.newest(filters, 9)} == ids, filters
            assert {each.partition("#")[2] for each in found(index, "zebra", filters)} == ids, filters
            assert {each.partition("#")[2] for each in found(index, substring, filters)} == ids, filters

    def test_identities_are_of_ids_and_texts_wherever_they_are(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra", "heron")
        put_texts(index, "b", "zebra")
        here, there = index.identities("a"), index.identities("b")
        assert sorted(each.id for each in here) == ["m0", "m1"]
        assert there[0].text in {each.text for each in here}
        assert len({each.text for each in here}) == 2
        assert sorted(index.identities()) == sorted([*here, *there])
        assert index.identities("c") == []

    def test_owners_and_ids(self, index: IndexWriter) -> None:
        put(index, "a", record(0, owner="bob"), record(1, owner="ann"), record(2, id="m1"))
        assert index.owners() == ("", "ann", "bob")
        put(index, "a", record(0, owner="bob"), record(1, owner="ann"))
        assert index.owners() == ("ann", "bob")
        put(index, "a", record(0), record(1))
        assert index.owners() == ("",)
        put(index, "a", record(0, owner="bob"), record(1, owner="ann"), record(2, id="m1"))
        assert len(index.keys_of("m1", Filters())) == 2
        assert len(index.keys_of("m1", Filters(owner="ann"))) == 1
        assert index.keys_of("m", Filters()) == []
        assert set(index.memories([*keys(index).values(), 10**9])) <= set(range(10**6))


class TestText:
    def test_all_any_and_the_phrase_first(self, index: IndexWriter) -> None:
        put_texts(index, "a", "time out of limit", "out of time", "the time is over", "nothing")
        words = terms("out of time")
        every = TextQuery(words, phrase=Term("out of time"))
        kinds = {match.kind: match.key for match in index.match(every, EVERYTHING, 9)}
        assert found(index, every) == ["a#m1", "a#m0"]
        assert list(kinds) == ["phrase", "all"]
        assert set(found(index, TextQuery(words, "any"))) == {"a#m0", "a#m1", "a#m2"}
        assert all(0 <= match.score <= 1 for match in index.match(TextQuery(words, "any"), EVERYTHING, 9))

    def test_a_term_may_be_several_words_or_go_on(self, index: IndexWriter) -> None:
        put_texts(index, "a", "see foo_bar here", "foo and bar", "foobar", "数据库")
        assert found(index, TextQuery((Term("foo bar"),))) == ["a#m0"]
        assert found(index, TextQuery((Term("foob", prefix=True),))) == ["a#m2"]
        assert found(index, TextQuery((Term("数 据"),))) == ["a#m3"]
        assert found(index, TextQuery((Term("foo ba", prefix=True),))) == ["a#m0"]

    @pytest.mark.parametrize("text", ['"', "a AND b", "NOT", "*", "x OR (y", "NEAR(a b)", "'; --", "-zebra", "a:b"])
    def test_no_text_is_an_operator(self, index: IndexWriter, text: str) -> None:
        put_texts(index, "a", "zebra", text)
        for mode in ("all", "any"):
            asked = TextQuery(terms(text), mode)
            assert "a#m0" not in found(index, asked) or "zebra" in text
        assert found(index, TextQuery((Term(text),), "substring"))[:1] == ["a#m1"]

    def test_titles_labels_and_tags_are_searched_too(self, index: IndexWriter) -> None:
        put(index, "a", record(0, title="Zebra"), record(1, labels=("zebra",)), record(2, tags=("a-zebra",)))
        assert set(found(index, "zebra")) == {"a#m0", "a#m1", "a#m2"}

    def test_of_equals_the_last_that_came_in(self, index: IndexWriter) -> None:
        put_texts(index, "a", *["the zebra"] * 9)
        assert found(index, "zebra", limit=3) == ["a#m8", "a#m7", "a#m6"]

    def test_the_scale_is_what_a_full_match_would_be(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra", "giraffe", *["filler"] * 30)
        [of_itself] = index.match(TextQuery(terms("zebra"), "any"), EVERYTHING, 9)
        [of_more] = index.match(TextQuery(terms("zebra"), "any", scale=terms("zebra giraffe")), EVERYTHING, 9)
        assert of_more.score == pytest.approx(of_itself.score / 2)

    def test_other_forms_of_a_term_match(self, index: IndexWriter) -> None:
        put_texts(index, "a", "use it", "using it", "reused", "the user", "it")
        forms = Term("use", forms=("using", "user"))
        assert sorted(found(index, TextQuery((forms,)))) == ["a#m0", "a#m1", "a#m3"]
        assert sorted(found(index, TextQuery((forms, Term("it"))))) == ["a#m0", "a#m1"]
        some = TextQuery((forms, Term("reu", prefix=True)), "any")
        assert sorted(found(index, some)) == ["a#m0", "a#m1", "a#m2", "a#m3"]
        assert index.term_frequencies((forms, replace(forms, forms=()))) == [3, 1]

    def test_words_are_found_by_their_beginning(self, index: IndexWriter) -> None:
        put_texts(index, "a", "Zebra and zebu", "zeal zenith zebra", "abc Zürich", "zf")
        assert index.words_beginning("zeb") == ["zebra", "zebu"]
        assert index.words_beginning("z") == ["zeal", "zebra", "zebu", "zenith", "zf", "zurich"]
        assert index.words_beginning("z", "u") == ["zebu"]
        assert index.words_beginning("zz") == []
        assert index.known_words(["zz", "zebu", "zeb", "abc"]) == ["zebu", "abc"]

    def test_words_are_found_by_their_beginning_when_the_vocabulary_was_read(self, index: IndexWriter) -> None:
        put_texts(index, "a", "Zebra and zebu", "zeal zenith zebra")
        index.vocabulary()
        put_texts(index, "b", "abc Zürich", "zebrine zebra")
        assert index.words_beginning("zeb") == ["zebra", "zebrine", "zebu"]
        assert index.words_beginning("z") == ["zeal", "zebra", "zebrine", "zebu", "zenith", "zurich"]
        assert index.words_beginning("z", "e") == index.words_beginning("zebrine", "ine") == ["zebrine"]
        assert index.words_beginning("z", "ra") == ["zebra"]
        assert index.words_beginning("abc") == ["abc"]
        assert index.words_beginning("zz") == []
        assert index.known_words(["zz", "zurich", "zenith", "zeb", "z", "abc"]) == ["zurich", "zenith", "abc"]

    def test_frequencies_are_counted_together(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra", "zebra giraffe", "foo bar")
        asked = (Term("zebra"), Term("giraffe"), Term("none"), Term("gir", prefix=True), Term("foo bar"), Term("zebra"))
        assert list(index.term_frequencies(asked)) == [2, 1, 0, 1, 1, 2]
        assert index.term_frequencies(()) == []
        index.forget("a")
        assert index.term_frequencies(asked[:1]) == [0]

    def test_the_memories_with_a_term_are_listed_unless_they_are_too_many(self, index: IndexWriter) -> None:
        put(index, "a", record(0, "zebra"), record(1, tags=("gir-raffe",)), record(2, title="the zebra"))
        asked = (*terms("zebra giraffe"), Term("gir", prefix=True), Term("gir raffe"))
        [zebra, none, start, phrase] = index.keys_with(asked, 2)
        assert (zebra, none, start, phrase) == ({1, 3}, set(), {2}, {2})
        assert index.keys_with(terms("zebra"), 1) == [None]
        assert index.keys_with((), 1) == []

    def test_the_memories_with_a_term_in_labels_or_tags_are_listed(self, index: IndexWriter) -> None:
        labelled = record(1, "text", tags=("gir-raffe",)), record(2, "text", labels=("zebra", "Gnu"))
        put(index, "a", record(0, "other words"), *labelled, record(3, "gnu gnu"))
        assert set(index.keys_with_label(terms("raffe"), 9) or ()) == {2}
        assert {2, 3} <= set(index.keys_with_label(terms("raffe gnu"), 9) or ()) <= {2, 3, 4}
        assert set(index.keys_with_label((Term("gir", prefix=True), Term("none")), 9) or ()) == {2}
        assert index.keys_with_label(terms("gnu zebra"), 0) is None
        assert index.keys_with_label((), 9) == set()

    def test_the_phrase_alone(self, index: IndexWriter) -> None:
        put_texts(index, "a", "out of the time", "it ran out of time", "time out of", "Out of time, again")
        for phrase, ids in (("out of time", {"m1", "m3"}), ("of the", {"m0"}), ("time of", set())):
            for limit in (1, 9):
                matches = index.match(TextQuery((), phrase=Term(phrase)), EVERYTHING, limit)
                assert {match.kind for match in matches} <= {"phrase"}
                assert len(matches) == min(len(ids), limit)
                assert {f"m{match.key - 1}" for match in matches} <= ids

    def test_no_terms_find_nothing(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra")
        for query in (TextQuery(()), TextQuery((), "any"), TextQuery((), "substring")):
            assert index.match(query, EVERYTHING, 9) == []

    def test_substrings(self, index: IndexWriter) -> None:
        put(
            index,
            "a",
            record(0, "a Ghosted room"),
            record(1, "x==>y"),
            record(2, title="It's"),
            record(3, tags=("O-b",)),
        )
        for text, ids in (("HOST", ["a#m0"]), ("=>", ["a#m1"]), ("t's", ["a#m2"]), ("o-B", ["a#m3"]), ("zz", [])):
            assert found(index, TextQuery((Term(text),), "substring")) == ids
        assert found(index, TextQuery((Term("host"),), "substring", whole_words=True)) == []
        assert found(index, TextQuery((Term("ghosted"),), "substring", whole_words=True)) == ["a#m0"]
        both = index.match(TextQuery((Term("host"), Term("room")), "substring"), EVERYTHING, 9)
        assert [(match.score, match.kind) for match in both] == [(1.0, "substring")]
        assert found(index, TextQuery((Term("o"),), "substring", without=[each.key for each in both])) == ["a#m3"]

    @pytest.mark.parametrize("fillers", [0, 30])
    def test_whole_words_are_found_also_where_letters_are_joined_to_them(
        self, index: IndexWriter, fillers: int
    ) -> None:
        texts = (
            "the server",
            "servers",
            "a בserver",
            "дserver",
            "日server本",
            "web-SERVER?",
            "השרת",
            "Sérver",
            "🦔server",
            "ab™x",
        )
        put_texts(index, "a", *(["reserved"] * fillers), *texts)
        for asked, found_in in (
            (("server",), {"the server", "a בserver", "日server本", "web-SERVER?", "Sérver", "🦔server"}),
            (("שרת",), {"השרת"}),
            (("serv", "erver"), set()),
            (("serv", "本", "WEB"), {"日server本", "web-SERVER?"}),
            (("🦔",), {"🦔server"}),
            (("™",), {"ab™x"}),
        ):
            query = TextQuery(tuple(map(Term, asked)), "substring", whole_words=True)
            ids = {f"a#m{fillers + texts.index(text)}" for text in found_in}
            assert set(found(index, query)) == ids, asked
        put_texts(index, "b", "לserver", "server")  # newer than the words that were looked up
        query = TextQuery((Term("server"),), "substring", whole_words=True)
        assert {"b#m0", "b#m1"} <= set(found(index, query))
        assert len(index.match(query, EVERYTHING, 2)) == 2

    @pytest.mark.parametrize(
        "text", ["xicc-review.pyx", "c++-lib/c#:ab_c++17", "1.0.210-é-Straße.de", "a👩‍🚀b=c<T>(d)", r"9%\a_b\0c"]
    )
    def test_every_part_of_a_word_with_signs_is_found(self, index: IndexWriter, text: str) -> None:
        put_texts(index, "a", f"it is {text} here", *["icc", "review", "lib ab", "210 de"] * 6)
        for start, end in combinations(range(len(text) + 1), 2):
            query = TextQuery((Term(text[start:end]),), "substring")
            assert "a#m0" in found(index, query), query

    def test_a_text_does_not_end_at_a_nul_character(self, index: IndexWriter) -> None:
        put(index, "a", record(0, "a\0b => c"), record(1, title="d\0It's"), record(2, tags=("e\0O-b",)), record(3, "f"))
        for text, ids in (("=>", ["a#m0"]), ("'", ["a#m1"]), ("-", ["a#m2"])):
            assert found(index, TextQuery((Term(text),), "substring")) == ids
        assert [each.id for each in index.newest(Filters(tags=("e\0O-b",)), 9)] == ["m2"]

    def test_it_equals_a_rebuild(self, engine: Opens) -> None:
        """Whatever was put, grown and forgotten before."""
        texts = ["one two", "two", "three é", "数据", "", "C++ one", "one two three"]
        step = st.tuples(st.sampled_from(["replace", "append", "forget", "clear"]), st.sampled_from("ab"),
                         st.lists(st.sampled_from(texts), max_size=4))  # fmt: skip
        number = iter(range(10**6))

        @settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
        @given(steps=st.lists(step, max_size=12), batch=st.booleans())
        def check(steps: list[tuple[str, str, list[str]]], batch: bool) -> None:
            one, other = engine(f"{next(number)}"), engine(f"{next(number)}")
            now: dict[str, list[str]] = {}
            if batch:
                with one.batch():
                    play(one, steps, now)
            else:
                play(one, steps, now)
            for path, known in now.items():
                put_texts(other, path, *known)
            assert said(one) == said(other)
            one.close()
            other.close()

        check()


def play(index: IndexWriter, steps: list[tuple[str, str, list[str]]], now: dict[str, list[str]]) -> None:
    for what, path, texts in steps:
        if what == "replace":
            put_texts(index, path, *texts)
            now[path] = texts
        elif what == "append":
            begin = len(now.get(path, ()))
            tail = tuple(record(begin + number, text) for number, text in enumerate(texts))
            index.append(row(path), Document(path, tail))
            now[path] = [*now.get(path, ()), *texts]
        elif what == "forget":
            index.forget(path)
            now.pop(path, None)
        else:
            index.clear()
            now.clear()


def said(index: IndexWriter) -> dict[str, object]:
    words = sorted({word for each in index.newest(EVERYTHING, 100) for word in tokens(each.body)})
    with index.reader() as reader:
        frequencies = reader.term_frequencies(tuple(map(Term, words)))
        return {"size": reader.size, "frequencies": frequencies, **{w: sorted(found(reader, w)) for w in words}}


class TestVectors:
    def test_missing_vectors_come_by_key_with_title_and_body(self, index: IndexWriter) -> None:
        put(
            index,
            "a",
            record(1, "The beginning of it, and more", title="The beginning of…", labels=("Topic",), tags=("tag",)),
            record(2, "text", title="title", tags=("tag",)),
        )
        first, second = index.missing_vectors(MODEL, 0, 10)
        assert first[1] == "The beginning of it, and more", "neither labels nor tags, and no text twice"
        assert second[1] == "title\ntext"
        assert index.missing_vectors(MODEL, first[0], 1) == [second]
        index.put_vectors(MODEL, [(first[0], b"1234")])
        assert index.missing_vectors(MODEL, 0, 10) == [second]
        assert len(index.missing_vectors("other", 0, 10)) == 2

    def test_a_vector_dies_with_its_text(self, index: IndexWriter) -> None:
        put_texts(index, "a", "stays", "goes")
        stays, goes = sorted(keys(index).values())
        index.put_vectors(MODEL, [(stays, b"1234"), (goes, b"5678")])
        put_texts(index, "a", "comes", "stays")
        assert index.vector(stays) == (MODEL, b"1234")
        assert index.vector(goes) is None
        index.put_vectors(MODEL, [(goes, b"5678")])
        assert index.vector(goes) is None, "what has gone gets none"

    def test_vectors_of_agents_are_stored_unchanged(self, index: IndexWriter) -> None:
        put(index, "a", record(1, "own", embedding=(1.0, 0.5), owner="ann"), record(2, "none"))
        known = keys(index)
        assert [key for key, _ in index.missing_vectors(MODEL, 0, 10)] == [known["none"]]
        index.put_vectors(MODEL, [(known["own"], b"1234")])
        assert index.vector(known["own"]) == ("own:2", pack_floats((1.0, 0.5)))
        index.put_vectors(MODEL, [(known["none"], b"1234")])
        assert index.missing_vectors(MODEL, 0, 10) == []
        put(index, "a", record(1, "own", owner="ann"), record(2, "none"))
        assert index.vector(known["own"]) is None, "its agent took it back"
        assert [key for key, _ in index.missing_vectors(MODEL, 0, 10)] == [known["own"]]

    @pytest.mark.parametrize("factor", [1e300, 1e39, 1e25, 1e-25, 1e-300])
    def test_those_that_do_not_fit_32_bits_keep_their_direction(self, index: IndexWriter, factor: float) -> None:
        """One infinite number would make every cosine with the mean of all vectors unknown."""
        put(
            index,
            "a",
            record(1, "extreme", embedding=(4 * factor, 3 * factor)),
            record(2, "usual", embedding=(0.0, 2.0)),
        )
        extreme, usual = keys(index)["extreme"], keys(index)["usual"]
        for less, expected in ((0.0, {extreme: 0.8, usual: 0.0}), (0.5, {extreme: 0.7772, usual: -0.037})):
            found = index.nearest([1.0, 0.0], "own:2", EVERYTHING, 5, less_common=less)
            assert found == pytest.approx(expected, abs=1e-4)

    def test_a_vector_that_an_older_memory_gets_later_is_compared(self, index: IndexWriter) -> None:
        newer = record(2, "newer", embedding=(0.0, 1.0))
        for older in (record(1, "older"), record(1, "older", embedding=(1.0, 0.0))):
            put(index, "a", older, newer)
            found = index.nearest([1.0, 0.0], "own:2", EVERYTHING, 5)
        assert found == {keys(index)["older"]: 1.0, keys(index)["newer"]: 0.0}

    def test_what_comes_after_none_was_missing_is_missing(self, index: IndexWriter) -> None:
        put(index, "a", record(1, "first", embedding=(1.0, 0.5)), record(2, "second", embedding=(1.0, 0.5)))
        assert index.missing_vectors(MODEL, 0, 10) == []
        put(index, "b", record(1, "third"))
        third = keys(index)["third"]
        assert [key for key, _ in index.missing_vectors(MODEL, 0, 10)] == [third]
        assert index.missing_vectors(MODEL, third, 10) == []
        assert [key for key, _ in index.missing_vectors(MODEL, 0, 10)] == [third], "a gap below was looked at"

    def test_samples_are_those_of_the_owner(self, index: IndexWriter) -> None:
        put(index, "a", record(1, "of ann", embedding=(1.0, 2.0), owner="ann"), record(3, "x", embedding=(1.0,)))
        put(index, "b", record(1, "", title="of bob", embedding=(3.0, 4.0, 5.0), owner="bob"))
        assert [(each.text, each.model) for each in index.vector_samples("bob", 5)] == [("of bob", "own:3")]
        assert len(index.vector_samples(None, 5)) == 2
        assert index.vector_samples("nobody", 5) == []

    def test_the_nearest_are_exact_and_filtered_before_they_are_taken(self, index: IndexWriter) -> None:
        chance = random.Random(5)
        vectors = [tuple(chance.uniform(-1, 1) for _ in range(4)) for _ in range(60)]
        put(
            index,
            "a",
            *(record(n, f"text {n}", archived=n % 3 == 0, tags=("rare",) * (n % 20 == 1)) for n in range(60)),
        )
        known = keys(index)
        index.put_vectors(MODEL, [(known[f"text {n}"], pack_floats(each)) for n, each in enumerate(vectors)])
        for filters in (EVERYTHING, Filters(), Filters(tags=("rare",)), Filters(type="none")):
            let_in = {each.key for each in index.newest(filters, 100)}
            expected = [each for each in nearest(index, vectors[0], EVERYTHING, 60) if each[0] in let_in]
            assert nearest(index, vectors[0], filters, 7) == expected[:7]
        assert nearest(index, vectors[0], EVERYTHING, 60)[0][0] == known["text 0"]
        also = nearest(index, vectors[0], Filters(type="none"), 7, (known["text 5"], 10**9))
        assert [key for key, _ in also] == [known["text 5"]]

    def test_what_all_vectors_have_in_common_can_be_left_out(self, index: IndexWriter) -> None:
        """Among 40 that say a little of everything, one that says what is asked for."""
        put_texts(index, "a", "answer", *(f"other {n}" for n in range(40)))
        known = keys(index)
        index.put_vectors(MODEL, [(key, pack_floats((1.0, 1.0))) for key in known.values()])
        index.put_vectors(MODEL, [(known["answer"], pack_floats((3.0, 0.9)))])
        plain = index.nearest((1.0, 0.7), MODEL, EVERYTHING, 1) or {}
        less = index.nearest((1.0, 0.7), MODEL, EVERYTHING, 1, less_common=0.5) or {}
        assert known["answer"] not in plain
        assert less == {known["answer"]: pytest.approx(0.973, abs=0.002)}
        assert index.nearest((1.0, 0.7), MODEL, EVERYTHING, 1) == plain, "nothing of it is kept"

    def test_vectors_of_another_model_are_none(self, index: IndexWriter) -> None:
        put_texts(index, "a", "one")
        assert index.nearest((1.0, 0.0), MODEL, EVERYTHING, 5) is None
        index.put_vectors("other", [(key, pack_floats((1, 0))) for key in keys(index).values()])
        assert index.nearest((1.0, 0.0), MODEL, EVERYTHING, 5) is None
        assert index.nearest((1.0, 0.0), "other", Filters(type="none"), 5) == {}

    def test_what_came_changed_and_went_is_followed(self, index: IndexWriter) -> None:
        """Also what gets its vector before one with a smaller key, and one that became another."""
        put_texts(index, "a", "one", "two", "three")
        one, two, three = sorted(keys(index).values())
        for key, numbers in ((two, (1.0, 0.0)), (one, (0.0, 1.0)), (two, (0.0, -1.0)), (three, (0.1, 1.0))):
            index.put_vectors(MODEL, [(key, pack_floats(numbers))])
            assert nearest(index, numbers, EVERYTHING, 1)[0][0] == key
        assert [key for key, _ in nearest(index, (0.0, 1.0), EVERYTHING, 9)] == [one, three, two]
        put_texts(index, "a", "one", "two")
        assert [key for key, _ in nearest(index, (0.0, 1.0), EVERYTHING, 9)] == [one, two]
        index.release_idle(0.0)
        index.release_idle(10**9)
        assert [key for key, _ in nearest(index, (0.0, 1.0), EVERYTHING, 1)] == [one]


def nearest(
    index: IndexReader, vector: tuple[float, ...], filters: Filters, limit: int, also: tuple[int, ...] = ()
) -> list[tuple[int, float]]:
    """The nearest in their order."""
    return [*(index.nearest(vector, MODEL, filters, limit, also) or {}).items()]


class TestReaders:
    def test_a_reader_shows_one_state(self, index: IndexWriter) -> None:
        put_texts(index, "a", "zebra")
        with index.reader() as reader:
            assert found(reader, "zebra") == ["a#m0"]
            put_texts(index, "b", "zebra")
            index.forget("a")
            assert (found(reader, "zebra"), reader.size, list(reader.files())) == (["a#m0"], 1, ["a"])
        with index.reader() as reader:
            assert (found(reader, "zebra"), reader.size, list(reader.files())) == (["b#m0"], 1, ["b"])

    def test_the_writer_sees_its_batch_at_once(self, index: IndexWriter) -> None:
        with index.batch():
            put_texts(index, "a", "zebra")
            assert list(index.files()) == ["a"]
            assert [each.id for each in index.entries(["a"])] == ["m0"]
        with index.reader() as reader:
            assert list(reader.files()) == ["a"]

    def test_upkeep_changes_no_answer(self, index: IndexWriter) -> None:
        for number in range(20):
            put_texts(index, f"f{number}", f"zebra {number}")
        before = found(index, "zebra")
        turns = 0
        while index.tidy():
            turns += 1
            assert turns < 100
        assert not index.can_tidy
        assert found(index, "zebra") == before
