"""`memoryd setup`: memoryd in the configuration of an agent."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from memoryd.cli import exits
from memoryd.cli.options import absolute_path, example, json_option
from memoryd.cli.screen import print_json, printable
from memoryd.config.places import find_places
from memoryd.errors import NotFoundError
from memoryd.installer.agents import AGENTS

if TYPE_CHECKING:
    from memoryd.installer.agent_setup import Change
    from memoryd.installer.agents import Agent

_STATES = {
    "added": "added the {} to {}",
    "replaced": "replaced the {} in {}",
    "removed": "removed the {} from {}",
    "present": "the {} is already in {}",
    "absent": "the {} is not in {} any more",
    "kept": "left the {} in {} unchanged: it is not what setup wrote; remove it there if you do not need it",
}


@click.command(
    "setup",
    params=[json_option()],
    help=f"""Add memoryd to the configuration of an agent.

    Writes the MCP entry and, where the agent has session hooks, a hook that gives a new session memories of its
    project; everything else in the files stays byte-identical. What was added is recorded, and --undo removes just
    that. Exits with 1 if an entry is not as setup wrote it; it stays.

    AGENT is one of {", ".join(AGENTS)}.""",
    short_help="Add memoryd to the configuration of an agent.",
    epilog=example("memoryd setup claude-code --dry-run", "memoryd setup claude-code --undo"),
)
@click.argument("name", type=click.Choice(tuple(AGENTS)), metavar="AGENT")
@click.option("--dry-run", is_flag=True, help="Print the changes; write nothing.")
@click.option("--undo", is_flag=True, help="Remove what setup added.")
@click.pass_context
def setup(ctx: click.Context, name: str, dry_run: bool, undo: bool, as_json: bool) -> None:
    """Add memoryd to an agent, or remove it."""
    from memoryd.installer import agent_setup  # noqa: PLC0415 - only when needed
    from memoryd.installer.requirements import start_command  # noqa: PLC0415 - only when needed

    agent, given = AGENTS[name], ctx.find_root().obj
    record_file = agent_setup.record_path(find_places(**given).state_dir, agent)
    record = agent_setup.read_record(record_file)
    if undo and not record:
        hint = f"what it adds is recorded in {record_file}"
        raise NotFoundError(f"setup has not added memoryd to {agent.title}", hint=hint)
    named = [(f"--{option.replace('_', '-')}", absolute_path(value)) for option, value in given.items() if value]
    command = [*start_command(), *(word for option in named for word in option)]
    change = agent_setup.plan_undo(record) if undo else agent_setup.plan_setup(agent, command, record, os.environ)
    if not dry_run:
        agent_setup.carry_out(change, record_file)
    if as_json:
        steps = [asdict(step) for step in change.steps]
        difference = {"difference": change.difference()} if dry_run else {}
        print_json({"agent": name, "dry_run": dry_run, "entries": steps, **difference})
    else:
        _report(change, agent, dry_run=dry_run)
    ctx.exit(exits.FINDINGS if any(step.state == "kept" for step in change.steps) else exits.DONE)


def _report(change: Change, agent: Agent, *, dry_run: bool) -> None:
    if dry_run:
        click.echo(printable(change.difference(), keep="\n\t"), nl=False)
    for step in change.steps:
        if not dry_run or step.state not in ("added", "replaced", "removed"):
            click.echo(printable(_STATES[step.state].format(step.what, step.path)))
    if dry_run:
        click.echo("nothing was written")
    elif change.changed:
        click.echo(f"next: restart {agent.title}")
    if any(step.state in ("added", "present") for step in change.steps) and importlib.util.find_spec("mcp") is None:
        click.echo(f"`memoryd mcp` needs a package: {exits.command_for('mcp')}")
