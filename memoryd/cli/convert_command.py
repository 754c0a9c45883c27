"""`memoryd convert`: the command, and what it shows of the result."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import click

from memoryd.cli import exits
from memoryd.cli.options import LOCAL_PATH, absolute_path, configuration_of, example, json_option
from memoryd.cli.screen import Screen, make_screen, print_json
from memoryd.layouts.registry import NAMES

_LAYOUTS = f"The layout of DST (notes is only read): {', '.join(NAMES)}."
_EFFECTS = {"memory": "memories left out", "part": "parts left out", "change": "stored differently"}


@click.command(
    "convert",
    params=[json_option()],
    epilog=example(
        "memoryd convert ~/app/memories ~/notes --layout markdown-topics --dry-run",
        "memoryd convert ~/vault ~/memories --from notes --layout jsonl-store",
    ),
)
@click.argument("source", metavar="SRC", type=LOCAL_PATH)
@click.argument("target", metavar="DST", type=LOCAL_PATH)
@click.option("--layout", required=True, type=click.Choice(NAMES), metavar="LAYOUT", help=_LAYOUTS)
@click.option(
    "--from", "source_layout", type=click.Choice(NAMES), metavar="LAYOUT", help="The layout of SRC (default: detected)."
)
@click.option("--allow-sensitive-words", is_flag=True, help="Into markdown-topics: also memories with words like key.")
@click.option("--dry-run", is_flag=True, help="List what cannot be carried; write nothing.")
@click.pass_context
def convert(
    ctx: click.Context,
    source: str,
    target: str,
    *,
    layout: str,
    source_layout: str | None,
    allow_sensitive_words: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy memories into a new directory of another layout.

    SRC is a directory of memories, or one file of it; it is only read. DST must not exist, or be empty. Needs no
    daemon. DST is written whole or not at all.

    First lists what cannot be carried, with up to five places of each kind: memories that are left out (unreadable,
    refused as secrets, too long, archived where DST has no archive), parts of others that DST has no field for, and
    what is stored differently.

    Texts are carried exactly; markdown-topics has no white space around them and no CRLF. Times of creation are exact
    to the millisecond, in session-files and user-document to the second, in markdown-topics to the day. Each memory
    gets a new id. A full topic file is continued in another file (`deploy-2.md`), and a session that has a memory of
    the same type and title in another session.

    Into user-document, memories without an embedding need an embedder of 384 numbers (`embedder` in [search]).

    Exits with 1 if a memory or a part of one was left out, or DST cannot be used.
    """
    from msgspec import to_builtins  # noqa: PLC0415 - only when needed

    from memoryd.cli.progress_bar import local_bar  # noqa: PLC0415 - only when needed
    from memoryd.core.secrets import redact_values  # noqa: PLC0415 - compiles many patterns
    from memoryd.layouts.protocol import no_embedding  # noqa: PLC0415 - as above
    from memoryd.operations import convert as conversion  # noqa: PLC0415 - loads all the parsers
    from memoryd.operations.memories import vector_maker  # noqa: PLC0415 - as above
    from memoryd.service.search_models import SearchModels  # noqa: PLC0415 - as above

    config, models, now, screen = configuration_of(ctx), SearchModels(), time.time(), make_screen(sys.stdout)
    models.configure(config.search)
    embedder = models.meaning.embedder
    options = conversion.Options(
        layout=layout,
        source_layout=source_layout,
        allow_words=allow_sensitive_words,
        embed=vector_maker(embedder) if embedder is not None else no_embedding,
    )
    name = os.path.basename(target)
    with ExitStack() as stack:
        with local_bar(name) as meter:
            places = absolute_path(source), absolute_path(target)
            work = stack.enter_context(conversion.plan_conversion(*places, options, now, meter, config))
        if not as_json:
            show_plan(screen, redact_values(to_builtins(work.result)))
        if not dry_run:
            with local_bar(name) as meter:
                work.write(now, meter)
    result = dict(redact_values(to_builtins(work.result)))
    if as_json:
        print_json(result)
    elif result["written"]:
        found = result["findings"]
        screen.line(f"written; check: {found['error']} errors, {found['warning']} warnings")
    else:
        screen.line("nothing was written")
    ctx.exit(exits.DONE if work.result.complete else exits.FINDINGS)


def show_plan(screen: Screen, planned: Mapping[str, Any]) -> None:
    """Show what is carried, and what is not with its places."""
    screen.heading(f"{planned['source']} ({planned['source_layout']}) -> {planned['target']} ({planned['layout']})")
    archived = f" ({planned['archived']} into the archive)" if planned["archived"] else ""
    screen.fields([("memories", f"{planned['read']} read, {planned['carried']} carried{archived}")])
    for effect, heading in _EFFECTS.items():
        losses = [each for each in planned["losses"] if each["effect"] == effect]
        if losses:
            screen.line(f"  {heading}")
        for each in losses:
            _show_loss(screen, each)
    sys.stdout.flush()


def _show_loss(screen: Screen, loss: Mapping[str, Any]) -> None:
    screen.line(f"    {loss['count']} {loss['kind']}: {loss['message']}")
    for place in loss["examples"]:
        line, detail = (f":{place['line']}" if place["line"] else ""), place["detail"] and f": {place['detail']}"
        screen.line(f"      {place['path']}{line}{detail}")
    if loss["examples"] and loss["count"] > len(loss["examples"]):
        screen.line(f"      and {loss['count'] - len(loss['examples'])} more")
    if loss["hint"]:
        screen.line(f"      hint: {loss['hint']}")
