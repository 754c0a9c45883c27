"""Roots: the `[[root]]` tables and the paths of the command line, their names, and the check that no two overlap.

The disk is read (links, files in place of directories) and never changed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from memoryd.config.checks import shown, suggestion
from memoryd.config.keys import MEMORY_CONFIGURATION, ROOT, Key
from memoryd.config.layers import Layer, limited_files, origins, policy, read_policy, read_table
from memoryd.config.settings import COMMAND_LINE, RootConfig
from memoryd.config.toml_text import KeyPath, Problems
from memoryd.core.defaults import Limit
from memoryd.core.records import Role
from memoryd.layouts.registry import LAYOUT_CHOICES, LAYOUTS

NAME_RULE = "letters, digits and . _ - + @, with / between parts, at most 64 characters, not beginning with -"

_PART = r"[\w.][\w.+@-]*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_NOT_IN_NAME = re.compile(r"[^\w.+@-]+")


def read_name(value: object) -> str:
    """Check a name: one that can be typed in a shell and used as a relative path; ValueError says the rule."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > 64:
        raise ValueError(f"{value!r} is not a name for a root; allowed: {NAME_RULE}")
    if {".", ".."} & set(value.split("/")):
        raise ValueError(f"{value!r} has . or .. as a part; allowed: {NAME_RULE}")
    return value


def derive_name(path: str, taken: Iterable[str]) -> str:
    """Derive a name: the last parts of the path, as few as make it unique: `memories`, else `agents/memories`, ..."""
    used = set(taken)
    parts = [_NOT_IN_NAME.sub("-", part).lstrip("-") for part in path.split("/")]
    parts = [part for part in parts if part.strip(".")] or ["root"]
    for count in range(1, len(parts) + 1):
        name = "/".join(parts[-count:])
        if name not in used and len(name) <= 64:
            return name
    base, number = parts[-1][:56], 2
    while f"{base}-{number}" in used:
        number += 1
    return f"{base}-{number}"


def expand(written: str, base: str | None) -> str:
    """Return the absolute path; a relative one is relative to `base`.

    Raises ValueError if it is relative and `base` is None, or if it names an unknown user.
    """
    path = os.path.expanduser(written)
    if path.startswith("~"):
        raise ValueError(f"{written!r} names an unknown home directory")
    if not os.path.isabs(path):
        if base is None:
            raise ValueError(f"{written!r} is relative; allowed: an absolute path, or one that begins with ~/")
        path = os.path.join(base, path)
    return os.path.normpath(path) if ".." not in path.split("/") else path


def real_directory(path: str) -> str:
    """Resolve all links of a path, which need not exist. Raises ValueError if it is not a directory."""
    try:
        real = os.path.realpath(path)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return real
    except NotADirectoryError:
        raise ValueError(f"{path!r} is below a file; allowed: a directory") from None
    except PermissionError:
        return real  # it may become readable while the daemon runs; until then the state of the root gives the reason
    except (OSError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be a directory: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISDIR(mode):
        kind = "a file" if stat.S_ISREG(mode) else "a pipe, socket or device"
        raise ValueError(f"{path!r} is {kind}; allowed: a directory")
    return real


def written_path(display: str, real: str) -> str:
    """Return the path as the user wrote it if it leads to the root, so that a later change of a link is noticed."""
    written = os.path.abspath(os.path.expanduser(display))
    return written if os.path.realpath(written) == os.path.realpath(real) else real


def too_wide(path: str) -> str | None:
    """Return why a directory cannot be a memory store unless its layout is configured, or None."""
    home = os.path.realpath(os.path.expanduser("~"))
    if path == home:
        return "is your home directory"
    if _below(home, path):
        return "contains home directories"
    programs = [os.path.realpath(os.path.join(home, name)) for name in (".claude", ".config")]
    return "contains the files of other programs" if path in programs else None


def _relation(path: str, chain: list[_Identity], other: str, other_chain: list[_Identity]) -> str | None:
    if path == other or (chain[0] and chain[0] == other_chain[0]):
        return "is the same directory as"
    if _below(path, other) or (other_chain[0] and other_chain[0] in chain):
        return "is inside"
    if _below(other, path) or (chain[0] and chain[0] in other_chain):
        return "contains"
    return None


def _below(path: str, other: str) -> bool:
    return path.startswith(other.rstrip("/") + "/")


_Identity = tuple[int, int] | None


def _chain(path: str) -> list[_Identity]:
    """Return device and inode of a directory and of all its parents, None where it cannot be read.

    Unlike names, they reveal bind mounts and names that differ only in case.
    """
    chain: list[_Identity] = []
    while True:
        chain.append(_identity(path))
        above = os.path.dirname(path)
        if above == path:
            return chain
        path = above


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_ino else None


# --- the tables of the file, and the paths of the command line

_KEYS: Mapping[str, Key] = {**ROOT, "name": Key(read_name, ROOT["name"].meaning)}
_TABLES = ("memory_configuration",)


class _RootEntry(Struct):
    """One root as far as it could be read; `key` is the key of its path, None on the command line."""

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
    """Read all roots in the order of the file, then of the command line; errors are added to `problems`."""
    found = [root for place, table in _tables(tables, problems) if (root := _read(table, place, problems))]
    for path, layout in extra:
        _add_extra(found, path, layout, problems)
    _check_names(found, problems)
    _check_overlaps(found, state_dir, problems)
    return tuple(_root(root, root.layer.over(defaults), problems, known_limits) for root in found)


def _tables(tables: object, problems: Problems) -> list[tuple[int, object]]:
    if isinstance(tables, list):
        return list(enumerate(tables))
    problems.add(("root",), f"is {shown(tables)}; allowed: one [[root]], with two brackets, for each directory")
    return []


def _read(table: object, place: int, problems: Problems) -> _RootEntry | None:
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
    return _RootEntry(real, shown_path, layer, key, "external_path" in layer.values, layer.values.get("name"))


def _locate(
    layer: Layer, where: KeyPath, written: set[str], problems: Problems
) -> tuple[KeyPath, str, str | None] | None:
    """Return the key that names the directory, its value, and the base of a relative path."""
    values = layer.values
    project = _project(layer, where, problems)
    if {"path", "project"} <= written or {"path", "memory_configuration"} <= written:
        problems.add(
            (*where, "path"), "cannot be combined with project or memory_configuration; allowed: one of the two"
        )
        return None
    if "memory_path" in written and "project" not in written:
        problems.add((*where, "memory_path"), "is relative to a project, and there is none; allowed: project, or path")
        return None
    if "external_path" in values:
        return (*where, "memory_configuration", "external_path"), values["external_path"], project
    if "path" in values:
        return (*where, "path"), values["path"], None
    if project is not None:
        return _below_project(project, values.get("memory_path", "memory"), where, problems)
    if not written & {"path", "project", "memory_configuration"}:
        problems.add(where, 'has no directory; allowed: path = "...", or project = "..." with memory_path')
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


def _below_project(
    project: str, memory_path: str, where: KeyPath, problems: Problems
) -> tuple[KeyPath, str, str | None] | None:
    if os.path.isabs(memory_path) or memory_path.startswith("~"):
        problems.add((*where, "memory_path"), f"{memory_path!r} is not relative to the project; allowed: path instead")
        return None
    return (*where, "memory_path"), memory_path, project


def _add_extra(found: list[_RootEntry], path: str, layout: str | None, problems: Problems) -> None:
    """Add a root of the command line; for a directory that is a root already, only its layout counts."""
    if layout is not None and layout not in LAYOUT_CHOICES:
        problems.add_argument("--layout", f"is {shown(layout)}; allowed: {', '.join(LAYOUT_CHOICES)}")
        return
    try:
        absolute = path.startswith(("/", "~"))  # then the working directory may have been removed
        expanded = expand(path, None if absolute else os.getcwd())
        real = real_directory(expanded)
    except (ValueError, OSError) as error:
        problems.add_argument(path, str(error))
        return
    root = next((root for root in found if root.path == real), None)
    if root is None:
        root = _RootEntry(real, path, Layer())
        found.append(root)
    if layout is not None:
        root.layer.values["layout"] = layout
        root.layer.origins["layout"] = COMMAND_LINE


def _check_names(found: list[_RootEntry], problems: Problems) -> None:
    """Assign names, the configured ones first, so that a derived name never takes one of them."""
    lines: dict[str, int] = {}
    for root in found:
        if root.name is None or root.key is None:
            continue
        key = (*root.key[:2], "name")
        if root.name in lines:
            problems.add(
                key,
                f"{root.name!r} is taken by the root of line {lines[root.name]}; allowed: a unique name",
            )
        lines.setdefault(root.name, problems.lines.of(key))
    taken = set(lines)
    for root in found:
        if root.name is None:
            root.name = derive_name(root.path, taken)
            taken.add(root.name)


def _check_overlaps(found: list[_RootEntry], state_dir: str, problems: Problems) -> None:
    """Add a problem for each root that is the same as, inside or around an earlier one or the state directory."""
    state = os.path.realpath(state_dir)
    others = [(state, _chain(state), f"the state directory {state!r}; keep them apart")]
    for root in found:
        chain = _chain(root.path)
        for other, other_chain, known in others:
            relation = _relation(root.path, chain, other, other_chain)
            if relation and root.key is None:
                problems.add_argument(root.display_path, f"{root.path!r} {relation} {known}")
            elif relation and root.key is not None:
                problems.add(root.key, f"{root.path!r} {relation} {known}")
        where = COMMAND_LINE if root.key is None else f"line {problems.lines.of(root.key)}"
        others.append((root.path, chain, f"the root {root.path!r} ({where}); roots may not overlap"))


def _root(found: _RootEntry, layer: Layer, problems: Problems, known_limits: Mapping[str, Limit]) -> RootConfig:
    key = found.key
    _check_limits(found, layer.values.get("layout", "auto"), problems)
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


def _check_limits(found: _RootEntry, layout_name: str, problems: Problems) -> None:
    """Add a problem for each limit of a root on a file that its layout does not have: it would bound nothing."""
    layout = LAYOUTS.get(layout_name)
    if layout is None or found.key is None:
        return
    for file in limited_files(found.layer):
        if layout.reader.role(file) not in (Role.SOURCE, Role.ARCHIVE):
            hint = suggestion(file, layout.files.limits).strip() or "see `memoryd help layouts`"
            problems.add((*found.key[:2], "limits", file), f"is no file of memories in {layout_name}; {hint}")
