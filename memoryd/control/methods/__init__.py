"""The one table of control methods.

The server checks parameters by it, the command line and its help are built from it, and `rpc.discover` prints it.
To add a command, add a request, a result and a row to the module of its subject (and a view in cli/views.py if the
generic rendering of its result is not enough).
"""

from __future__ import annotations

from memoryd.control.methods import memories, process, recovery, status, upkeep
from memoryd.control.methods.method_types import Method

# In the order in which help and rpc.discover show them.
METHODS: tuple[Method, ...] = (
    *status.STATUS,
    *memories.METHODS,
    *upkeep.UPKEEP,
    *recovery.BACKUPS,
    *upkeep.LOCKS,
    *upkeep.JOBS,
    *recovery.HISTORY,
    *status.ROOTS,
    *process.METHODS,
)

TABLE: dict[str, Method] = {method.name: method for method in METHODS}


def by_command(words: tuple[str, ...]) -> Method | None:
    """Return the method behind a command line such as ("backup", "list")."""
    return next((method for method in METHODS if method.command == words), None)


def groups() -> dict[str, tuple[Method, ...]]:
    """Return the commands of two words by their first: {"backup": (...), ...}."""
    by_word: dict[str, list[Method]] = {}
    for method in METHODS:
        if method.command and len(method.command) == 2:
            by_word.setdefault(method.command[0], []).append(method)
    return {word: tuple(methods) for word, methods in by_word.items()}
