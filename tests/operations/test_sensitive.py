"""What is remembered of texts that were found clean lets nothing else through, and is little."""

from __future__ import annotations

import pytest

from memoryd.core.policy import Policy
from memoryd.errors import SensitiveError
from memoryd.operations import sensitive
from memoryd.operations.sensitive import require_storable
from tests.operations.conftest import MakeWorld
from tests.operations.world import World

VALUE = "Zq8xT2mL9vR4bN7k"  # nothing by itself, a password under such a name


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitive, "_clean", set())


def test_what_is_clean_under_one_name_is_looked_at_again_under_another(world: World) -> None:
    for _ in range(2):
        assert require_storable(world.store, {"content": VALUE}) == ()
        (warning,) = require_storable(world.store, {"password": VALUE})
        assert VALUE not in warning
    assert require_storable(world.store, {"content": {"x": [VALUE]}}) == ()
    assert len(require_storable(world.store, {"content": {"password": [VALUE]}})) == 1


def test_what_is_clean_by_one_list_is_looked_at_again_by_the_other(make_world: MakeWorld) -> None:
    """A general word is allowed by shapes, forbidden by the seed's list, and lifted by who may."""
    shapes, seed = make_world(Policy(secrets="shapes")), make_world(Policy(secrets="seed"))
    memory = {"content": "a password"}
    for _ in range(2):
        assert require_storable(shapes.store, memory) == ()
        assert require_storable(seed.store, memory, allow_words=True) == ()
        with pytest.raises(SensitiveError):
            require_storable(seed.store, memory)


def test_little_is_remembered(world: World) -> None:
    """Whatever is sent: long texts, long names, many of them."""
    for number in range(1_000):
        require_storable(
            world.store, {f"{number} " + "x" * 1_000: "a", "b": f"{number} " + "x" * 1_000, "c": f"{number}"}
        )
    assert 0 < len(sensitive._clean) <= 512
    assert all(len(text) + len(name) <= 48 for text, name, _, _ in sensitive._clean)


@pytest.mark.parametrize("name", ["password", "api_key", "Secret", "bearer token"])
def test_the_name_of_a_field_smuggles_nothing_past_the_seeds_list(make_world: MakeWorld, name: str) -> None:
    """There the name becomes text: `**Password:** hunter2xyz`."""
    world = make_world(Policy(secrets="seed"))
    with pytest.raises(SensitiveError) as refused:
        require_storable(world.store, {"title": "Deploy notes", name: "hunter2xyz"})
    assert refused.value.data["field"] == name
    own = {"title": "Deploy", "context": "staging", "problem": "it was slow", "solution": "a cache", "code": "x = 1"}
    assert require_storable(world.store, own) == ()
