"""How the daemon and its roots look at a glance: ping, status, sync and the schedule."""

from __future__ import annotations

from typing import Any

from memoryd.cli.screen import Screen, duration, size, when

Result = dict[str, Any]


def ping(screen: Screen, result: Result) -> None:
    up = duration(result.get("uptime_s"))
    screen.say(f"memoryd {result.get('version')} answers: pid {result.get('pid')}, up {up}")


def status(screen: Screen, result: Result) -> None:
    used = result.get("resources", {})
    screen.say(
        f"memoryd {result.get('version')}: {result.get('state')} · pid {result.get('pid')} · "
        f"up {duration(result.get('uptime_s'))} · {size(used.get('rss_bytes'))}"
    )
    for root in result.get("roots", []):
        screen.say()
        _root(screen, root)
    if result.get("jobs"):
        screen.say()
        jobs(screen, result)


def _root(screen: Screen, root: Result) -> None:
    facts = [str(root.get(name)) for name in ("state", "layout", "mode", "path")]
    screen.say(f"{root.get('name')}: {' · '.join(facts)}")
    for reason in root.get("reasons", []):
        screen.say(f"  ! {reason}")
    watch, backups, locks = root.get("watch", {}), root.get("backups", {}), root.get("locks", [])
    screen.fields(
        [
            ("memories", f"{root.get('memories', 0)} and {root.get('archived', 0)} archived"),
            ("files", f"{root.get('files', 0)}, {size(root.get('bytes', 0))}"),
            ("index", f"generation {root.get('generation')}, {root.get('lag_ms') or 0:.0f} ms behind"),
            ("watch", f"{watch.get('mode')}, {watch.get('held')} of {watch.get('wanted')} watches"),
            ("last scan", when(root.get("last_scan"))),
            ("findings", counts(root.get("findings", {}))),
            ("locks", ", ".join(f"{lock.get('path')} ({lock.get('state')})" for lock in locks)),
            ("backups", f"{backups.get('count', 0)}, newest {when(backups.get('newest'))}"),
        ]
    )
    for limit in root.get("limits", []):
        if limit.get("level") != "ok":
            screen.say(f"  ! {_limit(limit)}")
        if limit.get("hint"):
            screen.say(f"    {limit['file']} {limit['hint']}")


def _limit(limit: Result) -> str:
    of_count = f"{limit.get('count')} of {limit.get('max_count') or 'any'} memories"
    of_bytes = f"{size(limit.get('bytes'))} of {size(limit.get('max_bytes'))}"
    return f"{limit.get('file')}: {limit.get('level')} its {limit.get('kind')} limit ({of_count}, {of_bytes})"


def counts(summary: Result) -> str:
    told = [f"{summary[kind]} {kind}" for kind in ("error", "warning", "info") if summary.get(kind)]
    return ", ".join(told) or "none"


def sync(screen: Screen, result: Result) -> None:
    for name, told in result.get("roots", {}).items():
        waited = f"waited {told.get('waited_ms', 0):.0f} ms"
        if told.get("written", True):
            screen.say(f"{name}: everything is in the index, generation {told.get('generation')} ({waited})")
        else:
            reason = told.get("reason", "no reason given")
            screen.say(f"{name}: known, but the index is not written: {reason} ({waited})")


def jobs(screen: Screen, result: Result) -> None:
    rows = [
        (
            j.get("name"),
            j.get("root"),
            j.get("schedule"),
            when(j.get("last_run")),
            j.get("last_result") or "-",
            when(j.get("next_run")),
        )
        for j in result.get("jobs", [])
    ]
    screen.table(("job", "root", "schedule", "last run", "result", "next run"), rows, empty="no jobs")
