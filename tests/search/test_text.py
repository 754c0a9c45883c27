"""Search by words: results and their order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.questions import Asked, distractors, keywords
from tests.search.stored import NOW, Stored, all_closed, memory, search_all

FILLER = distractors(1)


class TestWords:
    def test_all_words_go_before_some(self, stored: Stored) -> None:
        stored.texts(
            "zebra zebra zebra zebra",
            "a giraffe",
            "the zebra met a giraffe in a very long story about many other things",
        )
        assert stored.ids("zebra giraffe")[0] == "m2"

    def test_the_phrase_goes_before_the_words(self, stored: Stored) -> None:
        stored.texts(
            "time limit time limit time out", "the limit of time", "limit: out of time", "out of the time limit"
        )
        assert stored.ids("out of time")[0] == "m2"

    def test_other_forms_of_a_word_are_found(self, stored: Stored) -> None:
        stored.texts("Deployed the services twice.", "Databases were migrated.", "Nothing else.")
        assert stored.ids("deploying service")[0] == "m0"
        assert stored.ids("database migration")[0] == "m1"

    def test_the_form_as_typed_ranks_first(self, stored: Stored) -> None:
        stored.texts("It was deployed there.", "They deploy it there.", "The deployment was there.")
        assert stored.ids("deploy")[0] == "m1"

    def test_a_common_word_alone_brings_nothing_beside_a_rare_one(self, stored: Stored) -> None:
        """More than a tenth of the memories have it: nobody who asks for more wants these."""
        stored.texts(*(f"project report number {number}" for number in range(60)), "the zebra project")
        assert stored.ids("zebra project unicorn") == ["m60"]

    def test_of_common_words_the_rarest_is_used(self, stored: Stored) -> None:
        stored.texts(*(f"project {'report' if number % 2 else 'plan'} {number}" for number in range(60)))
        assert len(stored.ids("plan report")) == 10

    def test_words_that_say_nothing_are_left_out_of_a_question(self, stored: Stored) -> None:
        stored.texts("How do I get there?", "Restore a snapshot with the vault job.", *FILLER[:40])
        assert stored.ids("how do i restore the snapshots")[0] == "m1"

    def test_a_text_is_found_by_its_last_word(self, stored: Stored) -> None:
        """However long it is."""
        stored.texts("word " * 100_000 + "needle", *FILLER[:20])
        [hit] = stored.hits("needle")
        assert hit["id"] == "m0"
        assert hit["snippet"].endswith("needle")

    def test_title_before_labels_before_text(self, stored: Stored) -> None:
        filler = "and some other words that make it as long as that one is"
        stored.put(
            memory("text", f"zebra {filler}", title="one"),
            memory("label", f"{filler} two", labels=("zebra",), title="two"),
            memory("title", f"{filler} three", title="zebra"),
        )
        assert stored.ids("zebra") == ["title", "label", "text"]

    def test_tags_are_words_too(self, stored: Stored) -> None:
        stored.put(memory("a", "nothing"), memory("b", "nothing", tags=("zebra-crossing",)))
        assert stored.ids("zebra") == ["b"]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with all_closed():
        made = Stored(Path(tmp_path_factory.mktemp("many")) / "c.sqlite")
        made.texts(*dict.fromkeys([*distractors(), *(each.memory for each in keywords())]))
        yield made


@pytest.mark.parametrize("asked", keywords(), ids=lambda each: each.question[:30])
def test_needles_are_found_first_among_a_thousand(many: Stored, asked: Asked) -> None:
    [first, *_] = many.hits(asked.question)
    with many.catalogue.reader() as reader:
        [text] = [each.body for each in reader.memories([int(first["id"][1:]) + 1]).values()]
    assert text == asked.memory


class TestStanding:
    def test_of_the_same_text_the_newer_goes_first(self, stored: Stored) -> None:
        stored.put(memory("new", "the zebra", age=1), memory("old", "the zebra", age=400))
        assert stored.ids("zebra") == ["new", "old"]

    def test_and_the_one_its_layout_holds_dear(self, stored: Stored) -> None:
        stored.put(memory("high", "the zebra", weight=1.0), memory("low", "the zebra", weight=0.0))
        assert stored.ids("zebra") == ["high", "low"]

    def test_and_the_one_that_was_used(self, stored: Stored) -> None:
        stored.put(memory("used", "the zebra", uses=20), memory("not", "the zebra"))
        assert stored.ids("zebra") == ["used", "not"]

    def test_much_better_text_wins(self, stored: Stored) -> None:
        """Whatever speaks for the other."""
        stored.put(
            memory("about", "zebra stripes: why a zebra has stripes", title="zebra stripes", age=900, weight=0.0),
            memory("aside", f"{' '.join(FILLER[:4])} zebra, stripes", age=0, weight=1.0, uses=1000),
        )
        assert stored.ids("zebra stripes") == ["about", "aside"]

    def test_equals_keep_one_order(self, stored: Stored) -> None:
        stored.texts(*["the zebra"] * 30)
        first = stored.ids("zebra", limit=10)
        assert first == stored.ids("zebra", limit=10)
        assert first == stored.ids("zebra", limit=30)[:10]

    def test_no_time_is_no_harm(self, stored: Stored) -> None:
        stored.put(memory("never", "the zebra", age=None), memory("later", "the zebra", age=-10))
        assert stored.ids("zebra") == ["later", "never"]
        assert [hit["created"] for hit in stored.hits("zebra")][1] is None


class TestFilters:
    @pytest.fixture
    def zebras(self, stored: Stored) -> Stored:
        stored.put(
            memory("plain", "zebra", age=10),
            memory("tested", "zebra", tags=("test", "two words"), age=20),
            memory("testing", "zebra", tags=("testing", "a-test"), type="task", age=30),
            memory("old", "zebra", archived=True, tags=("test",), age=40),
        )
        return stored

    def test_a_tag_is_exact(self, zebras: Stored) -> None:
        assert zebras.ids("zebra", tags=("test",)) == ["tested"]
        assert zebras.ids("zebra", tags=("two words",)) == ["tested"]
        assert zebras.ids("zebra", tags=("two",)) == []
        assert zebras.ids("zebra", tags=("Test",)) == []
        assert zebras.ids("zebra", tags=("",)) == []

    def test_all_tags_must_be_there(self, zebras: Stored) -> None:
        assert zebras.ids("zebra", tags=("test", "two words")) == ["tested"]
        assert zebras.ids("zebra", tags=("test", "testing")) == []

    def test_type_and_time(self, zebras: Stored) -> None:
        assert zebras.ids("zebra", type="task") == ["testing"]
        assert set(zebras.ids("zebra", since=NOW - 25 * 86_400)) == {"plain", "tested"}

    def test_archived_ones_on_request(self, zebras: Stored) -> None:
        assert "old" not in zebras.ids("zebra")
        assert set(zebras.ids("zebra", archived=True)) == {"plain", "tested", "testing", "old"}
        found = {hit["id"]: hit["archived"] for hit in zebras.hits("zebra", archived=True, tags=("test",))}
        assert found == {"tested": False, "old": True}

    def test_they_come_before_the_best_are_taken(self, stored: Stored) -> None:
        """One that fits is found behind a thousand better ones that do not."""
        stored.put(*(memory(f"m{number}", "zebra zebra", type="other") for number in range(300)))
        stored.put(memory("it", f"{' '.join(FILLER[:5])} zebra", age=900))
        assert stored.ids("zebra", type="note", limit=1) == ["it"]

    def test_like_a_filter_made_by_hand(self, stored: Stored) -> None:
        chance = random.Random(8)
        tags, types = ("a", "ab", "b", "a b"), ("x", "y")
        records = [
            memory(
                f"m{number}",
                "zebra",
                tags=chance.sample(tags, chance.randint(0, 3)),
                type=chance.choice(types),
                archived=chance.random() < 0.3,
                age=chance.randint(0, 50),
            )
            for number in range(120)
        ]
        stored.put(*records)
        for tag in tags:
            for kind in (None, *types):
                for archived in (False, True):
                    expected = {
                        each.id
                        for each in records
                        if tag in each.tags and kind in (None, each.type) and archived >= each.archived
                    }
                    found = stored.ids("zebra", tags=(tag,), type=kind, archived=archived, limit=200)
                    assert set(found) == expected


class TestManyRoots:
    def test_hits_of_all_roots_are_ranked_together(self, tmp_path: Path) -> None:
        small, large = Stored(tmp_path / "s", name="small"), Stored(tmp_path / "l", name="large")
        small.texts("zebra crossing rules")
        large.texts(*FILLER, "a zebra", "crossing the river")
        found = search_all([large, small], "zebra crossing rules")["hits"]
        assert [hit["root"] for hit in found] == ["small", "large", "large"]
        assert {hit["layout"] for hit in found} == {"jsonl-store"}

    def test_a_score_means_the_same_in_each(self, tmp_path: Path) -> None:
        """The best that words can be matched is about as good among three memories as among hundreds."""
        small, large = Stored(tmp_path / "s", name="small"), Stored(tmp_path / "l", name="large")
        text = "The zebra crossing on the market square is painted anew every spring by the town."
        small.texts(text, *FILLER[:3])
        large.texts(*FILLER, text)
        low, high = (root.hits("zebra crossing")[0]["score"] for root in (small, large))
        assert abs(low - high) < 0.1
        assert all(0 < hit["score"] <= 1 for hit in search_all([small, large], "market cluster")["hits"])


class TestSayingWhy:
    def test_the_parts_of_the_score(self, stored: Stored) -> None:
        stored.put(memory("m", "A zebra crosses.", title="Stripes", tags=("animals",), weight=0.5, uses=2))
        [hit] = stored.hits("zebra stripes animal")
        assert hit["why"]["terms"] == ["zebra*", "stripe*", "anim*"]
        assert hit["why"]["fields"] == ["title", "labels", "text"]
        assert hit["why"]["match"] == "all words in some form"
        assert hit["why"].keys() >= {"text", "recency", "weight", "uses"}

    @pytest.mark.parametrize(
        ("query", "match"),
        [
            ("zebra crossing", "phrase"),
            ("crossing zebra", "all words"),
            ("cross zebras", "all words in some form"),
            ("zebra unicorn", "some words"),
            ("=>", "part of a word"),
        ],
    )
    def test_how_it_matched(self, stored: Stored, query: str, match: str) -> None:
        stored.texts("a zebra crossing =>", "something else")
        assert [hit["why"]["match"] for hit in stored.hits(query)] == [match]

    def test_without_an_embedder_the_text_answers_and_says_so(self, stored: Stored) -> None:
        stored.texts("a zebra crossing")
        for mode in ("hybrid", "semantic"):
            [hit] = stored.hits("zebra", mode=mode)
            assert hit["why"]["semantic"] == "not available"
