"""Faults of memoryd that the canaries must detect (it loses, doubles or forgets), injected by replacing functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from memoryd.core.plan import Action, Kind, Plan
from memoryd.disk.journal import Entry
from memoryd.layouts.protocol import IndexResult, IndexView
from memoryd.layouts.registry import LAYOUTS
from memoryd.store import Store, commit, recovery
from memoryd.store.commit import Origin

Change = Callable[[Action], Action | None]


def _committing(patch: pytest.MonkeyPatch, operations: tuple[str, ...], change: Change) -> None:
    """Carry out each action of these operations as `change` returns it, or not at all."""
    real = commit.commit

    def faulty(store: Store, plan: Plan, cause: Origin, *more: object) -> str:
        if cause.operation in operations:
            plan = replace(plan, actions=tuple(filter(None, map(change, plan.actions))))
        return real(store, plan, cause, *more)  # type: ignore[arg-type]  # handed on as they came

    patch.setattr(commit, "commit", faulty)


def move_without_copy(patch: pytest.MonkeyPatch) -> None:
    """Do not write memories that leave a live file to the archive."""

    def without(action: Action) -> Action | None:
        return None if action.copy or action.kind is Kind.APPEND else action

    _committing(patch, ("archive", "limits", "prune"), without)


def merge_without_quarantine(patch: pytest.MonkeyPatch) -> None:
    """Do not quarantine the bytes that a merge removes."""
    _committing(patch, ("dedupe",), lambda action: replace(action, quarantine=()))


def keep_copies(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Do not roll back copies of this kind that a death left in the archive."""
    real = recovery.resolve

    def forgetful(store: Store, entry: Entry) -> str:
        decisive = {step.group: step for step in entry.steps}
        kept = tuple(step for step in entry.steps if step.kind != kind or step is decisive[step.group])
        return real(store, replace(entry, steps=kept))

    for module in (recovery, commit):
        patch.setattr(module, "resolve", forgetful)


def never_rewrite_index(patch: pytest.MonkeyPatch, name: str) -> None:
    """Take existing index files for correct."""
    layout = LAYOUTS[name]

    def render(view: IndexView) -> IndexResult:
        found = layout.index.render(view)
        return replace(found, files={path: data for path, data in found.files.items() if not view.previous.get(path)})

    faulty = replace(layout, index=replace(layout.index, render=render))
    patch.setattr("memoryd.store.store.LAYOUTS", {**LAYOUTS, name: faulty})
