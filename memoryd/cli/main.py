"""The `memoryd` program. Building a command imports only the method table and click."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from memoryd import __version__
from memoryd.cli import exits
from memoryd.cli.commands import group_command, method_command
from memoryd.cli.options import example
from memoryd.control.methods import METHODS, by_command, groups
from memoryd.errors import MemorydError, UsageError

# Commands are listed in the order of use.
_LOCAL_FIRST = ("run", "demo", "init")
_LOCAL_LAST = ("events", "mcp", "completion", "help", "version")


class Commands(click.Group):
    """A group that builds its commands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of `--help`."""
        words = [method.command[0] for method in METHODS if method.command]
        return [*_LOCAL_FIRST, *dict.fromkeys(words), *_LOCAL_LAST]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Build the command or group with this name; None if there is none."""
        if name in _LOCAL_FIRST or name in _LOCAL_LAST:
            from memoryd.cli.local import COMMANDS  # noqa: PLC0415 - only when needed

            return COMMANDS[name]
        if name in groups():
            return group_command(name)
        method = by_command((name,))
        return method_command(method) if method else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run. Raises UsageError with the nearest name for an unknown one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from memoryd.control.parameters import nearest  # noqa: PLC0415 - loads difflib

            hint = nearest(args[0], dict.fromkeys(self.list_commands(ctx)))
            raise UsageError(f"there is no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    epilog=example("memoryd demo", "memoryd run ~/.claude/agents/memories", "memoryd status"),
)
@click.option("--config", metavar="FILE", help="The configuration file.")
@click.option("--state-dir", metavar="DIR", help="Where the daemon keeps its journal, backups and catalogue.")
@click.option("--socket", metavar="PATH", help="The control socket.")
@click.version_option(__version__, message="memoryd %(version)s")
@click.pass_context
def cli(ctx: click.Context, config: str | None, state_dir: str | None, socket: str | None) -> None:
    """Look after the directories where AI agents keep their memories as plain files."""
    ctx.obj = {"config": config, "state_dir": state_dir, "socket": socket}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Every error is reported here, as a message and a hint."""
    as_json = "--json" in argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(list(argv), prog_name="memoryd", standalone_mode=False)
        sys.stdout.flush()
    except MemorydError as error:
        return exits.report_error(error, as_json=as_json)
    except click.ClickException as error:
        return _usage(error, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return exits.FINDINGS
    except Exception as error:  # noqa: BLE001 - a bug of ours gets a message, not a traceback
        return exits.report_error(_internal(error), as_json=as_json)
    return code if isinstance(code, int) else exits.DONE


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    if not isinstance(error, click.UsageError):
        return exits.report_error(UsageError(error.format_message()), as_json=as_json)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return exits.USAGE
    command = error.ctx.command_path if error.ctx else "memoryd"
    return exits.report_error(UsageError(error.format_message(), hint=f"see `{command} --help`"), as_json=as_json)


def _internal(error: Exception) -> MemorydError:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at else "unknown place"
    return MemorydError(f"internal error: {type(error).__name__}: {error}", hint=f"please report it, with {place}")


def _close_stdout() -> None:
    """Redirect standard output after its reader has gone, so that the interpreter reports no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
