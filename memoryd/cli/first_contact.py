"""The first commands a person runs: `try`, which looks and writes nothing, and `init`, which writes a configuration."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from memoryd.cli import exits
from memoryd.cli.options import example, json_option
from memoryd.cli.screen import Screen, make_screen, print_json
from memoryd.control.methods import LAYOUTS

SHOWN = 12  # findings and actions of each directory; --json has them all


@click.command(
    "try",
    params=[json_option()],
    epilog=example("memoryd try ~/.claude/agents/memories", "memoryd try ~/src/app/memory --json"),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    metavar="LAYOUT",
    help=f"The layout of the PATHs (default: detected): {', '.join(LAYOUTS)}.",
)
@click.pass_context
def try_command(ctx: click.Context, paths: tuple[str, ...], layout: str | None, as_json: bool) -> None:
    """See what memoryd would do with a directory, without a write.

    Prints the layout and why, what is wrong, and what upkeep would change. Needs no daemon and no configuration;
    nothing is written in PATH. Exits with 1 if a PATH cannot be used.
    """
    from msgspec import to_builtins  # noqa: PLC0415 - only when needed

    from memoryd.core.secrets import redact_values  # noqa: PLC0415 - compiles many patterns
    from memoryd.engine.preview import preview  # noqa: PLC0415 - loads all the parsers

    chosen, now = None if layout == "auto" else layout, time.time()
    found = [redact_values(to_builtins(preview(path, now, chosen))) for path in paths]
    if as_json:
        print_json({"directories": found})
    else:
        screen = make_screen(sys.stdout)
        for each in found:
            _show_preview(screen, each)
        usable = [each["path"] for each in found if each["layout"] is not None]
        screen.line("nothing was written")
        if usable:
            screen.line("next: `memoryd init` writes a configuration")
    ctx.exit(exits.FINDINGS if any(each["layout"] is None for each in found) else exits.DONE)


def _show_preview(screen: Screen, found: Mapping[str, Any]) -> None:
    screen.heading(str(found["path"]))
    if found["layout"] is None:
        screen.fields([("not usable", found["why"]), ("hint", found.get("hint"))])
        return
    findings, actions, summary = found["findings"], found["actions"], found["summary"]
    screen.fields(
        [
            ("layout", f"{found['layout']}: {found['why']}"),
            ("memories", f"{found['memories']} and {found['archived']} archived"),
            ("findings", ", ".join(f"{count} {name}" for name, count in summary.items() if count) or "none"),
        ]
    )
    for each in findings[:SHOWN]:
        line = f":{each['line']}" if each.get("line") else ""
        screen.line(f"    {each['severity']} {each['code']} {each['path'] or '.'}{line}: {each['message']}")
    _report_rest(screen, findings)
    screen.fields([("upkeep would", f"make {_count(len(actions), 'change')}" if actions else "change nothing")])
    for each in actions[:SHOWN]:
        memories = f" ({_count(len(each['ids']), 'memory', 'memories')})" if each["ids"] else ""
        screen.line(f"    {each['kind']} {each['path'] or '.'}{memories}: {each['why']}")
    _report_rest(screen, actions)


def _report_rest(screen: Screen, rows: list[Any]) -> None:
    if len(rows) > SHOWN:
        screen.line(f"    and {len(rows) - SHOWN} more; --json prints all of them")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
