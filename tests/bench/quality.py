"""How well search finds: MRR, and how often the answer comes first or among the first three.

python -m tests.bench.quality            by text, by meaning, by both, with the shipped table
python -m tests.bench.quality --minilm   with MiniLM beside it (the extra `minilm`)
python -m tests.bench.quality --write    keeps the figures of the shipped table beside it

Each question of `tests/search/questions.py` is asked against all memories there are: the other answers and more than a
thousand that answer nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from memoryd.core.index import FileRow
from memoryd.core.query import Filters, Mode
from memoryd.core.records import Document, Record
from memoryd.core.spans import Fingerprint, Span
from memoryd.index.sqlite import SqliteIndex
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.embedding.static import TABLE, Static
from memoryd.search.embedding.vocabulary import DIRECTORY
from memoryd.search.modes import SearchEngine
from memoryd.search.periods import period_in
from memoryd.search.query_terms import parse_query
from memoryd.search.semantic import Question, SemanticSearch
from tests.search.questions import Asked, distractors, keywords, mixed, paraphrases

FIGURES = DIRECTORY / "quality.json"
LOOKED_AT = 50  # an answer further down counts as not found
NOW = 1_767_225_600.0
MODES: tuple[Mode, ...] = ("text", "semantic", "hybrid")
SETS = {"paraphrases": paraphrases, "keywords": keywords, "mixed": mixed}


class Quality(NamedTuple):
    """`first` and `third`: the share of questions whose answer is the first, or among the first three."""

    mrr: float
    first: float
    third: float


def memories() -> list[str]:
    asked = [each.memory for find in SETS.values() for each in find()]
    return [*asked, *distractors()]


def catalogue(path: Path, texts: Sequence[str], embedder: Embedder) -> SqliteIndex:
    """A catalogue of these texts, each with its vector."""
    made = SqliteIndex(str(path))
    records = tuple(_record(number, text) for number, text in enumerate(texts))
    row = FileRow("all.jsonl", "source", Fingerprint(1, 1, 1, 1, 1), "0", records=len(records))
    made.replace(row, Document("all.jsonl", records))
    rows = made.missing_vectors(embedder.name, 0, len(texts))
    vectors = embedder.embed([text for _, text in rows])
    made.put_vectors(embedder.name, [(key, vector) for (key, _), vector in zip(rows, vectors, strict=True)])
    return made


def _record(number: int, text: str) -> Record:
    return Record(Span(number, number + 1), number + 1, f"m{number}", "note", "", NOW, NOW, (), False, {}, text=text)


def ranks(known: SqliteIndex, meaning: SemanticSearch, asked: Sequence[Asked], mode: Mode) -> list[int | None]:
    """At which place each answer stands, from 1; None beyond the first fifty."""
    engine = SearchEngine(meaning)
    found: list[int | None] = []
    with known.reader() as reader:
        for each in asked:
            query = parse_query(each.question).with_forms(reader)
            hits = engine.find(
                reader, Question(query, Filters(), mode, LOOKED_AT, NOW, period=period_in(each.question, NOW))
            )
            bodies = reader.memories([hit.key for hit in hits])
            places = [number for number, hit in enumerate(hits, 1) if bodies[hit.key].body == each.memory]
            found.append(places[0] if places else None)
    return found


def quality(places: Sequence[int | None]) -> Quality:
    shares = [1 / place if place else 0.0 for place in places]
    within = [sum(1 for place in places if place and place <= most) for most in (1, 3)]
    return Quality(*(round(total / len(places), 3) for total in (sum(shares), *within)))


def measure(embedder: Embedder) -> dict[str, dict[str, Quality]]:
    """Set -> mode -> quality."""
    with tempfile.TemporaryDirectory() as folder:
        known = catalogue(Path(folder, "catalogue.db"), memories(), embedder)
        meaning = SemanticSearch(embedder)
        try:
            return {
                name: {mode: quality(ranks(known, meaning, find(), mode)) for mode in MODES}
                for name, find in SETS.items()
            }
        finally:
            known.close()


def table(figures: Mapping[str, Mapping[str, Quality]]) -> str:
    lines = ["| questions | by | MRR | first | of three |", "|---|---|---|---|---|"]
    for name, modes in figures.items():
        lines += [f"| {name} | {mode} | {q.mrr:.3f} | {q.first:.0%} | {q.third:.0%} |" for mode, q in modes.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="how well search finds")
    parser.add_argument("--minilm", action="store_true", help="MiniLM beside it")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {FIGURES.name}")
    given = parser.parse_args()
    figures = measure(Static())
    print(f"{len(memories())} memories, {Static.name}\n{table(figures)}")
    if given.minilm:
        from memoryd.search.embedding.minilm import MiniLM  # noqa: PLC0415 - an extra

        print(f"\n{MiniLM.name}\n{table(measure(MiniLM()))}")
    if given.write:
        kept = {name: {mode: q._asdict() for mode, q in modes.items()} for name, modes in figures.items()}
        digest = hashlib.sha256(TABLE.read_bytes()).hexdigest()
        said = {"model": Static.name, "sha256": digest, "memories": len(memories()), "figures": kept}
        FIGURES.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
