"""`memoryd demo`: a real daemon on a throw-away store, with real agents, told as it happens.

Nothing is printed because it should have happened: every line is taken from files, events and replies, and what
does not happen in time is said to be missing and ends the demo with 1.
"""

from __future__ import annotations

import os
import sys

from memoryd.cli import exits
from memoryd.cli.demo import story
from memoryd.cli.demo.interrupts import InterruptedDemoError, Interrupts
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.stage import NotSeenError, Stage
from memoryd.cli.demo.voice import Voice

__all__ = ["run"]


def run(*, keep: bool = False) -> int:
    """Play the demo; the exit code: 0, 1 when something did not happen, 128 + the number of a signal."""
    voice = Voice(sys.stdout)
    with Interrupts() as interrupts:
        stage = Stage(interrupts)
        play = Play(stage, voice)
        try:
            code = _play(play, keep=keep)
        finally:
            stage.close(keep=keep)
    if keep:
        return code
    if os.path.lexists(stage.directory):
        voice.say("failed", f"{stage.directory} could not be removed")
        return exits.FINDINGS
    voice.title("The throw-away directory is removed")
    return code


def _play(play: Play, *, keep: bool) -> int:
    try:
        story.tell(play)
        story.summarise(play, keep=keep)
    except NotSeenError as error:
        _tell_failure(play, str(error), keep=keep)
        return exits.FINDINGS
    except InterruptedDemoError as error:
        play.voice.say("note", f"stopped by {error}")
        if keep:
            story.write_claims(play, ok=False, problem=f"stopped by {error}")
            play.voice.say("note", f"kept: {play.stage.directory}")
        return 128 + error.number
    return exits.DONE


def _tell_failure(play: Play, problem: str, *, keep: bool) -> None:
    play.voice.say("failed", f"this did not happen: {problem}")
    for line in play.stage.log_tail():
        play.voice.say("note", f"daemon.log: {line}")
    if keep:
        story.write_claims(play, ok=False, problem=problem)
        play.voice.say("note", f"kept: {play.stage.directory}")
    else:
        play.voice.say("note", "`memoryd demo --keep` leaves the files there to look at")
