"""Commands that are no method of the control socket: run, demo, init, events, mcp, completion, version."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memoryd import __version__
from memoryd.cli import exits
from memoryd.cli.commands import complete_roots, example, json_option, socket_of
from memoryd.control.methods import LAYOUTS, LEVELS, TOPICS
from memoryd.errors import ConflictError, MemorydError, NoDaemonError

if TYPE_CHECKING:
    from memoryd.config.detect import Detected

STOP_WAIT_S = 10.0


@click.command(epilog=example("memoryd run ~/.claude/agents/memories --layout jsonl-store"))
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--layout", type=click.Choice(LAYOUTS), help="The layout of the PATHs (default: detected).")
@click.option("--log-format", type=click.Choice(("auto", "console", "json")), default="auto", show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), help="Overrides the configuration.")
@click.pass_context
def run(ctx: click.Context, paths: tuple[str, ...], layout: str | None, log_format: str, log_level: str | None) -> None:
    """Run the daemon in the foreground.

    PATHs are tended beside the roots of the configuration.
    """
    from memoryd.config.places import find_places  # noqa: PLC0415 - the daemon's imports are its own
    from memoryd.service import daemon  # noqa: PLC0415 - only when needed

    places = find_places(**ctx.find_root().obj)
    absolute = tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)
    try:
        code = daemon.run(places, paths=absolute, layout=layout, log_format=log_format, log_level=log_level)
    except MemorydError as error:
        if not exits.stays_down(error, os.environ):
            raise
        exits.tell(error, as_json=False)
        code = exits.DONE
    ctx.exit(code)


@click.command(epilog=example("memoryd demo --keep"))
@click.option("--keep", is_flag=True, help="Leave the directory there, to look at.")
@click.pass_context
def demo(ctx: click.Context, keep: bool) -> None:
    """See what memoryd does, on a throw-away directory.

    Damaged memories, writing agents and a dead lock; nothing outside the directory is touched.
    """
    from memoryd.cli import demo as show  # noqa: PLC0415 - brings the whole daemon with it

    ctx.exit(show.run(keep=keep))


@click.command(epilog=example("memoryd init", "memoryd --config ./memoryd.toml init"))
@click.option("--dry-run", is_flag=True, help="Print what would be written.")
@click.pass_context
def init(ctx: click.Context, dry_run: bool) -> None:
    """Write a commented configuration with the memory directories found here.

    An existing file is never overwritten.
    """
    from memoryd.config.detect import detect  # noqa: PLC0415 - `init` alone needs them
    from memoryd.config.edit import write_config  # noqa: PLC0415 - only when needed
    from memoryd.config.places import find_places  # noqa: PLC0415 - only when needed
    from memoryd.config.template import template  # noqa: PLC0415 - only when needed

    target = find_places(**ctx.find_root().obj, must_exist=False).config_target
    if os.path.lexists(target) and not dry_run:
        raise ConflictError(
            f"{target} exists already; it is left as it is", hint="edit it, or name another with --config"
        )
    found = detect(os.path.expanduser("~"), _look, os.getcwd())
    stores = [place for place in found if place.layout is not None]
    text = template(stores, mode=None if dry_run else _mode_of(stores))
    if dry_run:
        click.echo(text, nl=False)
        return
    write_config(target, text)
    click.echo(f"wrote {target}")
    for place in stores:
        click.echo(f"  found {place.path} ({place.layout}: {place.why})")
    for place in found:
        if place.layout is None:
            click.echo(f"  saw {place.path}: {place.why}; memoryd has no layout for it yet and leaves it alone")
    if not stores:
        click.echo("  no memory directory was found in the usual places; add yours to the file")
    click.echo("next: memoryd run")


def _mode_of(stores: Sequence[Detected]) -> str | None:
    """On a terminal it is asked whether memoryd may write in what was found; else whoever reads the file decides."""
    if not stores or not sys.stdin.isatty():
        return None
    for place in stores:
        click.echo(f"{place.path} looks like {place.layout}: {place.why}")
    may_write = click.confirm("May memoryd keep indices and do upkeep there? (else it only observes)", default=True)
    return None if may_write else "observe"


def _look(path: str) -> tuple[str | None, str] | None:
    """The one layout whose shape the directory has and what shows it; else None and whose store it is."""
    from memoryd.disk.tree import Tree  # noqa: PLC0415 - `init` alone looks at files
    from memoryd.operations.recognition import look_at  # noqa: PLC0415 - only when needed

    try:
        with Tree(path) as tree:
            seen = look_at(tree)
    except OSError as error:
        click.echo(f"skipped {path}: {error.strerror}", err=True)
        return None
    if seen.layout is not None:
        return seen.layout, seen.shapes[seen.layout]
    return (None, seen.known) if seen.known is not None else None


@click.command(params=[json_option()], epilog=example("memoryd events --topic change --json"))
@click.option("--topic", "topics", multiple=True, type=click.Choice(TOPICS), help="Only this topic; repeatable.")
@click.pass_context
def events(ctx: click.Context, topics: tuple[str, ...], as_json: bool) -> None:
    """Follow what happens, one line each, until interrupted."""
    import json  # noqa: PLC0415 - see commands.py: nothing before it is needed

    from memoryd.cli.render import event_line  # noqa: PLC0415 - only when needed
    from memoryd.control.client import Client  # noqa: PLC0415 - only when needed

    with Client(socket_of(ctx)) as client:
        try:
            for event in client.events(topics):
                sys.stdout.write((json.dumps(event) if as_json else event_line(event)) + "\n")
                sys.stdout.flush()
        except KeyboardInterrupt:
            return
    raise NoDaemonError("the daemon has ended", hint="start it again with `memoryd run`")


@click.command(epilog=example("memoryd mcp", "memoryd mcp --root agents --read-only"))
@click.option(
    "--root", "roots", multiple=True, metavar="ROOT", shell_complete=complete_roots, help="Only this root; repeatable."
)
@click.option("--read-only", is_flag=True, help="Offer nothing that writes.")
@click.pass_context
def mcp(ctx: click.Context, roots: tuple[str, ...], read_only: bool) -> None:
    """Serve the memories to an agent by the Model Context Protocol.

    The agent starts it and talks to it on standard input and output. It needs a running daemon for its answers, not
    for its start. Install it with: pip install 'memoryd[mcp]'
    """
    socket_of(ctx)  # a wrong --config is told now, not to an agent
    if sys.stdin.isatty():
        click.echo(
            "memoryd: waiting for an agent on standard input; the README says how to make one start it", err=True
        )
    from memoryd.mcp.loading import load  # noqa: PLC0415 - only when needed

    load().serve(lambda: socket_of(ctx), roots, read_only=read_only)


@click.command(epilog=example('eval "$(memoryd completion bash)"', "memoryd completion fish | source"))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - rarely asked for

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "memoryd", "_MEMORYD_COMPLETE").source())


@click.command(params=[json_option()], epilog=example("memoryd version"))
def version(as_json: bool) -> None:
    """Print the version of this program."""
    if as_json:
        from memoryd.cli.render import as_json as print_json  # noqa: PLC0415 - only for --json

        print_json({"version": __version__, "python": ".".join(map(str, sys.version_info[:3]))})
    else:
        click.echo(f"memoryd {__version__}")


def wait_gone(path: str, pid: Any) -> None:
    """After `stop`: return when the process has ended. The socket is asked only where no process is known:
    on a socket that a service manager holds, asking would start the daemon again."""
    end = time.monotonic() + STOP_WAIT_S
    while time.monotonic() < end:
        if not (_runs(pid) if _is_other_process(pid) else _answers(path)):
            return
        time.sleep(0.02)
    raise MemorydError(
        f"the daemon (pid {pid}) is still stopping after {STOP_WAIT_S:.0f} s",
        hint="see its log; a second signal ends it",
    )


def _is_other_process(pid: Any) -> bool:
    return isinstance(pid, int) and pid > 0 and pid != os.getpid()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Ended, but not yet waited for by its parent. False where the system has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False


def _answers(path: str) -> bool:
    from memoryd.control.client import Client  # noqa: PLC0415 - loaded already by the caller

    try:
        with Client(path, timeout=1) as client:
            client.call("ping")
    except MemorydError:
        return False
    return True


COMMANDS: dict[str, click.Command] = {
    command.name or "": command for command in (run, demo, init, events, mcp, completion, version)
}
