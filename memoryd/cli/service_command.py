"""`memoryd service`: the daemon as a service of this machine, by systemd or launchd."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from memoryd.cli import exits
from memoryd.cli.options import example, json_option
from memoryd.cli.screen import make_screen, print_json, printable
from memoryd.errors import ConfigError

if TYPE_CHECKING:
    from memoryd.cli.service_target import Target
    from memoryd.installer.installation import Manager
    from memoryd.installer.systemd import Service

_SCOPE = click.Option(["--system"], is_flag=True, help="A service of the machine, which runs as one user (needs root).")
_HARDENED = click.Option(["--hardened"], is_flag=True, help="Read-only access outside the roots; always with --system.")
_SOCKET = click.Option(["--socket", "with_socket"], is_flag=True, help="Commands wait during a restart (systemd).")
_RUN_AS = click.Option(["--run-as"], metavar="USER", help="With --system: the user (default: who called sudo).")
_DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Print files and commands, change nothing.")


def _target(ctx: click.Context, *, system: bool, run_as: str | None) -> Target:
    from memoryd.cli.service_target import Target  # noqa: PLC0415 - reads the configuration, which `--help` must not

    return Target(ctx, system=system, run_as=run_as)


@click.command("install", params=[_SCOPE, _HARDENED, _SOCKET, _RUN_AS, _DRY_RUN, json_option()],
               epilog=example("memoryd service install", "sudo memoryd service install --system"))  # fmt: skip
@click.pass_context
def _install(
    ctx: click.Context,
    *,
    system: bool,
    hardened: bool,
    with_socket: bool,
    run_as: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Install, enable and start the service.

    Run it again after the configuration has changed: the units name its roots.
    """
    from memoryd.installer.installation import install  # noqa: PLC0415 - as above
    from memoryd.installer.managers import run_command  # noqa: PLC0415 - as above

    target = _target(ctx, system=system, run_as=run_as)
    service = target.service(hardened=hardened, with_socket=with_socket)
    if dry_run:
        _show_files(target.manager, service, as_json=as_json, with_commands=True)
        return
    target.require_root()
    done = install(target.manager, service, target.account, run_command)
    if as_json:
        print_json({**done._asdict(), "log": target.manager.log})
        return
    for path in done.written:
        click.echo(printable(f"wrote {path}"))
    for path in done.removed:
        click.echo(printable(f"removed {path}"))
    for command in done.commands:
        click.echo(printable(f"ran {command}"))
    click.echo(f"memoryd {done.version} answers (pid {done.pid})")
    click.echo(printable(f"log: {target.manager.log}"))
    for note in done.notes:
        click.echo(printable(f"note: {note}"))


@click.command("uninstall", params=[_SCOPE, _RUN_AS, _DRY_RUN, json_option()],
               epilog=example("memoryd service uninstall"))  # fmt: skip
@click.pass_context
def _uninstall(ctx: click.Context, *, system: bool, run_as: str | None, dry_run: bool, as_json: bool) -> None:
    """Stop and remove the service.

    Memories, configuration and state stay.
    """
    from memoryd.installer.installation import uninstall  # noqa: PLC0415 - as above

    target = _target(ctx, system=system, run_as=run_as)
    if not dry_run:
        target.require_root()
    removed = uninstall(target.manager, dry_run=dry_run)
    if as_json:
        print_json({"removed": list(removed), "dry_run": dry_run})
        return
    for path in removed:
        click.echo(printable(f"{'would remove' if dry_run else 'removed'} {path}"))
    click.echo("memories, configuration and state stay" if removed else "no service is installed")


@click.command("status", params=[_SCOPE, _RUN_AS, json_option()], epilog=example("memoryd service status"))
@click.pass_context
def _status(ctx: click.Context, *, system: bool, run_as: str | None, as_json: bool) -> None:
    """Show whether the service is installed, running and up to date; exit code 1 if it does not run."""
    from memoryd.installer.installation import present_files  # noqa: PLC0415 - as above
    from memoryd.installer.managers import last_error  # noqa: PLC0415 - as above

    target = _target(ctx, system=system, run_as=run_as)
    state = target.manager.state()
    present = present_files(target.manager)
    names, installed = list(map(os.path.basename, present)), bool(present)
    hardened, with_socket = "hardened.conf" in names, "memoryd.socket" in names
    current, reason = False, ""
    try:
        wanted = target.manager.files(target.service(hardened=hardened, with_socket=with_socket))
        current = wanted.items() <= present.items()
    except ConfigError as error:
        reason = error.message
    if installed and not state.active:
        reason = reason or last_error(target.manager.reason())
    result = {
        "manager": target.manager.name, "installed": installed, "current": current, "active": state.active,
        "state": state.text, "pid": state.pid or None, "enabled": state.enabled, "restarts": state.restarts,
        "reason": reason or None, "hardened": hardened, "socket": with_socket, "log": target.manager.log,
    }  # fmt: skip
    if as_json:
        print_json(result)
    else:
        rows = [(name, "yes" if value is True else "no" if value is False else value) for name, value in result.items()]
        make_screen(sys.stdout).fields(rows, indent=0)
        if installed and not current and not reason:
            click.echo("the configuration has changed since; bring the service up to date: memoryd service install")
    ctx.exit(exits.DONE if state.active else exits.FINDINGS)


@click.command("show", params=[_SCOPE, _HARDENED, _SOCKET, _RUN_AS, json_option()],
               epilog=example("memoryd service show --hardened"))  # fmt: skip
@click.pass_context
def _show(
    ctx: click.Context, *, system: bool, hardened: bool, with_socket: bool, run_as: str | None, as_json: bool
) -> None:
    """Print the files that `install` would write."""
    target = _target(ctx, system=system, run_as=run_as)
    service = target.service(hardened=hardened, with_socket=with_socket)
    _show_files(target.manager, service, as_json=as_json, with_commands=False)


def _show_files(manager: Manager, service: Service, *, as_json: bool, with_commands: bool) -> None:
    files = manager.files(service)
    commands = [" ".join(words) for words in manager.commands(service)] if with_commands else []
    if as_json:
        print_json({"files": files, "commands": commands, "service": asdict(service)})
        return
    for path, text in files.items():
        click.echo(printable(f"# --- {path}"))
        click.echo(printable(text, keep="\n"))
    for command in commands:
        click.echo(printable(f"# would run: {command}"))


service = click.Group(
    "service",
    commands={command.name or "": command for command in (_install, _uninstall, _status, _show)},
    help="Run memoryd as a service of this machine: install, uninstall, status, show.",
    short_help="Commands: install, uninstall, status, show.",
    epilog=example("memoryd service install", "memoryd service status"),
)
