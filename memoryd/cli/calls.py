"""Calls of the daemon: timeouts, memories too long for one reply, and waiting for `stop`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from memoryd.control.client import Client
from memoryd.errors import ConflictError, MemorydError, UsageError

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from memoryd.config.settings import Config

STOP_WAIT_S = 10.0
_REPLY_MARGIN_S = 10
LONG_S = 30  # methods that may take longer show a bar

Values: TypeAlias = "dict[str, Any]"


def call_daemon(path: str, method: str, params: Values, *, waits_s: float, quiet: bool = False) -> Values:
    """Call a method of the daemon and return its result. `quiet`: do not print the evidence before a forced removal."""
    with Client(path) as client:
        if params.get("force") and not quiet:
            from memoryd.cli.views import print_for_people  # noqa: PLC0415 - only before a forced removal

            locks = client.call("lock.list", {key: params[key] for key in params if key != "force"})
            print_for_people("lock.list", locks)
        if waits_s > LONG_S and not quiet:
            from memoryd.cli.progress_bar import daemon_bars, show  # noqa: PLC0415 - only for long work

            with show(daemon_bars(path, params.get("root"))):
                result = _call(client, method, params, _timeout(waits_s, params))
        else:
            result = _call(client, method, params, _timeout(waits_s, params))
    if not isinstance(result, dict):
        result = {"result": result}
    if method == "shutdown" and isinstance(result.get("pid"), int):
        from memoryd.cli.progress_bar import show, wait_bars  # noqa: PLC0415 - as above

        with show(wait_bars("memoryd is stopping", STOP_WAIT_S)):
            wait_until_stopped(path, result["pid"])
    return result


def require_valid_configuration(config: str | None, state_dir: str | None, socket: str | None) -> None:
    """Raise ConfigError if the command line or the environment names a configuration file that is invalid: where no
    daemon answers, it is the likely reason."""
    if config or os.environ.get("MEMORYD_CONFIG"):
        load_configuration(config, state_dir, socket)


def load_configuration(config: str | None, state_dir: str | None, socket: str | None) -> Config:
    """Read the configuration of a command line, not that of a running daemon. Raises ConfigError."""
    from memoryd.config.load import load  # noqa: PLC0415 - only for commands that need no daemon
    from memoryd.config.places import find_places  # noqa: PLC0415 - as above
    from memoryd.layouts.registry import known_limits  # noqa: PLC0415 - as above

    return load(find_places(config, state_dir, socket), known_limits=known_limits())


def layout_of(path: str, root: str | None) -> str | None:
    """Return the layout of a root, of the only one if none is named; None if there are several or it is unknown."""
    with Client(path) as client:
        layouts = {each["name"]: each.get("layout") for each in client.call("root.list").get("roots", [])}
    return layouts.get(root) if root is not None else next(iter(layouts.values())) if len(layouts) == 1 else None


def _call(client: Client, method: str, params: Values, timeout: float) -> Any:
    try:
        return client.call(method, params, timeout=timeout)
    except UsageError as error:
        if method != "memory.get" or "offset" not in error.data:
            raise
    again = {key: value for key, value in params.items() if key != "touch"}  # the first call has counted the read
    return join_parts(lambda offset: client.call(method, {**again, "offset": offset}, timeout=timeout))


def _timeout(waits_s: float, params: Values) -> float:
    """Return a time limit in seconds, longer than the daemon's own, so that the user gets the daemon's reply."""
    if "timeout_ms" in params:
        return float(params["timeout_ms"]) / 1000 + _REPLY_MARGIN_S
    return waits_s + _REPLY_MARGIN_S


def join_parts(get_part: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """Join the parts of a long memory to the result that `memory.get` returns for a short one.

    `get_part` returns the part that starts at a character offset. Raises ConflictError if the memory changed between
    two parts.
    """
    parts = [get_part(0)]
    while "next_offset" in parts[-1]:
        parts.append(get_part(parts[-1]["next_offset"]))
    first = parts[0]
    if any(part["sha256"] != first["sha256"] for part in parts):
        raise ConflictError(f"{first['id']} changed while it was being read", hint="try again")
    text = "".join(part["part"] for part in parts)
    location = {key: first[key] for key in ("root", "id", "path", "line", "layout", "archived")}
    memory = json_object(text)
    return (
        {**location, "memory": memory} if memory is not None else {**location, "memory": {"text": text}, "text": text}
    )


def json_object(data: str | bytes) -> dict[str, Any] | None:
    """Return a JSON object, or None for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def wait_until_stopped(path: str, pid: int) -> None:
    """Return when the process has ended. Raises MemorydError after `STOP_WAIT_S` seconds. The socket is only tried if
    the PID is our own, so that of a daemon in another container: connecting to that of a service manager would start
    the daemon again."""
    from memoryd.disk.processes import liveness  # noqa: PLC0415 - psutil, which only `stop` needs

    deadline = time.monotonic() + STOP_WAIT_S
    while _is_answering(path) if pid == os.getpid() else liveness(pid)[0] != "dead":
        if time.monotonic() > deadline:
            raise MemorydError(
                f"the daemon (pid {pid}) is still stopping after {STOP_WAIT_S:.0f} s",
                hint="see its log; a second signal ends it at once",
            )
        time.sleep(0.02)


def _is_answering(path: str) -> bool:
    try:
        with Client(path, timeout=1) as client:
            client.call("ping")
    except MemorydError:
        return False
    return True
