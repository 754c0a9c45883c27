"""Methods about backups."""

from __future__ import annotations

from memoryd.control.methods.shared import AT, BACKUPS, DRY_RUN, FILE, PLAN, RECEIPT, ROOT
from memoryd.control.methods.table import Field, Method

METHODS: tuple[Method, ...] = (
    Method(
        "backup.list",
        ("backup", "list"),
        "List the backups.",
        "Newest first for every file, with the id that --at takes.",
        "memoryd backup list agents --file learnings.jsonl",
        (ROOT, FILE, AT),
        (BACKUPS,),
        "read",
        False,
    ),
    Method(
        "backup.create",
        ("backup", "create"),
        "Take a backup now.",
        "A file equal to its newest valid backup is skipped; a file that reads worse never pushes a good backup out.",
        "memoryd backup create agents",
        (ROOT, FILE, DRY_RUN),
        (BACKUPS, PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "backup.verify",
        ("backup", "verify"),
        "Read every backup and compare it with its hash.",
        "Exits with 1 when one is damaged.",
        "memoryd backup verify agents",
        (ROOT, FILE, AT),
        (BACKUPS,),
        "job",
        False,
        waits_s=600,
    ),
    Method(
        "backup.restore",
        ("backup", "restore"),
        "Bring a file back from a backup.",
        "Takes the newest valid backup unless --at names another. The present file is backed up first, so a "
        "restore can be undone. --dry-run shows the difference.",
        "memoryd backup restore agents --file learnings.jsonl --dry-run",
        (ROOT, FILE, AT, DRY_RUN),
        (PLAN, Field("diff", "str", "unified difference, for a dry run"), RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
)
