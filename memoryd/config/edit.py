"""Add and remove a root in the configuration file, and keep every other byte of it.

The text is edited by the offsets of its tables or, where roots are written as one inline array, of its elements. The
result is parsed again before it is written, and must contain exactly what was intended. tomlkit is not used because it
does not keep every file: version 0.15 moves the tables of an array together and normalises `[[ root ]]`.
"""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from memoryd.config.load import parse, read_text
from memoryd.config.roots import derive_name
from memoryd.config.settings import Config, RootConfig
from memoryd.config.toml_text import KeyPath, dotted, read_lines, toml
from memoryd.disk.atomic import Guard, StoreChangedError, remove, replace
from memoryd.disk.tree import Tree
from memoryd.errors import ConfigError, ConflictError, DeniedError, MemorydError, NotFoundError

HEAD = "# Configuration of memoryd; `memoryd init` writes one with every setting explained.\n"

_EMPTY_ARRAY = re.compile(r"^[ \t]*root[ \t]*=[ \t]*\[", re.MULTILINE)


def add_root(
    config_path: str,
    root: Mapping[str, object],
    *,
    state_dir: str,
    extra_roots: Sequence[tuple[str, str | None]] = (),
) -> RootConfig:
    """Append a `[[root]]` (keys as in the file, at least a directory) and return it as it is read back.

    The name is always written, so that later changes of other roots cannot change it. `extra_roots` are those of the
    command line (path, layout): the new root must not overlap them or have their names. A missing file is created.
    Raises ConfigError if the file is not valid before or after, ConflictError if the name is taken.
    """
    old = text_of(config_path)
    text = HEAD if old is None else old
    existing = parse(text, config_path, state_dir, extra_roots).roots
    before = parse(text, config_path, state_dir)
    trial = parse(_append_root(text, root), config_path, state_dir, extra_roots)  # overlaps are found here
    added = next(entry for entry in trial.roots if entry.position == len(before.roots))
    named = {"name": _free_name(added, root, existing), **root}
    new = _append_root(text, named)
    wanted = tomllib.loads(text)
    wanted["root"] = [*wanted.get("root", []), named]
    after = _write(config_path, old, new, wanted, state_dir)
    return after.roots[len(before.roots)]


def _free_name(added: RootConfig, root: Mapping[str, object], existing: Sequence[RootConfig]) -> str:
    """Return the name that was given, or one derived from the path that no other root has."""
    taken = {each.name: each.path for each in existing}
    if "name" not in root:
        return derive_name(added.path, [*taken])
    if added.name in taken:
        raise ConflictError(f"the name {added.name} is taken by {taken[added.name]}", hint="choose another name")
    return added.name


def remove_root(config_path: str, name: str, *, state_dir: str) -> RootConfig:
    """Remove the `[[root]]` of this name and return it. Raises NotFoundError if there is none.

    Comments outside the table stay. If the derived name of another root would change, its current name is written.
    """
    text = text_of(config_path) or ""
    before = parse(text, config_path, state_dir)
    gone = before.root(name)
    if gone is None or gone.position is None:
        known = ", ".join(root.name for root in before.roots) or "none"
        raise NotFoundError(f"{config_path} has no root named {name!r}", hint=f"its roots: {known}")
    new = _cut_root(text, gone.position)
    remaining = [root for root in before.roots if root.position != gone.position]
    wanted = tomllib.loads(text)
    del wanted["root"][gone.position]
    for place, root in enumerate(remaining):
        if parse(new, config_path, state_dir).roots[place].name != root.name:
            new = _insert_name(new, place, root.name)
            wanted["root"][place]["name"] = root.name
    _write(config_path, text, new, wanted, state_dir)
    return gone


@contextmanager
def restored_on_error(config_path: str, before: str | None) -> Iterator[None]:
    """Restore the configuration file if the block fails, unless another program has changed it meanwhile. `before`: its
    text before the edit that the block relies on."""
    after = text_of(config_path)
    try:
        yield
    except MemorydError:
        if text_of(config_path) != after or after == before:
            raise
        if before is None:
            os.unlink(os.path.realpath(config_path))  # the file that the edit created, not a link to it
        else:
            write_config(config_path, before)
        raise


def text_of(config_path: str) -> str | None:
    """Return the text of a configuration file; None if there is none. Raises ConfigError."""
    return read_text(config_path) if os.path.exists(config_path) else None


def _elements(text: str) -> list[tuple[int, int]]:
    """Return the offsets of the roots in `root = [{...}]`; empty if each is a `[[root]]` table."""
    elements: dict[KeyPath, tuple[int, int]] = read_lines(text).elements
    return [span for path, span in elements.items() if path[:1] == ("root",) and len(path) == 2]


def _append_root(text: str, root: Mapping[str, object]) -> str:
    elements = _elements(text)
    if elements:
        end = elements[-1][1]
        return f"{text[:end]}, {toml(root)}{text[end:]}"
    empty = _EMPTY_ARRAY.search(text) if tomllib.loads(text).get("root") == [] else None
    if empty:  # its last root was removed
        return f"{text[: empty.end()]}{toml(root)}{text[empty.end() :]}"
    return append_table(text, "[[root]]", root)


def append_table(text: str, header: str, values: Mapping[str, object]) -> str:
    """Append a table at the end of a TOML text, after a blank line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [header, *(f"{dotted((key,))} = {toml(value)}" for key, value in values.items()), ""]
    if text and not text.endswith("\n"):
        text += newline
    return text + (newline if text else "") + newline.join(lines)


def _cut_root(text: str, position: int) -> str:
    elements = _elements(text)
    if elements:
        start, end = elements[position]
        if position + 1 < len(elements):
            return text[:start] + text[elements[position + 1][0] :]
        before = elements[position - 1][1] if position else start
        if "#" in text[before:start]:  # a comment of the root before
            return text[:start].rstrip(" \t") + re.sub(r"\A[ \t]*,", "", text[end:])
        return text[:before] + text[end:]
    return cut_table(text, ("root", position))


def cut_table(text: str, path: KeyPath) -> str:
    """Remove the table at this path, with the tables below it, from a TOML text."""
    for start, end in reversed(list(_ranges(text, path))):
        text = _join(text[:start], text[end:])
    return text


def _join(head: str, tail: str) -> str:
    """Join both sides of a cut and drop one of two blank lines that would meet there."""
    for newline in ("\r\n", "\n"):
        if (not head or head.endswith(newline * 2)) and (not tail or tail.startswith(newline)):
            return head.removesuffix(newline) + (tail if head else tail.removeprefix(newline))
    return head + tail


def _ranges(text: str, path: KeyPath) -> Iterator[tuple[int, int]]:
    """Yield the parts of the text that belong to one table, from a header to the line of its last value.

    Comments between its header and those of tables below it are included; those before the first and after the last
    are not, because they may belong to another table.
    """
    sections = read_lines(text).sections
    belongs = [section.path[: len(path)] == path for section in sections]
    for place, section in enumerate(sections):
        if not belongs[place]:
            continue
        followed = place + 1 < len(sections) and belongs[place + 1]
        yield section.start, sections[place + 1].start if followed else _line_end(text, section.end)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _insert_name(text: str, position: int, name: str) -> str:
    """Insert the name of a root as its first key."""
    elements = _elements(text)
    if elements:
        at = elements[position][0] + 1  # after the brace
        return f"{text[:at]} name = {toml(name)},{text[at:]}"
    section = next(section for section in read_lines(text).sections if section.path == ("root", position))
    at = _line_end(text, section.header_end)
    newline = "\r\n" if text[:at].endswith("\r\n") else "\n"
    broken = newline if not text[:at].endswith("\n") else ""
    return f"{text[:at]}{broken}name = {toml(name)}{newline}{text[at:]}"


def _write(path: str, old: str | None, new: str, wanted: dict[str, object], state_dir: str) -> Config:
    """Parse the new text as the daemon will, check that it contains exactly `wanted`, and replace the file."""
    config = parse(new, path, state_dir)
    if {"root": [], **tomllib.loads(new)} != {"root": [], **wanted}:
        raise ConfigError(f"{path}: memoryd cannot edit this file safely", hint="edit it by hand")
    real = os.path.realpath(path)
    write_config(path, new, guard=lambda: require_unchanged(path, text_of(real) == old))
    return config


def require_unchanged(path: str, unchanged: object) -> None:
    """Raise ConflictError for a file that another program has changed meanwhile."""
    if not unchanged:
        raise ConflictError(f"{path} was changed by another program meanwhile", hint="check it and try again")


def write_config(path: str, text: str, *, mode: int = 0o600, guard: Guard | None = None) -> None:
    """Replace a configuration file atomically; of a symbolic link, its target.

    Mode and owner are kept; a new file gets `mode`, its new directories 0700. `guard` is called when the new file is
    complete: what it raises, or a change of the file since then, prevents the replacement. Raises ConflictError if
    another program changes the file meanwhile, DeniedError if the system does not allow it, ConfigError for any other
    failure; then the file is unchanged.
    """
    with _directory_of(path) as (tree, name):
        expected = tree.find(name)
        done = replace(tree, name, text.encode(), expected=expected, guard=guard, mode=mode, exchange=True)
        if done.replaced_file:
            done.replaced_file.close()


def remove_config(path: str, text: str) -> None:
    """Remove a configuration file with this text; of a symbolic link, its target. Raises as `write_config` does."""
    with _directory_of(path) as (tree, name):
        data, state = tree.read(name)
        require_unchanged(path, data == text.encode())
        remove(tree, name, expected=state)


@contextmanager
def _directory_of(path: str) -> Iterator[tuple[Tree, str]]:
    """Yield the directory of a configuration file, created if it is missing, and its name there."""
    real = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
        with Tree(os.path.dirname(real)) as tree:
            yield tree, os.path.basename(real)
    except StoreChangedError as error:
        if error.replaced_file:
            error.replaced_file.close()
        require_unchanged(path, unchanged=False)
    except OSError as error:
        kind = DeniedError if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else ConfigError
        raise kind(f"{path} cannot be written: {error.strerror}", hint="this file was not changed") from error
