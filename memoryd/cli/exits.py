"""Exit codes and error messages: `memoryd: message`, then `hint: ...`, on standard error.

Each error class in `memoryd.errors` has its exit code; this module has the meanings of the codes and the codes of
results. If an extra is missing, the hint is the command that installs it with the tool used for this installation.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence

from memoryd.cli.screen import printable
from memoryd.control.wire import error_object, readable
from memoryd.errors import MemorydError

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any

DONE = 0
FINDINGS = 1
USAGE = 2
NO_DAEMON = 69
INTERNAL = 70
DISK = 74
BUSY = 75
PERMISSION = 77
CONFIG = 78
INTERRUPTED = 130

MEANINGS: Mapping[int, str] = {
    DONE: "success",
    FINDINGS: "findings, no result, or the operation failed",
    USAGE: "wrong usage",
    NO_DAEMON: "no daemon answers",
    INTERNAL: "internal error",
    DISK: "disk full, read-only or failing; try again later",
    BUSY: "already running, or busy",
    PERMISSION: "permission denied",
    CONFIG: "invalid configuration",
    INTERRUPTED: "interrupted",
}

_REQUIREMENT = r"""(?P<package>[^;]+?)\s*;.*\bextra\s*==\s*["'](?P<extra>[\w-]+)["'].*"""
LINE = "\n"  # the one control character a message may hold


def of_result(method: str, result: dict[str, Any]) -> int:
    """Return the exit code of a command that was carried out: 1 if its result reports a problem or is empty."""
    if result.get("errors") and method != "memory.get":  # one root is enough for the memory that was asked for
        return FINDINGS
    match method:
        case "check":
            summary = result.get("summary", {})
            return FINDINGS if summary.get("error") or summary.get("warning") else DONE
        case "memory.search":
            return DONE if result.get("hits") else FINDINGS
        case "backup.verify":
            return DONE if all(backup.get("valid") for backup in result.get("backups", [])) else FINDINGS
        case "jobs.run":
            failed = any("fail" in str(job.get("last_result")) for job in result.get("jobs", []))
            return FINDINGS if failed else DONE
        case _:
            return DONE


def is_final_for_launchd(error: MemorydError, env: Mapping[str, str]) -> bool:
    """Return True if launchd started the daemon and another attempt would fail in the same way.

    launchd restarts after every exit code but 0, so such an exit must use 0.
    """
    return env.get("MEMORYD_SUPERVISOR") == "launchd" and error.exit_code in (USAGE, BUSY, PERMISSION, CONFIG)


def report_error(error: MemorydError, *, as_json: bool) -> int:
    """Print an error and return its exit code. With --json it also goes to standard output, as one document."""
    if as_json:
        document = {"error": {**error_object(error), "message": readable(error.message)}}
        print(json.dumps(document, default=str))  # noqa: T201 - user output
    print(f"memoryd: {printable(error.message, LINE)}", file=sys.stderr)  # noqa: T201 - user output
    findings = error.data.get("findings", ())
    if len(findings) > 1:
        for each in findings:
            print(f"  {printable(str(each.get('field')))}: {printable(str(each.get('rule')))}", file=sys.stderr)  # noqa: T201 - user output
    if error.hint:
        print(f"hint: {printable(error.hint, LINE)}", file=sys.stderr)  # noqa: T201 - user output
    if isinstance(extra := error.data.get("extra"), str):
        print(f"hint: {printable(command_for(extra))}", file=sys.stderr)  # noqa: T201 - user output
    return error.exit_code


def command_for(extra: str, prefix: str = sys.prefix, python: str = sys.executable) -> str:
    """Return the command line that installs what the extra needs beside this memoryd.

    It names the packages, because only a checkout has memoryd itself under a name that pip can install. pipx and uv can
    keep their environments anywhere; each leaves a file of its own in them.
    """
    import shlex  # noqa: PLC0415 - for this rare hint only

    packages = shlex.join(packages_of(extra))
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return f"pipx inject {shlex.quote(os.path.basename(prefix))} {packages}"
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return f"uv pip install --python {shlex.quote(python)} {packages}"
    return f"{shlex.quote(python)} -m pip install {packages}"


def packages_of(extra: str, requirements: Sequence[str] | None = None) -> list[str]:
    """Return the requirements of an extra for pip; the name of the extra if the installation has no metadata."""
    if requirements is None:
        from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - loads the e-mail package

        try:
            requirements = requires("memoryd") or []
        except PackageNotFoundError:
            requirements = []
    matches = (
        match for each in requirements if (match := re.fullmatch(_REQUIREMENT, each)) and match["extra"] == extra
    )
    return [match["package"].strip() for match in matches] or [extra]
