"""The command line with click: groups, commands and their help, each built on demand from the method table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from memoryd import __version__
from memoryd.cli import exits
from memoryd.cli.calls import require_valid_configuration
from memoryd.cli.commands import group_command, method_command
from memoryd.cli.options import example
from memoryd.control.methods import METHODS, by_command, groups
from memoryd.errors import NoDaemonError, UsageError, nearest

# Commands are listed in the order of use.
_LOCAL_FIRST = ("run", "demo", "try", "init", "service")
_LOCAL_LAST = ("top", "events", "report", "convert", "mcp", "setup", "hook", "completion", "help", "version")

# Commands that end the daemon, or move, merge or remove memories: nobody should run one by mistake.
_NEVER_SUGGESTED = ("stop", "archive", "forget", "repair", "dedupe", "undo", "restore")

# What people type who know other programs.
_OTHER_WORDS = {
    "start": "run",
    "install": "service install",
    "find": "search",
    "show": "get",
    "ls": "list",
    "log": "history",
    "logs": "events",
    "watch": "top",
    "htop": "top",
}


class Commands(click.Group):
    """A group that builds its commands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of `--help`."""
        words = [method.command[0] for method in METHODS if method.command]
        return [*_LOCAL_FIRST, *dict.fromkeys(words), *_LOCAL_LAST]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Build the command or group with this name; None if there is none."""
        if name == "service":
            from memoryd.cli.service_command import service  # noqa: PLC0415 - only when needed

            return service
        if name == "setup":
            from memoryd.cli.setup_command import setup  # noqa: PLC0415 - only when needed

            return setup
        if name == "hook":
            from memoryd.cli.session_hook import hook  # noqa: PLC0415 - only when needed

            return hook
        if name in _LOCAL_FIRST or name in _LOCAL_LAST:
            from memoryd.cli.local_commands import COMMANDS  # noqa: PLC0415 - only when needed

            return COMMANDS[name]
        if name in groups():
            return group_command(name)
        method = by_command((name,))
        return method_command(method) if method else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises ConfigError where no daemon answers because of an invalid configuration."""
        try:
            return super().invoke(ctx)
        except NoDaemonError:
            require_valid_configuration(**ctx.obj)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run. Raises UsageError with the nearest name for an unknown one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            names = [name for name in self.list_commands(ctx) if name not in _NEVER_SUGGESTED]
            near = _OTHER_WORDS.get(args[0]) or nearest(args[0], names)
            hint = f"did you mean {near!r}?" if near else "`memoryd --help` lists the commands"
            raise UsageError(f"there is no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    epilog=example("memoryd demo", "memoryd run ~/.claude/agents/memories", "memoryd status"),
)
@click.option("--config", metavar="FILE", help="The configuration file.")
@click.option("--state-dir", metavar="DIR", help="Where the daemon keeps its journal, backups and search index.")
@click.option("--socket", metavar="PATH", help="The control socket.")
@click.version_option(__version__, message="memoryd %(version)s")
@click.pass_context
def cli(ctx: click.Context, config: str | None, state_dir: str | None, socket: str | None) -> None:
    """Look after the directories where AI agents keep their memories as plain files."""
    ctx.obj = {"config": config, "state_dir": state_dir, "socket": socket}


def run_program(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Raises MemorydError kinds: UsageError for errors of click."""
    try:
        code = cli.main(list(argv), prog_name="memoryd", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return exits.USAGE
    except click.ClickException as error:
        raise _usage_error(error) from error
    except click.Abort:
        return exits.INTERRUPTED
    return code if isinstance(code, int) else exits.DONE


def _usage_error(error: click.ClickException) -> UsageError:
    """Return what is reported for an error of click."""
    if not isinstance(error, click.UsageError):
        return UsageError(error.format_message())
    if isinstance(error, click.NoSuchOption) and error.option_name == "--json" and error.ctx and not error.ctx.parent:
        return UsageError("--json belongs after the command", hint="for example `memoryd status --json`")
    message = error.format_message().replace("\n\t", " ")  # click lists the choices of a missing argument on lines
    return UsageError(message, hint=f"see `{error.ctx.command_path if error.ctx else 'memoryd'} --help`")
