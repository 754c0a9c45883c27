"""python -m tests.tools.distill CACHE [--size 128] [--out DIRECTORY] [--refine]"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from memoryd.search.embedding.static import words
from memoryd.search.embedding.vocabulary import DIRECTORY, RELATED, WORDS, read_pieces
from tests.tools.distill import corpus, examples, packing, refine, sentences, student
from tests.tools.distill.teacher import Array, Teacher

FREQUENT = 12  # texts that a word of its own stands in


def own_words(texts: Iterable[str]) -> list[str]:
    """Whole words that the vocabulary lacks: frequent ones, and those of the lists; the most frequent first."""
    known, counts = read_pieces(), Counter[str]()
    for text in texts:
        for word in set(words(text)):
            if re.fullmatch("[A-Za-z]{3,20}", word) and not re.search("[a-z][A-Z]", word):
                counts[word.lower()] += 1
    files = [(sentences.HERE / name).read_text(encoding="utf-8") for name in ("lists.txt", "patterns.txt")]
    listed = {word.lower() for text in files for word in re.findall("[A-Za-z]{3,20}", text)}
    chosen = {word for word, count in counts.items() if count >= FREQUENT} | listed
    return sorted(chosen - known.keys(), key=lambda word: (-counts[word], word))


def numbered(extra: list[str]) -> dict[str, int]:
    """Return the row of each piece of the vocabulary, and of each further word."""
    known = read_pieces()
    pieces = len(known)
    return known | {word: pieces + number for number, word in enumerate(extra)}


def distilled(cache: Path, size: int) -> tuple[Array, list[str]]:
    """Return a new table, and the words that it has beside the pieces of the vocabulary."""
    general, manuals = corpus.general(), corpus.documentation()
    made, news = sentences.made(general), corpus.changes(manuals)
    extra = own_words([*corpus.wordnet(), *corpus.descriptions(), *manuals, *made])
    known = numbered(extra)
    teacher = Teacher()
    parts = {"general": general[: corpus.SENTENCES], "made": made, "changes": news}
    vectors = np.concatenate([teacher.vectors(texts, cache, name) for name, texts in parts.items()])
    own = np.concatenate([teacher.pieces(), teacher.vectors(extra, cache, "words")])
    texts = student.cut([text for part in parts.values() for text in part], known)
    counts = np.bincount(texts.rows, minlength=len(known))
    table = student.first_rows(own, vectors, counts, size)
    return student.with_rare(student.fitted(table, texts, vectors), own, counts), extra


def main() -> None:
    parser = argparse.ArgumentParser(description="make the table of the static embedder")
    parser.add_argument("cache", type=Path, help="where the teacher's vectors are kept")
    parser.add_argument("--size", type=int, default=128, help="numbers a row")
    parser.add_argument("--out", type=Path, default=DIRECTORY, help="where the table goes")
    parser.add_argument("--refine", action="store_true", help="refine the table of an earlier run, in the cache")
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    path, unrefined = given.out / f"static-{given.size}.bin", given.cache / f"unrefined-{given.size}.bin"

    if given.refine:
        extra = (given.out / WORDS.name).read_text(encoding="utf-8").split()
    else:
        table, extra = distilled(given.cache, given.size)
        packing.write(table, unrefined)
        (given.out / WORDS.name).write_text("\n".join(extra) + "\n", encoding="utf-8")
    known = numbered(extra)
    table = refine.refined(packing.read(unrefined), known, examples.read())
    packing.write(table, path)
    packing.write_related(table, list(known), corpus.lemmas(), given.out / RELATED.name)


if __name__ == "__main__":
    main()
