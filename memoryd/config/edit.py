"""Adding and removing a root in the configuration file, with every other byte of it kept.

The text is cut and pasted by the offsets of its tables; tomlkit, imported nowhere else, writes the
values and takes over where roots are written as one inline array. What comes out is read again
before it is written, and must be exactly what was meant.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tomllib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import tomlkit
import tomlkit.items

from memoryd.config.lines import Section, read_lines
from memoryd.config.reading import parse, read_text
from memoryd.config.schema import Config, RootConfig
from memoryd.errors import ConfigError, ConflictError, DeniedError, NotFoundError

HEAD = "# Configuration of memoryd; `memoryd init` writes one with every setting explained.\n"

_numbers = count(1)


def add_root(config_path: str, root: Mapping[str, Any], *, state_dir: str) -> RootConfig:
    """Append a `[[root]]` (keys as in the file, at least a directory) and return it as it is read back.

    A name is always written down, so that the root keeps it whatever is added or removed later.
    The file is made when missing. ConfigError when it is not valid before or after.
    """
    old = read_text(config_path) if os.path.exists(config_path) else None
    text = HEAD if old is None else old
    before = parse(text, config_path, state_dir)
    trial = parse(_appended(text, root), config_path, state_dir)
    added = next(entry for entry in trial.roots if entry.position == len(before.roots))
    named = {"name": added.name, **root}
    new = _appended(text, named)
    wanted = tomllib.loads(text)
    wanted["root"] = [*wanted.get("root", []), named]
    after = _write(config_path, old, new, wanted, state_dir)
    return after.roots[len(before.roots)]


def remove_root(config_path: str, name: str, *, state_dir: str) -> RootConfig:
    """Take the `[[root]]` of this name out and return what it was; NotFoundError when there is none.

    Comments outside the table stay. Another root whose name was derived, and would become another
    one now, gets its present name written down.
    """
    text = read_text(config_path) if os.path.exists(config_path) else ""
    before = parse(text, config_path, state_dir)
    gone = before.root(name)
    if gone is None or gone.position is None:
        known = ", ".join(root.name for root in before.roots) or "none"
        raise NotFoundError(f"{config_path} has no root named {name!r}", hint=f"its roots: {known}")
    new = _without(text, gone.position)
    stay = [root for root in before.roots if root.position != gone.position]
    wanted = tomllib.loads(text)
    del wanted["root"][gone.position]
    for place, root in enumerate(stay):
        if parse(new, config_path, state_dir).roots[place].name != root.name:
            new = _named(new, place, root.name)
            wanted["root"][place]["name"] = root.name
    _write(config_path, text, new, wanted, state_dir)
    return gone


def _inline(text: str) -> bool:
    """Whether roots are written as `root = [{...}]`, which leaves no table to cut."""
    tables = tomllib.loads(text).get("root", [])
    return bool(tables) and not any(section.path[:1] == ("root",) for section in read_lines(text).sections)


def _appended(text: str, root: Mapping[str, Any]) -> str:
    if _inline(text):
        document = tomlkit.parse(text)
        table = tomlkit.inline_table()
        table.update(root)
        document["root"].append(table)
        return tomlkit.dumps(document)
    newline = "\r\n" if "\r\n" in text else "\n"
    tables = tomlkit.aot()
    tables.append(tomlkit.item(dict(root)))
    block = tomlkit.dumps({"root": tables}).strip("\n").replace("\n", newline)
    if text and not text.endswith("\n"):
        text += newline
    return text + (newline if text else "") + block + newline


def _without(text: str, position: int) -> str:
    if _inline(text):
        document = tomlkit.parse(text)
        del document["root"][position]
        return tomlkit.dumps(document)
    for start, end in reversed(list(_pieces(text, position))):
        text = _joined(text[:start], text[end:])
    return text


def _joined(head: str, tail: str) -> str:
    """Both sides of a cut; the blank line that set the table apart goes with it where two would meet."""
    for newline in ("\r\n", "\n"):
        if (not head or head.endswith(newline * 2)) and (not tail or tail.startswith(newline)):
            return head.removesuffix(newline) + (tail if head else tail.removeprefix(newline))
    return head + tail


def _pieces(text: str, position: int) -> Iterator[tuple[int, int]]:
    """The parts of the text that belong to one root, from a header to the line of its last value.

    Comments between two tables of the same root lie within; those before the first and after the
    last do not, because nobody can tell which table they were meant for.
    """
    sections = read_lines(text).sections
    mine = [section.path[:2] == ("root", position) for section in sections]
    for place, section in enumerate(sections):
        if not mine[place]:
            continue
        followed = place + 1 < len(sections) and mine[place + 1]
        yield section.start, sections[place + 1].start if followed else _line_end(text, section.end)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _named(text: str, position: int, name: str) -> str:
    if _inline(text):
        document = tomlkit.parse(text)
        document["root"][position]["name"] = name
        return tomlkit.dumps(document)
    section = _header(text, position)
    at = _line_end(text, section.header_end)
    newline = "\r\n" if text[:at].endswith("\r\n") else "\n"
    broken = newline if not text[:at].endswith("\n") else ""
    return f"{text[:at]}{broken}name = {tomlkit.item(name).as_string()}{newline}{text[at:]}"


def _header(text: str, position: int) -> Section:
    return next(section for section in read_lines(text).sections if section.path == ("root", position))


def _write(path: str, old: str | None, new: str, wanted: dict[str, Any], state_dir: str) -> Config:
    """Read the new text as the daemon will, make sure it says what was meant, and replace the file."""
    config = parse(new, path, state_dir)
    if {"root": [], **tomllib.loads(new)} != {"root": [], **wanted}:
        raise ConfigError(f"{path}: this file is written in a way memoryd cannot edit safely", hint="edit it by hand")
    real = os.path.realpath(path)
    present = read_text(real) if os.path.exists(real) else None
    if present != old:
        raise ConflictError(f"{path} was changed by somebody else meanwhile", hint="look at it and try again")
    write_config(path, new)
    return config


def write_config(path: str, text: str) -> None:
    """Replace a configuration file as a whole, or leave it as it was; a link keeps pointing to its target.

    Mode and owner are kept; a new file is 0600, its new directories 0700. DeniedError when the
    system does not allow it, ConfigError when it fails otherwise.
    """
    real = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
        _replace(real, text.encode())
    except OSError as error:
        kind = DeniedError if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else ConfigError
        raise kind(f"{path} cannot be written: {error.strerror}", hint="nothing was changed") from error


def _replace(real: str, content: bytes) -> None:
    temp = f"{real}.memoryd-{os.getpid()}-{next(_numbers)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temp, flags, 0o600), "wb") as file:
            file.write(content)
            _keep_mode(real, file.fileno())
            file.flush()
            os.fsync(file.fileno())
        os.rename(temp, real)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp)
        raise
    _sync_directory(os.path.dirname(real))


def _keep_mode(real: str, descriptor: int) -> None:
    try:
        known = os.stat(real)
    except FileNotFoundError:
        return
    if (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, known.st_uid, known.st_gid)
    os.fchmod(descriptor, known.st_mode & 0o777)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
