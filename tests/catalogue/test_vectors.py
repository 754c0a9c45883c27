"""Vectors in the catalogue: what is missing, what dies, what agents stored, what changed under its key."""

from __future__ import annotations

from array import array

from memoryd.catalogue import Catalogue
from memoryd.core.asking import Filters
from memoryd.core.records import Record
from memoryd.core.text import Span
from tests.catalogue.taking import put

TOKEN = "ghp_" + "a1B2" * 9
MODEL = "m"


def record(number: int, text: str, title: str = "", **more: object) -> Record:
    span = Span(number, number + 1)
    return Record(span, 1, f"m{number}", "note", title, 1.0, 1.0, ("tag",), False, {}, text=text, **more)  # type: ignore[arg-type]  # fields by name


def fill(catalogue: Catalogue, model: str = MODEL) -> list[int]:
    keys = [key for key, _ in catalogue.vectors.missing(model, 0, 100)]
    catalogue.vectors.put(model, [(key, bytes([key])) for key in keys])
    return keys


def test_what_is_missing_comes_by_key_with_all_it_says(catalogue: Catalogue) -> None:
    put(
        catalogue,
        "a",
        record(1, "The beginning of it, and more", "The beginning of…", labels=("Topic",)),
        record(2, "text", "title"),
        record(3, f"the token is {TOKEN}"),
    )
    first, second, third = catalogue.vectors.missing(MODEL, 0, 10)
    assert first[1] == "The beginning of it, and more\nTopic\ntag", "what is said twice counts once"
    assert second[1] == "title\ntext\ntag"
    assert TOKEN not in third[1], "no vector is made of a secret"
    assert "[redacted:" in third[1]
    assert [key for key, _ in catalogue.vectors.missing(MODEL, first[0], 1)] == [second[0]]
    assert catalogue.vectors.left(MODEL, first[0]) == 2
    fill(catalogue)
    assert catalogue.vectors.missing(MODEL, 0, 10) == []
    assert catalogue.vectors.left("other", 0) == 3


def test_a_vector_stays_with_its_text_and_dies_with_it(catalogue: Catalogue) -> None:
    put(catalogue, "a", record(1, "stays"), record(2, "goes"))
    stays, goes = fill(catalogue)
    put(catalogue, "a", record(5, "comes"), record(6, "stays"))
    assert [key for key, _ in catalogue.vectors.load(MODEL, 0)] == [stays]
    [comes] = fill(catalogue)
    assert comes > goes, "keys are never used again"
    catalogue.vectors.put(MODEL, [(goes, b"x")])
    assert catalogue.vectors.of(goes) is None, "what has gone gets none"
    catalogue.forget("a")
    assert list(catalogue.vectors.load(MODEL, 0)) == []


def test_what_agents_stored_is_kept_and_never_mixed(catalogue: Catalogue) -> None:
    put(catalogue, "a", record(1, "own", embedding=(1.0, 0.5), owner="ann"), record(2, "none"))
    own, none = catalogue.vectors.all_allowed(Filters())
    assert fill(catalogue) == [none]
    model, vector = catalogue.vectors.of(own) or ("", b"")
    assert (model, len(vector)) == ("own:2", 8)
    assert [each.text for each in catalogue.vectors.samples(None, 5)] == ["own"]


def test_samples_are_those_of_the_owner(catalogue: Catalogue) -> None:
    put(catalogue, "a", record(1, "of ann", embedding=(1.0, 2.0), owner="ann"))
    put(catalogue, "b", record(1, "of bob", embedding=(3.0, 4.0, 5.0), owner="bob"))
    assert [each.text for each in catalogue.vectors.samples("bob", 5)] == ["of bob"]
    assert len(catalogue.vectors.samples(None, 5)) == 2
    assert catalogue.vectors.samples("nobody", 5) == []


def test_what_comes_out_of_order_is_counted(catalogue: Catalogue) -> None:
    """A matrix that only looks behind its last key would miss it."""
    put(catalogue, "a", record(1, "one"), record(2, "two"))
    first, second = catalogue.vectors.all_allowed(Filters())
    catalogue.vectors.put(MODEL, [(second, b"2")])
    before = catalogue.vectors.home.changes
    catalogue.vectors.put(MODEL, [(first, b"1")])
    assert catalogue.vectors.home.changes > before
    before = catalogue.vectors.home.changes
    put(catalogue, "b", record(1, "three", embedding=(1.0,)))
    put(catalogue, "b", record(1, "three", embedding=(2.0,)))
    assert catalogue.vectors.home.changes > before


def test_all_readers_share_one_home(catalogue: Catalogue) -> None:
    with catalogue.reader() as one, catalogue.reader() as other:
        assert one.vectors.home is other.vectors.home is catalogue.vectors.home


def test_of_very_many_only_what_became_another_counts_as_changed(catalogue: Catalogue) -> None:
    def one(number: int, first: float = 0.0) -> Record:
        return record(number, f"text {number}", embedding=(first, float(number)))

    put(catalogue, "a", *(one(number) for number in range(1_100)))
    before = catalogue.vectors.home.changes
    put(catalogue, "a", *(one(number) for number in range(1_100)))
    assert catalogue.vectors.home.changes == before
    put(catalogue, "a", *(one(number, float(number in (499, 500, 1_099))) for number in range(1_100)))
    assert catalogue.vectors.home.changes == before + 3
    vectors = [vector for _, vector in catalogue.vectors.load("own:2", 0)]
    assert len(vectors) == 1_100
    assert array("f", vectors[500]).tolist() == [1.0, 500.0]
    assert array("f", vectors[501]).tolist() == [0.0, 501.0]
