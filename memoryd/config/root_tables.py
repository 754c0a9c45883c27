"""The `[[root]]` tables and the paths of the command line, as roots that do not overlap."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memoryd.config.keys import MEMORY_CONFIGURATION, ROOT, Key
from memoryd.config.layers import Layer, origins, policy, read_policy, read_table
from memoryd.config.lines import KeyPath
from memoryd.config.problems import Problems
from memoryd.config.roots import Spot, derive_name, expand, find_overlaps, read_name, real_directory
from memoryd.config.schema import COMMAND_LINE, LAYOUT_CHOICES, RootConfig
from memoryd.config.values import shown
from memoryd.core.policy import Limit

_KEYS: Mapping[str, Key] = {**ROOT, "name": Key(read_name, ROOT["name"].meaning)}
_TABLES = ("memory_configuration",)


@dataclass(slots=True)
class _Found:
    """One root as far as it could be read; `key` is where its path is written, None on the command line."""

    path: str
    display_path: str
    layer: Layer
    key: KeyPath | None = None
    external: bool = False
    name: str | None = None


def read_roots(
    tables: object,
    extra: Sequence[tuple[str, str | None]],
    defaults: Layer,
    problems: Problems,
    *,
    state_dir: str,
    known_limits: Mapping[str, Limit],
) -> tuple[RootConfig, ...]:
    """All roots in the order of the file, then of the command line; what is wrong goes to `problems`."""
    found = [root for place, table in _tables(tables, problems) if (root := _read(table, place, problems))]
    for path, layout in extra:
        _add_extra(found, path, layout, problems)
    _check_names(found, problems)
    _check_overlaps(found, state_dir, problems)
    return _finished(found, defaults, problems, known_limits)


def _tables(tables: object, problems: Problems) -> list[tuple[int, object]]:
    if isinstance(tables, list):
        return list(enumerate(tables))
    problems.add(("root",), f"is {shown(tables)}; allowed: one [[root]], with two brackets, for each directory")
    return []


def _read(table: object, place: int, problems: Problems) -> _Found | None:
    where: KeyPath = ("root", place)
    layer = read_policy(table, where, problems, _KEYS, _TABLES)
    if not isinstance(table, dict):
        return None
    external = read_table(
        table.get("memory_configuration", {}),
        (*where, "memory_configuration"),
        MEMORY_CONFIGURATION,
        problems,
    )
    for name, value in external.values.items():
        layer.values[name] = value
        layer.origins[name] = external.origins[name]
    located = _locate(layer, where, set(table), problems)
    if located is None:
        return None
    key, written, base = located
    try:
        expanded = expand(written, base)
        real = real_directory(expanded)
    except ValueError as error:
        problems.add(key, str(error))
        return None
    shown_path = written if base is None else expanded
    return _Found(real, shown_path, layer, key, "external_path" in layer.values, layer.values.get("name"))


def _locate(
    layer: Layer, where: KeyPath, written: set[str], problems: Problems
) -> tuple[KeyPath, str, str | None] | None:
    """Which key names the directory, its words, and what a relative path there is relative to."""
    here = layer.values
    project = _project(layer, where, problems)
    if {"path", "project"} <= written or {"path", "memory_configuration"} <= written:
        problems.add((*where, "path"), "stands beside project or memory_configuration; allowed: one of the two ways")
        return None
    if "memory_path" in written and "project" not in written:
        problems.add((*where, "memory_path"), "is relative to a project, and none is named; allowed: project, or path")
        return None
    if "external_path" in here:
        return (*where, "memory_configuration", "external_path"), here["external_path"], project
    if "path" in here:
        return (*where, "path"), here["path"], None
    if project is not None:
        return _within(project, here.get("memory_path", "memory"), where, problems)
    if not written & {"path", "project", "memory_configuration"}:
        problems.add(where, 'names no directory; allowed: path = "...", or project = "..." with memory_path')
    return None


def _project(layer: Layer, where: KeyPath, problems: Problems) -> str | None:
    if "project" not in layer.values:
        return None
    try:
        layer.values["project"] = real_directory(expand(layer.values["project"], None))
    except ValueError as error:
        problems.add((*where, "project"), str(error))
        return None
    return str(layer.values["project"])


def _within(
    project: str, memory_path: str, where: KeyPath, problems: Problems
) -> tuple[KeyPath, str, str | None] | None:
    if os.path.isabs(memory_path) or memory_path.startswith("~"):
        problems.add((*where, "memory_path"), f"{memory_path!r} is not relative to the project; allowed: path instead")
        return None
    return (*where, "memory_path"), memory_path, project


def _add_extra(found: list[_Found], path: str, layout: str | None, problems: Problems) -> None:
    """A directory that is a root already stays that root; a layout given with it counts."""
    if layout is not None and layout not in LAYOUT_CHOICES:
        problems.add_argument("--layout", f"is {shown(layout)}; allowed: {', '.join(LAYOUT_CHOICES)}")
        return
    try:
        expanded = expand(path, os.getcwd())
        real = real_directory(expanded)
    except (ValueError, OSError) as error:
        problems.add_argument(path, str(error))
        return
    root = next((root for root in found if root.path == real), None)
    if root is None:
        root = _Found(real, path, Layer())
        found.append(root)
    if layout is not None:
        root.layer.values["layout"] = layout
        root.layer.origins["layout"] = COMMAND_LINE


def _check_names(found: list[_Found], problems: Problems) -> None:
    """Explicit names first, so that a derived one never takes a name that somebody chose."""
    lines: dict[str, int] = {}
    for root in found:
        if root.name is None or root.key is None:
            continue
        key = (*root.key[:2], "name")
        if root.name in lines:
            problems.add(
                key,
                f"{root.name!r} is taken by the root of line {lines[root.name]}; allowed: a name of its own",
            )
        lines.setdefault(root.name, problems.lines.of(key))
    taken = set(lines)
    for root in found:
        if root.name is None:
            root.name = derive_name(root.path, taken)
            taken.add(root.name)


def _check_overlaps(found: list[_Found], state_dir: str, problems: Problems) -> None:
    def complain(place: int, what: str) -> None:
        root = found[place]
        if root.key is None:
            problems.add_argument(root.display_path, what)
        else:
            problems.add(root.key, what)

    spots = [Spot(root.path, _where(root, problems)) for root in found]
    find_overlaps(spots, state_dir, complain)


def _where(root: _Found, problems: Problems) -> str:
    return COMMAND_LINE if root.key is None else f"line {problems.lines.of(root.key)}"


def _finished(
    found: list[_Found], defaults: Layer, problems: Problems, known_limits: Mapping[str, Limit]
) -> tuple[RootConfig, ...]:
    return tuple(_root(root, root.layer.over(defaults), problems, known_limits) for root in found)


def _root(found: _Found, layer: Layer, problems: Problems, known_limits: Mapping[str, Limit]) -> RootConfig:
    key = found.key
    return RootConfig(
        name=found.name or "",
        path=found.path,
        display_path=found.display_path,
        layout=layer.values.get("layout", "auto"),
        policy=policy(layer, known_limits),
        project=layer.values.get("project"),
        external=found.external,
        origin=COMMAND_LINE if key is None else f"root:{problems.lines.of(key[:2])}",
        position=None if key is None else int(key[1]),
        origins=origins(layer),
    )
