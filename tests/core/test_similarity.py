"""When two texts say the same: tokens, the exact bound, and the guard on numbers."""

from __future__ import annotations

import pytest

from memoryd.core.similarity import jaccard_over, normalised, overlap, same, tokens

WORDS = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]


def text(count: int, *changes: str) -> str:
    """`count` different words, the last ones replaced by `changes`."""
    return " ".join([*WORDS[: count - len(changes)], *changes])


def is_duplicate(a: str, b: str, numerator: int = 17, denominator: int = 20) -> bool:
    return same(a, tokens(a), b, tokens(b), numerator, denominator)


class TestBound:
    def test_seventeen_of_twenty_is_the_bound_and_not_above_it(self) -> None:
        a, b = {str(n) for n in range(20)}, {str(n) for n in range(17)}
        assert tuple(overlap(a, b)) == (17, 20)
        assert not jaccard_over(a, b, 17, 20)

    def test_eighteen_of_twenty_one_is_above_it(self) -> None:
        a, b = {str(n) for n in range(21)}, {str(n) for n in range(18)}
        assert tuple(overlap(a, b)) == (18, 21)
        assert jaccard_over(a, b, 17, 20)

    def test_the_bound_in_words(self) -> None:
        twenty, seventeen = " ".join(WORDS[:20]), " ".join(WORDS[:17])
        assert not is_duplicate(twenty, seventeen)
        assert is_duplicate(" ".join(WORDS[:21]), " ".join(WORDS[:18]))

    @pytest.mark.parametrize(("count", "alike"), [(12, False), (13, True), (14, True)])
    def test_one_word_changed(self, count: int, alike: bool) -> None:
        assert is_duplicate(text(count, "old"), text(count, "new")) is alike

    @pytest.mark.parametrize("count", [13, 40])
    def test_one_number_changed_is_never_the_same(self, count: int) -> None:
        assert not is_duplicate(text(count, "10"), text(count, "40"))
        assert not is_duplicate(text(count, "v18"), text(count, "v20"))
        assert is_duplicate(text(count, "10"), text(count, "10"))

    def test_a_number_more_is_never_the_same(self) -> None:
        assert not is_duplicate(text(40), text(40) + " 7")

    def test_any_other_bound(self) -> None:
        assert is_duplicate(text(10, "old"), text(10, "new"), 1, 2)
        assert not is_duplicate(text(40, "old"), text(40, "new"), 99, 100)

    def test_it_is_symmetric_and_holds_for_equal_texts(self) -> None:
        for a, b in [(text(13, "old"), text(13, "new")), (text(5), text(6))]:
            assert is_duplicate(a, b) is is_duplicate(b, a)
            assert is_duplicate(a, a)


class TestNothingToCompare:
    def test_texts_without_tokens_must_be_equal_as_they_stand(self) -> None:
        assert is_duplicate("", "")
        assert is_duplicate("!!!", "!!!")
        assert not is_duplicate("!!!", "???")
        assert not is_duplicate("", " ")

    def test_one_text_without_tokens(self) -> None:
        assert not is_duplicate("", "word")


class TestTokens:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("The Quick, quick fox-trot!", {"the", "quick", "fox", "trot"}),
            ("Node 18 and Node18", {"node", "18", "and", "node18"}),
            ("snake_case isn't", {"snake", "case", "isn", "t"}),
            ("ＦＵＬＬ　ｗｉｄｔｈ １２", {"full", "width", "12"}),
            ("Straße STRASSE ﬁne", {"strasse", "fine"}),
            ("Cafe\u0301 CAFÉ", {"café"}),
            ("数据库设置", set("数据库设置")),
            ("ﾃｽﾄ テスト", set("テスト")),
            ("ผมชอบ", set("ผมชอบ")),
            ("pool大小is数", {"pool", "大", "小", "is", "数"}),
            ("한국어 문장", {"한국어", "문장"}),
            ("किताब की", {"किताब", "की"}),
            ("", set()),
            ("— … !", set()),
        ],
    )
    def test_words(self, text: str, words: set[str]) -> None:
        assert tokens(text).words == words

    def test_numbers_are_tokens_with_a_digit(self) -> None:
        assert tokens("size 10, v2 and twelve ½ ٣").numbers == {"10", "v2", "1", "2", "٣"}

    def test_a_chinese_sentence_is_compared_character_by_character(self) -> None:
        a = "我们决定把数据库连接池改为异步模式以提升性能"
        assert is_duplicate(a, a.replace("提升", "增加")) is False
        assert is_duplicate(a + "并且减少延迟时间", a + "并且降少延迟时间")


def test_normalised_makes_case_width_and_space_one() -> None:
    assert normalised("  Ｌikes\tGREEN\n tea ") == normalised("likes green tea") == "likes green tea"
