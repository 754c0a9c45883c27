"""The `memoryd` program: runs one command and reports every error.

Prompts and scripts call `memoryd ping` and `memoryd status` often. Importing click and the method table takes much
longer than calling the daemon, so this module runs these two itself if the command line has only global options and
--json besides. `cli.program` runs every other command line.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from memoryd.cli import exits
from memoryd.cli.calls import call_daemon, require_valid_configuration
from memoryd.cli.screen import Screen, make_screen, print_json
from memoryd.cli.views_status import Result, show_ping, show_status
from memoryd.config.socket_path import find_socket
from memoryd.errors import DiskError, MemorydError, NoDaemonError, UsageError, place_of

QUICK: Mapping[str, Callable[[Screen, Result], None]] = {"ping": show_ping, "status": show_status}
QUICK_WAITS_S = 10  # `waits_s` of these two in the method table
_OUTPUT_REFUSED = {
    errno.ENOSPC: "no space is left on its device",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "its file would exceed the limit on the size of a file",
}
_OPTIONS = ("--config", "--state-dir", "--socket")  # in the order of the parameters of `find_socket`


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    _open_closed_streams()
    words = sys.argv[1:] if argv is None else argv
    if _split(words)[1][:1] == ["run"]:
        _end_on_signals()
        gc.set_threshold(20_000, 20, 20)  # imports and a first index make many objects, and hardly any garbage
    sys.exit(run(words))


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Every error is reported here, as a message and a hint."""
    as_json = "--json" in argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(argv)
        sys.stdout.flush()
    except MemorydError as error:
        return exits.report_error(error, as_json=as_json)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # noqa: T201 - ends the line that shows ^C
        return exits.INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return exits.FINDINGS
    except OSError as error:
        return _report_os_error(error, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - a bug is reported as a message, not a traceback
        return exits.report_error(_internal_error(error), as_json=as_json)
    return code


def _run(argv: Sequence[str]) -> int:
    places, words = _split(argv)
    name, *options = words or [""]
    if name not in QUICK or options not in ([], ["--json"]) or os.environ.get("_MEMORYD_COMPLETE"):
        from memoryd.cli.program import run_program  # noqa: PLC0415 - loads click and the method table

        return run_program(argv)
    named = [places.get(option) for option in _OPTIONS]
    try:
        result = call_daemon(find_socket(*named), name, {}, waits_s=QUICK_WAITS_S)
    except NoDaemonError:
        require_valid_configuration(*named)
        raise
    if options:
        print_json(result)
    else:
        QUICK[name](make_screen(sys.stdout), result)
    sys.stdout.flush()
    return exits.DONE


def _split(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split off the leading global options, written as `--name value` or `--name=value`."""
    places, words = {}, list(argv)
    while words and (named := words[0].partition("="))[0] in _OPTIONS:
        if not named[1] and (len(words) == 1 or words[1].startswith("-")):
            break
        places[named[0]] = named[2] if named[1] else words.pop(1)
        del words[0]
    return places, words


def _end_on_signals() -> None:
    """Let SIGTERM and SIGINT end the process with 0. The daemon takes them over once there is something to put in
    order, after half a second of imports."""
    import signal  # noqa: PLC0415 - takes a client command too long

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(exits.DONE))


def _report_os_error(error: OSError, *, as_json: bool) -> int:
    """Report what this process was denied by the system rather than by a root or the daemon; return the exit code."""
    if error.errno in _OUTPUT_REFUSED:
        _close_stdout()
        message = f"the output cannot be written: {_OUTPUT_REFUSED[error.errno]}"
        return exits.report_error(DiskError(message, data={"code": "disk-full"}), as_json=False)
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        hint = "change to another one, for example with `cd`"
        return exits.report_error(
            UsageError("the working directory does not exist any more", hint=hint), as_json=as_json
        )
    return exits.report_error(_internal_error(error), as_json=as_json)


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _internal_error(error: Exception) -> MemorydError:
    hint = f"please report it, with {place_of(error)}"
    return MemorydError(f"internal error: {type(error).__name__}: {error}", hint=hint)


def _open_closed_streams() -> None:
    """Open the null device as each standard stream that the caller closed (`>&-`).

    Python has None in its place. The descriptor would go to the next file that is opened, and whatever a library prints
    would be written into that file. Lowest number first: `open` takes the lowest free one.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - stays open, as a stream does


def _close_stdout() -> None:
    """Redirect standard output after its reader has gone, so that the interpreter reports no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
