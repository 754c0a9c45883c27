"""What a row of the method table is made of, and the words that rows choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["read", "job", "control"]
Type = Literal["str", "int", "float", "bool", "list", "object"]

TOPICS = ("change", "root", "job", "finding", "health", "log")
LEVELS = ("debug", "info", "warning", "error")
JOB_NAMES = ("archive", "limits", "prune", "dedupe", "backup", "locks", "permissions", "verify", "rescan")
MODES = ("text", "semantic", "hybrid")
LAYOUTS = ("auto", "json-files", "markdown-topics", "user-document", "session-files", "jsonl-store")


@dataclass(frozen=True, slots=True)
class Param:
    """One named parameter. `cli` is "argument", an option flag such as "--file", "fields" for an object whose members
    are given as NAME=VALUE arguments or by --file, or None for protocol only. `scale` turns the option's unit into the
    parameter's (seconds into ms); giving the option also sets the boolean parameters named in `implies`. `joined`: all
    words of the argument are one text."""

    name: str
    type: Type
    help: str
    cli: str | None = None
    required: bool = False
    repeatable: bool = False
    choices: tuple[str, ...] = ()
    placeholder: str | None = None
    scale: int = 1
    implies: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    joined: bool = False
    local_path: bool = False  # the client makes it absolute: the daemon has another working directory


@dataclass(frozen=True, slots=True)
class Field:
    """One documented member of a result."""

    name: str
    type: Type
    help: str


@dataclass(frozen=True, slots=True)
class Method:
    """One row. `kind`: "read" answers from what is published, "job" goes through a root's inbox,
    "control" concerns the daemon itself. `one_of`: at least one of these parameters must be given.
    `waits_s`: how long a client waits for the reply when the caller names no time of its own."""

    name: str
    command: tuple[str, ...] | None
    summary: str
    description: str
    example: str
    params: tuple[Param, ...]
    result: tuple[Field, ...]
    kind: Kind
    mutates: bool
    one_of: tuple[str, ...] = ()
    waits_s: float = 30

    def param(self, name: str) -> Param | None:
        return next((param for param in self.params if param.name == name), None)
