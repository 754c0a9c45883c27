"""The service manager, account and configuration that the options of `memoryd service` name."""

from __future__ import annotations

import os
import sys

import click
from msgspec import convert
from msgspec.structs import replace

from memoryd.config.places import Places, find_places
from memoryd.errors import DeniedError, UsageError
from memoryd.installer.installation import Account, Manager
from memoryd.installer.launchd import Launchd
from memoryd.installer.managers import ServiceError, Systemd, find_config_home, run_command
from memoryd.installer.requirements import clean_environment, collect, start_command, usual_dirs
from memoryd.installer.systemd import Service


class Target:
    """The manager and the account that the options name."""

    def __init__(self, ctx: click.Context, *, system: bool, run_as: str | None) -> None:
        import pwd  # noqa: PLC0415 - only when needed

        if system and sys.platform == "darwin":
            raise UsageError("--system is for systemd only", hint="leave it out: launchd runs memoryd for this user")
        given = ctx.find_root().obj
        name = run_as or (os.environ.get("SUDO_USER") if system and os.geteuid() == 0 else None)
        try:
            own = pwd.getpwuid(os.geteuid())
        except KeyError as error:  # as in a container, where no service manager runs either
            message = f"the system knows no user {os.geteuid()}"
            raise UsageError(message, hint="`memoryd run` serves without a service manager") from error
        try:
            account = pwd.getpwnam(name) if name else own
        except KeyError as error:
            raise UsageError(f"there is no user {name!r}", hint="name an existing one with --run-as") from error
        self.is_other = account.pw_uid != own.pw_uid
        if self.is_other and os.geteuid() != 0:
            raise DeniedError(f"only root can install a service for {account.pw_name}", hint="use sudo")
        self.system = system
        self.named_socket = bool(given.get("socket") or os.environ.get("MEMORYD_SOCKET"))
        home = account.pw_dir if self.is_other else os.path.expanduser("~")
        if self.is_other:
            env = clean_environment(home)
            self.places: Places = find_places(**given, env=env, dirs=lambda: usual_dirs(home))
        else:
            self.places = find_places(**given)
        self.account = Account(account.pw_name, home, self.places.state_dir)
        if sys.platform == "darwin":
            self.manager: Manager = Launchd(run_command, home=home, uid=account.pw_uid)
        else:
            config_home = find_config_home(run_command, os.environ, home)
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
            found = collect(self.places, program, home=self.account.home, named_socket=self.named_socket)
        user = self.account.name if self.system else ""
        return replace(found, user=user, hardened=hardened or self.system, with_socket=with_socket)

    def _collect_as_user(self, program: tuple[str, ...]) -> Service:
        """Let a process of the other user read its configuration, with the rights and the home of that user."""
        import json  # noqa: PLC0415 - only when needed

        given = ["--config", self.places.config_target, "--state-dir", self.places.state_dir]
        words = [*program, *given, *(["--socket", self.places.socket] if self.named_socket else ())]
        done = run_command(
            [*words, "service", "show", "--json"], user=self.account.name, env=clean_environment(self.account.home)
        )
        if done.code:
            raise ServiceError(
                f"{self.account.name} cannot read the configuration or run {program[0]}: {done.output}",
                hint="install memoryd where this user can run it, or name another user with --run-as",
            )
        return convert(json.loads(done.output)["service"], Service)
