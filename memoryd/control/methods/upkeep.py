"""Methods of upkeep: what is due, and doing it now."""

from __future__ import annotations

from memoryd.control.methods.shared import DRY_RUN, PLAN, RECEIPT, ROOT, ROOT_OPTION
from memoryd.control.methods.table import Field, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "plan",
        ("plan",),
        "Show what the scheduled upkeep would do now, and why.",
        "Memory by memory, with the rule that makes it due. Nothing is changed.",
        "memoryd plan agents",
        (ROOT,),
        (Field("roots", "list", "[{name, actions[{kind, path, ids[], why}], due}]"),),
        "job",
        False,
        waits_s=600,
    ),
    Method(
        "archive",
        ("archive",),
        "Archive what is due now, or the memories named.",
        "Without ids: what the age rules make due. With ids: exactly those. A backup is taken first, and the "
        "receipt can be given to `undo`.",
        "memoryd archive --root agents --dry-run",
        (
            Param(
                "ids",
                "list",
                "ids of the memories to archive",
                cli="argument",
                repeatable=True,
                placeholder="ID",
            ),
            ROOT_OPTION,
            DRY_RUN,
        ),
        (PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "repair",
        ("repair",),
        "Heal what is fixable.",
        "Exact edits only: the original is kept in quarantine, the change can be undone, and the same repair is tried "
        "on the same bytes three times at most. Without --code every safe fix is made; corrupt-file and emptied-file "
        "bring back from the newest backup what is missing, and only when named.",
        "memoryd repair agents --code joined-lines --dry-run",
        (
            ROOT,
            Param(
                "codes",
                "list",
                "only findings of this code; repeatable",
                cli="--code",
                repeatable=True,
                placeholder="CODE",
            ),
            DRY_RUN,
        ),
        (PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "dedupe",
        ("dedupe",),
        "Merge duplicates.",
        "By the rule of each layout; what is only similar is suggested and stays.",
        "memoryd dedupe agents --dry-run",
        (
            ROOT,
            Param(
                "threshold",
                "float",
                "how alike two memories must be, from 0 to 1, where the layout measures it",
                cli="--threshold",
                placeholder="X",
                minimum=0,
                maximum=1,
            ),
            DRY_RUN,
        ),
        (PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "reindex",
        ("reindex",),
        "Read every memory file again and write the index anew.",
        "The index is a cache; this makes it from the files alone. Needed only when something outside has "
        "tampered with memoryd's state.",
        "memoryd reindex agents",
        (ROOT, DRY_RUN),
        (PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
)
