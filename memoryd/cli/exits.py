"""Exit codes, and how an error is told: `memoryd: message`, then `hint: ...`, on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from memoryd.cli.screen import shown
from memoryd.control.wire import error_object, readable
from memoryd.errors import MemorydError

DONE = 0
FINDINGS = 1  # findings, nothing found, or the operation failed
USAGE = 2
DISK = 74  # the disk refused: full, read-only or failing; worth another try
NO_DAEMON = 69
INTERNAL = 70
BUSY = 75  # already running, or busy
PERMISSION = 77
CONFIG = 78
INTERRUPTED = 130

LINE = "\n"  # the one control character a message may hold


def of_result(method: str, result: dict[str, Any]) -> int:
    """The code for a command that was carried out: 1 where what it found is not as it should be."""
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


def stays_down(error: MemorydError, env: Mapping[str, str]) -> bool:
    """True where launchd started the daemon and another try would fail alike. launchd starts anew after every
    code but 0 and knows no exceptions, so such an end has to look like a wanted one."""
    return env.get("MEMORYD_SUPERVISOR") == "launchd" and error.exit_code in (USAGE, BUSY, PERMISSION, CONFIG)


def tell(error: MemorydError, *, as_json: bool) -> int:
    """Report an error and return its exit code. With --json standard output gets it as one document."""
    if as_json:
        print(json.dumps({"error": _plain(error_object(error))}, default=str))  # noqa: T201 - the face
    print(f"memoryd: {shown(error.message, LINE)}", file=sys.stderr)  # noqa: T201 - the face
    findings = error.data.get("findings", ())
    if len(findings) > 1:
        for each in findings:
            print(f"  {shown(str(each.get('field')))}: {shown(str(each.get('rule')))}", file=sys.stderr)  # noqa: T201 - the face
    if error.hint:
        print(f"hint: {shown(error.hint, LINE)}", file=sys.stderr)  # noqa: T201 - the face
    return error.exit_code


def _plain(error: dict[str, Any]) -> dict[str, Any]:
    return {**error, "message": readable(error["message"])}
