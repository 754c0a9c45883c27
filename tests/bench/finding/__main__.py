"""How well search finds, by kind of question, with confidence intervals.

python -m tests.bench.finding                  the half for reporting, 1,000 other memories, the shipped table
python -m tests.bench.finding --half tune      the half that values are chosen by
python -m tests.bench.finding --held-out 1     another set, by which few values were chosen; also 2 to 9
python -m tests.bench.finding --tagged         each memory with a category and tags
python -m tests.bench.finding --minilm DIR     with MiniLM beside it; its vectors are kept in DIR
python -m tests.bench.finding --misses hybrid  every question whose answer is not first, and what is

The figures are the mean reciprocal rank of the answer, for `multi` the mean average precision over all answers; for
`multi, first` it is the reciprocal rank of the first of these. The interval is that of the mean in 95 of 100 samples of
the questions. For `none` it is the share of questions whose first hit is weak or missing, for `trusted` the share of
right first hits that are not weak.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from memoryd.core.query import Mode
from memoryd.core.vectors import CannotCompareError, lengths
from memoryd.search.embedding.static import Static
from memoryd.search.rerank import Reranker
from tests.bench.finding.arms import Arm, Found, KeptVectors, PlainBm25, PureCosine, Stored, fused
from tests.bench.finding.material import HELD_OUT, HERE, Asked, Half, Written, memories, others, questions, tagged

SAMPLES = 1_000
MODES: tuple[Mode, ...] = ("text", "semantic", "hybrid")


class Mean(NamedTuple):
    """A mean, and the interval it is in for 95 of 100 samples."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def mean_of(values: Sequence[float], seed: int = 1) -> Mean:
    chance = random.Random(seed)
    means = sorted(sum(chance.choices(values, k=len(values))) / len(values) for _ in range(SAMPLES))
    cut = SAMPLES // 40
    return Mean(sum(values) / len(values), means[cut], means[-cut - 1])


def worth(asked: Asked, found: Sequence[Found]) -> float:
    """The reciprocal rank of the one answer; of several, the average precision."""
    ranks = sorted(rank for rank, each in enumerate(found, 1) if each.name in asked.answers)
    return sum(number / rank for number, rank in enumerate(ranks, 1)) / len(asked.answers)


def worth_of_first(asked: Asked, found: Sequence[Found]) -> float:
    """The reciprocal rank of the best-placed answer."""
    return next((1 / rank for rank, each in enumerate(found, 1) if each.name in asked.answers), 0.0)


Answers = Sequence[tuple[Asked, list[Found]]]


def by_kind(answers: Answers) -> dict[str, Mean]:
    """Kind of question -> mean; "all" is that of all questions with an answer."""
    answered = [(asked.kind, worth(asked, found)) for asked, found in answers if asked.answers]
    kinds = dict.fromkeys(kind for kind, _ in answered)
    figures = {kind: mean_of([value for each, value in answered if each == kind]) for kind in kinds}
    figures["all"] = mean_of([value for _, value in answered])
    if "multi" in figures:
        figures["multi, first"] = mean_of([worth_of_first(*each) for each in answers if each[0].kind == "multi"])
    return {**figures, "none": mean_of(told_apart(answers)), "trusted": mean_of(trusted(answers))}


def told_apart(answers: Answers) -> list[float]:
    """For each question without an answer: 1 if its first hit is weak, or nothing is found. Where no confidence is
    given, a hit is weak that scores below nine of ten right first hits."""
    right = sorted(each.score for each in _right(answers))
    least = right[len(right) // 10] if right else 0.0
    empty = [found for asked, found in answers if not asked.answers]
    return [float(not found or _is_weak(found[0], least)) for found in empty]


def trusted(answers: Answers) -> list[float]:
    """For each right first hit: 1 unless it is weak."""
    return [float(not _is_weak(each, 0.0)) for each in _right(answers)]


def _right(answers: Answers) -> list[Found]:
    return [found[0] for asked, found in answers if asked.answers and found and found[0].name in asked.answers]


def _is_weak(found: Found, least: float) -> bool:
    return found.said["confidence"] == "weak" if "confidence" in found.said else found.score < least


def table(figures: Mapping[str, Mapping[str, Mean]]) -> str:
    kinds = next(iter(figures.values()))
    lines = [f"| questions | {' | '.join(figures)} |", f"|---|{'---|' * len(figures)}"]
    return "\n".join(
        [*lines, *(f"| {kind} | {' | '.join(str(arm[kind]) for arm in figures.values())} |" for kind in kinds)]
    )


def misses(answers: Answers) -> str:
    lines: list[str] = []
    for asked, found in answers:
        first = f"{found[0].score:.3f} {found[0].name}" if found else "nothing"
        if asked.answers and worth(asked, found) < 1:
            ranks = [str(rank) for rank, each in enumerate(found, 1) if each.name in asked.answers]
            lines.append(
                f"{asked.kind}: {asked.text}\n    {' '.join(asked.answers)} at {','.join(ranks) or '-'}; first: {first}"
            )
        elif not asked.answers:
            lines.append(f"none: {asked.text}\n    first: {first}")
    return "\n".join(lines)


def measure(arms: Mapping[str, Arm], asked: Sequence[Asked]) -> dict[str, Answers]:
    return {name: [(each, arm(each.text)) for each in asked] for name, arm in arms.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="how well search finds")
    parser.add_argument("--half", choices=("tune", "report", "all"), default="report")
    parser.add_argument("--held-out", type=int, choices=range(1, len(HELD_OUT) + 1), help="another set, all of it")
    parser.add_argument("--others", type=int, default=1_000, help="how many memories answer nothing")
    parser.add_argument("--seed", type=int, default=1, help="which other memories")
    parser.add_argument("--tagged", action="store_true", help="each memory with a category and tags")
    parser.add_argument("--layout", default="jsonl-store", help="whose ranking")
    parser.add_argument("--minilm", type=Path, help="MiniLM beside it; its vectors are kept here")
    parser.add_argument("--misses", help="the arm whose misses are printed")
    given = parser.parse_args()
    try:
        lengths(b"1", 1, "b")
    except CannotCompareError as error:  # all searches would be by text
        parser.error(error.message)
    place = HELD_OUT[given.held_out - 1] if given.held_out else HERE
    half: Half = "all" if given.held_out else given.half
    written = [*memories(place), *others(given.others, given.seed)]
    if given.tagged:
        written = tagged(written)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        known = Stored(folder / "static.db", written, Static(), given.layout)
        plain = PlainBm25(written)
        for each in (known, plain):
            stack.callback(each.close)
        arms: dict[str, Arm] = {mode: known.arm(mode) for mode in MODES}
        arms["bm25"] = plain.ask
        if given.minilm:
            arms |= _with_minilm(written, given.minilm, folder, given.layout, plain.ask, stack.callback)
            arms["hybrid, rerank"] = known.arm("hybrid", _reranker(given.minilm))
        answers = measure(arms, questions(half, place))
    print(f"{len(written)} memories, half: {half}\n{table({arm: by_kind(each) for arm, each in answers.items()})}")
    if given.misses:
        print(misses(answers[given.misses]))


def _with_minilm(
    written: Sequence[Written], place: Path, folder: Path, layout: str, bm25: Arm, at_end: Callable[..., object]
) -> dict[str, Arm]:
    from memoryd.search.embedding.minilm import MiniLM  # noqa: PLC0415 - an extra

    kept = KeptVectors(MiniLM(), place)
    known, pure = Stored(folder / "minilm.db", written, kept, layout), PureCosine(written, kept)
    at_end(known.close)
    hybrid = known.arm("hybrid", Reranker(Static()))
    return {"minilm": pure.ask, "bm25 + minilm": fused(bm25, pure.ask), "hybrid, minilm": hybrid}


def _reranker(place: Path) -> Reranker:
    from memoryd.search.embedding.minilm import MiniLM  # noqa: PLC0415 - an extra

    return Reranker(KeptVectors(MiniLM(), place))


if __name__ == "__main__":
    main()
