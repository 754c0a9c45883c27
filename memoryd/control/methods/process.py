"""Methods about the daemon itself: its configuration, its log, its end, its protocol."""

from __future__ import annotations

from memoryd.control.methods.shared import DRY_RUN
from memoryd.control.methods.table import LEVELS, Field, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "config.show",
        ("config", "show"),
        "Show the configuration in force and where each value comes from.",
        "Defaults, the file and the command line, already merged.",
        "memoryd config show",
        (),
        (
            Field("path", "str", "the configuration file in use, if any"),
            Field("daemon", "object", "{KEY: {value, origin}}"),
            Field("roots", "object", "{NAME: {KEY: {value, origin}}}"),
        ),
        "read",
        False,
    ),
    Method(
        "config.validate",
        ("config", "validate"),
        "Check the configuration file without using it.",
        "Exits with 78 and names file, line and key when it cannot be used.",
        "memoryd config validate",
        (),
        (
            Field("added", "list", "what a reload would add"),
            Field("changed", "list", "what it would change"),
            Field("removed", "list", "what it would remove"),
        ),
        "read",
        False,
    ),
    Method(
        "config.reload",
        ("reload",),
        "Read the configuration file again and apply it.",
        "As a whole or not at all: when anything in it is wrong, the running configuration stays.",
        "memoryd reload --dry-run",
        (DRY_RUN,),
        (
            Field("added", "list", "what was added"),
            Field("changed", "list", "what was changed"),
            Field("removed", "list", "what was removed"),
        ),
        "control",
        True,
        waits_s=60,
    ),
    Method(
        "log.level",
        ("log-level",),
        "Set, or show, how much the daemon logs.",
        "Until the next start or reload; without a level it shows the present one.",
        "memoryd log-level debug",
        (Param("level", "str", "the level", cli="argument", choices=LEVELS),),
        (Field("level", "str", "the level in force"),),
        "control",
        True,
    ),
    Method(
        "metrics",
        ("metrics",),
        "Print the daemon's metrics as Prometheus text.",
        "For a node exporter's text file directory, or to look at.",
        "memoryd metrics",
        (),
        (Field("text", "str", "Prometheus text format 0.0.4"),),
        "read",
        False,
    ),
    Method(
        "shutdown",
        ("stop",),
        "Stop the daemon and wait until it is gone.",
        "Running work comes to a safe end first; it takes at most a few seconds.",
        "memoryd stop",
        (),
        (Field("stopping", "bool", "true"), Field("pid", "int", "process id of the daemon")),
        "control",
        True,
    ),
    Method(
        "rpc.discover",
        None,
        "Describe the protocol as an OpenRPC document.",
        "Made from the table that also builds the command line.",
        '{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}',
        (),
        (Field("openrpc", "str", "version of the OpenRPC format"), Field("methods", "list", "the methods")),
        "read",
        False,
    ),
)
