"""Output for people: the daemon, its roots and the schedule."""

from __future__ import annotations

from memoryd.cli.screen import Screen, format_duration, format_size

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Result: TypeAlias = "dict[str, Any]"


def show_ping(screen: Screen, result: Result) -> None:
    """Show that the daemon answers."""
    uptime = format_duration(result.get("uptime_s"))
    screen.line(f"memoryd {result.get('version')} answers: pid {result.get('pid')}, up {uptime}")


def show_status(screen: Screen, result: Result) -> None:
    """Show the daemon and its roots: one root in detail, several on a line each with the worst reason of each."""
    screen.line(format_daemon(result))
    if result.get("notice"):
        screen.line(f"! {result['notice']}")
    roots = result.get("roots", [])
    if len(roots) == 1:
        screen.line()
        _root(screen, roots[0])
    elif roots:
        _overview(screen, roots)
    show_job_errors(screen, result)


def show_job_errors(screen: Screen, result: Result) -> None:
    """Show why jobs failed, a line for each."""
    for job in result.get("jobs", []):
        if job.get("last_error"):
            screen.note(f"! job {job.get('name')} of {job.get('root')}: {job['last_error']}")


def format_daemon(result: Result) -> str:
    """Format the state of the daemon, and the memory it uses."""
    return (
        f"memoryd {result.get('version')}: {result.get('state')} · pid {result.get('pid')} · "
        f"up {format_duration(result.get('uptime_s'))} · {format_size(result.get('resources', {}).get('rss_bytes'))}"
    )


def _overview(screen: Screen, roots: list[Result]) -> None:
    rows = [
        (
            root.get("name"),
            format_state(root),
            root.get("memories", 0),
            format_size(root.get("bytes", 0)),
            format_counts(root.get("findings", {})),
            root.get("backups", {}).get("count", 0),
            screen.when(root.get("last_scan")),
        )
        for root in roots
    ]
    screen.table(("root", "state", "memories", "size", "findings", "backups", "last scan"), rows)
    show_reasons(screen, roots)


def show_reasons(screen: Screen, roots: list[Result]) -> None:
    """Show the worst reason of each root that needs attention, a line for each."""
    more = 0
    for root in roots:
        reasons = _reasons(root)
        more += max(0, len(reasons) - 1)
        for reason in reasons[:1]:
            screen.note(f"! {root.get('name')}: {reason}")
    if more:
        screen.line(f"{more} more; see `memoryd status ROOT`")


def format_state(root: Result) -> str:
    """Format the state of a root, with how far it has been read."""
    progress = root.get("progress") or {}
    return f"{root.get('state')} {progress['percent']} %" if "percent" in progress else str(root.get("state"))


def _reasons(root: Result) -> list[str]:
    limits = [_limit(limit) for limit in root.get("limits", []) if limit.get("level") != "ok"]
    return [*map(str, root.get("reasons", [])), *limits]


def format_progress(progress: Result) -> str:
    """Format how far long work is, as in "reading 34 % (12.4 MB of 36.6 MB), 1.5 MB/s, 17 s left"."""
    plain = progress.get("unit") != "bytes"
    done, total, rate = (
        f"{amount:.0f}" if plain and isinstance(amount, (int, float)) else format_size(amount)
        for amount in (progress.get("done"), progress.get("total"), progress.get("rate"))
    )
    text = f"{progress.get('step')} {progress.get('percent')} % ({done} of {total}{' memories' if plain else ''})"
    if progress.get("left_s") is None:
        return text
    return f"{text}, {rate}/s, {format_duration(progress['left_s'])} left"


def _root(screen: Screen, root: Result) -> None:
    watch, backups, locks = root.get("watch", {}), root.get("backups", {}), root.get("locks", [])
    progress = root.get("progress")
    newest = f", newest {screen.when(backups['newest'])}" if backups.get("newest") else ""
    screen.heading(str(root.get("name")))
    screen.fields(
        [
            ("state", root.get("state")),
            ("progress", format_progress(progress) if progress else None),
            ("layout", f"{root.get('layout') or 'none'}, {root.get('mode')}"),
            ("path", root.get("path")),
            ("memories", f"{root.get('memories', 0)} ({root.get('archived', 0)} archived)"),
            ("files", f"{root.get('files', 0)}, {format_size(root.get('bytes', 0))}"),
            ("index", _index(root)),
            ("watch", _watch(watch)),
            ("last scan", screen.when(root.get("last_scan"))),
            ("findings", format_counts(root.get("findings", {}))),
            ("locks", ", ".join(f"{lock.get('path')} ({lock.get('state')})" for lock in locks)),
            ("backups", f"{backups.get('count', 0)}{newest}"),
        ]
    )
    for reason in root.get("reasons", []):
        screen.paragraph(f"! {reason}")
    for limit in root.get("limits", []):
        if limit.get("level") != "ok":
            screen.paragraph(f"! {_limit(limit)}")
        if limit.get("hint"):
            screen.paragraph(f"{limit['file']} {limit['hint']}", 4)


def _index(root: Result) -> str:
    """Return how current the index is; before the first scan is complete, its lag says nothing."""
    if root.get("last_scan") is None:
        return "not complete yet"
    return f"generation {root.get('generation')}, {root.get('lag_ms') or 0:.0f} ms behind"


def _watch(watch: Result) -> str:
    """Return how a root is watched; before its first scan is complete, the directories are not counted."""
    if not watch.get("wanted"):
        return str(watch.get("mode"))
    return f"{watch.get('mode')}, {watch.get('held')} of {watch.get('wanted')} watches"


def _limit(limit: Result) -> str:
    of_count = f"{limit.get('count')} of {limit.get('max_count') or 'any'} memories"
    of_bytes = f"{format_size(limit.get('bytes'))} of {format_size(limit.get('max_bytes'))}"
    return f"{limit.get('file')}: {limit.get('level')} its {limit.get('kind')} limit ({of_count}, {of_bytes})"


def limit_share(limit: Result) -> float:
    """Return how much of a limit is used: 1 is all of it."""
    pairs = (("count", "max_count"), ("bytes", "max_bytes"))
    return max((limit.get(used, 0) / limit[most] for used, most in pairs if limit.get(most)), default=0.0)


def format_counts(summary: Result) -> str:
    """Format the number of findings by severity, as in "2 errors, 1 warning"."""
    kinds = (("error", "errors"), ("warning", "warnings"), ("info", "info"))
    counts = [f"{summary[one]} {one if summary[one] == 1 else many}" for one, many in kinds if summary.get(one)]
    return ", ".join(counts) or "none"


def name_action(action: Result, *, with_root: bool = False) -> tuple[object, object]:
    """Return what an action of a plan does, and to which file, in words for people. An action on the directory itself
    has the name of its root."""
    kind, path, root = action.get("kind"), action.get("path"), action.get("root")
    if path in (None, "", "."):
        location = root or "."
        if kind == "copy":
            location = f"all files of {root}" if with_root else "all files"
    else:
        location = f"{root}/{path}" if with_root else path
    return "back up" if kind == "copy" else kind, location


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
            screen.when(j.get("last_run")),
            j.get("last_result") or "-",
            "when writing is allowed" if j.get("waits") else screen.when(j.get("next_run")),
        )
        for j in result.get("jobs", [])
    ]
    screen.table(("job", "root", "schedule", "last run", "result", "next run"), rows, empty="no jobs")
