"""`memoryd demo`: a real daemon with real agents in a throw-away directory, explained line by line as it happens.

Each line states what was read from files and replies. If an expected event does not happen in time, the demo ends with
exit code 1.
"""

from __future__ import annotations

import sys

from memoryd.cli import exits
from memoryd.cli.demo import script
from memoryd.cli.demo.sandbox import InterruptedDemoError, Interrupts, Narrator, NotObservedError, Sandbox

__all__ = ["run"]


def run(*, keep: bool = False) -> int:
    """Run the demo. Return 0, 1 if something did not happen, or 128 + the number of the signal that ended it."""
    with Interrupts() as interrupts:
        sandbox = Sandbox(interrupts, Narrator(sys.stdout))
        try:
            code = _perform(sandbox, keep=keep)
        finally:
            sandbox.close(keep=keep)
    if not keep:
        sandbox.narrator.title("The throw-away directory is removed")
    return code


def _perform(sandbox: Sandbox, *, keep: bool) -> int:
    try:
        script.perform(sandbox, keep=keep)
    except NotObservedError as error:
        sandbox.say("failed", f"this did not happen: {error}")
        for line in sandbox.log_tail():
            sandbox.say("note", f"daemon.log: {line}")
        hint = f"kept: {sandbox.directory}" if keep else "`memoryd demo --keep` keeps the files for inspection"
        sandbox.say("note", hint)
        return exits.FINDINGS
    except InterruptedDemoError as error:
        sandbox.say("note", f"stopped by {error}" + (f"; kept: {sandbox.directory}" if keep else ""))
        return 128 + error.number
    return exits.DONE
