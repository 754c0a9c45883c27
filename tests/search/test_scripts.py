"""Any text is a legal question, in any script, with any signs; what is found is what was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.core.words import indexable, tokens, unspaced
from tests.examples import examples
from tests.index.database import ask
from tests.search.stored import Stored, all_closed

OTHERS = (
    "The deploy script waits for the database.",
    "Nothing of this kind is written here.",
    "Tests run on every push.",
)

FOUND = [
    ("ICC-REVIEW", "Label every design ICC-REVIEW before the board sees it."),
    ("1.0.21", "Pinned to 1.0.21 because 1.0.22 breaks."),
    ("C++", "The parser is written in C++ and slow to build."),
    ("c++", "The parser is written in C++ and slow to build."),
    ("C#", "The client is C# on the old framework."),
    ("foo_bar", "Call foo_bar before the flush."),
    ("src/app/main.py", "Look into src/app/main.py first."),
    ("ERR_TLS_CERT", "Refused with ERR_TLS_CERT until it was renewed."),
    ("user@example.org", "Write to user@example.org about it."),
    ("--no-verify", "Never use --no-verify on the main branch."),
    ("数据库", "我们决定使用数据库连接池。"),
    ("库", "我们决定使用数据库连接池。"),
    ("データベース", "データベースの接続を確認する。"),
    ("ﾃﾞｰﾀ", "データベースの接続を確認する。"),
    ("서버", "서버를 다시 시작했다."),
    ("서버를", "서버를 다시 시작했다."),
    ("ภาษา", "เอกสารเป็นภาษาไทยทั้งหมด"),
    ("память", "Память агентов хранится в файлах."),
    ("ПАМЯТЬ", "Память агентов хранится в файлах."),
    ("ёлка", "Где стоит елка, там и подарки."),
    ("café", "Meet at the cafe on Monday."),
    ("cafe", "Meet at the café on Monday."),
    ("STRASSE", "Die Straße ist gesperrt."),
    ("naive", "A naïve cache is worse than none."),
    ("ذاكرة", "تحفظ الذَّاكِرَة في ملفات."),
    ("स्मृति", "एजेंट की स्मृति फ़ाइलों में है।"),
    ("🎉", "The release is out 🎉 at last."),
    ("👩‍💻", "Asked the 👩‍💻 about it."),
    ("→", "Old name → new name."),
    ("€", "It costs 5 € a month."),
    ("???", "What is this???"),
    ("==>", "see ==> there"),
    ("ﬁle", "The file is gone."),
    ("ＡＢＣ", "Spelled abc in narrow letters."),
]  # fmt: skip


@pytest.mark.parametrize(("query", "text"), FOUND)
def test_it_is_found_first(stored: Stored, query: str, text: str) -> None:
    stored.texts(*OTHERS, text)
    assert stored.ids(query)[:1] == ["m3"]


HARMLESS = [
    "", " ", "\0", "a\0b", "\ud800", "x\udfff y", '"', "'", '""', "a AND", "AND OR NOT", "NEAR(a b, 2)", "title:deploy",
    "dep*", "*", "^deploy", "{title} : x", "(", ")", "-", "--", ";", "DROP TABLE records", "' OR 1=1 --", "%", "_",
    "\\", "[redacted:aws]", "\n\n", "\u200b", "\u0301", "\ufffd", "\U0010ffff", "a" * 40_000, "\ue000", "words MATCH x",
]  # fmt: skip


@pytest.mark.parametrize("query", HARMLESS, ids=lambda query: ascii(query[:20]))
def test_nothing_in_a_question_is_an_operator(stored: Stored, query: str) -> None:
    stored.texts(*OTHERS)
    for limit in (1, 10):
        for hit in stored.hits(query, limit=limit):
            assert hit["id"] in ("m0", "m1", "m2")


def test_operators_are_words(stored: Stored) -> None:
    stored.texts("cats and dogs", "cats", "not only cats")
    assert stored.ids("cats NOT dogs")[0] == "m0"
    assert stored.ids("NOT only")[0] == "m2"


def test_a_question_of_a_megabyte_is_answered(stored: Stored) -> None:
    stored.texts(*OTHERS)
    assert stored.ids("deploy script " + "zyx " * 262_144)[0] == "m0"
    assert stored.ids("deploy" * 200_000) == []


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with all_closed():
        made = Stored(Path(tmp_path_factory.mktemp("any")) / "c.sqlite", "json-files")
        made.texts(*OTHERS, *(text for _, text in FOUND))
        yield made


@settings(max_examples=examples(300), deadline=None)
@given(query=st.text(st.characters(), max_size=60))
def test_any_text_is_a_question(full: Stored, query: str) -> None:
    for hit in full.hits(query, limit=5):
        assert 0 <= hit["score"] <= 1
        assert len(hit["snippet"]) <= 200


@settings(max_examples=examples(80), deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_what_is_written_is_found(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever holds a word or sign of any script is found by its whole text."""
    words = tokens(text)
    assert all(word and " " not in word for word in words)
    if words:
        made = Stored(Path(tmp_path_factory.mktemp("one")) / "c.sqlite")
        made.texts(text)
        found = made.ids(text)
        made.close()
        assert found == ["m0"]


@settings(max_examples=examples(80), deadline=None)
@given(text=st.text(st.characters(), max_size=60))
def test_the_index_splits_as_documented(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`tokens` says just what words SQLite's index holds of a text."""
    made = Stored(Path(tmp_path_factory.mktemp("split")) / "c.sqlite")
    made.texts(text)
    held = {term for (term,) in ask(made.catalogue.path, "SELECT term FROM vocabulary")}
    made.close()
    assert held == set(tokens(text.encode("utf-8", "replace").decode()))


def test_normal_forms() -> None:
    assert tokens("Foo_bar-BAZ 1.0") == ["foo", "bar", "baz", "1", "0"]
    assert tokens("数据 ab") == ["数", "据", "ab"]
    assert indexable("plain ASCII, kept.") == "plain ASCII, kept."
    assert tokens("don\u2019t stop\u2014now") == ["don", "t", "stop", "now"]
    assert tokens("co\u00adop \u200bx") == ["coop", "x"]
    assert unspaced("数")
    assert not unspaced("é")
