"""What SQLite's index does beside the contract: its file, its connections, its full-text index, its errors."""

from __future__ import annotations

import errno
import sqlite3
import threading
from array import array
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr

from memoryd.core import words
from memoryd.core.index import IndexUnavailable
from memoryd.core.query import Filters, Term, TextQuery
from memoryd.core.records import Document, Record
from memoryd.core.text_match import pieces_in
from memoryd.core.words import tokens
from memoryd.index.sqlite import SqliteIndex, fulltext, statistics, substrings, word_list
from memoryd.index.sqlite.database import SCHEMA, Database, Row
from memoryd.index.sqlite.memories import Memories
from memoryd.index.sqlite.word_list import WordList, words_containing
from tests.examples import examples
from tests.index.database import ask, check_words
from tests.index.records import EVERYTHING, found, keys, put, put_texts, record, row
from tests.index.test_contract import play

TOKEN = "ghp_" + "a1B2c3D4" * 5
MODEL = "m"
NONE: list[str] = []
TEXTS = st.lists(st.sampled_from(["one two", "two", "three é", "数据", "", "C++ one", "one two three"]), max_size=4)
STEP: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from(["replace", "append"]), st.sampled_from("ab"), TEXTS),
    st.tuples(st.sampled_from(["forget", "clear"]), st.sampled_from("ab"), st.just(NONE)),
)


class TestFile:
    def test_no_secret_is_in_it(self, catalogue: SqliteIndex, tmp_path: Path) -> None:
        put(catalogue, "a", record(1, f"use {TOKEN} here", title=f"title {TOKEN}", tags=(TOKEN,)))
        catalogue.close()
        files = [path.read_bytes() for path in tmp_path.iterdir()]
        assert files
        assert not any(TOKEN.encode() in content or b"a1b2c3d4" in content for content in files)

    def test_another_schema_is_made_anew(self, tmp_path: Path) -> None:
        path = str(tmp_path / "c.sqlite")
        made = Database(path)
        assert made.row("PRAGMA user_version") == (SCHEMA,)
        made.run("PRAGMA user_version=1")
        made.run("INSERT INTO texts VALUES (1, '', 'old')")
        made.commit()
        made.close()
        anew = Database(path)
        assert anew.row("SELECT count(*) FROM texts") == (0,)
        anew.close()

    def test_an_index_made_by_other_rules_is_rebuilt(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Words split by other rules could not be removed by the current ones."""
        path = str(tmp_path / "c.sqlite")
        made = SqliteIndex(path)
        put_texts(made, "a", "zebra")
        made.close()
        kept = SqliteIndex(path)
        assert found(kept, "zebra") == ["a#m0"]
        kept.close()
        monkeypatch.setattr(words, "VERSION", "other")
        anew = SqliteIndex(path)
        assert anew.files() == {}
        anew.close()

    def test_a_damaged_one_is_made_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "c.sqlite"
        path.write_bytes(b"no database at all, " * 400)
        made = SqliteIndex(str(path))
        assert made.files() == {}
        made.close()


class TestCost:
    def test_to_see_that_no_memory_has_an_owner_takes_no_longer_in_a_large_store(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each search needs to know, and the first one after a change asks anew."""
        connect, steps = sqlite3.connect, list[None]()  # of SQLite's virtual machine

        def counting(*given: Any, **more: Any) -> sqlite3.Connection:
            made: sqlite3.Connection = connect(*given, **more)
            made.set_progress_handler(lambda: steps.append(None), 1)
            return made

        monkeypatch.setattr(sqlite3, "connect", counting)
        taken: list[int] = []
        for many in (50, 1_000):
            made = SqliteIndex(str(tmp_path / f"{many}.sqlite"))
            put(made, "a", *map(record, range(many)))
            steps.clear()
            assert made.owners() == ("",)
            taken.append(len(steps))
            made.close()
        assert 0 < taken[1] <= 2 * taken[0] + 50


class TestErrors:
    def test_one_error_leaves_it(self, catalogue: SqliteIndex) -> None:
        put_texts(catalogue, "a", "zebra")
        catalogue.close()
        for use in (catalogue.files, catalogue.findings, catalogue.clear, lambda: list(catalogue.entries(["a"]))):
            with pytest.raises(IndexUnavailable, match="cannot be used"):
                use()
        with pytest.raises(IndexUnavailable):
            put_texts(catalogue, "a", "zebra")

    def test_a_query_that_is_not_read_to_its_end_may_outlive_its_database(self, tmp_path: Path) -> None:
        """Else its end, whenever that is, would put a traceback into the log."""
        SqliteIndex(str(tmp_path / "c.sqlite")).close()
        database = Database(str(tmp_path / "c.sqlite"))
        rows = database.stream("SELECT name FROM sqlite_master")
        assert next(rows)
        database.close()
        cast("Generator[Row, None, None]", rows).close()

    def test_a_reader_of_a_file_that_is_gone(self, catalogue: SqliteIndex, tmp_path: Path) -> None:
        for path in tmp_path.glob("catalogue.sqlite*"):
            path.unlink()
        with pytest.raises(IndexUnavailable), catalogue.reader():
            raise AssertionError

    def test_a_full_disk_has_its_errno(self, tmp_path: Path) -> None:
        made = SqliteIndex(str(tmp_path / "c.sqlite"))
        made.close()
        small = Database(str(tmp_path / "c.sqlite"))
        small.row("PRAGMA max_page_count = 1")
        with pytest.raises(IndexUnavailable) as full:
            small.run_many("INSERT INTO meta VALUES (?, ?)", ((str(n), "x" * 5_000) for n in range(99)))
        assert full.value.errno == errno.ENOSPC
        small.close()

    def test_a_change_that_fails_leaves_no_half(self, catalogue: SqliteIndex) -> None:
        put_texts(catalogue, "a", "zebra")
        broken = record(0, "giraffe")
        force_setattr(broken, "line", object())
        with pytest.raises(Exception, match="type"):
            catalogue.replace(row("a"), Document("a", (broken,)))
        assert found(catalogue, "zebra") == ["a#m0"]
        assert found(catalogue, "giraffe") == []


class TestConnections:
    def test_readers_see_whole_changes_while_they_are_made(self, catalogue: SqliteIndex) -> None:
        """Four threads ask while files are replaced, cleared and forgotten: each answer is that of one state."""
        stop, wrong = threading.Event(), []

        def search() -> None:
            while not stop.is_set():
                with catalogue.reader() as reader:
                    both = [
                        len(reader.match(TextQuery((Term(word),)), EVERYTHING, 1000)) for word in ("zebra", "stripes")
                    ]
                    size = reader.size
                if both[0] != both[1] or size != both[0]:
                    wrong.append((both, size))

        threads = [threading.Thread(target=search) for _ in range(4)]
        for each in threads:
            each.start()
        for turn in range(60):
            put_texts(catalogue, "a", *["zebra stripes"] * (turn % 7 + 1))
            put_texts(catalogue, "b", *["stripes of a zebra"] * (turn % 3))
            if turn % 10 == 9:
                catalogue.clear()
        stop.set()
        for each in threads:
            each.join()
        assert wrong == []

    def test_a_reader_that_failed_is_not_lent_again(self, catalogue: SqliteIndex) -> None:
        with pytest.raises(ZeroDivisionError), catalogue.reader() as first:
            _ = 1 / 0
        with catalogue.reader() as second:
            assert second is not first
        with catalogue.reader() as third:
            assert third is second

    def test_all_readers_know_of_a_vector_that_changed(self, catalogue: SqliteIndex) -> None:
        for first in (1.0, -1.0):
            put(catalogue, "a", record(1, "one", embedding=(first, 0.0)))
            with catalogue.reader() as one, catalogue.reader() as other:
                for reader in (one, other, catalogue):
                    near = reader.nearest((1.0, 0.0), "own:2", Filters(), 1) or {}
                    assert [*near.values()] == [first]


class TestFullText:
    @settings(max_examples=examples(80), deadline=None)
    @given(steps=st.lists(STEP, max_size=12), batch=st.booleans())
    def test_its_words_equal_a_rebuild(
        self, steps: list[tuple[str, str, list[str]]], batch: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        place = tmp_path_factory.mktemp("step")
        one, other = SqliteIndex(str(place / "one")), SqliteIndex(str(place / "other"))
        now: dict[str, list[str]] = {}
        if batch:
            with one.batch():
                play(one, steps, now)
        else:
            play(one, steps, now)
        for path, texts in now.items():
            put_texts(other, path, *texts)
        counts = [ask(each.path, "SELECT term, doc, cnt FROM vocabulary") for each in (one, other)]
        assert counts[0] == counts[1]
        assert one.size == other.size
        for term, *_ in counts[0]:
            assert sorted(found(one, term)) == sorted(found(other, term))
        check_words(one.path)
        one.close()
        other.close()

    def test_terms_are_counted_in_one_query(self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        put_texts(catalogue, "a", "zebra", "zebra giraffe")
        queries: list[str] = []
        rows = Database.row

        def counting(self: Database, query: str, *values: object) -> object:
            queries.append(query)
            return rows(self, query, *values)  # type: ignore[arg-type]  # as it was called

        with catalogue.reader() as reader:
            monkeypatch.setattr(Database, "row", counting)
            asked = tuple(map(Term, tokens("zebra giraffe lion zebra unicorn")))
            assert reader.term_frequencies(asked) == [2, 1, 0, 2, 0]
            assert reader.term_frequencies(asked[:2]) == [2, 1]
        assert len([query for query in queries if "MATCH" in query]) == 1

    def test_a_word_of_all_memories_is_found_after_some_are_deleted(self, catalogue: SqliteIndex) -> None:
        """The count of a common word stays cached while the index changes little."""
        put_texts(catalogue, "a", *(["zebra"] * 1_000))  # the least count that stays cached
        put_texts(catalogue, "b", "zebra", "zebra")
        query = TextQuery((Term("zebra"),), "any")
        with catalogue.reader() as reader:
            assert len(found(reader, query, limit=9)) == 9
        catalogue.forget("b")
        with catalogue.reader() as reader:
            assert len(found(reader, query, limit=9)) == 9

    def test_a_large_index_answers_like_a_small_one(
        self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The result does not depend on the query plan: only the cost does."""
        put_texts(catalogue, "a", *(f"zebra {number} {'the giraffe' * (number % 3 == 0)}" for number in range(60)))
        queries = [
            TextQuery((Term("zebra"), Term("giraffe"))),
            TextQuery((Term("the"), Term("giraffe")), phrase=Term("the giraffe")),
            TextQuery((Term("7"),)),
            TextQuery((Term("7"), Term("zebra")), phrase=Term("zebra 7")),
        ]
        small = [set(found(catalogue, query)) for query in queries]
        for module in (fulltext, statistics):
            monkeypatch.setattr(module, "MAX_SCORED", 10)
        assert [set(found(catalogue, query)) for query in queries] == small
        monkeypatch.setattr(fulltext, "NEWEST", 20)
        assert len(found(catalogue, TextQuery((Term("zebra"),), "any"))) == 20, "the newest alone are measured"

    @pytest.mark.parametrize("archived", [0, 5, 25])
    def test_archived_memories_take_no_place_among_the_best(
        self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch, archived: int
    ) -> None:
        """Not even if they match best; if too few others are left, every match is looked up."""
        texts = ["zebra " * max(10 - number, 1) + "grass " * number for number in range(40)]
        put(catalogue, "a", *(record(number, text, archived=number < archived) for number, text in enumerate(texts)))
        query = TextQuery((Term("zebra"),), "any")
        best = catalogue.match(query, Filters(), 4)
        assert len({each.score for each in best}) == 4
        monkeypatch.setattr(fulltext, "MANY", 1)
        assert catalogue.match(query, Filters(), 4) == best

    @pytest.mark.parametrize("archived", [20, 36])
    def test_where_most_are_archived_matches_are_scored_once(
        self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch, archived: int
    ) -> None:
        texts = ["zebra " * (40 - number) + "grass " * number for number in range(40)]
        put(catalogue, "a", *(record(number, text, archived=number < archived) for number, text in enumerate(texts)))
        query, queries, rows = TextQuery((Term("zebra"),), "any"), list[str](), Database.rows
        best = catalogue.match(query, Filters(), 4)
        monkeypatch.setattr(fulltext, "MANY", 1)
        assert catalogue.match(query, Filters(), 4) == best

        def note(db: Database, query: str, values: Sequence[object] = ()) -> list[Any]:
            queries.append(query)
            return rows(db, query, values)

        monkeypatch.setattr(Database, "rows", note)
        assert catalogue.match(query, Filters(), 4) == best
        assert len(queries) == (1 if archived > 30 else 2), "the best were looked up first in vain"

    def test_memories_with_a_rare_word_are_searched_for_the_common_ones(
        self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        common = [f"zebra {number}, the giraffe" for number in range(60)]
        put_texts(catalogue, "a", *common, "unicorn: the Zebra", "the zébra's unicorn", "unicorn the_zebras")
        for module in (fulltext, statistics):
            monkeypatch.setattr(module, "MAX_SCORED", 10)
        expressions: list[str] = []
        rows = Database.rows

        def note(db: Database, query: str, values: Sequence[object] = ()) -> list[Any]:
            expressions.extend(map(str, values[:1]))
            return rows(db, query, values)

        monkeypatch.setattr(Database, "rows", note)
        words = tuple(map(Term, ("unicorn", "the", "zebra")))
        matches = catalogue.match(TextQuery(words, phrase=Term("unicorn the zebra")), EVERYTHING, 9)
        monkeypatch.undo()
        identities = [memory.id for memory in catalogue.memories([each.key for each in matches]).values()]
        assert identities == ["m60", "m61"]
        assert [each.kind for each in matches] == ["phrase", "all"]
        assert '"unicorn"' in expressions
        assert not [each for each in expressions if "zebra" in each], "the list of a common word is long"

    @pytest.mark.parametrize("piece", ["icc-revi", "🦔"])
    def test_one_text_is_read_for_a_piece_of_rare_words(
        self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch, piece: str
    ) -> None:
        put_texts(catalogue, "a", "ticc-review 🦔", *(f"review number {number}" for number in range(60)))
        read: list[str] = []

        def note(pieces: Sequence[str], text: str, *, whole_words: bool) -> list[str]:
            read.append(text)
            return pieces_in(pieces, text, whole_words=whole_words)

        monkeypatch.setattr(substrings, "pieces_in", note)
        monkeypatch.delattr(Memories, "all_with")  # reads all
        assert found(catalogue, TextQuery((Term(piece),), "substring")) == ["a#m0"]
        assert len(read) == 1

    def test_no_text_is_searched_for_whole_words_that_are_in_others(
        self, catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_texts(catalogue, "a", "die sache de", *(f"code{number} model" for number in range(60)))
        monkeypatch.delattr(Memories, "all_with")  # reads all
        query = TextQuery((Term("de"), Term("mode")), "substring", whole_words=True)
        assert found(catalogue, query) == ["a#m0"]

    @pytest.mark.parametrize("piece", ["!" * 60_000, "_" * 30_000, "🦔" * 15_000])
    def test_a_piece_that_is_too_long_for_sqlite_is_looked_for(self, catalogue: SqliteIndex, piece: str) -> None:
        put_texts(catalogue, "a", f"one {piece} two", "one !_🦔 two")
        assert found(catalogue, TextQuery((Term(piece),), "substring")) == ["a#m0"]

    def test_words_that_hold_a_piece(self) -> None:
        listed = b"\nghosted\nhost\nlocalhost\nroom\n"
        assert words_containing(listed, b"host", 5) == ["ghosted", "host", "localhost"]
        assert words_containing(listed, b"host", 2) is None
        assert words_containing(listed, b"zebra", 2) == []

    @pytest.mark.parametrize(
        "piece", ["boar", "waterboards", "overboarded", "x" * word_list.LONG, "メモリー", "\udc80"]
    )
    def test_words_that_hold_a_piece_among_older_and_newer_ones(self, piece: str) -> None:
        older = ["aboard", "board", "waterboards", "メモリー", "日本メモリー"]
        newer = ["overboarded", "overboarders", "waterboardsman", "長メモリー"]
        known = WordList()
        for upto, listed in ((100, older), (101, older + newer)):
            found = known.words_containing(piece, 9, upto, "\n".join(older).encode, lambda _: newer)
            assert found == [word for word in listed if piece in word]

    def test_words_beyond_ascii_that_hold_a_piece(self) -> None:
        older, newer = ["board", "board日", "boardé", "日本"], ["boards", "éboard", "é"]
        known = WordList()
        for upto, listed in ((100, older), (101, older + newer)):
            found = known.words_containing(
                "board", 9, upto, "\n".join(older).encode, lambda _: newer, beyond_ascii=True
            )
            assert found == [word for word in listed if "board" in word and not word.isascii()]

    def test_words_from_a_beginning_on(self) -> None:
        words = ["a", "ab", "aba", "abb", "ac", "b", "zebra", "zürich", "ä", "äb", "日", "日本", "旦", "🦔"]
        for listed in (words, words[:1], words[1:4], []):
            known = WordList()
            known.words_up_to(1, "\n".join(listed).encode, lambda _: ())
            for start in (
                "a",
                "ab",
                "abb",
                "abc",
                "c",
                "zebra",
                "zebras",
                "z",
                "zü",
                "ä",
                "日",
                "日本",
                "語",
                "🦔",
                "\udc80",
            ):
                found = known.words_beginning(start, 1, bytes, lambda _: ())
                assert found == [word for word in listed if word.startswith(start)]

    def test_a_word_list_without_many_newer_memories_is_loaded_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """But only after so many words that looking them up one by one took longer."""
        known, newer = WordList(), word_list.MAX_NEWER + 2
        monkeypatch.setattr(word_list, "RELOAD", newer * word_list.NEW_WORDS // 3)
        known.words_up_to(1, lambda: b"ab\nzebra", lambda _: ())
        asked = [known.words_beginning("ab", newer, lambda: b"ab\nabc", lambda _: ()) for _ in range(5)]
        assert asked == [None, None, ["ab", "abc"], ["ab", "abc"], ["ab", "abc"]]

    def test_no_question_waits_until_the_word_list_of_a_large_index_is_loaded(self) -> None:
        known, asked = WordList(), list[str]()

        def vocabulary() -> bytes:
            asked.append("ab")
            return b"ab"

        for _ in range(word_list.LARGE):
            assert known.words_beginning("ab", word_list.LARGE + 1, vocabulary, lambda _: ()) is None
        assert asked == []
        known.words_up_to(word_list.LARGE + 1, vocabulary, lambda _: ())  # in the pause after a change
        assert known.words_beginning("ab", word_list.LARGE + 1, vocabulary, lambda _: ()) == ["ab"]
        assert asked == ["ab"]

    def test_a_word_list_is_loaded_by_the_first_questions_of_a_small_index_alone(self) -> None:
        for memories, first in ((10, ["ab"]), (1_000, None)):
            assert WordList().words_beginning("ab", memories, lambda: b"ab", lambda _: ()) == first


class TestVectors:
    def test_what_comes_out_of_order_is_counted(self, catalogue: SqliteIndex) -> None:
        """A matrix that only looks behind its last key would miss it."""
        put_texts(catalogue, "a", "one", "two")
        first, second = sorted(keys(catalogue).values())
        catalogue.put_vectors(MODEL, [(second, b"2")])
        before = catalogue.vectors.changes
        catalogue.put_vectors(MODEL, [(first, b"1")])
        assert catalogue.vectors.changes > before
        before = catalogue.vectors.changes
        put(catalogue, "b", record(1, "three", embedding=(1.0,)))
        put(catalogue, "b", record(1, "three", embedding=(2.0,)))
        assert catalogue.vectors.changes > before

    def test_a_reader_of_an_older_state_hides_no_replaced_vector_from_newer_ones(self, catalogue: SqliteIndex) -> None:
        put(catalogue, "a", record(1, "one", embedding=(0.0, 1.0)))
        [key] = keys(catalogue).values()
        with catalogue.reader() as older:
            assert older.size == 1
            put(catalogue, "a", record(1, "one", embedding=(1.0, 0.0)))
            assert older.nearest([1.0, 0.0], "own:2", EVERYTHING, 5) == {key: 0.0}
        with catalogue.reader() as newer:
            assert newer.nearest([1.0, 0.0], "own:2", EVERYTHING, 5) == {key: 1.0}

    def test_of_very_many_only_what_became_another_counts_as_changed(self, catalogue: SqliteIndex) -> None:
        def one(number: int, first: float = 0.0) -> Record:
            return record(number, f"text {number}", embedding=(first, float(number)))

        put(catalogue, "a", *(one(number) for number in range(1_100)))
        before = catalogue.vectors.changes
        put(catalogue, "a", *(one(number) for number in range(1_100)))
        assert catalogue.vectors.changes == before
        put(catalogue, "a", *(one(number, float(number in (499, 500, 1_099))) for number in range(1_100)))
        assert catalogue.vectors.changes == before + 3
        vectors = [vector for _, vector in catalogue.vectors.load("own:2", 0)]
        assert len(vectors) == 1_100
        assert array("f", vectors[500]).tolist() == [1.0, 500.0]
        assert array("f", vectors[501]).tolist() == [0.0, 501.0]
