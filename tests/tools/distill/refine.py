"""Refine the rows of the table, so that a question is nearest to the memory that answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memoryd.search.embedding.static import FIRST, OTHERS, rows_of, words
from memoryd.search.semantic import LESS_COMMON
from tests.tools.distill.examples import Block
from tests.tools.distill.optimiser import Adam, by_row, distribution
from tests.tools.distill.teacher import Array

STEPS, BATCH, RATE = 1_000, 1_024, 0.0007  # the rate for rows of the usual length 1
WARMTH = 0.15  # by which likeness is divided before it becomes a distribution
DROPPED = 0.3  # the share of words that texts go without, others each time
AVERAGED = 0.6  # from this share of the steps on the rows are averaged, every 10 steps


class Sums(NamedTuple):
    """Texts as weighted sums of rows: text n has `rows[starts[n]:starts[n + 1]]`."""

    rows: Array
    weights: Array
    starts: Array

    def of(self, chosen: Array, kept: Array) -> Sums:
        """Return the chosen texts; words not `kept` get the weight 0."""
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        places = np.concatenate([np.arange(self.starts[n], self.starts[n + 1]) for n in chosen])
        return Sums(self.rows[places], self.weights[places] * kept[places], np.r_[0, np.cumsum(lengths)])


def sums(texts: Sequence[str], known: dict[str, int]) -> Sums:
    """Weigh the words as the embedder does."""
    rows: list[int] = []
    weights: list[float] = []
    starts = [0]
    for text in texts:
        for place, word in enumerate(words(text)):
            weight = 1 + (FIRST[place] / OTHERS if place < len(FIRST) else 0)
            for row in rows_of(word, known):
                rows.append(row)
                weights.append(weight)
        if len(rows) == starts[-1]:
            raise ValueError(f"no word of this text is known: {text}")
        starts.append(len(rows))
    return Sums(np.array(rows, "i4"), np.array(weights, "f4"), np.array(starts, "i8"))


def refined(table: Array, known: dict[str, int], blocks: Sequence[Block]) -> Array:
    """Return the table fitted to the blocks. `known`: the row of each piece and word."""
    pairs = [
        (memory, question, number)
        for number, block in enumerate(blocks)
        for memory in block.memories
        for question in block.questions
    ]
    memories, questions, owners = zip(*pairs, strict=True)
    lengths = np.linalg.norm(table, axis=1)
    table = table / np.median(lengths[lengths > 0])
    return _fitted(table, sums(memories, known), sums(questions, known), np.array(owners))


def _fitted(table: Array, memories: Sums, questions: Sums, owners: Array) -> Array:
    """Return the mean of the rows on the last part of the way."""
    source = np.random.default_rng(0)
    adam = Adam(table, RATE, STEPS, averaged_from=AVERAGED, every=10)
    common, losses = np.zeros(table.shape[1], "f4"), list[float]()
    for _ in range(STEPS):
        chosen = source.permutation(len(owners))[:BATCH]
        answers, asked = (
            each.of(chosen, (source.random(len(each.rows)) > DROPPED).astype("f4")) for each in (memories, questions)
        )
        loss, common, slopes = _slope(table, answers, asked, owners[chosen], common)
        adam.step(slopes)
        losses.append(loss)
    print(f"refined: {np.mean(losses[:50]):.3f} to {np.mean(losses[-50:]):.3f}", flush=True)
    return adam.averaged


def _slope(
    table: Array, memories: Sums, questions: Sums, owners: Array, common: Array
) -> tuple[float, Array, list[tuple[Array, Array]]]:
    """Return the cross entropy of the questions of one batch, what memories have in common, and the rows it touches,
    each with how the entropy of questions and of memories together changes with it.

    Unlike a search, it subtracts what is common from memories, too; that counts as constant."""
    answers, lengths = _units(table, memories)
    common = 0.95 * common + 0.05 * answers.mean(axis=0)
    asked, asked_lengths = _units(table, questions)
    answers, left = _without(answers, common)
    asked, asked_left = _without(asked, common)
    likeness = asked @ answers.T
    right = np.eye(len(owners), dtype="f4")
    others = (owners[:, None] == owners[None, :]) & (right == 0)
    likeness[others] = -9
    by_question, by_answer = distribution(likeness, WARMTH), distribution(likeness.T, WARMTH)
    loss = float(-np.log(np.diag(by_question) + 1e-12).mean())
    off = ((by_question - right) + (by_answer - right).T) / (2 * WARMTH * len(owners))
    off[others] = 0
    slopes = []
    for texts, made, made_lengths, made_left, slope in (
        (memories, answers, lengths, left, off.T @ asked),
        (questions, asked, asked_lengths, asked_left, off @ answers),
    ):
        bare = _along(slope, made) / made_left
        unit = made * made_left + LESS_COMMON * common
        slopes.append(_by_row(texts, _along(bare, unit) / made_lengths))
    return loss, common, slopes


def _units(table: Array, texts: Sums) -> tuple[Array, Array]:
    """Return the unit vectors of texts, and how long their sums are."""
    made = np.add.reduceat(table[texts.rows] * texts.weights[:, None], texts.starts[:-1], axis=0)
    lengths = np.linalg.norm(made, axis=1, keepdims=True) + 1e-9
    return made / lengths, lengths


def _without(units: Array, common: Array) -> tuple[Array, Array]:
    """Return the directions of vectors without a share of what all have in common, and how long these are."""
    left = units - LESS_COMMON * common
    lengths = np.linalg.norm(left, axis=1, keepdims=True) + 1e-9
    return left / lengths, lengths


def _along(slope: Array, unit: Array) -> Array:
    """Return the part of a slope at right angles to a unit vector."""
    return slope - (slope * unit).sum(axis=1, keepdims=True) * unit


def _by_row(texts: Sums, slope: Array) -> tuple[Array, Array]:
    """Return the rows of texts and the slope of each, from those of the texts."""
    return by_row(texts.rows, np.repeat(slope, np.diff(texts.starts), axis=0) * texts.weights[:, None])
