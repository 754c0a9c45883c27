"""The generated stores are what their layouts call sound, hold as many memories as asked for, and hide needles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from memoryd.core.findings import Severity
from memoryd.core.records import Document, ParseOffset, Role
from memoryd.core.words import tokens
from memoryd.layouts.codes import severity
from memoryd.layouts.registry import LAYOUTS
from tests.bench.corpora import LONG, LONGEST, WRITTEN, Corpus, generate
from tests.bench.draft import OLD_S
from tests.bench.planting import SHAPES, Where, needles
from tests.bench.wording import TAIL, vocabulary

COUNT = 240


@pytest.fixture(scope="module", params=sorted(WRITTEN))
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return generate(request.param, tmp_path_factory.mktemp("corpora") / "root", COUNT, each=3)


def documents(corpus: Corpus) -> dict[str, Document]:
    layout, found = LAYOUTS[corpus.layout], {}
    for path in sorted(corpus.root.rglob("*")):
        name = path.relative_to(corpus.root).as_posix()
        if path.is_file():
            assert layout.reader.role(name) is Role.SOURCE, name
            found[name] = layout.reader.parse(name, path.read_bytes(), now=OLD_S + 60, mtime=OLD_S, base=ParseOffset())
    return found


def test_every_memory_is_there_and_no_file_is_damaged(corpus: Corpus) -> None:
    found = documents(corpus)
    assert sum(len(document.records) for document in found.values()) == corpus.size
    findings = [each for document in found.values() for each in document.findings]
    assert not [each for each in findings if severity(each) is Severity.ERROR]
    assert not sum(document.broken for document in found.values())


def test_nothing_is_worth_a_word_but_long_files(corpus: Corpus) -> None:
    """A long entry makes a topic file large, and a long line a line."""
    codes = Counter(each.code for document in documents(corpus).values() for each in document.findings)
    assert codes.keys() <= {"oversize", "line-too-long"}


def test_topic_files_are_small_enough_to_be_left_alone(tmp_path: Path) -> None:
    corpus = generate("markdown-topics", tmp_path / "r", COUNT, each=3)
    for document in documents(corpus).values():
        assert len(document.records) <= 10
        assert len(document.records) == 1 or document.facts["size"] <= 5_120


def test_each_needle_is_in_one_memory_alone(corpus: Corpus) -> None:
    records = [record for document in documents(corpus).values() for record in document.records]
    assert {each.needle.where for each in corpus.planted} == set(Where)
    for planted in corpus.planted:
        said = planted.needle.planted
        having = [each for each in records if said in each.text or said in each.title or said in each.labels]
        having += [each for each in records if said in each.tags and each not in having]
        assert [each.id for each in having] == [planted.id], planted.needle


def test_a_tail_is_far_behind(corpus: Corpus) -> None:
    tails = [each for each in corpus.planted if each.needle.where is Where.TAIL]
    records = {record.id: record for document in documents(corpus).values() for record in document.records}
    least = LONGEST.get(corpus.layout, LONG) * 0.98
    assert tails
    assert all(records[each.id].text.index(each.needle.planted) > least for each in tails)


def test_rivals_are_there(corpus: Corpus) -> None:
    texts = "\n".join(record.text for document in documents(corpus).values() for record in document.records)
    assert all(rival in texts for *_, rivals in SHAPES for rival in rivals)


@pytest.mark.parametrize("layout", sorted(WRITTEN))
def test_a_seed_gives_the_same_bytes(layout: str, tmp_path: Path) -> None:
    made = [generate(layout, tmp_path / name, 150, seed, each=2) for name, seed in (("a", 5), ("b", 5), ("c", 6))]
    one, same, other = (
        {path.relative_to(each.root): path.read_bytes() for path in each.root.rglob("*") if path.is_file()}
        for each in made
    )
    assert one == same
    assert one != other
    assert made[0].planted == made[1].planted


def test_users_and_embeddings(tmp_path: Path) -> None:
    corpus = generate("user-document", tmp_path / "r", 120, each=1, users=4)
    records = [record for document in documents(corpus).values() for record in document.records]
    assert {record.owner for record in records} == {f"user-{number:04}" for number in range(4)}
    assert {record.facts["embedding"] for record in records} == {384}
    owners = {record.id: record.owner for record in records}
    assert all(planted.user == owners[planted.id] for planted in corpus.planted)


def test_needles_do_not_repeat_themselves() -> None:
    made = needles(Random(1), 25)
    assert len({each.planted for each in made}) == len(made)
    assert len(vocabulary()) > TAIL
    assert not {each.planted for each in made} & {*vocabulary()}


def test_no_rival_is_what_is_asked_for() -> None:
    """Word by word: `1.0.210` begins like `1.0.21` and is another word."""
    made = needles(Random(1), 5)
    rivals = [f" {' '.join(tokens(rival))} " for each in made for rival in each.rivals]
    for each in made:
        sought = f" {' '.join(tokens(each.query))} "
        assert not [rival for rival in rivals if sought in rival], each


def test_too_many_needles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        generate("jsonl-store", tmp_path / "r", 20)


def test_documents_without_embeddings(tmp_path: Path) -> None:
    corpus = generate("user-document", tmp_path / "r", 120, each=1, embeddings=False)
    records = [record for document in documents(corpus).values() for record in document.records]
    assert {record.facts["embedding"] for record in records} == {0}
