"""The one table of control methods.

The server checks parameters by it, the command line and its help are built from it, and
`rpc.discover` prints it. Adding a command is adding a row to the module of its subject (and a view
in cli/views.py when the plain rendering of its result will not do). Pure data: imports nothing but
the standard library.
"""

from __future__ import annotations

from typing import Any

from memoryd.control.methods import (
    backups,
    events,
    journal,
    locks,
    looking,
    memories,
    process,
    roots,
    schedule,
    upkeep,
)
from memoryd.control.methods.table import JOB_NAMES, LAYOUTS, LEVELS, TOPICS, Field, Kind, Method, Param, Type

__all__ = [
    "JOB_NAMES",
    "LAYOUTS",
    "LEVELS",
    "METHODS",
    "TABLE",
    "TOPICS",
    "Field",
    "Kind",
    "Method",
    "Param",
    "Type",
    "by_command",
    "example_params",
    "groups",
]

# In the order in which help and rpc.discover show them.
METHODS: tuple[Method, ...] = (
    *looking.METHODS,
    *memories.METHODS,
    *upkeep.METHODS,
    *backups.METHODS,
    *locks.METHODS,
    *schedule.METHODS,
    *journal.METHODS,
    *roots.METHODS,
    *events.METHODS,
    *process.METHODS,
)

_EXAMPLE: dict[str, Any] = {"object": {}}

TABLE: dict[str, Method] = {method.name: method for method in METHODS}


def by_command(words: tuple[str, ...]) -> Method | None:
    """The method behind a command line such as ("backup", "list")."""
    return next((method for method in METHODS if method.command == words), None)


def groups() -> dict[str, tuple[Method, ...]]:
    """Commands of two words by their first: {"backup": (...), ...}."""
    found: dict[str, list[Method]] = {}
    for method in METHODS:
        if method.command and len(method.command) == 2:
            found.setdefault(method.command[0], []).append(method)
    return {word: tuple(methods) for word, methods in found.items()}


def example_params(method: Method) -> dict[str, Any]:
    """Required parameters with a plausible value, for documentation and tests."""
    return {p.name: p.choices[0] if p.choices else _EXAMPLE.get(p.type, p.name) for p in method.params if p.required}
