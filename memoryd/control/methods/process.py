"""Methods on the daemon itself: events, configuration, log, metrics, shutdown and the protocol."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from memoryd.control.methods.method_types import (
    Level,
    Method,
    NoParameters,
    Option,
    Request,
    Result,
    Topic,
    member,
    parameter,
)
from memoryd.control.methods.shared import DryRun
from memoryd.core.records import JsonObject


class EventsRequest(Request, kw_only=True):
    """The topics of events to receive."""

    topics: Annotated[list[Topic] | None, parameter("the topics (default: all)")] = None


class TopicsResult(Result, kw_only=True):
    """The topics of events that a connection receives."""

    topics: Annotated[list[str], member("every topic that this connection receives from now on")]


class ConfigResult(Result, kw_only=True):
    """The configuration in force."""

    path: Annotated[str | None, member("the configuration file in use, if any")]
    daemon: Annotated[JsonObject, member("{KEY: {value, origin}}")]
    search: Annotated[JsonObject, member("{KEY: {value, origin}}")]
    roots: Annotated[JsonObject, member("{NAME: {KEY: {value, origin}}}")]


class ValidateResult(Result, kw_only=True):
    """The effect of a reload, or the roots named in a configuration file."""

    roots: Annotated[list[str] | UnsetType, member("the roots it names (by the command)")] = UNSET
    path: Annotated[str | UnsetType | None, member("the file (by the command)")] = UNSET
    added: Annotated[list[str], member("what a reload would add")]
    changed: Annotated[list[str], member("what it would change")]
    removed: Annotated[list[str], member("what it would remove")]


class ReloadRequest(Request, kw_only=True):
    """A request to apply the configuration, or only to compare it."""

    dry_run: DryRun = False


class ReloadResult(Result, kw_only=True):
    """The changes made by the new configuration, or with `dry_run` those it would make."""

    dry_run: Annotated[bool, member("whether nothing was applied")]
    added: Annotated[list[str], member("what was added")]
    changed: Annotated[list[str], member("what was changed")]
    removed: Annotated[list[str], member("what was removed")]


class LogLevelRequest(Request, kw_only=True):
    """The new log level."""

    level: Annotated[Level | None, parameter("the level", Option("argument"))] = None


class LogLevelResult(Result, kw_only=True):
    """The log level in force."""

    level: Annotated[str, member("the level in force")]


class MetricsResult(Result, kw_only=True):
    """The metrics as text."""

    text: Annotated[str, member("Prometheus text format 0.0.4")]


class ShutdownResult(Result, kw_only=True):
    """The daemon that stops."""

    stopping: Annotated[bool, member("true")]
    pid: Annotated[int, member("process id of the daemon")]


class DiscoverResult(Result, kw_only=True):
    """The protocol as an OpenRPC document."""

    openrpc: Annotated[str, member("version of the OpenRPC format")]
    info: Annotated[JsonObject, member("title, version and description of the protocol")]
    methods: Annotated[list[JsonObject], member("the methods")]
    components: Annotated[JsonObject, member("the errors and the types of results")]


METHODS: tuple[Method, ...] = (
    Method(
        "subscribe",
        None,
        "Receive `event` notifications on this connection.",
        "Notifications are `event {topic, at, root?, ...}`. A slow reader loses the oldest events; the next "
        "one then carries `dropped`, their number.",
        '{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"topics":["change"]}}',
        EventsRequest,
        TopicsResult,
        kind="control",
    ),
    Method(
        "unsubscribe",
        None,
        "Stop receiving events of these topics.",
        "Without topics: of all topics.",
        '{"jsonrpc":"2.0","id":2,"method":"unsubscribe","params":{}}',
        EventsRequest,
        TopicsResult,
        kind="control",
    ),
    Method(
        "config.show",
        ("config", "show"),
        "Show the configuration in force and where each value comes from.",
        "Defaults, the file and the command line, already merged. People see the keys that differ from their default.",
        "memoryd config show --all",
        NoParameters,
        ConfigResult,
    ),
    Method(
        "config.validate",
        ("config", "validate"),
        "Check the configuration file without applying it.",
        "The command needs no daemon and reads exactly the file named by --config. It exits with 78 and names file, "
        "line and key when the file cannot be used.",
        "memoryd config validate",
        NoParameters,
        ValidateResult,
    ),
    Method(
        "config.reload",
        ("reload",),
        "Read the configuration file again and apply it.",
        "All or nothing: if anything in it is wrong, the running configuration stays.",
        "memoryd reload --dry-run",
        ReloadRequest,
        ReloadResult,
        kind="control",
        mutates=True,
        waits_s=60,
    ),
    Method(
        "log.level",
        ("log-level",),
        "Show or set the log level.",
        "A new level lasts until the next start or reload; without LEVEL the current one is shown.",
        "memoryd log-level debug",
        LogLevelRequest,
        LogLevelResult,
        kind="control",
        mutates=True,
    ),
    Method(
        "metrics",
        ("metrics",),
        "Print the daemon's metrics as Prometheus text.",
        "For the textfile collector of the Prometheus node exporter, or to read.",
        "memoryd metrics",
        NoParameters,
        MetricsResult,
    ),
    Method(
        "shutdown",
        ("stop",),
        "Stop the daemon and wait for it to exit.",
        "Work in progress is finished first, which takes a few seconds at most.",
        "memoryd stop",
        NoParameters,
        ShutdownResult,
        kind="control",
        mutates=True,
    ),
    Method(
        "rpc.discover",
        None,
        "Describe the protocol as an OpenRPC document.",
        "Made from the table that also builds the command line.",
        '{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}',
        NoParameters,
        DiscoverResult,
    ),
)
