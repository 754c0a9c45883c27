"""The commented configuration that `memoryd init` writes, made from the table of keys.

Every setting stands there with its default, commented out; only the roots that were found are in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from memoryd.config.detect import Detected
from memoryd.config.keys import DAEMON, ENDPOINT, POLICY, SCHEDULE, SEARCH, SECRETS_KEY, Key
from memoryd.config.lines import quoted
from memoryd.config.roots import derive_name
from memoryd.config.schema import LAYOUT_CHOICES, DaemonConfig, EndpointConfig, SearchConfig
from memoryd.core.policy import DEFAULT_SCHEDULE, Policy

_HEAD = """\
# Configuration of memoryd. Lines that begin with # say what holds when nothing else is written:
# take the # away to change a value. `memoryd reload` brings changes into force, as a whole or not at all;
# `memoryd root add` and `memoryd root remove` edit this file and keep its comments.
"""

_SCHEDULE_NOTE = """\
# "every 30s", "every 10m", "every 6h", "every 1d"; a cron line such as "15 3 * * 1-5"
# (minute hour day month weekday, Sunday is 0 or 7; UTC unless timezone is set); or "off".
"""

_ROOTS_NOTE = """\
# One [[root]] for each directory. Every key of [defaults] may stand in it too, for this root alone,
# and so may [root.schedule]. Roots may not lie within each other.
"""

_EXAMPLES = """\
# [[root]]
# name = "agents"                      # how commands call it; default: the last parts of the path
# path = "~/.claude/agents/memories"   # a directory that is not there yet is waited for
# layout = "jsonl-store"               # {layouts}
# [root.limits]                        # per file; "off" lifts a limit
# "learnings.jsonl" = {{ max_bytes = "5MB", max_count = 500, kind = "soft" }}
#
# [[root]]                             # markdown topics of a project
# project = "~/src/app"                # memory_path is relative to it
# memory_path = "memory"
# [root.memory_configuration]
# external_path = "~/team-memory"      # wins when set; made when missing; relative means relative to project
"""


def template(detected: Sequence[Detected] = (), *, mode: str | None = None) -> str:
    """A whole configuration file as text, valid TOML, with the detected directories of a known layout as its roots."""
    return "\n".join(
        (
            _HEAD,
            "[daemon]\n" + _settings(DAEMON, _defaults_of(DaemonConfig())),
            "[search]\n" + _settings(SEARCH, _defaults_of(SearchConfig())),
            '[search.endpoint]          # with embedder = "endpoint"\n'
            + _settings(ENDPOINT, _defaults_of(EndpointConfig())),
            "[defaults]                 # for every root\n"
            + _settings(POLICY, _defaults_of(Policy()))
            + f"# secrets = {quoted('shapes')}".ljust(45)
            + f" # {SECRETS_KEY.meaning}\n",
            "[defaults.schedule]\n" + _SCHEDULE_NOTE + _settings(SCHEDULE, DEFAULT_SCHEDULE),
            _ROOTS_NOTE + _EXAMPLES.format(layouts=", ".join(LAYOUT_CHOICES)),
            _roots([found for found in detected if found.layout is not None], mode),
        )
    )


def _defaults_of(settings: DaemonConfig | SearchConfig | EndpointConfig | Policy) -> dict[str, object]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def _settings(keys: Mapping[str, Key], defaults: Mapping[str, object]) -> str:
    return "".join(f"# {name} = {toml(defaults[name])}".ljust(45) + f" # {key.meaning}\n" for name, key in keys.items())


def toml(value: object) -> str:
    """A plain value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml(element) for element in value) + "]"
    return quoted(str(value))


def _roots(detected: Sequence[Detected], mode: str | None) -> str:
    if not detected:
        return "# No memory directory was found in the usual places: add yours above.\n"
    taken: list[str] = []
    blocks = []
    for found in detected:
        taken.append(derive_name(found.path, taken))
        blocks.append(
            f"[[root]]                   # found: {_one_line(found.why)}\n"
            f"name = {quoted(taken[-1])}\n"
            f"path = {quoted(found.path)}\n"
            f"layout = {quoted(str(found.layout))}\n" + (f"mode = {quoted(mode)}\n" if mode is not None else "")
        )
    return "\n".join(blocks)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
