"""Fitting the rows of the table: sums of rows shall stand to each other as the teacher's vectors do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memoryd.search.embedding.static import rows_of, words
from tests.tools.distill.optimiser import Adam, by_row, distribution
from tests.tools.distill.teacher import Array

SMOOTH = 1e-3  # a of a / (a + p)
EPOCHS, BATCH, RATE = 6, 1024, 0.005
WARMTH = 0.1  # by which likeness is divided before it becomes a distribution
FITS = ((0, 0.0), (0, 0.2))  # seed, and the share of words that sums go without while fitted
AVERAGED = 0.4  # from this part of the way on the rows are averaged, every 20 steps
KNOWN, WELL_KNOWN, FAMILIAR = 6, 25, 100  # how often a word was met: hardly, now and then, always
RIDGE = 30.0


class Texts(NamedTuple):
    """`rows` of all texts one behind the other; text n has those from `starts[n]` to `starts[n + 1]`."""

    rows: Array
    starts: Array


def cut(texts: Sequence[str], known: dict[str, int]) -> Texts:
    cache: dict[str, Sequence[int]] = {}
    rows: list[int] = []
    starts = [0]
    for text in texts:
        before = len(rows)
        for word in words(text):
            if word not in cache:
                cache[word] = rows_of(word, known)
            rows.extend(cache[word])
        if len(rows) == before:
            rows.append(known["[UNK]"])
        starts.append(len(rows))
    return Texts(np.array(rows, "i4"), np.array(starts, "i8"))


def first_rows(own: Array, teacher: Array, counts: Array, size: int) -> Array:
    """The principal components of each word's own vector, weighted by smooth inverse frequency."""
    mean = teacher.mean(axis=0)
    some = np.random.default_rng(0).permutation(len(teacher))[:40_000]
    _, _, components = np.linalg.svd((teacher - mean)[some], full_matrices=False)
    share = counts / counts.sum()
    return ((own - mean) @ components[:size].T * (SMOOTH / (SMOOTH + share))[:, None]).astype("f4")


def fitted(table: Array, texts: Texts, teacher: Array) -> Array:
    """The mean of several fits from the same rows: what each learned by chance falls away."""
    return np.mean([_fitted(table.copy(), texts, teacher, seed, dropped) for seed, dropped in FITS], axis=0)


def _fitted(table: Array, texts: Texts, teacher: Array, seed: int, dropped: float) -> Array:
    """Return the mean of the rows on the last part of the way."""
    source, count = np.random.default_rng(seed), len(teacher)
    adam = Adam(table, RATE, EPOCHS * (count // BATCH), averaged_from=AVERAGED, every=20)
    for epoch in range(EPOCHS):
        order, losses = source.permutation(count), []
        for batch in range(count // BATCH):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            loss, slopes = _slope(table, texts, teacher[chosen], chosen, source, dropped)
            adam.step([slopes])
            losses.append(loss)
        print(f"epoch {epoch + 1} of {EPOCHS}: {np.mean(losses):.4f}", flush=True)
    return adam.averaged


def _slope(
    table: Array, texts: Texts, teacher: Array, chosen: Array, source: np.random.Generator, dropped: float
) -> tuple[float, tuple[Array, Array]]:
    """The cross entropy of one batch, the rows it touches, and how it changes with them."""
    rows = np.concatenate([texts.rows[texts.starts[n] : texts.starts[n + 1]] for n in chosen])
    lengths = texts.starts[chosen + 1] - texts.starts[chosen]
    firsts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    kept = (source.random(len(rows)) > dropped).astype("f4") if dropped else np.ones(len(rows), "f4")
    kept[firsts] = 1
    sums = np.add.reduceat(table[rows] * kept[:, None], firsts, axis=0)
    lengths_of_sums = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-9
    made = sums / lengths_of_sums
    wanted, found = _distribution(teacher @ teacher.T), _distribution(made @ made.T)
    loss = float(-(wanted * np.log(found + 1e-12)).sum(axis=1).mean())
    off = (found - wanted) / WARMTH
    slope = (off + off.T) @ made / len(chosen)
    slope = (slope - (slope * made).sum(axis=1, keepdims=True) * made) / lengths_of_sums
    spread = np.repeat(slope, lengths, axis=0) * kept[:, None]
    return loss, by_row(rows, spread)


def _distribution(likeness: Array) -> Array:
    """How likely each text of a batch is taken for another, by their likeness; never for itself."""
    np.fill_diagonal(likeness, -1e9)
    return distribution(likeness, WARMTH)


def with_rare(table: Array, own: Array, counts: Array) -> Array:
    """Rows of words hardly met, by the linear map from the teacher's vectors that fits the words often met, and as long
    as those of words that are met now and then: what is rare tells most."""
    given = np.concatenate([own, np.ones((len(own), 1), "f4")], axis=1)
    often = counts >= WELL_KNOWN
    left, right = given[often], table[often]
    linear = np.linalg.solve(left.T @ left + RIDGE * np.eye(left.shape[1]), left.T @ right)
    mapped = given @ linear
    usual = np.median(np.linalg.norm(table[often & (counts < FAMILIAR)], axis=1))
    mapped *= usual / np.linalg.norm(mapped, axis=1, keepdims=True)
    met = np.clip((counts - 1) / KNOWN, 0, 1)[:, None]
    return (met * table + (1 - met) * mapped).astype("f4")
