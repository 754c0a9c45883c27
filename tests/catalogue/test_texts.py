"""Words and vectors stay in step with the records, whatever is replaced, grown or forgotten."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.catalogue import Catalogue, FileRow, opening
from memoryd.core import words
from memoryd.core.asking import Filters
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, Record
from memoryd.core.text import Span

EVERYTHING = Filters(archived=True)
TOKEN = "ghp_" + "a1B2c3D4" * 5


def record(number: int, text: str, title: str = "", tags: tuple[str, ...] = ()) -> Record:
    span = Span(number * 10, number * 10 + 5)
    return Record(span, number + 1, f"m{number}", "note", title, None, None, tags, False, {}, {"n": number}, text=text)


def row(path: str) -> FileRow:
    return FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "0")


def put(catalogue: Catalogue, path: str, *texts: str) -> None:
    records = tuple(record(number, text) for number, text in enumerate(texts))
    catalogue.replace(row(path), Document(path, records))


def found(catalogue: Catalogue, expression: str) -> list[str]:
    """`path#id` of what the index finds."""
    with catalogue.reader() as reader, reader.words.snapshot():
        keys = [match[0] for match in reader.words.best(expression, EVERYTHING, 100)]
        return sorted(f"{each.path}#{each.id}" for each in reader.words.memories(keys).values())


def keys(catalogue: Catalogue) -> dict[str, int]:
    with catalogue.reader() as reader:
        return {each.body: each.key for each in reader.words.every(EVERYTHING)}


def test_what_goes_is_found_no_more(catalogue: Catalogue) -> None:
    put(catalogue, "a", "zebra", "giraffe")
    put(catalogue, "b", "zebra")
    assert found(catalogue, "zebra") == ["a#m0", "b#m0"]
    put(catalogue, "a", "giraffe")
    assert found(catalogue, "zebra") == ["b#m0"]
    catalogue.forget("b")
    assert found(catalogue, "zebra") == []
    catalogue.clear()
    assert found(catalogue, "giraffe") == []


def test_a_text_that_stays_keeps_its_key_and_its_vector(catalogue: Catalogue) -> None:
    """A file rewritten for one memory must not cost the vectors of a thousand others."""
    put(catalogue, "a", "one", "two", "three")
    before = keys(catalogue)
    catalogue.vectors.put("m", [(key, b"1234") for key in before.values()])
    put(catalogue, "a", "three", "new", "one")
    after = keys(catalogue)
    assert (after["one"], after["three"]) == (before["one"], before["three"])
    with catalogue.reader() as reader:
        assert {key for key, _ in reader.vectors.load("m", 0)} == {before["one"], before["three"]}


def test_a_key_is_never_used_again(catalogue: Catalogue) -> None:
    seen = [0]
    for number in range(5):
        put(catalogue, "a", f"text {number}")
        if number % 2:
            catalogue.clear()
            put(catalogue, "a", f"again {number}")
        [key] = keys(catalogue).values()
        assert key > seen[-1]
        seen.append(key)


def test_equal_texts_have_keys_of_their_own(catalogue: Catalogue) -> None:
    put(catalogue, "a", "same", "same", "same")
    assert found(catalogue, "same") == ["a#m0", "a#m1", "a#m2"]
    put(catalogue, "a", "same")
    assert found(catalogue, "same") == ["a#m0"]


def test_nothing_enters_unredacted(catalogue: Catalogue, tmp_path: Path) -> None:
    one = record(1, f"use {TOKEN} here", f"title {TOKEN}", (TOKEN,))
    catalogue.replace(row("a"), Document("a", (one,)))
    [held] = catalogue.words.every(EVERYTHING)
    assert "[redacted:" in held.title
    assert "[redacted:" in held.body
    assert "[redacted:" in held.tags
    catalogue.close()
    assert all(TOKEN.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    assert all(b"a1b2c3d4" not in path.read_bytes() for path in tmp_path.iterdir())


NONE: list[str] = []
TEXTS = st.lists(st.sampled_from(["one two", "two", "three é", "数据", "", "C++ one", "one two three"]), max_size=4)
STEP: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.just("replace"), st.sampled_from("ab"), TEXTS),
    st.tuples(st.just("extend"), st.sampled_from("ab"), TEXTS),
    st.tuples(st.just("forget"), st.sampled_from("ab"), st.just(NONE)),
    st.tuples(st.just("clear"), st.just("a"), st.just(NONE)),
)


@settings(max_examples=80, deadline=None)
@given(steps=st.lists(STEP, max_size=12), together=st.booleans())
def test_the_index_equals_a_rebuild(
    steps: list[tuple[str, str, list[str]]], together: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("step")
    one, other = Catalogue(str(place / "one")), Catalogue(str(place / "other"))
    now: dict[str, list[str]] = {}
    if together:
        with one.together():
            play(one, steps, now)
    else:
        play(one, steps, now)
    for path, texts in now.items():
        put(other, path, *texts)
    assert said(one) == said(other)
    one.words._db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    one.close()
    other.close()


def play(catalogue: Catalogue, steps: list[tuple[str, str, list[str]]], now: dict[str, list[str]]) -> None:
    for what, path, texts in steps:
        if what == "replace":
            put(catalogue, path, *texts)
            now[path] = texts
        elif what == "extend":
            begin = len(now.get(path, ()))
            tail = tuple(record(begin + number, text) for number, text in enumerate(texts))
            catalogue.extend(row(path), Document(path, tail))
            now[path] = [*now.get(path, ()), *texts]
        elif what == "forget":
            catalogue.forget(path)
            now.pop(path, None)
        else:
            catalogue.clear()
            now.clear()


def said(catalogue: Catalogue) -> dict[str, list[str]]:
    with catalogue.reader() as reader:
        terms = [term for term, *_ in reader._db.execute("SELECT term, doc, cnt FROM vocabulary")]
        counts = reader._db.execute("SELECT term, doc, cnt FROM vocabulary").fetchall()
        with reader.words.snapshot():
            size = reader.words.size
    return {"counts": counts, "size": [size], **{term: found(catalogue, f'"{term}"') for term in terms}}


def test_an_index_made_by_other_rules_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other rules put in, these could not take out."""
    path = str(tmp_path / "c.sqlite")
    made = Catalogue(path)
    put(made, "a", "zebra")
    made.close()
    kept = Catalogue(path)
    assert found(kept, "zebra") == ["a#m0"]
    kept.close()
    monkeypatch.setattr(words, "VERSION", "other")
    anew = Catalogue(path)
    assert anew.files() == {}
    anew.close()


def test_a_change_that_fails_leaves_no_half(catalogue: Catalogue) -> None:
    put(catalogue, "a", "zebra")
    broken = record(0, "giraffe")
    object.__setattr__(broken, "line", object())
    with pytest.raises(Exception, match="type"):
        catalogue.replace(row("a"), Document("a", (broken,)))
    assert found(catalogue, "zebra") == ["a#m0"]
    assert found(catalogue, "giraffe") == []


def test_readers_see_whole_changes_while_they_are_made(catalogue: Catalogue) -> None:
    """Four threads ask while files are replaced, cleared and forgotten: each answer is that of one state."""
    stop, wrong = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            with catalogue.reader() as reader, reader.words.snapshot():
                both = [len(reader.words.best(word, EVERYTHING, 1000)) for word in ("zebra", "stripes")]
                size = reader.words.size
            if both[0] != both[1] or size != both[0]:
                wrong.append((both, size))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for turn in range(60):
        put(catalogue, "a", *["zebra stripes"] * (turn % 7 + 1))
        put(catalogue, "b", *["stripes of a zebra"] * (turn % 3))
        if turn % 10 == 9:
            catalogue.clear()
    stop.set()
    for each in threads:
        each.join()
    assert wrong == []


def test_a_reader_that_failed_is_not_lent_again(catalogue: Catalogue) -> None:
    with pytest.raises(ZeroDivisionError), catalogue.reader() as first:
        _ = 1 / 0
    with catalogue.reader() as second:
        assert second is not first
    with catalogue.reader() as third:
        assert third is second


def test_schema(tmp_path: Path) -> None:
    """Another number, another catalogue."""
    path = str(tmp_path / "c.sqlite")
    made = opening.open_or_rebuild(path)
    assert made.execute("PRAGMA user_version").fetchone()[0] == opening.SCHEMA
    made.execute("PRAGMA user_version=1")
    made.execute("INSERT INTO texts VALUES (1, '', 'old')")
    made.commit()
    made.close()
    anew = opening.open_or_rebuild(path)
    assert anew.execute("SELECT count(*) FROM texts").fetchone()[0] == 0
    anew.close()
