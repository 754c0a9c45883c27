"""Methods about the journal: what memoryd changed, and taking it back."""

from __future__ import annotations

from memoryd.control.methods.shared import DRY_RUN, PLAN, RECEIPT, ROOT, ROOT_OPTION
from memoryd.control.methods.table import Field, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "history.list",
        ("history",),
        "Show the journal of what memoryd changed.",
        "Newest first. Every entry has the receipt that `undo` takes.",
        "memoryd history agents",
        (
            ROOT,
            Param("receipt", "str", "only this entry", cli="--receipt", placeholder="RECEIPT"),
            Param(
                "limit",
                "int",
                "at most so many entries",
                cli="--limit",
                placeholder="N",
                minimum=1,
                maximum=10_000,
            ),
        ),
        (Field("entries", "list", "[{receipt, at, root, operation, by, summary, undone}]"),),
        "read",
        False,
    ),
    Method(
        "undo",
        ("undo",),
        "Take a change back.",
        "Byte for byte, or not at all: when the file has changed since, it says what changed.",
        "memoryd undo r-000012 --dry-run",
        (
            Param("receipt", "str", "the receipt, as `history` shows it", cli="argument", required=True),
            ROOT_OPTION,
            DRY_RUN,
        ),
        (PLAN, Field("diff", "str", "unified difference, for a dry run"), RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
)
