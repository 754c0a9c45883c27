"""The rules for secrets: how much they find, how seldom they are wrong, what they leave, what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.secrets import BLOCK, WARN, Judgement, find_secrets, headline, judge, redact, redact_with_headline
from tests.secrets.corpus import HALVES, HARMLESS, SHAPES, Shape
from tests.secrets.measure import figures, is_alarm, is_found

# Texts of a megabyte, made to be slow: the beginning of a shape, again and again.
HOSTILE = (
    "password:", "password=a1b2c3 ", "password is ", "token=token=", "api key ", '"password": "', "password:\n",
    "://a:", "curl ", "curl -u a:", "?sig=a", "basic QWxhZGRp ", "auth basic ", "basic A", ":5432:a:b:",
    "secret A1b2C3", "sk-", "a1B2", "ab_", "a-b-c-", "eyJhbGciOiJIUzI1NiJ9.", "hf_", "pat", "dp.pt.",
    "00000000-", "1/2/3:", "A", "x", "-", " ", "bearer ", "-----BEGIN A-----", "-----BEGIN A-----\nA1b2",
    "Private-Lines: 1\nAAAAAAAAAAAAAAAA ", "İ", "\ue000", "[redacted:assignment]", "password=[", "xoxb-", "sk-a-b-",
    "{", '\\"token\\":',
)  # fmt: skip
MEGABYTE = 1_000_000

FRAGMENTS = (
    *(shape.text for shape in SHAPES[::5]), *HARMLESS[::9],
    "password", "token", " is ", "=", ": ", '"', "'", "`", "[", "]", "[redacted:github-token]", "://", "@",
    "a1b2c3", " ", "\n", "-u ", "login ", "curl ", "Bearer ", "-----BEGIN A-----", "-----END A-----", "\ue000",
    "İ", "api ", "key", "_", "-",
)  # fmt: skip


@pytest.mark.parametrize("half", HALVES)
def test_nearly_everything_is_found_and_hardly_anything_else(half: str) -> None:
    found, shapes, alarms, harmless = figures(half)
    assert found / shapes >= 0.95
    assert alarms / harmless <= 0.02


def test_a_token_is_found_after_a_date() -> None:
    assert redact("2026-01-30-ghp_" + "a1B2" * 9) == "2026-01-30-[redacted:github-token]"


class TestTheMeasure:
    """It sees what it is for."""

    def test_a_value_that_is_left_is_no_find(self) -> None:
        text = "a secret nobody knows by its form: correct horse battery staple"
        assert not is_found(Shape(WARN, "unknown", text, "correct horse battery staple"))

    def test_a_find_of_the_other_level_is_none(self) -> None:
        token = "ghp_" + "a1B2" * 9
        assert is_found(Shape(BLOCK, "token", f"use {token}", token))
        assert not is_found(Shape(WARN, "token", f"use {token}", token))

    def test_an_alarm_is_one(self) -> None:
        assert is_alarm("password=hunter2x")
        assert not is_alarm("a monkey at a keyboard")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.name))
def test_redacting_twice_changes_nothing(shape: Shape) -> None:
    once = redact(shape.text)
    assert redact(once) == once
    assert list(find_secrets(once)) == []


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_redacting_twice_changes_nothing_however_they_are_joined(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_what_was_looked_at_before_is_told_as_at_first(text: str) -> None:
    assert (redact(text) == text) == (list(find_secrets(text)) == [])
    assert redact(text) == redact(text)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), st.sampled_from([0, 90, 950, 1_000]))
def test_a_title_and_its_text_take_one_look(text: str, before: int) -> None:
    text = "w " * (before // 2) + text
    assert redact_with_headline(text) == (headline(text), redact(text))


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_what_is_found_is_in_order_and_apart(text: str) -> None:
    found = list(find_secrets(text))
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert list(find_secrets(text, BLOCK)) == [each for each in found if each.level == BLOCK]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2x", "password=[redacted:assignment]"),
        ("DB_PASSWORD='hunter2x' # old", "DB_PASSWORD='[redacted:assignment]' # old"),
        ('{"api_key": "abc123def456ghi789"}', '{"api_key": "[redacted:assignment]"}'),
        ("postgres://app:s3cretpw@db/x", "postgres://app:[redacted:url-password]@db/x"),
        ("The password is hunter2x.", "The password is [redacted:assignment]."),
        ("curl -u ops:s3cretpw https://x", "curl -u ops:[redacted:login] https://x"),
        ('"{\\"token\\": \\"abc123def456ghi789\\"}"', '"{\\"token\\": \\"[redacted:assignment]\\"}"'),
        ("token=ghp_" + "a1B2" * 9, "token=[redacted:github-token]"),
    ],
)
def test_of_an_assignment_the_value_alone_goes(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "curl -H 'X-Api-Key: abc123def456ghi789' -u ops:s3cretpw https://x",
        "curl -d 'password=hunter2x' -u ops:s3cretpw https://x",
    ],
)
def test_one_within_the_reach_of_another_is_found_too(text: str) -> None:
    rest = redact(text)
    assert rest.count("[redacted:") == 2
    assert not any(value in rest for value in ("abc123", "s3cret", "hunter"))


def test_offsets_hold_where_small_letters_are_longer() -> None:
    """İ has two characters in small letters."""
    assert redact("İİİ password=hunter2x") == "İİİ password=[redacted:assignment]"


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("fragment", HOSTILE)
def test_hostile_texts_cost_as_much_a_character_as_they_are_long(fragment: str) -> None:
    """A quadratic search would take minutes or hours; the dearest of these takes some three seconds a megabyte."""
    text = (fragment * MEGABYTE)[:MEGABYTE]
    assert _seconds(lambda: redact(text)) < 30


@pytest.mark.slow
@pytest.mark.parametrize("fragment", HOSTILE)
def test_twice_as_much_takes_no_four_times_as_long(fragment: str) -> None:
    """Compared where it can be: below some hundredths of a second the clock tells nothing."""
    short, long = ((fragment * size)[:size] for size in (100_000, 400_000))
    took = min(_seconds(lambda: list(find_secrets(short))) for _ in range(2))
    assert min(_seconds(lambda: list(find_secrets(long))) for _ in range(2)) < 10 * took + 0.1


class TestJudging:
    def test_an_unmistakable_token_is_refused_an_assignment_told(self) -> None:
        assert judge("use ghp_" + "a1B2" * 9, "shapes") == Judgement("github-token", ())
        assert judge("db password=hunter2x", "shapes") == Judgement(None, ("assignment",))
        assert judge("redis://:hunter2x@h, password=hunter2x, password=hunter3x", "shapes") == (
            None,
            ("url-password", "assignment"),
        )

    def test_the_seeds_list_is_kept_where_it_holds(self) -> None:
        assert judge("the password=hunter2x", "seed") == Judgement("password", ("assignment",))
        assert judge("the password=hunter2x", "seed", allow_words=True) == Judgement(None, ("assignment",))
        assert judge("task-1 and a monkey", "seed").blocked == "key"
        assert judge("task-1", "literal").blocked == "sk-"

    def test_off_is_off(self) -> None:
        assert judge("ghp_" + "a1B2" * 9, "off") == Judgement(None, ())

    @pytest.mark.parametrize("mode", ["seed", "literal", "shapes", "off"])
    def test_the_value_is_never_told(self, mode: str) -> None:
        for shape in SHAPES:
            assert shape.value not in repr(judge(shape.text, mode, allow_words=True))


@pytest.mark.parametrize(
    "text",
    ["sk-your-key-goes-here-please", "HRKU-YOUR_KEY_COMES_RIGHT_IN_HERE_PLEASE", "ghp_" + "x" * 36, "hf_" + "X" * 34],
)
def test_what_documents_say_instead_of_a_token_is_none(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("before", ["db-", "db_", "task-", "my-old_"])
def test_a_word_before_a_token_makes_it_no_less_one(before: str) -> None:
    told = judge(f"{before}ghp_" + "a1B2" * 9, "shapes")
    assert told.blocked == "github-token"
    assert redact(f"{before}ghp_" + "a1B2" * 9) == f"{before}[redacted:github-token]"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_no_secret_is_overlooked_in_a_short_text(shape: Shape) -> None:
    texts = [shape.text, *shape.text.splitlines()]  # most are short enough to be judged by their signs alone
    assert [redact(text) != text for text in texts] == [any(find_secrets(text)) for text in texts]
