"""`memoryd service`: the daemon as a service of this machine, by systemd or launchd."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace

import click

from memoryd.cli import exits
from memoryd.cli.options import example, json_option
from memoryd.cli.screen import make_screen, print_json, printable
from memoryd.config.places import Places, find_places
from memoryd.errors import DeniedError, UsageError
from memoryd.installer import installation
from memoryd.installer.installation import Account, Manager
from memoryd.installer.launchd import Launchd
from memoryd.installer.managers import ServiceError, Systemd, run_command
from memoryd.installer.requirements import clean_environment, collect, start_command
from memoryd.installer.systemd import Service

_SCOPE = click.Option(["--system"], is_flag=True, help="A service of the machine, which runs as one user (needs root).")
_HARDENED = click.Option(["--hardened"], is_flag=True, help="Read-only access outside the roots; always with --system.")
_SOCKET = click.Option(["--socket", "with_socket"], is_flag=True, help="Commands wait during a restart (systemd).")
_RUN_AS = click.Option(["--run-as"], metavar="USER", help="With --system: the user (default: who called sudo).")
_DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Print files and commands, change nothing.")


class _Target:
    """The manager and the account that the options name."""

    def __init__(self, ctx: click.Context, *, system: bool, run_as: str | None) -> None:
        import pwd  # noqa: PLC0415 - only when needed

        if system and sys.platform == "darwin":
            raise UsageError("--system is for systemd only", hint="leave it out: launchd runs memoryd for this user")
        given = ctx.find_root().obj
        name = run_as or (os.environ.get("SUDO_USER") if system and os.geteuid() == 0 else None)
        own = pwd.getpwuid(os.geteuid())
        try:
            account = pwd.getpwnam(name) if name else own
        except KeyError as error:
            raise UsageError(f"there is no user {name!r}", hint="name an existing one with --run-as") from error
        self.is_other = account.pw_uid != own.pw_uid
        if self.is_other and os.geteuid() != 0:
            raise DeniedError(f"only root can install a service for {account.pw_name}", hint="use sudo")
        self.system = system
        self.named_socket = bool(given.get("socket") or os.environ.get("MEMORYD_SOCKET"))
        self.home = account.pw_dir if self.is_other else os.path.expanduser("~")
        if self.is_other:
            env = clean_environment(self.home)
            dirs = os.path.join(self.home, ".config", "memoryd"), os.path.join(self.home, ".local", "state", "memoryd")
            self.places: Places = find_places(**given, env=env, dirs=lambda: dirs)
        else:
            self.places = find_places(**given)
        self.account = Account(account.pw_name, self.home, self.places.state_dir)
        if sys.platform == "darwin":
            self.manager: Manager = Launchd(run_command, home=self.home, uid=account.pw_uid)
        else:
            config_home = os.environ.get("XDG_CONFIG_HOME", "") or os.path.join(self.home, ".config")
            self.manager = Systemd(run_command, system=system, config_home=config_home, user=account.pw_name)

    def require_root(self) -> None:
        """Raise DeniedError if the files of the machine cannot be written by this user."""
        if self.system and os.geteuid() != 0:
            raise DeniedError("a system service is installed by root", hint="use sudo, or leave out --system")

    def service(self, *, hardened: bool, with_socket: bool) -> Service:
        """Read the configuration, as the user whose it is, and return the values of the service."""
        program = start_command()
        if self.is_other:
            found = self._collect_as_user(program)
        else:
            found = collect(self.places, program, home=self.home, named_socket=self.named_socket)
        user = self.account.name if self.system else ""
        return replace(found, user=user, hardened=hardened or self.system, with_socket=with_socket)

    def _collect_as_user(self, program: tuple[str, ...]) -> Service:
        """Let a process of the other user read its configuration, with the rights and the home of that user."""
        import json  # noqa: PLC0415 - only when needed

        given = [
            word
            for option, value in (("--config", self.places.config_target), ("--state-dir", self.places.state_dir))
            for word in (option, value)
        ]
        words = [*program, *given, *(["--socket", self.places.socket] if self.named_socket else ())]
        done = run_command(
            [*words, "service", "show", "--json"], user=self.account.name, env=clean_environment(self.home)
        )
        if done.code:
            raise ServiceError(
                f"{self.account.name} cannot read the configuration or run {program[0]}: {done.output}",
                hint="install memoryd where this user can run it, or name another user with --run-as",
            )
        values = json.loads(done.output)["service"]
        return Service(**{**values, "command": tuple(values["command"]), "writable": tuple(values["writable"])})


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
    target = _Target(ctx, system=system, run_as=run_as)
    service = target.service(hardened=hardened, with_socket=with_socket)
    if dry_run:
        _show_files(target.manager, service, as_json=as_json, with_commands=True)
        return
    target.require_root()
    done = installation.install(target.manager, service, target.account, run_command)
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
    target = _Target(ctx, system=system, run_as=run_as)
    if dry_run:
        removed = tuple(path for path in target.manager.owned() if os.path.exists(path))
    else:
        target.require_root()
        removed = installation.uninstall(target.manager)
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
    target = _Target(ctx, system=system, run_as=run_as)
    state = target.manager.state()
    hardened, with_socket = installation.installed_options(target.manager)
    service = target.service(hardened=hardened, with_socket=with_socket)
    current = installation.is_current(target.manager, service)
    installed = any(os.path.exists(path) for path in target.manager.owned())
    result = {
        "manager": target.manager.name, "installed": installed, "current": current, "active": state.active,
        "state": state.text, "pid": state.pid or None, "enabled": state.enabled, "restarts": state.restarts,
        "hardened": hardened, "socket": with_socket, "log": target.manager.log,
    }  # fmt: skip
    if as_json:
        print_json(result)
    else:
        rows = [(name, "yes" if value is True else "no" if value is False else value) for name, value in result.items()]
        make_screen(sys.stdout).fields(rows, indent=0)
        if installed and not current:
            click.echo("the configuration has changed since; bring the service up to date: memoryd service install")
    ctx.exit(exits.DONE if state.active else exits.FINDINGS)


@click.command("show", params=[_SCOPE, _HARDENED, _SOCKET, _RUN_AS, json_option()],
               epilog=example("memoryd service show --hardened"))  # fmt: skip
@click.pass_context
def _show(
    ctx: click.Context, *, system: bool, hardened: bool, with_socket: bool, run_as: str | None, as_json: bool
) -> None:
    """Print the files that `install` would write."""
    target = _Target(ctx, system=system, run_as=run_as)
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
