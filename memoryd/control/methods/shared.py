"""Types that the requests and results of several methods have in common."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from memoryd.control.methods.method_types import GatheredResult, Name, Option, Request, member, parameter

Root = Annotated[Name | None, parameter("only this root (its name)", Option("argument"))]
RootOption = Annotated[Name | None, parameter("only this root (its name)", Option("--root", "ROOT"))]
DryRun = Annotated[bool, parameter("show what would change; change nothing", Option("--dry-run"))]


class RootsRequest(Request, kw_only=True):
    """One root, or all of them."""

    root: Root = None


class Reason(Struct):
    """Why one memory is part of an action."""

    id: str
    why: str


class ActionRow(Struct, kw_only=True):
    """One change of a plan. `memories` gives the reason for each id, `job` the scheduled job that would make it."""

    root: str | UnsetType = UNSET
    kind: str
    path: str
    ids: list[str]
    why: str
    memories: list[Reason] | UnsetType = UNSET
    job: str | UnsetType = UNSET


class PlanRow(Struct):
    """The exact list of changes that an operation would make, or made."""

    actions: list[ActionRow]


Receipt = Annotated[
    str | UnsetType,
    member("id of the change, for `undo`; absent for a dry run or when nothing changed"),
]


class ChangeResult(GatheredResult, kw_only=True):
    """A plan and, when it was carried out, a receipt."""

    plan: Annotated[PlanRow, member("actions[{kind, path, ids[], why}]")]
    waiting: Annotated[int | UnsetType, member("memories that are due as well and wait for the next run")] = UNSET
    receipt: Receipt = UNSET
    receipts: Annotated[dict[str, str] | UnsetType, member("{NAME: receipt} where several roots were changed")] = UNSET
