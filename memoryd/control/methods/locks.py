"""Methods about the locks of the stores: who holds them, and clearing those of the dead."""

from __future__ import annotations

from memoryd.control.methods.shared import LOCKS, RECEIPT, ROOT
from memoryd.control.methods.table import Field, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "lock.list",
        ("lock", "list"),
        "Show the locks in the roots and who holds them.",
        "For each: holder, age, verdict and the evidence for it.",
        "memoryd lock list",
        (ROOT, Param("path", "str", "only this lock", cli="--path", placeholder="PATH")),
        (LOCKS,),
        "read",
        False,
    ),
    Method(
        "lock.clear",
        ("lock", "clear"),
        "Remove the locks whose holder is provably dead.",
        "--force PATH removes one named lock whose holder cannot be proved dead, after showing the evidence. "
        "A lock that somebody really holds is never removed.",
        "memoryd lock clear agents",
        (
            ROOT,
            Param(
                "path",
                "str",
                "remove this one lock although its holder cannot be proved dead",
                cli="--force",
                placeholder="PATH",
                implies=("force",),
            ),
            Param("force", "bool", "with `path`: remove it without proof of death"),
        ),
        (LOCKS, Field("cleared", "list", "paths of the locks that were removed"), RECEIPT),
        "job",
        True,
        waits_s=60,
    ),
)
