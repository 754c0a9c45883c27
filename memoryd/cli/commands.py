"""Client commands, made from the method table when they are asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memoryd.cli import exits, fields
from memoryd.control.methods import Method, Param, groups
from memoryd.errors import UsageError

if TYPE_CHECKING:
    from memoryd.control.client import Client

_TYPES: dict[str, click.ParamType[Any]] = {"str": click.STRING, "int": click.INT, "float": click.FLOAT}
_REPLY_MARGIN_S = 10

Values = dict[str, Any]


class DefaultGroup(click.Group):
    """A group whose `list` is what its bare name does: `memoryd jobs` is `memoryd jobs list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if not first or (first.startswith("-") and first != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group_command(word: str) -> click.Group:
    """`backup`, `lock`, `jobs`, ... with their second words."""
    methods = groups()[word]
    words = ", ".join(method.command[1] for method in methods if method.command)
    group: type[click.Group] = DefaultGroup if any(m.command == (word, "list") for m in methods) else click.Group
    return group(
        word,
        commands={method.command[1]: method_command(method) for method in methods if method.command},
        help=f"One of {words}; each has its own --help.",
        epilog=example(*[method.example for method in methods]),
        short_help=f"Subcommands: {words}.",
    )


def method_command(method: Method) -> click.Command:
    """The command of one row: its parameters as arguments and options, and --json."""
    assert method.command is not None
    params = [each for param in method.params if param.cli for each in _parameters(method, param)]
    return click.Command(
        method.command[-1],
        params=[*params, *_extra_options(method), json_option()],
        callback=_callback(method),
        help=f"{method.summary}\n\n{method.description}",
        short_help=method.summary,
        epilog=example(method.example, result=", ".join(field.name for field in method.result)),
    )


def example(*lines: str, result: str = "") -> str:
    """An epilog that click does not rewrap: the example, and what --json holds."""
    told = "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
    return f"{told}\n\nWith --json: {result}." if result else told


def json_option() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Print the result as one JSON document.")


def _extra_options(method: Method) -> list[click.Parameter]:
    if method.name not in ("check", "dedupe"):
        return []
    text = f"{method.name.capitalize()} this directory without a daemon."
    return [click.Option(["--offline"], metavar="PATH", type=click.STRING, help=text)]


def _parameters(method: Method, param: Param) -> list[click.Parameter]:
    return fields.parameters(param) if param.cli == "fields" else [_parameter(method, param)]


def _parameter(method: Method, param: Param) -> click.Parameter:
    type_ = click.Choice(param.choices) if param.choices else _TYPES.get(param.type, click.STRING)
    complete = complete_roots if _names_root(method, param) else None
    if param.cli == "argument":
        return click.Argument(
            [param.name],
            type=type_,
            required=param.required,
            nargs=-1 if param.repeatable or param.joined else 1,
            metavar=_metavar(param),
            shell_complete=complete,
        )
    flag = param.type == "bool"
    return click.Option(
        [str(param.cli), param.name],
        type=None if flag else (click.FLOAT if param.scale != 1 else type_),
        is_flag=flag,
        required=param.required,
        multiple=param.repeatable,
        metavar=None if flag or param.choices else param.placeholder,
        help=f"{param.help[0].upper()}{param.help[1:]}.",
        shell_complete=complete,
    )


def _metavar(param: Param) -> str:
    word = param.placeholder or param.name.upper()
    if param.joined:
        return f"{word}..."
    return f"[{word}]..." if param.repeatable else word if param.required else f"[{word}]"


def _callback(method: Method) -> Callable[..., None]:
    def run(**values: Any) -> None:
        ctx = click.get_current_context()
        as_json = values.pop("as_json")
        offline = values.pop("offline", None)
        if offline is not None:
            result = _offline(ctx, method, offline, values)
        else:
            result = _ask(ctx, method, to_params(method, values), quiet=as_json)
        _show(method, result, as_json=as_json)
        ctx.exit(exits.of_result(method.name, result))

    return run


def to_params(method: Method, values: Values) -> Values:
    """Command line values as parameters of the method; what was not given is left out."""
    params: Values = {}
    for param in method.params:
        value = values.get(param.name)
        if param.cli == "fields":
            value = fields.gathered(value or (), values.get(fields.FILE_OPTION), values.get(fields.TAG_OPTION, ()))
        if value is None or value is False or value in ((), {}):
            continue
        if param.joined:
            value = " ".join(value)
        elif param.local_path:
            value = os.path.abspath(os.path.expanduser(value))
        elif param.scale != 1:
            value = round(value * param.scale)
        params[param.name] = list(value) if param.repeatable else value
        params |= dict.fromkeys(param.implies, True)
    return params


def socket_of(ctx: click.Context) -> str:
    from memoryd.config.places import find_places  # noqa: PLC0415 - `--help` needs no places

    return find_places(**ctx.find_root().obj, client=True).socket


def _ask(ctx: click.Context, method: Method, params: Values, *, quiet: bool) -> Values:
    from memoryd.control.client import Client  # noqa: PLC0415 - `--help` needs no socket

    path = socket_of(ctx)
    with Client(path) as client:
        if params.get("force") and not quiet:
            _show_evidence(client.call("lock.list", {key: params[key] for key in params if key != "force"}))
        result = _call(client, method, params)
    if not isinstance(result, dict):
        result = {"result": result}
    if method.name == "shutdown":
        from memoryd.cli.local import wait_gone  # noqa: PLC0415 - only `stop` waits

        wait_gone(path, result.get("pid"))
    return result


def _call(client: Client, method: Method, params: Values) -> Any:
    timeout = _patience(method, params)
    try:
        return client.call(method.name, params, timeout=timeout)
    except UsageError as error:
        if method.name != "memory.get" or "offset" not in error.data:
            raise
    from memoryd.cli.parts import whole  # noqa: PLC0415 - for a memory too long for one answer

    asked = {key: value for key, value in params.items() if key != "touch"}  # counted by now
    return whole(lambda offset: client.call(method.name, {**asked, "offset": offset}, timeout=timeout))


def _patience(method: Method, params: Values) -> float:
    """Longer than the daemon's own time limit, so that its answer is what the user sees."""
    if "timeout_ms" in params:
        return float(params["timeout_ms"]) / 1000 + _REPLY_MARGIN_S
    return method.waits_s + _REPLY_MARGIN_S


def _show_evidence(locks: Values) -> None:
    from memoryd.cli.render import for_people  # noqa: PLC0415 - only before a forced removal

    for_people("lock.list", locks)


def _offline(ctx: click.Context, method: Method, path: str, values: Values) -> Values:
    if not os.path.isdir(path):
        raise UsageError(f"{path} is no directory", hint="name the directory with the memory files")
    from memoryd.operations import offline  # noqa: PLC0415 - loads the whole reading side

    real, now = os.path.abspath(path), time.time()
    if method.name == "check":
        return dict(offline.check_path(real, now))
    from memoryd.config.places import find_places  # noqa: PLC0415 - as above

    state_dir = find_places(**ctx.find_root().obj).state_dir
    threshold, dry_run = values.get("threshold"), bool(values.get("dry_run"))
    return dict(offline.dedupe_path(real, now, state_dir=state_dir, threshold=threshold, dry_run=dry_run))


def _show(method: Method, result: Values, *, as_json: bool) -> None:
    from memoryd.cli import render  # noqa: PLC0415 - `--help` prints nothing of it

    if as_json:
        render.as_json(result)
    else:
        render.for_people(method.name, result)


def _names_root(method: Method, param: Param) -> bool:
    return param.name == "root" or (
        param.name == "name" and method.name.startswith("root.") and method.name != "root.add"
    )


def complete_roots(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of roots for the shell's Tab key; nothing when no daemon answers at once."""
    from memoryd.control.client import Client  # noqa: PLC0415 - only while completing
    from memoryd.errors import MemorydError  # noqa: PLC0415 - as above

    root = ctx.find_root()
    root.obj = root.obj or {name: root.params.get(name) for name in ("config", "state_dir", "socket")}
    try:
        with Client(socket_of(ctx), timeout=0.5) as client:
            roots = client.call("root.list").get("roots", [])
    except MemorydError:
        return []
    return [root["name"] for root in roots if root["name"].startswith(incomplete)]
