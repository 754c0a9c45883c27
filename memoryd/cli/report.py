"""`memoryd report`: gather what the daemon knows of its roots, and write it as one page.

Only methods that every client has are called, so the page shows nothing that they would not, redacted as they are. A
page of memories is read of each root, never all of them: the growth comes as counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from memoryd.cli import exits
from memoryd.cli.calls import Values, call_daemon
from memoryd.cli.report_page import page_of
from memoryd.cli.screen import format_size, make_screen
from memoryd.cli.views_status import Result
from memoryd.control.methods import TABLE
from memoryd.control.wire import readable
from memoryd.core.secrets import redact
from memoryd.disk.atomic import replace
from memoryd.disk.disk_errors import refusal, remedy
from memoryd.disk.tree import Tree
from memoryd.errors import DeniedError, DiskError, MemorydError, NoDaemonError, UsageError

STDOUT = "-"
NEWEST = 10  # memories of each root
CHANGES = 10_000  # of each root, as many as the daemon returns

PARTS: Mapping[str, Mapping[str, object]] = {
    "check": {},
    "plan": {},
    "backup.list": {},
    "history.list": {"limit": CHANGES},
    "memory.list": {"limit": NEWEST, "archived": True, "months": True},
}
"""The methods that are called for each root, with their parameters."""


def run(socket: str, root: str | None, file: str) -> int:
    """Write the page to the file, or to standard output, and return the exit code: 1 if a part of it is missing.

    Raises UsageError if the file must not be replaced, and NoDaemonError.
    """
    target = None if file == STDOUT else _target(file)
    status = call_daemon(socket, "status", {} if root is None else {"root": root}, waits_s=TABLE["status"].waits_s)
    if target is not None:
        _require_outside(target, call_daemon(socket, "root.list", {}, waits_s=TABLE["root.list"].waits_s)["roots"])
    errors: list[MemorydError] = []
    parts = {row["name"]: _parts(socket, row["name"], errors) for row in status["roots"]}
    page = page_of(status, parts, time.time()).encode()
    if target is None:
        sys.stdout.buffer.write(page)
        sys.stdout.flush()
    else:
        _write(target, page)
        make_screen(sys.stdout).line(f"wrote {target} ({format_size(len(page))})")
    for error in {error.message: error for error in errors}.values():
        exits.report_error(error, as_json=False)
    return exits.FINDINGS if errors else exits.DONE


def _parts(socket: str, root: str, errors: list[MemorydError]) -> dict[str, Values]:
    """Return the result of each method for one root; of one that fails, its message as `error`. Adds the errors to
    `errors`. Raises NoDaemonError."""
    parts: dict[str, Values] = {}
    for name, params in PARTS.items():
        try:
            parts[name] = call_daemon(socket, name, {"root": root, **params}, waits_s=TABLE[name].waits_s)
        except NoDaemonError:
            raise
        except MemorydError as error:
            errors.append(error)
            parts[name] = {"error": error.message}
    return parts


def _target(file: str) -> str:
    """Return the real path of the page. Raises UsageError unless it is missing or a regular file in a directory."""
    directory, name = os.path.split(os.path.abspath(os.path.expanduser(file)))
    path = os.path.join(os.path.realpath(directory), name)
    if not file or not name or not os.path.isdir(directory):
        raise UsageError(f"--html: {directory} is not a directory", hint="make it first, or use - for standard output")
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        raise UsageError(f"--html: {path} is not a regular file", hint="name another, or use - for standard output")
    return path


def _require_outside(path: str, roots: Sequence[Result]) -> None:
    """Raise UsageError if the path is in a root: memoryd is a guest there, and would read the page as a memory. The
    paths of the roots are as answers have them, so those above the file are compared in the same form as well."""
    above = [*map(str, PurePath(path).parents)]
    identities = {_identity(each) for each in above} - {None}
    texts = {readable(redact(each)) for each in above}
    for root in roots:
        if root["path"] in texts or _identity(root["path"]) in identities:
            message = f"--html: {path} is in the root {root['name']}, where memoryd keeps no files of its own"
            raise UsageError(message, hint="name a file elsewhere")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _write(path: str, page: bytes) -> None:
    """Replace the file by the page: afterwards it is the old one or the new one. Raises MemorydError."""
    directory, name = os.path.split(path)
    try:
        with Tree(directory) as tree:
            replace(tree, name, page, expected=tree.stat(name))
    except OSError as error:
        message, code = f"{path} cannot be written: {error.strerror}", refusal(error)
        if code is None:
            raise DeniedError(message, hint="nothing was written") from error
        raise DiskError(message, hint=f"nothing was written; {remedy(error)}", data={"code": code}) from error
