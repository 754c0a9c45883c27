"""The cache of clean texts lets nothing else through, and is small."""

from __future__ import annotations

from itertools import chain

import pytest

from memoryd.core.defaults import Policy
from memoryd.core.secrets import Judgement, judge
from memoryd.errors import SensitiveError
from memoryd.operations import secret_check
from memoryd.operations.secret_check import reject_secrets
from tests.operations.conftest import MakeWorld
from tests.operations.world import World

VALUE = "Zq8xT2mL9vR4bN7k"  # nothing by itself, a password under such a name


def test_a_text_clean_under_one_name_is_judged_again_under_another(world: World) -> None:
    for _ in range(2):
        assert reject_secrets(world.store, {"content": VALUE}) == ()
        (warning,) = reject_secrets(world.store, {"password": VALUE})
        assert VALUE not in warning
    assert reject_secrets(world.store, {"content": {"x": [VALUE]}}) == ()
    assert len(reject_secrets(world.store, {"content": {"password": [VALUE]}})) == 1


def test_a_text_clean_by_one_list_is_judged_again_by_the_other(make_world: MakeWorld) -> None:
    """A general word is allowed by shapes, forbidden by the seed's list, and lifted by who may."""
    shapes, seed = make_world(Policy(secrets="shapes")), make_world(Policy(secrets="seed"))
    memory = {"content": "a password"}
    for _ in range(2):
        assert reject_secrets(shapes.store, memory) == ()
        assert reject_secrets(seed.store, memory, allow_words=True) == ()
        with pytest.raises(SensitiveError):
            reject_secrets(seed.store, memory)


def test_the_cache_is_small(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is sent: long texts, long names, many of them. What is remembered is not judged again."""
    judged: list[str] = []

    def counted(text: str, *more: str | bool) -> Judgement:
        judged.append(text)
        return judge(text, *more)  # type: ignore[arg-type]  # handed on as they came

    def store(memory: dict[str, str]) -> None:
        for _ in range(2):  # a full cache is cleared, perhaps in the middle of a memory
            reject_secrets(world.store, memory)

    def remembered(memory: dict[str, str]) -> bool:
        judged.clear()
        reject_secrets(world.store, memory)
        return not judged

    monkeypatch.setattr(secret_check, "judge", counted)
    memories = [
        ({f"{number} " + "x" * 1_000: "a"}, {"b": f"{number} " + "x" * 1_000}, {"c": f"{number}"})
        for number in range(1_000)
    ]
    for memory in chain.from_iterable(memories):
        store(memory)
    again = [tuple(map(remembered, kinds)) for kinds in reversed(memories)]
    long_names, long_texts, short = zip(*again, strict=True)
    assert short[0]
    assert sum(short) <= 512
    assert not any(long_names)
    assert not any(long_texts)
    for length in range(1, 60):  # across the length limit of the cache
        store({"d" * 24: "x" * length})
        assert remembered({"d" * 24: "x" * length}) is (length <= 24)
        store({"d" * length: "x" * 24})
        assert remembered({"d" * length: "x" * 24}) is (length <= 24)


@pytest.mark.parametrize("name", ["password", "api_key", "Secret", "bearer token"])
def test_the_name_of_a_field_is_judged_with_its_text(make_world: MakeWorld, name: str) -> None:
    """There the name becomes text: `**Password:** hunter2xyz`."""
    world = make_world(Policy(secrets="seed"))
    with pytest.raises(SensitiveError) as refused:
        reject_secrets(world.store, {"title": "Deploy notes", name: "hunter2xyz"})
    assert refused.value.data["field"] == name
    own = {"title": "Deploy", "context": "staging", "problem": "it was slow", "solution": "a cache", "code": "x = 1"}
    assert reject_secrets(world.store, own) == ()
