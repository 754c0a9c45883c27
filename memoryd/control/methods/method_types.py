"""The parts of the method table: typed requests and results, and the rows that describe them.

A method's parameters are the fields of its request, its documented members the fields of its result. The server's
checks, the command line and `rpc.discover` read them as `Param` and `Field`, which are made from these types.

A new method is a row in the module of its subject, with a handler in `service.handlers`.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, inspect

Kind = Literal["read", "job", "control"]
# "list" is one of strings
Type = Literal["str", "int", "float", "bool", "list", "numbers", "objects", "object"]

Topic = Literal["change", "root", "job", "finding", "health", "log"]
Level = Literal["debug", "info", "warning", "error"]
JobName = Literal["archive", "limits", "prune", "dedupe", "backup", "locks", "permissions", "verify", "rescan"]
TOPICS: tuple[str, ...] = get_args(Topic)
LEVELS: tuple[str, ...] = get_args(Level)

Name = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]
"""A text without a NUL byte, because it may name a file. Free text is a plain `str`."""
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class Request(Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of one call. None and false stand for what was not given."""

    @classmethod
    def params(cls) -> tuple[Param, ...]:
        """Return the parameters that a call takes: the arguments of its command, then the others as in the fields."""
        hints = get_type_hints(cls, include_extras=True)
        found = [_param(field, hints[field.name]) for field in _fields(cls)]
        return tuple(sorted(found, key=lambda param: param.cli != "argument"))


class NoParameters(Request):
    """The request of a method without parameters."""


class Result(Struct, kw_only=True):
    """The result of one call. Members that are UNSET are left out."""


Failures = Annotated[
    dict[str, str] | UnsetType, Meta(description="{NAME: message} of the roots that failed, beside the others' results")
]


class GatheredResult(Result, kw_only=True):
    """The combined result of one root or several."""

    errors: Failures = UNSET


class Option(Struct, frozen=True):
    """A parameter on the command line. `cli` is "argument", an option flag such as "--file", "fields" for
    an object whose members are given as NAME=VALUE arguments or by --file, or None for protocol only. `scale` turns the
    option's unit into the parameter's (seconds into ms); giving the option also sets the boolean parameters named in
    `implies`. `joined`: all words of the argument are one text. `local_path`: the client makes it absolute, because the
    daemon has another working directory. `choices`: the allowed values, if no `Literal` can name them."""

    cli: str | None = None
    placeholder: str | None = None
    scale: int = 1
    implies: tuple[str, ...] = ()
    joined: bool = False
    local_path: bool = False
    choices: tuple[str, ...] = ()


_PROTOCOL_ONLY = Option()


def parameter(text: str, option: Option = _PROTOCOL_ONLY) -> Meta:
    """Describe a field of a request: its help, and how the command line gives it."""
    return Meta(description=text, extra={"option": option})


def member(text: str) -> Meta:
    """Describe a field of a result."""
    return Meta(description=text)


class Param(Struct, frozen=True):
    """One named parameter, made from its field in the request."""

    name: str
    type: Type
    help: str
    required: bool
    choices: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    option: Option

    @property
    def cli(self) -> str | None:
        """The form of the parameter on the command line; see `Option`."""
        return self.option.cli

    @property
    def repeatable(self) -> bool:
        """True for a list whose values are given one by one on the command line."""
        return self.type == "list" and self.cli is not None


class Field(Struct, frozen=True):
    """One documented member of a result."""

    name: str
    type: Type
    help: str


class Method(Struct, frozen=True, dict=True):
    """One row of the table. `kind`: "read" is answered from published values, "job" goes through a root's inbox,
    "control" concerns the daemon itself. `one_of`: at least one of these parameters must be given, and with `only_one`
    exactly one. `waits_s`: seconds that a client waits for the reply unless the caller names a time."""

    name: str
    command: tuple[str, ...] | None
    summary: str
    description: str
    example: str
    request: type[Request]
    answer: type[Result]
    kind: Kind = "read"
    mutates: bool = False
    one_of: tuple[str, ...] = ()
    only_one: bool = False
    waits_s: float = 30

    @cached_property
    def params(self) -> tuple[Param, ...]:
        """The parameters of the request."""
        return self.request.params()

    @cached_property
    def limited(self) -> tuple[Param, ...]:
        """The parameters whose allowed values no `Literal` names."""
        return tuple(param for param in self.params if param.option.choices)

    @cached_property
    def result(self) -> tuple[Field, ...]:
        """The documented members of the result."""
        return tuple(map(_member, _fields(self.answer)))


def _fields(kind: type[Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _param(field: inspect.Field, hint: object) -> Param:
    meta, constraint = _unwrapped(field.type)
    assert meta is not None, f"the parameter {field.name} has no description"
    option = (meta.extra or {}).get("option", _PROTOCOL_ONLY)
    bounded = constraint if isinstance(constraint, (inspect.IntType, inspect.FloatType)) else None
    return Param(
        name=field.name,
        type=_type(constraint),
        help=_text(meta),
        required=field.default is NODEFAULT and field.default_factory is NODEFAULT,
        choices=option.choices or _choices(hint),
        minimum=bounded.ge if bounded else None,
        maximum=bounded.le if bounded else None,
        option=option,
    )


def _choices(hint: object) -> tuple[str, ...]:
    """Return the values of a `Literal`, however deeply nested, in its order, which msgspec does not preserve."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((choices for part in get_args(hint) if (choices := _choices(part))), ())


def _member(field: inspect.Field) -> Field:
    meta, kind = _unwrapped(field.type)
    return Field(field.name, _type(kind), _text(meta))


def _text(meta: inspect.Metadata | None) -> str:
    return str(((meta.extra_json_schema if meta else None) or {}).get("description", ""))


def _unwrapped(field_type: inspect.Type) -> tuple[inspect.Metadata | None, inspect.Type]:
    """Return the description of a field, and its type without null and UNSET."""
    meta = field_type if isinstance(field_type, inspect.Metadata) else None
    kind = meta.type if meta is not None else field_type
    if isinstance(kind, inspect.UnionType):
        kind = next(each for each in kind.types if type(each).__name__ not in ("NoneType", "UnsetType"))
    return meta, kind


_TYPES: tuple[tuple[type[inspect.Type], Type], ...] = (
    (inspect.BoolType, "bool"),
    (inspect.IntType, "int"),
    (inspect.FloatType, "float"),
    (inspect.StrType, "str"),
    (inspect.LiteralType, "str"),
)


def _type(kind: inspect.Type) -> Type:
    if isinstance(kind, inspect.ListType):
        item = kind.item_type
        if isinstance(item, inspect.FloatType):
            return "numbers"
        return "objects" if isinstance(item, inspect.DictType) else "list"
    return next((name for msgspec_type, name in _TYPES if isinstance(kind, msgspec_type)), "object")
