"""Stores of any size to measure and search in, in each layout's own form, with needles among them.

    python -m tests.bench.corpora LAYOUT DIRECTORY COUNT [SEED]

The same seed gives the same bytes. Nothing is kept in memory but the file that is being written, so a store of
100,000 memories takes seconds. All times lie in 2025, so nothing depends on the day it is made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from memoryd.core.records import ParseOffset, Record
from memoryd.layouts.registry import LAYOUTS
from tests.bench.draft import OLD_S, Draft, Place
from tests.bench.planting import Needle, Where, needles
from tests.bench.wording import Wording
from tests.bench.writing import WRITERS

WRITTEN = [name for name, layout in LAYOUTS.items() if layout.writer is not None]  # what is made up here

FIRST_S = 1_735_689_600  # 2025-01-01
YEAR_S = 365 * 86_400
LONG = 24_000  # characters, far more than any window that texts are cut into
LONGEST = {"jsonl-store": 4_600}  # its schema allows no more than 5,000
EACH = 25  # needles of each kind that is made up
MOST = {"jsonl-store": 250_000}  # memories; files above 64 MB are not read, and that layout has three


class Planted(NamedTuple):
    """A needle, where it is, and by which id it is found. `user` is whose memory it is, where users are kept apart."""

    needle: Needle
    path: str
    id: str
    user: str | None


class Corpus(NamedTuple):
    layout: str
    root: Path
    size: int
    planted: tuple[Planted, ...]


def generate(
    layout: str,
    directory: Path,
    count: int,
    seed: int = 1,
    *,
    each: int | None = None,
    users: int | None = None,
    embeddings: bool = True,
) -> Corpus:
    """Write `count` memories into `directory`, which must be new. `each` needles of each made-up kind (fewer in small
    stores), `users` and `embeddings` (384 numbers each) of user documents."""
    made = needles(Random(f"needles {seed}"), each if each is not None else max(2, min(EACH, count // 50)))
    directory.mkdir(mode=0o700)
    write = WRITERS[layout](directory, count, users, embeddings)
    told = [(draft, place) for draft, place in write(drafts(layout, count, seed, made)) if draft.needle]
    return Corpus(layout, directory, count, tuple(_located(layout, directory, told)))


def drafts(layout: str, count: int, seed: int, made: list[Needle]) -> Iterator[Draft]:
    """The memories one after the other, the oldest first."""
    if len(made) > count:
        raise ValueError(f"{len(made)} needles do not fit into {count} memories")
    random = Random(f"texts {seed}")
    wording = Wording(random)
    places = dict(zip(random.sample(range(count), len(made)), made, strict=True))
    rivals = _rivals(random, count, places)
    step = YEAR_S // count
    for number in range(count):
        needle = places.get(number)
        created = FIRST_S + number * step + random.randrange(step)
        body = wording.sentences(random.randint(180, 560))
        for said in rivals.get(number, ()):
            body.insert(random.randint(0, len(body)), said)
        yield _draft(layout, number, created, body, needle, wording)


def _rivals(random: Random, count: int, places: Mapping[int, Needle]) -> dict[int, list[str]]:
    """By the number of the memory they go to, never one that holds a needle."""
    found: dict[int, list[str]] = {}
    for needle in places.values():
        for said in needle.rivals:
            number = random.randrange(count)
            while number in places:
                number = (number + 1) % count
            found.setdefault(number, []).append(f"{said}.")
    return found


def _draft(layout: str, number: int, created: int, body: list[str], needle: Needle | None, wording: Wording) -> Draft:
    title, tags, where = wording.title(), wording.tags(), needle.where if needle else None
    if needle is None:
        return Draft(number, created, title, " ".join(body), tags)
    if where is Where.TITLE:
        title = f"{title[:30].rstrip()} {needle.planted}"
    elif where is Where.TAG:
        tags = (*tags, needle.planted)
    elif where is Where.TAIL:
        length = LONGEST.get(layout, LONG)
        text = " ".join([*body, *wording.sentences(length)])[:length]
        body = [text.rsplit(" ", 1)[0], f"{needle.planted}."]
    else:
        body.insert(number % (len(body) + 1), needle.planted)
    return Draft(number, created, title, " ".join(body), tags, needle)


def _located(layout: str, directory: Path, told: list[tuple[Draft, Place]]) -> Iterator[Planted]:
    """The ids, as the layout itself gives them."""
    read: dict[str, tuple[Record, ...]] = {}
    for draft, place in told:
        assert draft.needle is not None
        records = read.get(place.path)
        if records is None:
            content = place.alone or (directory / place.path).read_bytes()
            document = LAYOUTS[layout].reader.parse(
                place.path, content, now=OLD_S, mtime=OLD_S - 60, base=ParseOffset()
            )
            records = document.records
            if place.alone is None:
                read[place.path] = records
        (record,) = [each for each in records if _holds(each, draft.needle)]
        yield Planted(draft.needle, place.path, record.id, record.owner or None)


def _holds(record: Record, needle: Needle) -> bool:
    if needle.where is Where.TAG:
        return needle.planted in (*record.tags, *record.labels)
    return needle.planted in record.title or needle.planted in record.text


if __name__ == "__main__":
    corpus = generate(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(*sys.argv[4:5] or (1,)))
    for planted in corpus.planted:
        print(*planted.needle[:2], planted.id, sep="\t")
