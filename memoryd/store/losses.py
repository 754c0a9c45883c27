"""Losses of memories in the files of a root, from when they are noted until they are made good or accepted."""

from __future__ import annotations

from msgspec import Struct, field


class Loss(Struct):
    """A loss that is neither made good nor accepted.

    `records`: number of memories before it. `confirmed`: it is reported; one that was only seen (`since`, epoch
    seconds) has to be judged first, by its `sample`: identities of missing memories, as (digest of the id, digest of
    the text), `of` the number of them at first. `searched`: those elsewhere in the root were removed from it.
    """

    records: int
    since: float = 0.0
    confirmed: bool = True
    sample: list[tuple[str, str]] = []
    of: int = 0
    searched: bool = False

    @property
    def lost(self) -> int:
        """The number of memories that are nowhere in the root, extrapolated from the sample."""
        return round(self.records * len(self.sample) / self.of) if self.of else self.records


class Losses(Struct):
    """The losses of one root, apart from those in the journal.

    `noted`: those to be judged, by path. `due`: there is any to judge or to report; those of an earlier run are read at
    the first refresh. `reasons`: why the root is not well because of losses. `removed`: ids that memoryd removed since
    a file was indexed, by path; None: any may be gone.
    """

    noted: dict[str, Loss] = field(default_factory=dict)
    due: bool = True
    reasons: tuple[str, ...] = ()
    removed: dict[str, frozenset[str] | None] = field(default_factory=dict)
