"""The first commands a person runs: `try`, which looks and writes nothing, and `init`, which writes a configuration."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memoryd.cli import exits
from memoryd.cli.options import (
    LOCAL_PATH,
    NOT_UTF8,
    NOT_UTF8_HINT,
    absolute_path,
    configuration_of,
    example,
    json_option,
    layout_option,
)
from memoryd.cli.screen import Screen, make_screen, print_json, printable
from memoryd.cli.views_status import format_counts, name_action
from memoryd.core.spans import is_encodable
from memoryd.errors import ConflictError

if TYPE_CHECKING:
    from memoryd.config.detect import Detected

SHOWN = 12  # findings and actions of each directory; --json has them all


@click.command(
    "try",
    params=[json_option()],
    epilog=example("memoryd try ~/.claude/agents/memories", "memoryd try ~/src/app/memory --json"),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=LOCAL_PATH)
@layout_option
@click.pass_context
def try_command(ctx: click.Context, paths: tuple[str, ...], layout: str | None, as_json: bool) -> None:
    """See what memoryd would do with a directory; write nothing.

    Prints the layout and why, what is wrong, and what upkeep would change. Needs no daemon; nothing is written in PATH.
    The settings are those of the root PATH in the configuration, else the default ones; there need not be a
    configuration. Exits with 1 if a PATH cannot be used.
    """
    from msgspec import to_builtins  # noqa: PLC0415 - only when needed

    from memoryd.cli.progress_bar import local_bar  # noqa: PLC0415 - only when needed
    from memoryd.core.secrets import redact_values  # noqa: PLC0415 - compiles many patterns
    from memoryd.engine.preview import preview  # noqa: PLC0415 - loads all the parsers

    chosen, now, config = None if layout == "auto" else layout, time.time(), configuration_of(ctx)
    found = []
    for path in map(absolute_path, paths):
        with local_bar(path) as meter:
            found.append(redact_values(to_builtins(preview(path, now, chosen, meter, config))))
    if as_json:
        print_json({"directories": found})
    else:
        screen = make_screen(sys.stdout)
        for each in found:
            show_preview(screen, each)
        usable = [str(each["path"]) for each in found if each["layout"] is not None]
        screen.line("nothing was written")
        if usable:
            command = shlex.join(["memoryd", "run", "--observe", *usable])
            screen.line(f"next: `{command}` only watches; `memoryd init` writes a configuration")
    ctx.exit(exits.FINDINGS if any(each["layout"] is None for each in found) else exits.DONE)


def show_preview(screen: Screen, found: Mapping[str, Any]) -> None:
    """Show the layout, the findings and the changes due in a directory."""
    screen.heading(str(found["path"]))
    if found["layout"] is None:
        screen.fields([("not usable", found["why"]), ("hint", found.get("hint"))])
        return
    findings, actions = found["findings"], found["actions"]
    screen.fields(
        [
            ("layout", f"{found['layout']}: {found['why']}"),
            ("memories", f"{found['memories']} ({found['archived']} archived)"),
            ("findings", format_counts(found["summary"])),
        ]
    )
    for each in findings[:SHOWN]:
        line = f":{each['line']}" if each.get("line") else ""
        screen.line(f"    {each['severity']} {each['code']} {each['path'] or '.'}{line}: {each['message']}")
    _report_rest(screen, findings)
    if found.get("unjudged"):
        screen.line(f"  files changed in the last seconds are not judged yet: {found['unjudged']}; try again")
    screen.line(f"  upkeep would {'make ' + _count(len(actions), 'change') if actions else 'change nothing'}")
    for each in actions[:SHOWN]:
        memories = f" ({_count(len(each['ids']), 'memory', 'memories')})" if each["ids"] else ""
        kind, path = name_action(each)
        screen.line(f"    {kind} {path}{memories}: {each['why']}")
    _report_rest(screen, actions)


def _report_rest(screen: Screen, rows: list[Any]) -> None:
    if len(rows) > SHOWN:
        screen.line(f"    and {len(rows) - SHOWN} more; --json prints all of them")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


@click.command(epilog=example("memoryd init", "memoryd init ~/src --yes", "memoryd --config ./memoryd.toml init"))
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=LOCAL_PATH)
@click.option("--yes", is_flag=True, help="Do not ask, and let memoryd write in the directories found.")
@click.option("--dry-run", is_flag=True, help="Print what would be written.")
@click.pass_context
def init(ctx: click.Context, paths: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Write a configuration with the directories found.

    It has every setting as a comment, and the memory directories found as roots: those in the usual places and up to
    four levels below your home directory, or below each PATH, except test data. On a terminal it asks before it writes;
    elsewhere memoryd only observes the roots, unless you give --yes. An existing file is never overwritten.
    """
    from memoryd.config.edit import write_config  # noqa: PLC0415 - only when needed
    from memoryd.config.places import find_places  # noqa: PLC0415 - only when needed
    from memoryd.config.template import template  # noqa: PLC0415 - only when needed

    target = find_places(**ctx.find_root().obj, must_exist=False).config_target
    if os.path.lexists(target) and not dry_run:
        hint = "edit it, add a directory with `memoryd root add PATH`, or name another file with --config"
        raise ConflictError(f"{target} already exists and was not changed", hint=hint)
    found = _find(paths)
    stores = [place for place in found if place.layout is not None]
    asks = sys.stdin.isatty() and not yes
    if dry_run:  # with the mode that is written unless the answer on a terminal is no
        mode = "observe" if stores and not (yes or asks) else None
        click.echo(printable(template(stores, mode=mode), keep="\n\t"), nl=False)
        return
    _show_found(found)
    if asks and not click.confirm(printable(f"Write {target}?"), default=True):
        click.echo("nothing was written")
        return
    question = "May memoryd write there (index files, upkeep)? If not, it only observes"
    mode = "observe" if stores and not (click.confirm(question, default=True) if asks else yes) else None
    write_config(target, template(stores, mode=mode))
    click.echo(f"wrote {printable(target)}")
    if mode is not None:
        click.echo('memoryd only observes them; to let it write, remove `mode = "observe"` from the file')
    click.echo("next: memoryd run, or memoryd service install")


def _show_found(found: Sequence[Detected]) -> None:
    for place in found:
        if place.layout is not None:
            click.echo(printable(f"  found {place.path} ({place.layout}: {place.why})"))
    for place in found:
        if place.layout is None:
            click.echo(printable(f"  not usable {place.path}: {place.why}"))
            click.echo(printable(f"    {place.hint}"))
    if not any(place.layout is not None for place in found):
        click.echo("  found no memory directory; name yours (`memoryd init PATH`) or add it to the file")


def _find(paths: Sequence[str]) -> list[Detected]:
    """Look in the usual places and below the home directory, or below the paths. Raises UsageError for a path that is
    not a directory."""
    from memoryd.config import detect  # noqa: PLC0415 - only when needed
    from memoryd.operations.recognition import existing_directory  # noqa: PLC0415 - only when needed

    home = os.path.expanduser("~")
    tops = list(map(absolute_path, paths))
    for top in tops:
        existing_directory(top)
    shown: list[str] = []  # by what is in them
    for top in tops or [home]:
        walked = detect.walk(top)
        shown += walked.paths
        for path in walked.unreadable:
            click.echo(printable(f"skipped {path}: it cannot be read"), err=True)
        if not walked.complete:
            limit = f"{detect.MAX_DIRECTORIES:,} directories"
            click.echo(
                printable(f"searched the first {limit} below {top}; name a PATH to search another part"), err=True
            )
    usual = [] if tops else detect.detect(home, _inspect, os.getcwd())
    taken = [f"{os.path.realpath(place.path)}/" for place in usual]

    def inspect(path: str) -> tuple[str | None, str, str] | None:
        is_taken = any(f"{path}/".startswith(each) or each.startswith(f"{path}/") for each in taken)
        return None if is_taken else _inspect(path, mention=path in tops)

    more = detect.examine([*tops, *shown], inspect, [top for top in tops if top not in shown])
    return [*usual, *more]


def _inspect(path: str, *, mention: bool = False) -> tuple[str | None, str, str] | None:
    """Return the layout of a directory with the reason; or why it cannot be used and what to do, if it is called
    `memory`, belongs to a known program, or is to be mentioned."""
    from memoryd.config.detect import STORE_NAMES  # noqa: PLC0415 - only when needed
    from memoryd.disk.tree import Tree  # noqa: PLC0415 - only when needed
    from memoryd.operations.recognition import advice, recognise_layout, unusable  # noqa: PLC0415 - only when needed

    try:
        with Tree(path) as tree:
            found = recognise_layout(tree)
    except OSError as error:
        click.echo(printable(f"skipped {path}: {error.strerror}"), err=True)
        return None
    if found.layout is not None and not is_encodable(path):
        return None, NOT_UTF8, NOT_UTF8_HINT
    if found.layout is not None:
        return found.layout, found.matches[found.layout], ""
    if mention or found.known is not None or found.matches or os.path.basename(path) in STORE_NAMES:
        return None, unusable(found), advice(path, found)
    return None
