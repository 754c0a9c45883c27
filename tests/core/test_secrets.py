"""Secrets: recognised by shape, named by pattern, never repeated; the seed's list for what is stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.secrets import TOKENS, VIOLATION, WORDS, find_secrets, headline, judge, redact

SHAPES = {
    "github-token": ["ghp_" + "a1B2" * 9, "gho_" + "z" * 36, "github_pat_11ABCDEFG0_abcdefghij"],
    "sk-token": ["sk-proj-AbC1dEfGh2IjKlMnOp", "sk-" + "a" * 20, "sk-ant-api03-Zz_9-abcdefgh"],
    "aws-access-key": ["AKIAIOSFODNN7EXAMPLE"],
    "slack-token": ["xoxb-123456789012-abcdef", "xoxp-1234567890"],
    "bearer": ["Bearer abcdefghijklmnopqrst.uvw", "bearer  0123456789abcdefghij"],
    "pem": [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n" + "A1b2" * 16 + "\n" + "C3d4" * 16,
    ],
}
CASES = [(name, text) for name, texts in SHAPES.items() for text in texts]
INNOCENT = [
    "TASK-019 and task-force-of-the-year-2025", "risk-assessment-of-everything-1", "sk-learn", "sk-", "desk-lamp",
    "the bearer of bad news", "bearer token", "AKIA", "xox", "ghp_", "keyboard, monkey and Key Learnings",
    "-----BEGIN", "flask-login-manager-extension", "-- --- ----- ------",
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_token_shape_is_found_and_taken_out_whole(name: str, text: str) -> None:
    sentence = f"we used {text}, and then."
    assert [each.pattern for each in find_secrets(sentence)] == [name]
    assert redact(sentence) == f"we used [redacted:{name}], and then."


@pytest.mark.parametrize("text", INNOCENT)
def test_innocent_words_are_no_token_shapes(text: str) -> None:
    assert redact(text) == text


def test_overlapping_shapes_are_taken_out_together() -> None:
    assert redact("Authorization: Bearer sk-proj-AbC1dEfGh2IjKlMnOpQr") == "Authorization: [redacted:bearer]"


def test_a_key_without_its_end_does_not_swallow_the_text_below() -> None:
    shown = redact("-----BEGIN PRIVATE KEY-----\n" + "A1b2" * 16 + "\nwords of a person\n")
    assert shown == "[redacted:pem]\nwords of a person\n"


@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from([text for _, text in CASES])), max_size=8).map("".join))
def test_what_is_redacted_stays_so(text: str) -> None:
    assert redact(redact(text)) == redact(text)
    assert list(find_secrets(redact(text))) == []


@pytest.mark.parametrize("text", ["-----BEGIN A-----" * 4000, "sk-" * 60_000, "bearer " * 30_000, "-" * 200_000])
def test_hostile_texts_take_no_time_to_speak_of(text: str) -> None:
    redact(text)  # the time limit of the test is the assertion: a quadratic search would not end


def blocked(text: str, *, allow_words: bool = False, mode: str = "seed") -> str | None:
    """The name of the pattern that forbids storing the text."""
    return judge(text, mode, allow_words).blocked


class TestStoring:
    """The seed's blocked list: password, token, key, secret, credential, ghp_, sk-, ak_, -----BEGIN, api_key,
    @gmail.com, amazonaws.com/key and "bearer ", contained in any case."""

    @pytest.mark.parametrize("pattern", [*WORDS, *TOKENS])
    @pytest.mark.parametrize("mode", ["seed", "literal"])
    def test_each_pattern_of_the_seed_blocks_in_any_case(self, pattern: str, mode: str) -> None:
        for text in (pattern, pattern.upper(), pattern.lower(), f"see {pattern}x"):
            assert blocked(text, mode=mode) is not None

    def test_the_list_is_the_seeds(self) -> None:
        assert VIOLATION == "Security violation: Cannot store sensitive data"
        assert set(WORDS) | set(TOKENS) == {
            "password", "token", "key", "secret", "credential", "ghp_", "sk-", "ak_", "-----BEGIN", "api_key",
            "@gmail.com", "amazonaws.com/key", "bearer ",
        }  # fmt: skip

    @pytest.mark.parametrize("text", ["task-019", "break_point", "risk-free", "peak_load", "desk-", "soak_test"])
    def test_prefixes_count_where_a_word_begins(self, text: str) -> None:
        assert blocked(text) is None
        assert blocked(text, mode="literal") is not None  # to the letter they are contained

    @pytest.mark.parametrize("text", ["ak_1", "(sk-1", "x=ghp_1", "a sk-"])
    def test_prefixes_block_at_words(self, text: str) -> None:
        assert blocked(text, allow_words=True) is not None

    @pytest.mark.parametrize("word", WORDS)
    def test_allowing_lifts_the_five_words(self, word: str) -> None:
        assert blocked(f"the {word}s", allow_words=True) is None
        assert blocked(f"the {word}s", allow_words=True, mode="literal") is None

    @pytest.mark.parametrize("token", TOKENS)
    @pytest.mark.parametrize("mode", ["seed", "literal"])
    def test_allowing_lifts_no_token(self, token: str, mode: str) -> None:
        assert blocked(f"{token}x", allow_words=True, mode=mode) == token

    def test_key_blocks_inside_words_as_the_seed_says(self) -> None:
        assert blocked("Key Learnings: a monkey") == "key"

    @pytest.mark.parametrize(("name", "text"), CASES)
    def test_token_shapes_block_in_every_mode_but_off(self, name: str, text: str) -> None:
        assert blocked(text, allow_words=True) is not None
        assert blocked(text, mode="shapes") == name
        assert blocked(text, mode="off") is None

    def test_shapes_alone_let_words_pass(self) -> None:
        assert blocked("password, api_key, me@gmail.com", mode="shapes") is None

    def test_a_clean_text_passes(self) -> None:
        assert blocked("Use the vault; ask the platform team for the path.") is None


def test_a_headline_never_holds_half_a_token() -> None:
    """The catalogue and every list carry it, so a token must not be cut into something nobody recognises."""
    token = "ghp_" + "a1B2" * 9
    for lead in range(60, 100):
        shown = headline("x" * lead + f" {token} rest\nsecond line")
        assert "ghp_" not in shown
        assert len(shown) <= 100
    assert headline("first\nsecond") == "first"
