"""The tables of the README that say what the program says: made here, checked by test_readme.py.

python -m tests.readme        writes them into README.md, between their marks
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import click

from memoryd.cli.main import cli
from memoryd.config.keys import DAEMON, ENDPOINT, MEMORY_CONFIGURATION, POLICY, ROOT, SCHEDULE, SEARCH, SECRETS_KEY, Key
from memoryd.config.schema import DaemonConfig, EndpointConfig, SearchConfig
from memoryd.config.template import toml
from memoryd.control.methods import METHODS
from memoryd.core.findings import CODES
from memoryd.core.policy import DEFAULT_SCHEDULE, Policy
from tests.bench.quality import FIGURES
from tests.secrets import measure

README = Path(__file__).parents[1] / "README.md"
_MARKED = re.compile(r"(<!-- made: (?P<name>[a-z.-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _commands(group: click.Group, ctx: click.Context, above: str = "") -> Iterator[tuple[str, str]]:
    """(usage without --json and --help, first sentence of the help) of every command."""
    for name in getattr(group, "commands", None) or group.list_commands(ctx):  # in the table's order
        command = group.get_command(ctx, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=ctx)
        if isinstance(command, click.Group):
            yield from _commands(command, inner, f"{above}{name} ")
        else:
            yield f"{above}{name}{_usage(command, inner)}", (command.help or "").partition("\n")[0]


def _usage(command: click.Command, ctx: click.Context) -> str:
    parts = []
    for param in command.params:
        if isinstance(param, click.Argument):
            parts.append(param.make_metavar(ctx))
        elif isinstance(param, click.Option) and "--json" not in param.opts:
            value = "" if param.is_flag else f" {_value(param, ctx)}"
            parts.append(f"[{param.opts[0]}{value}]{'...' if param.multiple else ''}")
    return "".join(f" {part}" for part in parts)


def _value(option: click.Option, ctx: click.Context) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(option.type.choices) if len(option.type.choices) < 5 else option.opts[0].strip("-").upper()
    return option.make_metavar(ctx)


def commands() -> str:
    ctx = click.Context(cli, info_name="memoryd")
    assert isinstance(cli, click.Group)
    return _table(("command", "does"), ((f"`{usage}`", does) for usage, does in _commands(cli, ctx)))


def methods() -> str:
    rows = (
        (
            f"`{method.name}`",
            ", ".join(f"`{p.name}{'' if p.required else '?'}`" for p in method.params) or "–",
            ", ".join(f"`{field.name}`" for field in method.result),
        )
        for method in METHODS
    )
    return _table(("method", "parameters", "result"), rows)


def _settings(keys: Mapping[str, Key], default: Callable[[str], str]) -> str:
    return _table(("key", "default", "meaning"), ((f"`{n}`", default(n), k.meaning) for n, k in keys.items()))


def _defaults_of(settings: DaemonConfig | SearchConfig | EndpointConfig | Policy) -> Callable[[str], str]:
    known = {field.name for field in fields(settings) if getattr(settings, field.name) is not None}
    return lambda name: f"`{toml(getattr(settings, name))}`" if name in known else "by layout"


def codes() -> str:
    rows = (
        (f"`{name}`", str(code.severity), code.meaning, "yes" if code.fixable else "") for name, code in CODES.items()
    )
    return _table(("code", "severity", "meaning", "`repair`"), rows)


def found() -> str:
    """How well search finds, by the figures that are kept beside the table of vectors."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]
    rows = (
        (name, mode, f"{told['mrr']:.2f}", f"{told['first']:.0%}", f"{told['third']:.0%}")
        for name, modes in figures.items()
        for mode, told in modes.items()
    )
    return _table(("questions", "`--mode`", "MRR", "first", "among the first three"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "methods": methods,
    "keys.daemon": lambda: _settings(DAEMON, _defaults_of(DaemonConfig())),
    "keys.search": lambda: _settings(SEARCH, _defaults_of(SearchConfig())),
    "keys.endpoint": lambda: _settings(ENDPOINT, _defaults_of(EndpointConfig())),
    "keys.defaults": lambda: _settings({**POLICY, "secrets": SECRETS_KEY}, _defaults_of(Policy())),
    "keys.schedule": lambda: _settings(SCHEDULE, lambda name: f"`{toml(DEFAULT_SCHEDULE[name])}`"),
    "keys.root": lambda: _settings({**ROOT, **MEMORY_CONFIGURATION}, lambda _: "–"),
    "codes": codes,
    "quality": found,
    "secrets": lambda: _table(("half of the corpus", "secrets found", "false alarms"), measure.rows()),
}


def made(text: str) -> str:
    """The README with every marked table as it should be; KeyError for a mark that names no table."""
    return _MARKED.sub(lambda found: f"{found[1]}{TABLES[found['name']]()}{found[3]}", text)


def marks(text: str) -> list[str]:
    return [found["name"] for found in _MARKED.finditer(text)]


if __name__ == "__main__":
    README.write_text(made(README.read_text(encoding="utf-8")), encoding="utf-8")
