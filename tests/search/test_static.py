"""The static embedder: its pieces of words, its arithmetic on large integers, what it needs and gives back."""

from __future__ import annotations

import struct
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.vectors import cosine, unpack
from memoryd.errors import EmbedderError
from memoryd.search.embedding import vocabulary
from memoryd.search.embedding.static import (
    FIRST,
    HEAD,
    MAGIC,
    MAX_WORD_CHARS,
    MAX_WORDS,
    OTHERS,
    SIZE,
    Static,
    Table,
    pack_bytes,
    pieces,
    rows_of,
    sum_of_words,
    words,
)
from memoryd.search.embedding.vocabulary import (
    RELATED,
    RELATED_WORDS,
    WORDS,
    Vocabulary,
    known_words,
    read_pieces,
    related_words,
)

VOCABULARY = read_pieces()


def named(word: str) -> list[str]:
    names = {number: piece for piece, number in VOCABULARY.items()}
    return [names[number] for number in pieces(word, VOCABULARY)]


def test_the_vocabulary_is_that_of_the_model() -> None:
    assert len(VOCABULARY) == 30_522
    assert [VOCABULARY[piece] for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the")] == [0, 100, 101, 102, 1996]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, wörld!", ["Hello", ",", "world", "!"]),
        ("foo_bar-1.0.21", ["foo", "_", "bar", "-", "1", ".", "0", ".", "21"]),
        ("東京 office", ["東", "京", "office"]),
        ("Żółć naïve", ["Zołc", "naive"]),
        ("🦀 crab", ["🦀", "crab"]),
        ("", []),
    ],
)
def test_words_and_signs(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_the_longest_parts_of_a_word() -> None:
    assert named("unaffable") == ["una", "##ffa", "##ble"]
    assert named("kubernetes")[0] == "ku"
    assert named("the") == ["the"]
    assert named("x" * 101) == [], "no word of any language"
    assert not pieces("🦀", VOCABULARY)


def test_a_name_is_the_words_within_it() -> None:
    known = known_words()
    get = known.get
    assert list(rows_of("maxRetryCount", known)) == [get("max"), *pieces("retry", known), get("count")]
    assert list(rows_of("HTTPServer", known)) == [*pieces("http", known), get("server")]
    assert list(rows_of("JavaScript", known)) == [get("javascript")], "a word that is known is no name"


def test_each_word_has_a_row_of_its_own() -> None:
    known = known_words()
    assert all(known.get(piece) == number for piece, number in VOCABULARY.items())
    found = [known.get(word) for word in WORDS.read_text(encoding="utf-8").split()]
    assert found == list(range(len(VOCABULARY), len(known)))


@given(st.lists(st.text("ab\ud800é\0\x1c#", max_size=6), unique=True), st.text("ab\ud800é\0\x1c#\n", max_size=6))
def test_a_vocabulary_finds_what_a_dictionary_finds(lines: list[str], word: str) -> None:
    text = "\n".join(lines).encode(errors="replace")
    found = {line: number for number, line in enumerate(text.decode().split("\n")) if line}
    known = Vocabulary(text)
    assert known.get(word) == found.get(word)
    assert all(known.get(each) is not None for each in found)


def table(path: Path, rows: list[list[int]], weights: list[int]) -> Table:
    flat = array("b", [number for row in rows for number in row]).tobytes()
    head = HEAD.pack(MAGIC, len(rows), len(rows[0]))
    path.write_bytes(head + struct.pack(f"<{len(rows)}H", *weights) + flat)
    return Table(path)


def test_the_words_nearest_in_meaning_are_listed() -> None:
    nearest = related_words("landlord")
    assert len(set(nearest)) == RELATED_WORDS
    assert {"rent", "lease"} < {*nearest}
    assert related_words("zzqx") == related_words("landlords") == (), "unknown, and a form of another word"
    records = [*struct.Struct(f"<{1 + RELATED_WORDS}H").iter_unpack(RELATED.read_bytes())]
    words = [known_words().word(first) for first, *_ in records]
    for at in (0, 1, len(words) // 2, -1):
        assert related_words(words[at]) == tuple(map(known_words().word, records[at][1:]))
    assert sorted(records) == records


@pytest.mark.parametrize("content", [None, b"\0" * 7, b"\xff" * 48])
def test_a_search_needs_no_list_of_related_words(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "related.bin").write_bytes(content)
    monkeypatch.setattr(vocabulary, "RELATED", tmp_path / "related.bin")
    related_words.cache_clear()
    assert related_words("landlord") == ()
    related_words.cache_clear()


@given(
    st.lists(st.lists(st.integers(-127, 127), min_size=3, max_size=3), min_size=1, max_size=20),
    st.lists(st.integers(0, 4095), min_size=20, max_size=20),
    st.integers(1, MAX_WORDS // 20),
)
def test_a_sum_of_integers_is_the_sum_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], weights: list[int], times: int
) -> None:
    """Lanes never run into each other, whatever their signs and however many words."""
    made = table(tmp_path_factory.mktemp("t") / "t.bin", rows, weights[: len(rows)])
    total = sum(times * made.row(number) for number in range(len(rows)))
    expected = [sum(times * weight * row[at] for row, weight in zip(rows, weights, strict=False)) for at in range(3)]
    assert list(made.numbers(total)) == expected


def test_the_largest_text_fits(tmp_path: Path) -> None:
    made = table(tmp_path / "t.bin", [[127, -127, 127]], [65_535])
    word = sum([made.row(0)] * MAX_WORD_CHARS)  # each letter a piece
    most = 127 * 65_535 * MAX_WORD_CHARS * (OTHERS * MAX_WORDS + sum(FIRST))
    assert list(made.numbers(sum_of_words([word] * MAX_WORDS))) == [most, -most, most]


def test_the_first_words_weigh_more() -> None:
    assert sum_of_words([0, 1]) < sum_of_words([1, 0]) == OTHERS + FIRST[0]
    assert sum_of_words([0] * len(FIRST) + [1]) == OTHERS
    texts = ["boat", "boat and the invoice of March", "invoice of March and the boat"]
    boat, first, last = (unpack(each, SIZE) for each in Static().embed(texts))
    assert cosine(boat, first) > cosine(boat, last) + 0.1


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.bin").write_bytes(HEAD.pack(MAGIC, 3, 4) + b"short")
    with pytest.raises(ValueError, match="is not a table of vectors"):
        Table(tmp_path / "t.bin")


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8))
def test_packing_keeps_the_direction(numbers: list[int]) -> None:
    packed = unpack(pack_bytes(numbers), len(numbers))
    assert any(packed) == any(numbers)
    if any(numbers):
        assert cosine(packed, numbers) > 0.99
        assert max(map(abs, packed)) == 127


def test_vectors_of_the_shipped_table() -> None:
    static = Static()
    [lunch, meal, disk, again, nothing, unknown] = static.embed(
        ["he cannot eat nuts", "a peanut allergy", "the disk is full", "he cannot eat nuts", "", "🦀"]
    )
    assert len(lunch) == SIZE == static.size
    assert lunch == again
    assert not any(nothing), "a text without a word has no direction"
    assert not any(unknown)
    near = cosine(unpack(lunch, SIZE), unpack(meal, SIZE))
    assert near > cosine(unpack(lunch, SIZE), unpack(disk, SIZE)) + 0.2


def test_a_question_is_dense_if_it_has_few_and_rare_words() -> None:
    static = Static()
    dense, plain = (
        static.density("recipe for goulash"),
        static.density("what is it that I should do about all of this?"),
    )
    assert plain < -0.2 < 0.2 < dense
    assert static.density(" recipe \n for  goulash ") == dense
    assert static.density("goulash") == 1.0
    assert static.density("a " + "🦀" * 5_000) == -1.0
    assert static.density("🦀") == static.density("") == 0.0


def test_resting_changes_nothing() -> None:
    static = Static()
    before = static.embed(["a lock is left over"])
    static.release()
    assert static.embed(["a lock is left over"]) == before
    assert static.calls == 2


def test_indexing_needs_neither_numpy_nor_a_http_client_nor_asyncio() -> None:
    """A third of the memory of an idle daemon, a twentieth, a twelfth."""
    script = (
        "import sys\nfrom memoryd.search.embedding.static import Static\nfrom memoryd.service.daemon import Daemon\n"
        "Static().embed(['one text'])\nassert not {'numpy', 'http.client', 'asyncio'} & set(sys.modules)\n"
        "assert 'tests.tools.distill' not in sys.modules, 'made offline, never by the daemon'\n"
        "import memoryd.index.matrix\nassert 'simsimd' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_unreadable_table_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "table"
    broken.write_bytes(b"short")
    for path in (tmp_path / "none", broken):
        with pytest.raises(EmbedderError, match="table"):
            Static(path).embed(["a"])
