"""`memoryd help`: the list of topics, single topics in a pager, and the man page with all of them.

The topics are made from the tables of the program (`tables`) and from texts (`prose`).
"""

from __future__ import annotations

import shutil
import sys

import click

from memoryd import __version__
from memoryd.cli.help.render import WIDTH, Entry, Section, as_man_page, as_text
from memoryd.cli.help.tables import TOPICS
from memoryd.errors import UsageError

SUMMARY = "look after the directories where AI agents keep their memories as plain files"


def overview() -> str:
    """Return the list of topics."""
    entries = tuple(Entry(name, topic.summary) for name, topic in TOPICS.items())
    text = "`memoryd help TOPIC` prints a topic, `memoryd help COMMAND` the help of a command."
    return as_text([Section("Topics", text, entries)], _width())


def topic_text(word: str, ctx: click.Context, root: click.Group) -> str:
    """Return the text of a topic, or the help of a command. Raises UsageError for any other word."""
    if word in TOPICS:
        return as_text(TOPICS[word].sections(root), _width())
    parent = ctx.find_root()
    command = root.get_command(parent, word)
    if command is None:
        from memoryd.control.parameters import name_hint  # noqa: PLC0415 - for an unknown word only

        hint = name_hint(word, dict.fromkeys([*TOPICS, *root.list_commands(parent)]))
        raise UsageError(f"there is no topic or command {word!r}", hint=hint or "`memoryd help` lists the topics")
    with click.Context(command, info_name=word, parent=parent) as inner:
        return f"{command.get_help(inner)}\n"


def show(text: str) -> None:
    """Print the text, in a pager if it does not fit on the terminal."""
    rows = shutil.get_terminal_size().lines
    if sys.stdout.isatty() and text.count("\n") >= rows:
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)


def man_page(root: click.Group) -> str:
    """Return the man page memoryd(1)."""
    sections = [section for topic in TOPICS.values() for section in topic.sections(root)]
    return as_man_page(sections, version=__version__, summary=SUMMARY)


def _width() -> int:
    """Return the columns of the terminal, limited to a readable width."""
    return min(WIDTH, max(40, shutil.get_terminal_size((WIDTH, 24)).columns))
