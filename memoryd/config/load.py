"""Read a TOML file into a `Config`, or raise one ConfigError that lists everything that is wrong with it.

Reading changes nothing on disk and is all or nothing: unknown keys, values out of range and
roots that overlap are all errors, because a half-configured daemon would change the wrong files.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from memoryd.config.keys import DAEMON, ENDPOINT, SEARCH
from memoryd.config.layers import Layer, policy, read_policy, read_table, unknown_keys
from memoryd.config.places import Places
from memoryd.config.roots import read_roots
from memoryd.config.settings import COMMAND_LINE, Config, DaemonConfig, EndpointConfig, SearchConfig
from memoryd.config.toml_text import Lines, Problems, read_lines
from memoryd.core.defaults import Limit, Mode
from memoryd.errors import ConfigError

MAX_FILE_BYTES = 1024 * 1024  # a larger file is not a configuration
CORRECT_HINT = "nothing was started or changed; correct this and try again"
TOP_LEVEL = ("daemon", "search", "defaults", "root")

_POSITION = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def load(
    places: Places,
    extra_roots: Sequence[tuple[str, str | None]] = (),
    *,
    known_limits: Mapping[str, Limit] | None = None,
) -> Config:
    """Read the configuration at `places`, with the roots of the command line (path, layout or None) added.

    `known_limits`: the layout's limit of each file, for the parts that a configured limit does not set. Raises
    ConfigError only.
    """
    text = read_text(places.config) if places.config else ""
    return parse(text, places.config, places.state_dir, extra_roots, known_limits=known_limits)


def observed(config: Config) -> Config:
    """Return the configuration with every root in observe mode, whatever the file says."""
    roots = [
        replace(
            root,
            policy=structs.replace(root.policy, mode=Mode.OBSERVE),
            origins={**root.origins, "mode": COMMAND_LINE},
        )
        for root in config.roots
    ]
    return replace(config, roots=tuple(roots))


def parse(
    text: str,
    path: str | None,
    state_dir: str,
    extra_roots: Sequence[tuple[str, str | None]] = (),
    *,
    known_limits: Mapping[str, Limit] | None = None,
) -> Config:
    """Read a configuration from its text; `path` is used in messages only. Raises ConfigError only."""
    tree, lines = _toml(text, path)
    problems = Problems(path, lines)
    unknown_keys(tree, (), TOP_LEVEL, problems)
    daemon = read_table(tree.get("daemon", {}), ("daemon",), DAEMON, problems)
    defaults = read_policy(tree.get("defaults", {}), ("defaults",), problems)
    settings = _daemon(daemon, problems)
    search, origins = _search(tree.get("search", {}), problems)
    limits = known_limits or {}
    roots = read_roots(tree.get("root", []), extra_roots, defaults, problems, state_dir=state_dir, known_limits=limits)
    problems.raise_if_any()
    return Config(settings, roots, path, {**daemon.origins, **origins}, search, policy(defaults, limits))


def _search(table: object, problems: Problems) -> tuple[SearchConfig, dict[str, str]]:
    """Return the values of `[search]` and their origins."""
    search = read_table(table, ("search",), SEARCH, problems, ("endpoint",))
    below = table.get("endpoint", {}) if isinstance(table, dict) else {}
    endpoint = read_table(below, ("search", "endpoint"), ENDPOINT, problems)
    origins = {f"search.{name}": origin for name, origin in search.origins.items()}
    origins |= {f"search.endpoint.{name}": origin for name, origin in endpoint.origins.items()}
    return SearchConfig(**search.values, endpoint=EndpointConfig(**endpoint.values)), origins


def _daemon(layer: Layer, problems: Problems) -> DaemonConfig:
    settings = DaemonConfig(**layer.values)
    for quiet, cap in (("settle_ms", "settle_cap_ms"), ("quiet_s", "quiet_cap_s")):
        least, most = getattr(settings, quiet), getattr(settings, cap)
        if most < least:
            named = cap if cap in layer.values else quiet
            problems.add(
                ("daemon", named),
                f"{cap} = {most:g} is less than {quiet} = {least:g}; allowed: at least as much",
            )
    return settings


def read_text(path: str) -> str:
    """Read the text of a configuration file. Raises ConfigError if it cannot be read or other users can write it."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):  # /dev/null means: no configuration
                raise ConfigError(f"{path}: not a regular file", hint="name a TOML file")
            if stat.S_ISREG(found.st_mode):
                _require_trusted(path, found)
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}", hint="check its owner and its mode") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than 1 MB", hint="check that this is the configuration of memoryd")
    return _decode(content, path)


def _require_trusted(path: str, found: os.stat_result) -> None:
    """Reject a file that others can write: the configuration decides what is changed and where memories are sent."""
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{path}: belongs to user {found.st_uid}, who could change what memoryd does",
            hint=f"make it your own: chown {os.geteuid()}, or copy it",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{path}: is writable by others (mode {stat.S_IMODE(found.st_mode):03o})",
            hint="remove that permission: chmod go-w",
        )


def _decode(content: bytes, path: str) -> str:
    if content.startswith(b"\xef\xbb\xbf"):
        raise ConfigError(
            f"{path}:1: begins with a byte order mark, which TOML does not allow; save it without", hint=CORRECT_HINT
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8; allowed: UTF-8 text", hint=CORRECT_HINT) from error


def _toml(text: str, path: str | None) -> tuple[dict[str, Any], Lines]:
    try:
        return tomllib.loads(text), read_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(syntax_message(str(error), text, path), hint=CORRECT_HINT) from error
    except (ValueError, RecursionError) as error:
        # integers of thousands of digits, dates that do not exist, tables nested without end
        raise ConfigError(f"{path}: is not valid TOML: {error}", hint=CORRECT_HINT) from error


def syntax_message(message: str, text: str, path: str | None) -> str:
    """Return an error of tomllib with the file, line and column in front."""
    match = _POSITION.fullmatch(message)
    if match is None:
        return f"{path}: not valid TOML: {message}"
    if match[2]:
        return f"{path}:{match[2]}:{match[3]}: not valid TOML: {match[1]}"
    last = text.rstrip("\n")
    column = len(last) - last.rfind("\n")
    return f"{path}:{last.count(chr(10)) + 1}:{column}: not valid TOML: {match[1]}, and the file ends here"
