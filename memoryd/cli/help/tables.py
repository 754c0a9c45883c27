"""The topics of `memoryd help`, made from the tables that the program uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import click
from msgspec.structs import asdict

from memoryd import errors
from memoryd.cli import exits
from memoryd.cli.commands import MANY_CHOICES
from memoryd.cli.help import prose, ranking
from memoryd.cli.help.render import Entry, Section
from memoryd.config.keys import DAEMON, ENDPOINT, MEMORY_CONFIGURATION, POLICY, ROOT, SCHEDULE, SEARCH, SECRETS_KEY, Key
from memoryd.config.settings import DaemonConfig, EndpointConfig, SearchConfig
from memoryd.config.toml_text import toml
from memoryd.control.methods import METHODS
from memoryd.control.methods.method_types import TOPICS as EVENT_TOPICS
from memoryd.control.methods.method_types import Method
from memoryd.core.defaults import DEFAULT_SCHEDULE, Policy
from memoryd.errors import MemorydError
from memoryd.installer.agent_setup import snippet
from memoryd.installer.agents import AGENTS, entries
from memoryd.layouts.codes import CODES
from memoryd.layouts.protocol import Layout
from memoryd.layouts.registry import LAYOUTS


class Topic(NamedTuple):
    """One help topic. `summary` is one line; `sections` builds the text on demand."""

    summary: str
    sections: Callable[[click.Group], tuple[Section, ...]]


def commands(cli: click.Group) -> tuple[Section, ...]:
    """Return every command with its usage and summary."""
    ctx = click.Context(cli, info_name="memoryd")
    entries = tuple(Entry(f"memoryd {usage}", summary) for usage, summary in _commands(cli, ctx))
    return (Section("Commands", prose.COMMANDS, entries),)


def _commands(group: click.Group, ctx: click.Context, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield usage (without --json and --help) and summary of every command, in the order of the table."""
    for name in getattr(group, "commands", None) or group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        sub_context = click.Context(command, info_name=name, parent=ctx)
        if isinstance(command, click.Group):
            yield from _commands(command, sub_context, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}{_usage(command, sub_context)}", (command.help or "").partition("\n")[0]


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
        return (
            "|".join(option.type.choices)
            if len(option.type.choices) < MANY_CHOICES
            else option.opts[0].strip("-").upper()
        )
    return option.make_metavar(ctx)


def keys(_: click.Group) -> tuple[Section, ...]:
    """Return every key of the configuration with its default and meaning."""
    return (
        Section("Configuration", prose.KEYS, code=prose.KEYS_EXAMPLE),
        Section("[daemon]", entries=_keys(DAEMON, asdict(DaemonConfig()))),
        Section("[search]", entries=_keys(SEARCH, asdict(SearchConfig()))),
        Section("[search.endpoint]", prose.ENDPOINT, _keys(ENDPOINT, asdict(EndpointConfig()))),
        Section("[defaults] and [[root]]", prose.DEFAULTS, _keys(POLICY, asdict(Policy()))),
        Section("secrets", prose.SECRETS_KEY, (Entry("secrets = by layout", SECRETS_KEY.meaning),)),
        Section(
            "[defaults.schedule] and [root.schedule]",
            prose.SCHEDULE,
            _keys(SCHEDULE, DEFAULT_SCHEDULE),
        ),
        Section("[[root]]", prose.ROOT, _keys(ROOT, {})),
        Section("[root.limits]", prose.LIMITS),
        Section("[root.memory_configuration]", entries=_keys(MEMORY_CONFIGURATION, {})),
    )


def _keys(table: Mapping[str, Key], defaults: Mapping[str, object]) -> tuple[Entry, ...]:
    return tuple(
        Entry(name if defaults.get(name) is None else f"{name} = {toml(defaults[name])}", key.meaning)
        for name, key in table.items()
    )


def findings(_: click.Group) -> tuple[Section, ...]:
    """Return every finding code with its severity and meaning."""
    entries = tuple(
        Entry(f"{name} ({code.severity}{', fixable' if code.fixable else ''})", code.meaning)
        for name, code in CODES.items()
    )
    return (Section("Findings", prose.FINDINGS, entries),)


def methods(_: click.Group) -> tuple[Section, ...]:
    """Return every method of the control socket, the events, and the error codes."""
    return (
        Section("Control socket", prose.SOCKET, code=prose.SOCKET_EXAMPLE),
        Section("Methods", prose.METHODS, tuple(Entry(each.name, _method(each)) for each in METHODS)),
        Section("Events", f"{prose.EVENTS} Topics: {', '.join(EVENT_TOPICS)}."),
        Section("Error codes", prose.ERRORS, _errors()),
    )


def _method(method: Method) -> str:
    """Return the summary, a paragraph for each parameter, and the fields of the result."""
    params = (
        f"{each.name}{'' if each.required else '?'} ({' | '.join(each.choices) or each.type}): {each.help}"
        for each in method.params
    )
    result = ", ".join(field.name for field in method.result)
    return "\n\n".join([method.summary, *params, f"Result: {result}."])


def _errors() -> tuple[Entry, ...]:
    """Return the error codes, each with the names of its errors."""
    names: dict[int, list[str]] = {}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MemorydError)]
    for kind in sorted(kinds, key=lambda kind: -kind.rpc_code):
        names.setdefault(kind.rpc_code, []).append(kind.name)
    return tuple(Entry(str(code), ", ".join(kinds)) for code, kinds in names.items())


def layouts(_: click.Group) -> tuple[Section, ...]:
    """Return every layout with its files, jobs, limits and fields."""
    return (
        Section("Layouts", prose.LAYOUTS),
        *(_layout(layout) for layout in LAYOUTS.values()),
        Section("Ids", prose.IDS),
    )


def _layout(layout: Layout) -> Section:
    index = ", ".join(layout.index.paths) or "none"
    text = f"{layout.summary} Index files: {index}. Backups: {layout.files.backup_dir or 'in the state directory'}."
    jobs = f"Scheduled jobs: {', '.join(layout.jobs)}."
    if layout.writer is None:
        jobs += " Memories are read and searched only."
    location = (
        f"The file is chosen by {' and '.join(f'--{each}' for each in layout.location)}." if layout.location else ""
    )
    entries = tuple(
        Entry(f"{name} ({spec.type}{', required' if spec.required else ''})", spec.help)
        for name, spec in layout.fields.items()
    )
    limits = "; ".join(
        f"{path}: {limit.kind}, {limit.max_count:,} memories or {(limit.max_bytes or 0) // 1024**2} MB"
        for path, limit in layout.files.limits.items()
    )
    return Section(
        layout.name, "\n\n".join(filter(None, [text, jobs, limits and f"Limits: {limits}.", location])), entries
    )


def jobs(_: click.Group) -> tuple[Section, ...]:
    """Return every scheduled job with its default schedule and its effect."""
    entries = (
        Entry("index (after each change)", prose.JOBS["index"]),
        *(Entry(f"{job} ({schedule})", prose.JOBS[job]) for job, schedule in DEFAULT_SCHEDULE.items()),
    )
    return (Section("Jobs", prose.JOBS_INTRO, entries), Section("Restraint", prose.RESTRAINT))


def agents(_: click.Group) -> tuple[Section, ...]:
    """Return how agents reach memoryd, and what each has in which file."""
    forms: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for agent in AGENTS.values():
        project = f", or {agent.project} of a project" if agent.project else ""
        places = [f"{agent.file}{project}", *([str(agent.hook.file)] if agent.hook else ())]
        for added, place in zip(entries(agent, ["memoryd"], {}), places, strict=True):
            forms.setdefault((added.what, snippet(added)), []).append((agent.title, f"{agent.title}: {place}."))
    return (
        Section("Agents", prose.AGENTS, prose.TOOLS),
        *(
            Section(f"{', '.join(title for title, _ in same)}: {what}", " ".join(text for _, text in same), code=code)
            for (what, code), same in forms.items()
        ),
    )


def exit_codes(_: click.Group) -> tuple[Section, ...]:
    """Return every exit code with its meaning."""
    return (Section("Exit codes", entries=tuple(Entry(str(c), m) for c, m in exits.MEANINGS.items())),)


def files(_: click.Group) -> tuple[Section, ...]:
    """Return the locations of configuration, state and socket, and the files that memoryd writes in a root."""
    index_files = tuple(
        Entry(layout.name, ", ".join(layout.index.paths)) for layout in LAYOUTS.values() if layout.index.paths
    )
    others = tuple(
        Entry(layout.name, ", ".join(paths))
        for layout in LAYOUTS.values()
        if (paths := [*(lock.name for lock in layout.files.locks), *filter(None, [layout.files.backup_dir])])
    )
    return (
        Section("Files", prose.FILES, prose.PLACES),
        Section("State directory", prose.STATE, prose.STATE_FILES),
        Section("Index files in a root", prose.DERIVED, index_files),
        Section("Locks and backups in a root", prose.OTHERS, others),
    )


TOPICS: Mapping[str, Topic] = {
    "commands": Topic("every command and its options", commands),
    "keys": Topic("the keys of the configuration", keys),
    "layouts": Topic("the layouts, their fields, index files and jobs", layouts),
    "jobs": Topic("the scheduled jobs", jobs),
    "findings": Topic("what `memoryd check` reports", findings),
    "methods": Topic("the methods of the control socket", methods),
    "agents": Topic("how agents reach memoryd over MCP", agents),
    "files": Topic("where memoryd keeps its files", files),
    "exit-codes": Topic("the exit codes", exit_codes),
    "secrets": Topic("what counts as a secret, and what happens to it", lambda _: prose.SECRETS),
    "ranking": Topic("how search ranks memories, and how to read its results", lambda _: ranking.SECTIONS),
    "decisions": Topic("promises, decisions and limits", lambda _: prose.DECISION_SECTIONS),
}
