"""What generated memories say: sentences of developers' notes, and words as often as words are used (Zipf).

The vocabulary is always the same, a few hundred English words at its head and 20,000 made-up ones behind; only which
of them are taken depends on the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from random import Random

_KNOWN = (
    "the a to of and in for is on that with when not it be by as from this are or at was an if after before all use "
    "error test build service file database user request version server deploy config branch cache queue log memory "
    "client release review thread index table query schema worker module container cluster image port node backup "
    "team project agent issue ticket report session search update change rename merge rollback timeout retry failure "
    "metric alert dashboard latency throughput disk network socket proxy header payload response endpoint parser type "
    "function class method field column row record batch stream event message topic consumer producer offset lock "
    "mutex semaphore process signal daemon schedule job task pipeline stage step runner artifact package dependency "
    "upgrade migration script shell command flag option setting default limit quota budget cost month week monday "
    "morning meeting customer invoice payment account profile preference language theme layout screen button form "
    "validation rule policy permission role group owner audit history archive storage bucket region zone replica "
    "primary shard partition checkpoint snapshot restore verify check fix bug patch hotfix incident outage root cause "
    "decision reason alternative option plan estimate deadline milestone scope design document diagram example sample "
    "pattern practice convention style format encoding charset locale timezone calendar clock timestamp interval "
    "window buffer pool connection handshake certificate domain host address route gateway firewall balancer health "
    "probe startup shutdown restart crash dump trace profile benchmark regression coverage fixture mock stub assert "
    "compiler linter formatter editor terminal keyboard monitor laptop phone browser frontend backend library "
    "framework plugin extension template component widget handler listener callback promise future coroutine loop"
)
SENTENCES = (
    "We decided to keep the {} in the {} because the {} was too slow.",
    "The {} fails when the {} is empty; check the {} first.",
    "Always run the {} before the {}, otherwise the {} is lost.",
    "The team prefers one {} per {} and no {} at all.",
    "After the last {} the {} had to be restarted by hand.",
    "Never change the {} while the {} is running.",
    "The {} of the {} lives in the {} folder.",
    "Root cause: the {} waited for the {} and nobody released the {}.",
    "The customer asked for a {} that shows the {} of each {}.",
    "Use the {} for every {} that is larger than {}.",
    "The {} was moved from the {} to the {} in spring.",
    "If the {} times out, look at the {} and then at the {}.",
    "The review found that the {} ignores the {}.",
    "A smaller {} made the {} twice as fast.",
    "The {} and the {} must have the same {}.",
    "Ask the owner of the {} before touching the {}.",
)
TAGS = ("python", "testing", "deploy", "database", "style", "frontend", "network", "review", "billing", "search")
TAIL = 20_000
BLOCK = 1 << 15  # words drawn at a time

_ONSETS = "b br c cl d dr f fl g gr h j k l m n p pr r s st t tr v w"
_VOWELS = "a e i o u ai ea ou"
_CODAS = "n r l s t m nd rt"
_STRANGE = ("zy", "qua", "xo", "vex", "zor", "qui", "lyx", "azk")


@cache
def vocabulary() -> tuple[str, ...]:
    """The most frequent word first."""
    random, words = Random("vocabulary"), dict.fromkeys(_KNOWN.split())
    onsets, vowels, codas = _ONSETS.split(), _VOWELS.split(), _CODAS.split()
    wanted = len(words) + TAIL
    while len(words) < wanted:
        word = "".join(random.choice(onsets) + random.choice(vowels) for _ in range(random.randint(2, 3)))
        words[word + random.choice(codas)] = None
    return tuple(words)


@cache
def _weights() -> Sequence[float]:
    return tuple(accumulate(1 / (rank + 2.7) for rank in range(len(vocabulary()))))


class Wording:
    """Texts out of one source of chance."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._words = self._drawn()
        self._given: set[str] = set()

    def _drawn(self) -> Iterator[str]:
        while True:
            yield from self._random.choices(vocabulary(), cum_weights=_weights(), k=BLOCK)

    def words(self, count: int) -> list[str]:
        return [next(self._words) for _ in range(count)]

    def unusual(self) -> str:
        """A word that stands nowhere else: what the vocabulary makes up has neither `q` nor `x` nor `z`."""
        word = ""
        while not word or word in self._given:
            word = "".join(self._random.choice(_STRANGE) for _ in range(5))
        self._given.add(word)
        return word

    def middling(self, count: int) -> list[str]:
        """Different words, neither the commonest nor rare."""
        return self._random.sample(vocabulary()[40:3000], count)

    def everyday(self, count: int) -> list[str]:
        """Different words, each in a large part of all memories."""
        return self._random.sample(vocabulary()[:50], count)

    def sentence(self) -> str:
        if self._random.random() < 0.4:
            return self._random.choice(SENTENCES).format(*self.words(3))
        said = " ".join(self.words(self._random.randint(7, 14)))
        return f"{said[0].upper()}{said[1:]}."

    def sentences(self, length: int) -> list[str]:
        """At least so many characters together."""
        made: list[str] = []
        while length > 0:
            made.append(self.sentence())
            length -= len(made[-1]) + 1
        return made

    def title(self) -> str:
        said = " ".join(self.words(self._random.randint(4, 7)))
        return f"{said[0].upper()}{said[1:]}"

    def tags(self) -> tuple[str, ...]:
        return tuple(self._random.sample(TAGS, self._random.randint(1, 3)))
