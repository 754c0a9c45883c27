"""The commented configuration that `memoryd init` writes, made from the table of keys.

It lists every setting with its default, commented out; only the detected roots are active.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from msgspec.structs import asdict

from memoryd.config.detect import Detected
from memoryd.config.keys import DAEMON, ENDPOINT, POLICY, SCHEDULE, SEARCH, SECRETS_KEY, Key
from memoryd.config.roots import derive_name
from memoryd.config.settings import DaemonConfig, EndpointConfig, SearchConfig
from memoryd.config.toml_text import quoted, toml
from memoryd.core.defaults import DEFAULT_SCHEDULE, Policy
from memoryd.layouts.registry import LAYOUT_CHOICES

WIDTH = 80  # columns of a comment

_HEAD = """\
# Configuration of memoryd. Each setting is shown with its default, commented
# out: remove the # to change the value. Lines that begin with ## explain.
# `memoryd reload` applies changes, all or none; `memoryd root add` and
# `memoryd root remove` edit this file and keep its comments.
"""

_SCHEDULE_NOTE = """\
# "every 30s", "every 10m", "every 6h", "every 1d"; a cron line such as
# "15 3 * * 1-5" (minute hour day month weekday, Sunday is 0 or 7; UTC unless
# timezone is set); or "off".
"""

_ROOTS_NOTE = """\
# One [[root]] for each directory. Every key of [defaults] and [root.schedule]
# is also allowed in it, for this root only. Roots must not be nested.
"""

_EXAMPLES = """\
# [[root]]
## name in commands; default: the last parts of the path
# name = "agents"
## may be created later
# path = "~/.claude/agents/memories"
{layouts}# layout = "jsonl-store"
## per file; "off" lifts a limit
# [root.limits]
# "learnings.jsonl" = {{ max_bytes = "5MB", max_count = 500, kind = "soft" }}
#
## markdown topics of a project
# [[root]]
## memory_path is relative to it
# project = "~/src/app"
# memory_path = "memory"
# [root.memory_configuration]
## takes precedence; created if missing; relative to project
# external_path = "~/team-memory"
"""


def template(detected: Sequence[Detected] = (), *, mode: str | None = None) -> str:
    """Write a configuration file as text, valid TOML; the detected directories of a known layout are its roots."""
    return "\n".join(
        (
            _HEAD,
            "[daemon]\n" + _settings(DAEMON, asdict(DaemonConfig())),
            "[search]\n" + _settings(SEARCH, asdict(SearchConfig())),
            '[search.endpoint]          # with embedder = "endpoint"\n' + _settings(ENDPOINT, asdict(EndpointConfig())),
            "[defaults]                 # for every root\n"
            + _settings(POLICY, {**asdict(Policy()), "timezone": "UTC"})
            + _comment(f"{SECRETS_KEY.meaning} (for example)")
            + f"# secrets = {quoted('shapes')}\n",
            "[defaults.schedule]\n" + _SCHEDULE_NOTE + _settings(SCHEDULE, DEFAULT_SCHEDULE),
            _ROOTS_NOTE + _EXAMPLES.format(layouts=_comment(", ".join(LAYOUT_CHOICES))),
            _roots([found for found in detected if found.layout is not None], mode),
        )
    )


def _settings(keys: Mapping[str, Key], defaults: Mapping[str, object]) -> str:
    return "".join(f"{_comment(key.meaning)}# {name} = {toml(defaults[name])}\n" for name, key in keys.items())


def _comment(text: str) -> str:
    """Return the text as lines that begin with `##`, wrapped."""
    lines = wrap(text, WIDTH, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def _roots(detected: Sequence[Detected], mode: str | None) -> str:
    if not detected:
        return "# No memory directory was found in the usual places: add yours above.\n"
    taken: list[str] = []
    blocks = []
    for found in detected:
        taken.append(derive_name(found.path, taken))
        blocks.append(
            f"{_comment(f'found: {_one_line(found.why)}')}[[root]]\n"
            f"name = {quoted(taken[-1])}\n"
            f"path = {quoted(found.path)}\n"
            f"layout = {quoted(str(found.layout))}\n" + (f"mode = {quoted(mode)}\n" if mode is not None else "")
        )
    return "\n".join(blocks)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
