"""Commands that are not methods of the control socket, such as run, top, report and mcp."""

from __future__ import annotations

import os
import sys

import click

from memoryd import __version__
from memoryd.cli import exits
from memoryd.cli.convert_command import convert
from memoryd.cli.first_contact import init, try_command
from memoryd.cli.options import (
    LOCAL_PATH,
    absolute_path,
    complete_roots,
    example,
    json_option,
    layout_option,
    socket_of,
)
from memoryd.cli.screen import print_json
from memoryd.control.methods.method_types import LEVELS, TOPICS
from memoryd.errors import MemorydError, NoDaemonError, UnknownRootError

ROOTS_WAIT_S = 1.0  # for the names of the roots before an agent is served


@click.command(epilog=example("memoryd run ~/.claude/agents/memories --layout jsonl-store"))
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=LOCAL_PATH)
@layout_option
@click.option("--observe", is_flag=True, help="Watch, index for search and report; write nothing in a root unattended.")
@click.option("--log-format", type=click.Choice(("auto", "console", "json")), default="auto", show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), help="Overrides the configuration.")
@click.pass_context
def run(
    ctx: click.Context,
    paths: tuple[str, ...],
    layout: str | None,
    observe: bool,
    log_format: str,
    log_level: str | None,
) -> None:
    """Run the daemon in the foreground.

    PATHs are added to the roots of the configuration. With --observe only your own commands, such as `add`, write.
    """
    from memoryd.config.places import find_places  # noqa: PLC0415 - only when needed
    from memoryd.operations.recognition import existing_directory  # noqa: PLC0415 - only when needed
    from memoryd.service import start  # noqa: PLC0415 - only when needed

    places = find_places(**ctx.find_root().obj)
    absolute = tuple(map(absolute_path, paths))
    for path in absolute if layout is None else ():
        existing_directory(path, "check the spelling, or give --layout for a directory that will be created later")
    try:
        code = start.run(
            places, paths=absolute, layout=layout, log_format=log_format, log_level=log_level, observe=observe
        )
    except MemorydError as error:
        if not exits.is_final_for_launchd(error, os.environ):
            raise
        exits.report_error(error, as_json=False)
        code = exits.DONE
    ctx.exit(code)


@click.command(epilog=example("memoryd demo --keep"))
@click.option("--keep", is_flag=True, help="Keep the directory afterwards.")
@click.pass_context
def demo(ctx: click.Context, keep: bool) -> None:
    """See what memoryd does, in a temporary directory.

    Damaged memories, agents that write, and a stale lock; nothing outside the directory is touched.
    """
    from memoryd.cli import demo as show  # noqa: PLC0415 - imports the whole daemon

    ctx.exit(show.run(keep=keep))


@click.command(
    params=[json_option("Print each event as one line of JSON.")],
    epilog=example("memoryd events --topic change --json"),
)
@click.option("--topic", "topics", multiple=True, type=click.Choice(TOPICS), help="Only this topic; repeatable.")
@click.pass_context
def events(ctx: click.Context, topics: tuple[str, ...], as_json: bool) -> None:
    """Print events as they happen, one per line, until interrupted."""
    import json  # noqa: PLC0415 - only when needed

    from memoryd.cli.views import event_line  # noqa: PLC0415 - only when needed
    from memoryd.control.client import Client  # noqa: PLC0415 - only when needed

    with Client(socket_of(ctx)) as client:
        try:
            for event in client.events(topics):
                sys.stdout.write((json.dumps(event) if as_json else event_line(event)) + "\n")
                sys.stdout.flush()
        except KeyboardInterrupt:
            return
    raise NoDaemonError("the daemon has stopped", hint="start it again with `memoryd run`")


@click.command(epilog=example("memoryd top"))
@click.pass_context
def top(ctx: click.Context) -> None:
    """Watch the daemon on a live screen; q or Ctrl-C ends it.

    The roots with their state, memories, lag, limits, locks and findings, the next jobs and the latest events. It needs
    a terminal and a daemon; if the daemon stops, it waits for the next one.
    """
    from memoryd.cli.top import run as show  # noqa: PLC0415 - loads rich

    show(socket_of(ctx))


@click.command(epilog=example("memoryd report --html report.html", "memoryd report agents --html - > agents.html"))
@click.argument("root", required=False, metavar="[ROOT]", shell_complete=complete_roots)
@click.option(
    "--html", "file", required=True, metavar="FILE", type=LOCAL_PATH, help="Where the page is written; - prints it."
)
@click.pass_context
def report(ctx: click.Context, root: str | None, file: str) -> None:
    """Write a page on growth, limits, upkeep and findings.

    One HTML file without scripts and without anything to load from elsewhere, made from what `status`, `check`, `plan`,
    `history`, `backup list` and `list` say. An existing FILE is replaced as a whole; a FILE in a root is refused. The
    page has the titles of the newest memories: a new FILE can be read by you alone. Exits with 1 if a part is missing.
    """
    from memoryd.cli.report import run as write  # noqa: PLC0415 - only when needed

    ctx.exit(write(socket_of(ctx), root, file))


@click.command(epilog=example("memoryd mcp", "memoryd mcp --root agents --read-only"))
@click.option(
    "--root", "roots", multiple=True, metavar="ROOT", shell_complete=complete_roots, help="Only this root; repeatable."
)
@click.option("--read-only", is_flag=True, help="Offer no tool that writes.")
@click.pass_context
def mcp(ctx: click.Context, roots: tuple[str, ...], read_only: bool) -> None:
    """Serve the memories to an agent over MCP.

    The agent starts this command and speaks the Model Context Protocol on its standard input and output. The command
    starts without a daemon but needs one to answer. If the package `mcp` is missing, it prints how to install it. A
    ROOT that the daemon does not have is reported on standard error; if it has none of them, the command fails.
    """
    path = socket_of(ctx)  # so that a wrong --config is reported here, not to the agent
    if roots:
        _require_known_roots(path, roots)
    if sys.stdin.isatty():
        click.echo(
            "memoryd: waiting for an agent on standard input; `memoryd help agents` explains how an agent starts it",
            err=True,
        )
    from memoryd.mcp.loading import load  # noqa: PLC0415 - only when needed

    load().serve(lambda: socket_of(ctx), roots, read_only=read_only)


def _require_known_roots(path: str, roots: tuple[str, ...]) -> None:
    """Report the roots that the daemon does not have. Raises UnknownRootError if it has none of them: an agent would
    see a server without any memory."""
    from memoryd.control.client import Client  # noqa: PLC0415 - only when needed

    try:
        with Client(path, timeout=ROOTS_WAIT_S) as client:
            known = {root["name"] for root in client.call("root.list").get("roots", [])}
    except MemorydError:
        return  # no daemon yet, or a stuck one: each call reports it
    hint = f"the roots are: {', '.join(sorted(known))}"
    errors = [UnknownRootError(f"there is no root {root!r}", hint=hint) for root in roots if root not in known]
    if errors and known.isdisjoint(roots):
        raise errors[0]
    for error in errors:
        exits.report_error(error, as_json=False)


@click.command(epilog=example('eval "$(memoryd completion bash)"', "memoryd completion fish | source"))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - rarely needed

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(ctx.find_root().command, {}, "memoryd", "_MEMORYD_COMPLETE").source())


@click.command(params=[json_option()], epilog=example("memoryd version"))
def version(as_json: bool) -> None:
    """Print the version of this program."""
    if as_json:
        print_json({"version": __version__, "python": ".".join(map(str, sys.version_info[:3]))})
    else:
        click.echo(f"memoryd {__version__}")


@click.command("help", epilog=example("memoryd help", "memoryd help findings", "memoryd help add"))
@click.argument("topic", required=False, metavar="[TOPIC|COMMAND]")
@click.option("--man", is_flag=True, help="Print the whole reference as a man page.")
@click.pass_context
def help_command(ctx: click.Context, topic: str | None, man: bool) -> None:
    """Read the reference: a topic, or the help of a command."""
    from memoryd.cli import help as pages  # noqa: PLC0415 - loads every table of the program

    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    if man:
        click.echo(pages.man_page(root), nl=False)
    elif topic is None:
        click.echo(pages.overview(), nl=False)
    else:
        pages.show(pages.topic_text(topic, ctx, root))


COMMANDS: dict[str, click.Command] = {
    command.name or "": command
    for command in (run, demo, try_command, init, top, events, report, convert, mcp, completion, help_command, version)
}
