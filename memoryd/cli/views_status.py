"""Output for people: the daemon, its roots and the schedule."""

from __future__ import annotations

from memoryd.cli.screen import Screen, format_duration, format_size, format_time

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Result: TypeAlias = "dict[str, Any]"


def show_ping(screen: Screen, result: Result) -> None:
    """Show that the daemon answers."""
    uptime = format_duration(result.get("uptime_s"))
    screen.line(f"memoryd {result.get('version')} answers: pid {result.get('pid')}, up {uptime}")


def show_status(screen: Screen, result: Result) -> None:
    """Show the daemon, each root and the schedule."""
    resources = result.get("resources", {})
    screen.line(
        f"memoryd {result.get('version')}: {result.get('state')} · pid {result.get('pid')} · "
        f"up {format_duration(result.get('uptime_s'))} · {format_size(resources.get('rss_bytes'))}"
    )
    for root in result.get("roots", []):
        screen.line()
        _root(screen, root)
    if result.get("jobs"):
        screen.line()
        show_jobs(screen, result)


def _root(screen: Screen, root: Result) -> None:
    facts = [str(root.get(name)) for name in ("state", "layout", "mode", "path")]
    screen.line(f"{root.get('name')}: {' · '.join(facts)}")
    for reason in root.get("reasons", []):
        screen.line(f"  ! {reason}")
    watch, backups, locks = root.get("watch", {}), root.get("backups", {}), root.get("locks", [])
    screen.fields(
        [
            ("memories", f"{root.get('memories', 0)} ({root.get('archived', 0)} archived)"),
            ("files", f"{root.get('files', 0)}, {format_size(root.get('bytes', 0))}"),
            ("index", f"generation {root.get('generation')}, {root.get('lag_ms') or 0:.0f} ms behind"),
            ("watch", f"{watch.get('mode')}, {watch.get('held')} of {watch.get('wanted')} watches"),
            ("last scan", format_time(root.get("last_scan"))),
            ("findings", format_counts(root.get("findings", {}))),
            ("locks", ", ".join(f"{lock.get('path')} ({lock.get('state')})" for lock in locks)),
            ("backups", f"{backups.get('count', 0)}, newest {format_time(backups.get('newest'))}"),
        ]
    )
    for limit in root.get("limits", []):
        if limit.get("level") != "ok":
            screen.line(f"  ! {_limit(limit)}")
        if limit.get("hint"):
            screen.line(f"    {limit['file']} {limit['hint']}")


def _limit(limit: Result) -> str:
    of_count = f"{limit.get('count')} of {limit.get('max_count') or 'any'} memories"
    of_bytes = f"{format_size(limit.get('bytes'))} of {format_size(limit.get('max_bytes'))}"
    return f"{limit.get('file')}: {limit.get('level')} its {limit.get('kind')} limit ({of_count}, {of_bytes})"


def format_counts(summary: Result) -> str:
    """Format the number of findings by severity, as in "2 error, 1 warning"."""
    counts = [f"{summary[kind]} {kind}" for kind in ("error", "warning", "info") if summary.get(kind)]
    return ", ".join(counts) or "none"


def show_sync(screen: Screen, result: Result) -> None:
    """Show the generation of the index of each root, or why the index is not written."""
    for name, root in result.get("roots", {}).items():
        waited = f"waited {root.get('waited_ms', 0):.0f} ms"
        if root.get("written", True):
            screen.line(f"{name}: the index is current, generation {root.get('generation')} ({waited})")
        else:
            reason = root.get("reason", "no reason given")
            screen.line(f"{name}: changes are read, but the index is not written: {reason} ({waited})")


def show_jobs(screen: Screen, result: Result) -> None:
    """Show the schedule as a table."""
    rows = [
        (
            j.get("name"),
            j.get("root"),
            j.get("schedule"),
            format_time(j.get("last_run")),
            j.get("last_result") or "-",
            format_time(j.get("next_run")),
        )
        for j in result.get("jobs", [])
    ]
    screen.table(("job", "root", "schedule", "last run", "result", "next run"), rows, empty="no jobs")
