"""`memoryd try`: what memoryd would see and do in a directory, without a daemon or a write to it.

The settings are those of its root in the configuration, else the default ones.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from memoryd.config.settings import Config, RootConfig
from memoryd.control.methods.shared import ActionRow
from memoryd.control.methods.status import Counts, FindingRow
from memoryd.control.methods.upkeep import PlannedResult
from memoryd.core.progress import ProgressMeter
from memoryd.disk.tree import Tree
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.operations.check import check, count_findings, finding_row
from memoryd.operations.offline import observed_store
from memoryd.operations.recognition import advice, existing_directory, recognise_layout, unusable
from memoryd.operations.refresh import refresh


class Preview(Struct, kw_only=True):
    """The view of one directory and of the changes due there. `layout` is None if memoryd cannot use it; then
    `why` is the reason and `hint` what to do, and the rest is absent. `unjudged`: how many files look half-written and
    are so young that a program may still be writing them."""

    path: str
    layout: str | None
    why: str
    hint: str | UnsetType = UNSET
    memories: int | UnsetType = UNSET
    archived: int | UnsetType = UNSET
    findings: list[FindingRow] | UnsetType = UNSET
    summary: Counts | UnsetType = UNSET
    unjudged: int | UnsetType = UNSET
    actions: list[ActionRow] | UnsetType = UNSET


def preview(path: str, now: float, layout: str | None, progress: ProgressMeter, config: Config) -> Preview:
    """Look at the directory at `path`, with the layout named, that of its root or the one recognised. `progress` shows
    the work. Raises UsageError if there is no such directory."""
    real = existing_directory(path)
    root = config.root_at(real)
    try:
        with Tree(real) as tree:
            recognised = recognise_layout(tree, root.policy.ignore)
    except OSError as error:
        return Preview(path=real, layout=None, why=f"cannot be read: {error.strerror}", hint="check its owner and mode")
    configured = None if root.layout == "auto" else root.layout
    name = layout or configured or recognised.layout
    if name is None:
        return Preview(path=real, layout=None, why=unusable(recognised), hint=advice(real, recognised))
    why = f"named {'on the command line' if layout else 'in the configuration'}"
    return _examine(root, name, recognised.matches.get(name, why), now, progress)


def _examine(root: RootConfig, layout: str, why: str, now: float, progress: ProgressMeter) -> Preview:
    with observed_store(root, layout, progress) as store:
        unjudged = len(refresh(store, None, now).waiting)
        planned = OPERATIONS["plan"](store, Job("plan"), now)
        assert isinstance(planned, PlannedResult)
        findings = check(store, now)  # with those of the index, which the plan has rendered
        counts = store.index.result
        return Preview(
            path=root.path,
            layout=layout,
            why=why,
            memories=counts.memories,
            archived=counts.archived,
            findings=[finding_row(store.name, each) for each in findings],
            summary=count_findings(findings),
            unjudged=unjudged,
            actions=planned.actions,
        )
