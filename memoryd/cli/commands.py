"""Client commands, built from the method table on demand."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import click
from msgspec import to_builtins

from memoryd.cli import exits, fields
from memoryd.cli.calls import Values, call_daemon, layout_of
from memoryd.cli.options import (
    LOCAL_PATH,
    NOT_UTF8,
    NOT_UTF8_HINT,
    Complete,
    MethodCommand,
    absolute_path,
    complete_codes,
    complete_receipts,
    complete_roots,
    complete_types,
    configuration_of,
    example,
    json_option,
    socket_of,
)
from memoryd.cli.screen import print_json
from memoryd.control.methods import groups
from memoryd.control.methods.method_types import Method, Param
from memoryd.control.parameters import check_params
from memoryd.core.spans import is_encodable
from memoryd.errors import InvalidMemoryError, UsageError
from memoryd.layouts.registry import NAMES

_TYPES: dict[str, click.ParamType[Any]] = {"str": click.STRING, "int": click.INT, "float": click.FLOAT}
MANY_CHOICES = 5  # from this number on, choices are listed in the help text instead of the metavar
LOCAL = ("config.show", "config.validate")  # commands that read the configuration file without the daemon


class DefaultGroup(click.Group):
    """A group whose name alone runs its `list`: `memoryd jobs` means `memoryd jobs list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` if no subcommand is given."""
        first = args[0] if args else ""
        if ctx.resilient_parsing:  # completion: the shell wants the subcommands
            return super().parse_args(ctx, args)
        if not first or (first.startswith("-") and first != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group_command(word: str) -> click.Group:
    """Build the group of a word such as `backup`, `lock` or `jobs`, with its subcommands."""
    methods = groups()[word]
    names = [method.command[1] for method in methods if method.command]
    group: type[click.Group] = DefaultGroup if "list" in names else click.Group
    words = ", ".join(f"{name} (default)" if name == "list" else name for name in names)
    return group(
        word,
        commands={method.command[1]: method_command(method) for method in methods if method.command},
        help=f"Commands: {words}.",
        epilog=example(*[method.example for method in methods]),
        short_help=f"Commands: {words}.",
    )


def method_command(method: Method) -> click.Command:
    """Build the command of one method: its parameters as arguments and options, and --json."""
    assert method.command is not None
    params: list[click.Parameter] = []
    for param in method.params:
        if param.cli:
            params += fields.parameters(param) if param.cli == "fields" else [_parameter(method, param)]
    takes_fields = any(param.cli == "fields" for param in method.params)
    return (fields.FieldsCommand if takes_fields else MethodCommand)(
        method.command[-1],
        params=[*params, *_extra_options(method), json_option()],
        callback=_callback(method),
        help=f"{method.summary}\n\n{method.description}",
        short_help=method.summary,
        epilog=example(method.example, result=", ".join(field.name for field in method.result)),
    )


def _extra_options(method: Method) -> list[click.Parameter]:
    if method.name == "config.show":
        return [click.Option(["--all", "everything"], is_flag=True, help="Also the keys that have their default.")]
    if method.name not in ("check", "dedupe"):
        return []
    text = (
        f"{method.name.capitalize()} this directory without a daemon, with the settings of its root in the "
        "configuration, else the default ones."
    )
    return [click.Option(["--offline"], metavar="PATH", type=LOCAL_PATH, help=text)]


def _parameter(method: Method, param: Param) -> click.Parameter:
    type_ = click.Choice(param.choices) if param.choices else _TYPES.get(param.type, click.STRING)
    if param.option.local_path:
        type_ = LOCAL_PATH  # completed by the shell
    if param.cli == "argument":
        return click.Argument(
            [param.name],
            type=type_,
            required=param.required,
            nargs=-1 if param.repeatable or param.option.joined else 1,
            metavar=_metavar(param),
            shell_complete=_completion(method, param),
        )
    flag = param.type == "bool"
    return click.Option(
        [str(param.cli), param.name],
        type=None if flag else (click.FLOAT if param.option.scale != 1 else type_),
        is_flag=True if flag else None,  # click makes the value of an option with False optional
        required=param.required,
        multiple=param.repeatable,
        metavar=param.name.upper() if len(param.choices) >= MANY_CHOICES else param.option.placeholder,
        help=_option_help(param),
        shell_complete=_completion(method, param),
    )


def _completion(method: Method, param: Param) -> Complete | None:
    """Return what completes a value by asking the daemon or from a table; None leaves it to the type."""
    named_root = param.name == "name" and method.name.startswith("root.") and method.name != "root.add"
    if param.name == "root" or named_root:
        return complete_roots
    return {"receipt": complete_receipts, "codes": complete_codes, "type": complete_types}.get(param.name)


def _option_help(param: Param) -> str:
    """Return the help as a sentence, with the choices if there are too many for the metavar. A help text that starts
    with the name of a layout is not capitalised."""
    text = param.help if param.help.partition(":")[0] in NAMES else f"{param.help[0].upper()}{param.help[1:]}"
    return f"{text}: {', '.join(param.choices)}." if len(param.choices) >= MANY_CHOICES else f"{text}."


def _metavar(param: Param) -> str:
    word = param.option.placeholder or param.name.upper()
    if param.option.joined:
        return f"{word}..."
    return f"[{word}]..." if param.repeatable else word if param.required else f"[{word}]"


def _callback(method: Method) -> Callable[..., None]:
    def run(**values: Any) -> None:
        ctx = click.get_current_context()
        as_json = values.pop("as_json")
        offline = values.pop("offline", None)
        if offline is not None:
            if values.get("root") is not None:
                raise UsageError("ROOT and --offline exclude each other", hint="a root belongs to a daemon")
            result = _offline(ctx, method, offline, values)
        elif method.name in LOCAL:
            result = _configuration(ctx, method)
            if values.pop("everything", False) and not as_json:
                result["all"] = True
        else:
            if method.name == "memory.add":
                values["memory"] = _with_sentence(ctx, values)
            params = to_params(method, values)
            _require_input(method, params)
            _require_utf8(method, params)
            check_params(method, params, _option_name)  # wrong usage is reported even if no daemon runs
            _check_words(params)
            try:
                result = call_daemon(socket_of(ctx), method.name, params, waits_s=method.waits_s, quiet=as_json)
            except InvalidMemoryError as error:
                error.hint = fields.tags_hint(error, params) or error.hint
                raise
        _print_result(method, result, as_json=as_json)
        ctx.exit(exits.of_result(method.name, result))

    return run


def _option_name(param: Param) -> str:
    """Return the name of a parameter for a message: that of its option if it has one."""
    return str(param.cli) if param.cli is not None and param.cli.startswith("--") else param.name


def _check_words(params: Values) -> None:
    """Raise UsageError for what the daemon would refuse in any state: a time that is none, an unknown finding code."""
    for name in ("since", "until"):
        if name in params:
            from memoryd.search.periods import require_bound  # noqa: PLC0415 - only for a time

            require_bound(name, params[name], time.time())
    if "codes" in params:
        from memoryd.layouts.codes import require_codes  # noqa: PLC0415 - loads every layout

        require_codes(params["codes"])


def _with_sentence(ctx: click.Context, values: Values) -> Sequence[str]:
    """Return the words of `add` as fields: a sentence becomes what its layout needs."""
    sentence, rest = fields.split_sentence(values["memory"])
    if not sentence:
        return rest
    return fields.sentence_fields(sentence, layout_of(socket_of(ctx), values.get("root")), rest)


_NO_FIELDS = "no fields given; write NAME=VALUE or use --file"
_NO_MEMORY = 'nothing to store; write "a sentence" or NAME=VALUE, or use --file'
_NO_ROOT = "name the root, or give its directory with --path DIR"
_NO_INPUT = {
    "memory.search": "give words to search for, or --similar ID",
    "memory.add": _NO_MEMORY,
    "memory.update": _NO_FIELDS,
}


def _require_input(method: Method, params: Values) -> None:
    """Raise UsageError, in the terms of the command line, if all the alternative inputs of a method are missing."""
    needed = method.one_of or [param.name for param in method.params if param.cli == "fields" and param.required]
    if needed and not any(name in params for name in needed):
        raise UsageError(_NO_INPUT.get(method.name, _NO_ROOT))


def _require_utf8(method: Method, params: Values) -> None:
    """Raise UsageError for a memory or a new root that UTF-8, the encoding of the protocol, cannot hold. The client
    escapes such bytes: right for a name that is looked up, but this would store another text or add another path."""
    for param in method.params:
        value = params.get(param.name, "")
        if param.type in ("object", "objects") and not is_encodable(json.dumps(value, ensure_ascii=False)):
            hint = "nothing was stored; convert it with `iconv`, or set LC_ALL to the encoding of this terminal"
            raise UsageError("the memory is not text in the encoding of the locale", hint=hint)
        if method.name == "root.add" and param.option.local_path and not is_encodable(value):
            raise UsageError(f"{value}: {NOT_UTF8}", hint=NOT_UTF8_HINT)


def _configuration(ctx: click.Context, method: Method) -> Values:
    """Return the settings in the file named by --config, not those of a running daemon. Raises ConfigError."""
    from memoryd.config.show import effective  # noqa: PLC0415 - only when needed

    config = configuration_of(ctx)
    if method.name == "config.show":
        return effective(config)
    names = [root.name for root in config.roots]
    return {"path": config.path, "roots": names, "added": names, "changed": [], "removed": []}


def to_params(method: Method, values: Values) -> Values:
    """Convert command line values to parameters of the method; values that were not given are left out."""
    params: Values = {}
    for param in method.params:
        value: Any = values.get(param.name)
        if param.cli == "fields":
            file, tags = values.get(fields.FILE_OPTION), values.get(fields.TAG_OPTION, ())
            value = fields.build_memory(value or (), file, tags, takes_text=param.name == "memory")
            if isinstance(value, list):
                params |= _several_memories(method, value)
                continue
        if value is None or value is False or value in ((), {}):
            continue
        if param.option.joined:
            value = " ".join(value)
        elif param.option.local_path:
            value = absolute_path(value)
        elif param.option.scale != 1:
            value = _scaled(param, value)
        params[param.name] = list(value) if param.repeatable else value
        params |= dict.fromkeys(param.option.implies, True)
    return params


def _scaled(param: Param, value: float) -> int:
    """Convert the value of an option to the unit of its parameter. Raises UsageError, in the option's unit, for a
    value out of bounds or not a number."""
    scale = param.option.scale
    low, high = (param.minimum or 0) / scale, (param.maximum or 0) / scale
    if not low <= value <= high:
        raise UsageError(f"{param.cli!r} must be between {low:g} and {high:g}")
    return round(value * scale)


def _several_memories(method: Method, listed: list[Values]) -> Values:
    param = next((param for param in method.params if param.type == "objects"), None)
    if param is None:
        raise UsageError(f"{method.name}: the file contains several memories", hint="give a single object")
    return {param.name: listed}


def _offline(ctx: click.Context, method: Method, path: str, values: Values) -> Values:
    from memoryd.cli.progress_bar import local_bar  # noqa: PLC0415 - as above
    from memoryd.operations import offline  # noqa: PLC0415 - loads all the parsers

    directory, now, config = absolute_path(path), time.time(), configuration_of(ctx)
    if method.name == "check":
        from memoryd.core.secrets import redact_values  # noqa: PLC0415 - compiles many patterns

        with local_bar(os.path.basename(directory)) as meter:
            return dict(redact_values(to_builtins(offline.check_path(directory, now, meter, config))))
    from memoryd.config.places import find_places  # noqa: PLC0415 - as above

    state_dir = find_places(**ctx.find_root().obj).state_dir
    threshold, dry_run = values.get("threshold"), bool(values.get("dry_run"))
    result = offline.dedupe_path(directory, now, config, state_dir=state_dir, threshold=threshold, dry_run=dry_run)
    return dict(to_builtins(result))


def _print_result(method: Method, result: Values, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    from memoryd.cli.views import print_for_people  # noqa: PLC0415 - not needed for `--help`

    print_for_people(method.name, result)
