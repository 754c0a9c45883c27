"""Layers of values: the built-in ones, then those of `[defaults]`, then those of the root.

A layer is flat: a job's schedule has the key `schedule.JOB`, a file's limit `limits.FILE`, so that values and
their origins are combined in one step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from memoryd.config import checks
from memoryd.config.keys import DAEMON, POLICY, ROOT, SCHEDULE, SEARCH, SECRETS_KEY, Key
from memoryd.config.settings import DEFAULT
from memoryd.config.toml_text import KeyPath, Problems
from memoryd.core.defaults import DEFAULT_SCHEDULE, Limit, Mode, Policy

LIMIT_EXAMPLE = '{ max_bytes = "5MB", max_count = 500, kind = "soft" } or "off"'

# The tables and their keys, to say where a key in the wrong table belongs.
_TABLE_OF_KEY: Mapping[str, Mapping[str, Key]] = {
    "[daemon]": DAEMON,
    "[search]": SEARCH,
    "[defaults] or [[root]]": {**POLICY, "secrets": SECRETS_KEY},
    "[defaults.schedule] or [root.schedule]": SCHEDULE,
    "[[root]]": ROOT,
}


class Layer(Struct):
    """The valid values of a table, and the origin of each, such as `defaults:12`."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def over(self, below: Layer) -> Layer:
        """Combine two layers; the values of this one take precedence."""
        return Layer({**below.values, **self.values}, {**below.origins, **self.origins})


def is_table(value: object, path: KeyPath, problems: Problems) -> bool:
    """Return whether a value is a table; if not, add a problem."""
    if isinstance(value, dict):
        return True
    problems.add(path, f"is {checks.shown(value)}; allowed: a table")
    return False


def unknown_keys(table: Mapping[str, object], path: KeyPath, known: Collection[str], problems: Problems) -> None:
    """Add a problem for each key that the table may not have."""
    for name in table:
        if name not in known:
            problems.add((*path, name), _unknown_key_message(name, known))


def _unknown_key_message(name: str, known: Collection[str]) -> str:
    home = next((home for home, keys in _TABLE_OF_KEY.items() if name in keys), None)
    if home is not None:
        return f"unknown key here; it belongs in {home}"
    near = checks.suggestion(name, known).strip()
    return f"unknown key; {near or 'allowed here: ' + ', '.join(known)}"


def read_table(
    table: object, path: KeyPath, keys: Mapping[str, Key], problems: Problems, tables: Collection[str] = ()
) -> Layer:
    """Read the plain keys of one table. `tables` names the tables within it, which are read elsewhere."""
    layer = Layer()
    if not isinstance(table, dict):
        is_table(table, path, problems)
        return layer
    unknown_keys(table, path, (*keys, *tables), problems)
    for name, key in keys.items():
        if name in table:
            _read_value(layer, name, key.check, table[name], path=(*path, name), problems=problems)
    return layer


def _read_value(
    layer: Layer, name: str, check: checks.Check, value: object, *, path: KeyPath, problems: Problems
) -> None:
    try:
        layer.values[name] = check(value)
    except ValueError as error:
        problems.add(path, str(error))
        return
    layer.origins[name] = f"{path[0]}:{problems.lines.of(path)}"


POLICY_TABLES = ("schedule", "limits")
_POLICY_KEYS: Mapping[str, Key] = {**POLICY, "secrets": SECRETS_KEY}


def read_policy(
    table: object,
    path: KeyPath,
    problems: Problems,
    more: Mapping[str, Key] | None = None,
    tables: Collection[str] = (),
) -> Layer:
    """Read the keys that `[defaults]` and each `[[root]]` share; `more` and `tables` are further ones of a root."""
    layer = read_table(table, path, {**(more or {}), **_POLICY_KEYS}, problems, (*POLICY_TABLES, *tables))
    if not isinstance(table, dict):
        return layer
    schedule = read_table(table.get("schedule", {}), (*path, "schedule"), SCHEDULE, problems)
    for name, value in schedule.values.items():
        layer.values[f"schedule.{name}"] = value
        layer.origins[f"schedule.{name}"] = schedule.origins[name]
    _read_limits(layer, table.get("limits", {}), (*path, "limits"), problems)
    return layer


def _read_limits(layer: Layer, table: object, path: KeyPath, problems: Problems) -> None:
    if not isinstance(table, dict):
        is_table(table, path, problems)
        return
    for file, value in table.items():
        place = (*path, file)
        if not file or file.startswith("/") or ".." in file.split("/"):
            problems.add(place, 'is not the path of a file in a root; allowed: names such as "learnings.jsonl"')
        elif value == "off":
            _read_value(layer, f"limits.{file}", checks.or_off(checks.size), value, path=place, problems=problems)
        elif isinstance(value, dict):
            _read_limit(layer, f"limits.{file}", value, place, problems)
        else:
            hint = f'; is the name quoted, as "{file}.jsonl"?' if "." not in file else ""
            problems.add(place, f"is {checks.shown(value)}; allowed: {LIMIT_EXAMPLE}{hint}")


def _read_limit(layer: Layer, name: str, table: dict[str, object], path: KeyPath, problems: Problems) -> None:
    named = not table.keys().isdisjoint(checks.LIMIT_PARTS)
    if table and not named and all(isinstance(value, dict) or value == "off" for value in table.values()):
        file = f"{path[-1]}.{next(iter(table))}"
        problems.add(path, f'is a table of tables; put a file name with a dot in quotes: "{file}" = {LIMIT_EXAMPLE}')
        return
    unknown_keys(table, path, tuple(checks.LIMIT_PARTS), problems)
    parts = Layer()
    for part, check in checks.LIMIT_PARTS.items():
        if part in table:
            _read_value(parts, part, check, table[part], path=(*path, part), problems=problems)
    if not table:
        problems.add(path, f"sets no bound; allowed: {LIMIT_EXAMPLE}")
    layer.values[name] = parts.values
    layer.origins[name] = f"{path[0]}:{problems.lines.of(path)}"


def policy(layer: Layer, known_limits: Mapping[str, Limit]) -> Policy:
    """Build the policy of one root from its layers; other settings have their built-in values."""
    plain = {name: layer.values[name] for name in _POLICY_KEYS if name in layer.values}
    if "mode" in plain:
        plain["mode"] = Mode(plain["mode"])
    schedule = {job: layer.values.get(f"schedule.{job}", text) for job, text in DEFAULT_SCHEDULE.items()}
    return Policy(**plain, schedule=schedule, limits=_limits(layer, known_limits))


def limited_files(layer: Layer) -> list[str]:
    """Return the files for which a layer sets or lifts a limit."""
    return [name.removeprefix("limits.") for name in layer.values if name.startswith("limits.")]


def _limits(layer: Layer, known: Mapping[str, Limit]) -> dict[str, Limit | None]:
    found: dict[str, Limit | None] = {}
    for file in limited_files(layer):
        parts = layer.values[f"limits.{file}"]
        found[file] = None if parts is None else checks.limit(parts, known.get(file))
    return found


def origins(layer: Layer) -> dict[str, str]:
    """Return the origin of every policy value, configured or built in."""
    names = [name for name in Policy.__struct_fields__ if name not in POLICY_TABLES]
    names += [f"schedule.{job}" for job in DEFAULT_SCHEDULE]
    return {**dict.fromkeys([*names, "layout"], DEFAULT), **layer.origins}
