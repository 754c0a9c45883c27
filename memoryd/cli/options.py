"""Helpers of all commands: usage errors, examples, --json, completion of root names, and the path of the socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memoryd.cli.calls import load_configuration
from memoryd.config.socket_path import find_socket
from memoryd.control.client import Client
from memoryd.errors import MemorydError, UsageError
from memoryd.layouts.registry import LAYOUT_CHOICES

if TYPE_CHECKING:
    from memoryd.config.settings import Config

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
"""A function that completes what is typed so far of a value."""

NOT_UTF8 = "the path is not UTF-8, and a configuration cannot hold it"
NOT_UTF8_HINT = "rename the directory; `memoryd run DIRECTORY` serves it as it is"

LOCAL_PATH = click.Path(readable=False)
"""A path that the shell completes. click would call one that may not be read wrong usage."""


layout_option = click.option(
    "--layout",
    type=click.Choice(LAYOUT_CHOICES),
    metavar="LAYOUT",
    help=f"The layout of the PATHs (default: detected): {', '.join(LAYOUT_CHOICES)}.",
)


class MethodCommand(click.Command):
    """A command whose usage errors always name it, so that their hint is its --help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises click.UsageError with its context, which click omits for a missing value."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


def example(*lines: str, result: str = "") -> str:
    """Return an epilog that click does not rewrap: the example, and what --json prints."""
    text = "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
    return f"{text}\n\nWith --json: {result}." if result else text


def json_option(text: str = "Print the result as one JSON document.") -> click.Option:
    """Return the option --json."""
    return click.Option(["--json", "as_json"], is_flag=True, help=text)


def socket_of(ctx: click.Context) -> str:
    """Return the path of the control socket for this command line."""
    return find_socket(**ctx.find_root().obj)


def configuration_of(ctx: click.Context) -> Config:
    """Return the configuration that this command line names, not that of a running daemon. Raises ConfigError."""
    return load_configuration(**ctx.find_root().obj)


def complete_roots(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return root names for shell completion; none when no daemon answers at once."""
    return [root["name"] for root in _ask(ctx, "root.list", "roots") if root["name"].startswith(incomplete)]


def complete_receipts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the receipts of changes that can be undone, newest first, for shell completion."""
    entries = _ask(ctx, "history.list", "entries")
    return [each["receipt"] for each in entries if not each["undone"] and each["receipt"].startswith(incomplete)]


def complete_codes(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the codes of findings, of all layouts."""
    from memoryd.layouts.codes import CODES  # noqa: PLC0415 - loads every layout

    return sorted(code for code in CODES if code.startswith(incomplete))


def complete_types(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the types of memories that the layouts know."""
    from memoryd.layouts.registry import LAYOUTS  # noqa: PLC0415 - loads every layout

    known = {kind for layout in LAYOUTS.values() for kind in layout.types}
    return sorted(kind for kind in known if kind.startswith(incomplete))


def _ask(ctx: click.Context, method: str, member: str) -> list[dict[str, Any]]:
    """Return one list of a result; an empty one when no daemon answers at once."""
    root = ctx.find_root()
    root.obj = root.obj or {name: root.params.get(name) for name in ("config", "state_dir", "socket")}
    try:
        with Client(socket_of(ctx), timeout=0.5) as client:
            return list(client.call(method).get(member, []))
    except MemorydError:
        return []


def absolute_path(path: str) -> str:
    """Return a path of the command line in full. Raises UsageError for an empty one, as of a variable that is unset: it
    would be the working directory."""
    if not path:
        raise UsageError("a path is empty", hint="name a directory; `.` is the working directory")
    return os.path.abspath(os.path.expanduser(path))
