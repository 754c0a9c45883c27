"""The JSONL store, first look: what is wrong with it, then what memoryd puts right by itself."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any

from memoryd.cli.demo import reading
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.sample import Damage, build
from memoryd.cli.demo.voice import counted

ROOT = "memories"


def look(play: Play) -> None:
    """Observe mode: every finding is told, and no byte changes."""
    stage, voice = play.stage, play.voice
    store = stage.path(ROOT)
    play.damage = build(store)
    shutil.copytree(store, stage.path("before"))
    held = len(reading.live(store))
    voice.say("note", f"made {store}: {held} memories, and some damage", "sample", path=store, memories=held)
    stage.configure(ROOT, path=store, layout="jsonl-store", mode="observe")
    stage.start()
    pid = stage.call("ping")["pid"]
    voice.say("note", f"memoryd runs (pid {pid}), in observe mode: it may look, not write", "daemon", pid=pid)
    _tell_findings(play, stage.call("check")["findings"])
    _tell_index(play, store, held)
    before, after = reading.hashes(stage.path("before")), reading.hashes(store)
    play.require(before == after, "the files are as they were after a look in observe mode")
    voice.say("did", f"and no byte of {counted(len(after), 'file')} changed (sha256)", "untouched", files=after)


def _tell_findings(play: Play, findings: list[dict[str, Any]]) -> None:
    """Each thing that was broken on purpose has to be among them."""
    found = {(each["code"], each["path"], each.get("line")): each for each in findings}
    for damage in play.damage:
        finding = found.pop((damage.code, damage.path, damage.line), None)
        play.require(finding is not None, f"memoryd finds {damage.code} in {damage.path} line {damage.line}")
        if damage.code != "wide-permissions":
            place = f"{damage.path} line {damage.line}"
            voice_facts = {"code": damage.code, "path": damage.path, "line": damage.line}
            play.voice.say("found", f"{place} {damage.words}", "found", **voice_facts)
    _tell_modes(play, [damage for damage in play.damage if damage.code == "wide-permissions"])
    for finding in found.values():
        place = f"{finding['path']} line {finding['line']}" if "line" in finding else finding["path"]
        play.voice.say("found", f"{place}: {finding['message']}")


def _tell_modes(play: Play, wide: list[Damage]) -> None:
    names = ", ".join(damage.path or "the folder itself" for damage in wide)
    text = f"open to other users: {names}"
    play.voice.say("found", text, "found-wide", paths=[damage.path for damage in wide])


def _tell_index(play: Play, store: str, held: int) -> None:
    says = reading.index(store)["statistics"]["total_memories"]
    status = play.stage.call("status", root=ROOT)["roots"][0]
    play.require(says != held and status["memories"] == held, f"memoryd counts the {held} readable memories")
    text = f"index.json is out of date: it says {counted(says, 'memory', 'memories')}, the files hold {held}"
    play.voice.say("found", text, "index-stale", says=says, held=held)


def act(play: Play) -> None:
    """Maintain mode: index, permissions and backups; the memories themselves are left as they are."""
    stage, voice = play.stage, play.voice
    store = stage.path(ROOT)
    assert stage.events is not None
    voice.say("note", "from now it may write. The schedule is fast, so that you need not wait:")
    voice.say("note", "locks every 1 s (usually 10 s); a dead one may go after 3 s (usually 30 s)")
    stage.events.mark()
    fast = {"locks": "every 1s", "archive": "off", "limits": "off"}
    stage.configure(ROOT, mode="maintain", lock_stale_after_s=3, schedule=fast)
    stage.call("config.reload")
    stage.event(lambda event: bool(event.get("index")), "memoryd writes index.json")
    play.require(reading.agrees(store), "index.json says what a rebuild from the files says")
    held = reading.index(store)["statistics"]["total_memories"]
    evidence = play.keep_evidence(os.path.join(store, "index.json"), "index-made-true.json")
    text = f"index.json made true: {held} memories, equal to a rebuild"
    voice.say("did", text, "index-true", memories=held, evidence=evidence, sha256=reading.sha(stage.path(evidence)))
    _tell_closed(play, store)
    _tell_backups(play, store)
    _tell_kept(play, store)


def _tell_closed(play: Play, store: str) -> None:
    wide = [damage.path for damage in play.damage if damage.code == "wide-permissions"]
    event = play.stage.event(lambda event: event.get("operation") == "permissions", "memoryd closes the permissions")
    for path in wide:
        was = stat.S_IMODE(os.stat(os.path.join(play.stage.path("before"), path)).st_mode)
        now = stat.S_IMODE(os.stat(os.path.join(store, path)).st_mode)
        play.require(not now & 0o077, f"{path or 'the folder'} is closed to other users")
        name = path or "the folder itself"
        modes = {"before": f"{was:03o}", "after": f"{now:03o}"}
        text = f"{name}: mode {was:03o} is now {now:03o}"
        play.voice.say("did", text, "mode", path=path, receipt=event["receipt"], **modes)


def _tell_backups(play: Play, store: str) -> None:
    done = play.stage.event(lambda event: event.get("job") == "backup", "the backup job runs")
    play.require(done["result"] == "ok", f"the backup job succeeds, and not: {done['result']} {done['reason']}")
    listed = play.stage.call("backup.list", root=ROOT)["backups"]
    backups = [each for each in listed if each["id"].startswith(each["file"])]  # not the index that was replaced
    for backup in sorted(backups, key=lambda each: str(each["file"])):
        content = reading.sha(os.path.join(store, ".backup", backup["id"]))
        live = reading.sha(os.path.join(store, backup["file"]))
        play.require(content == live, f".backup/{backup['id']} is {backup['file']} byte for byte")
        text = f"backed up: .backup/{backup['id']}"
        play.voice.say("did", text, "backup", file=backup["file"], path=f".backup/{backup['id']}", sha256=content)


def _tell_kept(play: Play, store: str) -> None:
    same = {name: reading.sha(os.path.join(store, name)) for name in reading.LIVE}
    before = {name: reading.sha(os.path.join(play.stage.path("before"), name)) for name in reading.LIVE}
    play.require(same == before, "the memory files are as they were")
    text = "the memories, broken lines too, are byte for byte as before"
    play.voice.say("note", text, "untouched", files=same)
