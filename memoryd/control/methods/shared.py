"""Parameters and result fields that several methods have in common."""

from __future__ import annotations

from memoryd.control.methods.table import Field, Param

ROOT = Param("root", "str", "only this root (its name)", cli="argument")
ROOT_OPTION = Param("root", "str", "only this root (its name)", cli="--root", placeholder="ROOT")
DRY_RUN = Param("dry_run", "bool", "decide and show, change nothing", cli="--dry-run")
FILE = Param("file", "str", "only this memory file, relative to its root", cli="--file", placeholder="FILE")
AT = Param("at", "str", "this backup, by the id that `backup list` shows", cli="--at", placeholder="ID")
NAME = Param("name", "str", "the root's name", cli="argument")
PATH = Param(
    "path",
    "str",
    "the root's directory, instead of its name",
    cli="--path",
    placeholder="DIR",
    local_path=True,
)
PLAN = Field("plan", "object", "actions[{kind, path, ids[], why}]")
RECEIPT = Field("receipt", "str", "id of the change that was made; absent for a dry run or when nothing changed")
ROOTS = Field("roots", "list", "the roots, each as in `status`")
BACKUPS = Field("backups", "list", "[{id, root, file, taken, bytes, sha256, valid}]")
LOCKS = Field("locks", "list", "[{root, path, pid?, age_s, state: held|stale|unprovable, evidence}]")
JOBS = Field("jobs", "list", "[{name, root, schedule, last_run, last_result, next_run}]")
