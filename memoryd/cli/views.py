"""Print results: as JSON, or for people with one function per method (`show_generic` for a method without one).

A result from another version of the daemon may lack members or have more; a view shows what it knows and never fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memoryd.cli.screen import Screen, format_duration, format_size, format_time, make_screen, printable
from memoryd.cli.views_memories import show_forgotten, show_hits, show_memories, show_memory, show_stored
from memoryd.cli.views_status import Result, format_counts, name_action, show_jobs, show_ping, show_status, show_sync
from memoryd.config.toml_text import toml

View = Callable[[Screen, Result], None]


def show_findings(screen: Screen, result: Result) -> None:
    """Show findings as a table, and their number by severity."""
    findings = result.get("findings", [])
    if findings:
        headers = ("severity", "code", "place", "message", "repair")
        screen.table(headers, map(_finding, findings), wrapped=("message",))
        _truncated(screen, result)
    screen.line(f"findings: {format_counts(result.get('summary', {}))}")


def _finding(finding: Result) -> tuple[object, ...]:
    location = finding_place(finding, finding.get("root"))
    severity, code = finding.get("severity"), finding.get("code")
    return severity, code, location, finding.get("message"), "fixable" if finding.get("fixable") else "-"


def finding_place(finding: Result, root: object = None) -> str:
    """Return the file of a finding and its line or memory, below `root` if that is given."""
    within = f":{finding['line']}" if finding.get("line") else f" {finding['id']}" if finding.get("id") else ""
    return "/".join(str(each) for each in (root, finding.get("path")) if each) + within


def _truncated(screen: Screen, result: Result, prefix: str = "") -> None:
    """Report truncated lists (a reply is limited in length) whose name starts with `prefix`."""
    totals = {name: count for name, count in result.get("truncated", {}).items() if name.startswith(prefix)}
    for name, count in totals.items():
        if isinstance(result.get(name), list):
            screen.line(f"only the first {len(result[name])} of {count} {name}; name a root or file to see the rest")
        else:  # a list within another one
            screen.line(f"{name}: {count} in all, not all of them shown")


def show_plan(screen: Screen, result: Result) -> None:
    """Show what each root would do now, and when its jobs are due."""
    for root in result.get("roots", []):
        screen.heading(str(root.get("name")))
        screen.paragraph(["next:", *_next_runs(screen, root.get("due"), root.get("waits"))])
        _actions(screen, root.get("actions", []))
    _truncated(screen, result)


def _next_runs(screen: Screen, due: object, waits: object) -> list[str]:
    """Return the next run of each job, the soonest first, after those that only wait until they may write."""
    runs = sorted((at, job) for job, at in due.items() if at is not None) if isinstance(due, dict) else []
    times = [f"{job} {screen.when(at)}," for at, job in runs]
    if isinstance(waits, dict) and waits:
        times = ["at once, when writing is allowed:", *(f"{job}," for job in waits), *times]
    return [*times[:-1], times[-1].rstrip(",")] if times else ["-"]


def _actions(screen: Screen, actions: Sequence[Result]) -> None:
    several = len({a.get("root") for a in actions}) > 1
    rows = [(*name_action(a, with_root=several), _ids(a.get("ids", [])), a.get("why")) for a in actions]
    screen.table(("action", "file", "memories", "why"), rows, empty="nothing to do", wrapped=("memories", "why"))


def _ids(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= 3 else f"{', '.join(ids[:2])} and {len(ids) - 2} more"


def show_change(screen: Screen, result: Result) -> None:
    """Show a plan, and its receipt if it was carried out."""
    if "plan" in result:
        _actions(screen, result["plan"].get("actions", []))
        _truncated(screen, result, "plan.")
    if result.get("diff"):
        screen.line(str(result["diff"]).rstrip("\n"))
    if result.get("backups"):
        show_backups(screen, result)
    for path in result.get("cleared", []):
        screen.line(f"removed {path}")
    _receipts(screen, result)


def _receipts(screen: Screen, result: Result) -> None:
    """Show the receipt of each change that was made, and how to undo it."""
    by_root = [{"receipt": receipt, "root": root} for root, receipt in result.get("receipts", {}).items()]
    single = [{"receipt": result["receipt"]}] if result.get("receipt") else []
    changes = result.get("changes") or by_root or single
    several = len({each.get("root") for each in changes}) > 1
    for each in changes:
        where = f" in {each.get('root')}" if several else ""
        what = f" ({each['operation']})" if len(changes) > 1 and each.get("operation") else ""
        undo = f"; to undo it: `memoryd undo {each['receipt']}`" if each.get("undoable", True) else ""
        screen.line(f"done{where}, receipt {each['receipt']}{what}{undo}")


def show_reindex(screen: Screen, result: Result) -> None:
    """Show how many memories were read, and which index files changed."""
    if "memories" in result:
        read = result["memories"]
        changed = f"wrote {', '.join(result['written'])}" if result.get("written") else "no index file changed"
        screen.line(f"read {read} {'memory' if read == 1 else 'memories'}; {changed}")
    else:
        show_change(screen, result)


def show_backups(screen: Screen, result: Result) -> None:
    """Show backups as a table."""
    rows = [
        (
            b.get("id"),
            b.get("root"),
            b.get("file") or "-",
            screen.when(b.get("taken")),
            format_size(b.get("bytes")),
            "valid" if b.get("valid") else b.get("problem") or "damaged",
        )
        for b in result.get("backups", [])
    ]
    screen.table(("id", "root", "file", "taken", "size", "content"), rows, empty="no backups", wrapped=("content",))
    _truncated(screen, result)


def show_locks(screen: Screen, result: Result) -> None:
    """Show locks with their holders and the evidence."""
    rows = [
        (
            k.get("root"),
            k.get("path"),
            k.get("state"),
            k.get("pid") or "-",
            format_duration(k.get("age_s")),
            k.get("evidence"),
        )
        for k in result.get("locks", [])
    ]
    screen.table(("root", "lock", "state", "pid", "age", "evidence"), rows, empty="no locks", wrapped=("evidence",))


def show_cleared_locks(screen: Screen, result: Result) -> None:
    """Show locks, and those that were removed."""
    show_locks(screen, result)
    show_change(screen, {key: result[key] for key in ("cleared", "receipt") if key in result})


def show_job_results(screen: Screen, result: Result) -> None:
    """Show the schedule, then what the job did in each root."""
    show_jobs(screen, result)
    for root, job_result in result.get("results", {}).items():
        screen.line(f"{root}:")
        if "created" in job_result:
            rows = [
                (each.get("file") or "the whole root", each.get("outcome"), each.get("id"))
                for each in job_result["created"]
            ]
            screen.table(("file", "backup", "id"), rows, empty="nothing to back up")
        elif "locks" in job_result:
            show_locks(screen, job_result)
        elif "plan" in job_result:
            show_change(screen, job_result)
        else:
            screen.line("done")


def show_history(screen: Screen, result: Result) -> None:
    """Show the journal of changes."""
    rows = [
        (
            e.get("receipt"),
            screen.when(e.get("at")),
            e.get("root"),
            e.get("operation"),
            e.get("by"),
            f"{e.get('summary')}{' (undone)' if e.get('undone') else ''}",
        )
        for e in result.get("entries", [])
    ]
    headers = ("receipt", "when", "root", "operation", "by", "what")
    screen.table(headers, rows, empty="no changes yet", one_line=("what",), spare=("by",))
    _truncated(screen, result)


def show_roots(screen: Screen, result: Result) -> None:
    """Show roots as a table, and what is wrong with them."""
    roots = result.get("roots", [])
    rows = [(r.get("name"), r.get("state"), r.get("layout") or "-", r.get("mode"), r.get("path")) for r in roots]
    screen.table(("name", "state", "layout", "mode", "path"), rows, empty="no roots; see `memoryd root add --help`")
    for root in roots:
        for reason in root.get("reasons", []):
            screen.paragraph(f"! {root.get('name')}: {reason}", 0)


def show_removed(screen: Screen, result: Result) -> None:
    """Show which roots are no longer looked after."""
    for root in result.get("roots", []):
        screen.line(f"removed {root.get('name')}; the files in {root.get('path')} stay as they are")


def show_settings(screen: Screen, result: Result) -> None:
    """Show the configuration in force, with the origin of each value: without `all`, only what is not a default."""
    screen.line(f"configuration file: {result.get('path') or 'none, defaults only'}")
    rows = list(_flatten("", {key: result.get(key, {}) for key in ("daemon", "search", "roots")}))
    changed = [row for row in rows if row[2] != "default"]
    if result.get("all"):
        screen.table(("key", "value", "origin"), rows, wrapped=("value",))
        return
    screen.table(("key", "value", "origin"), changed, wrapped=("value",), empty="every key has its default")
    if changed and len(changed) < len(rows):
        screen.line(f"{len(rows) - len(changed)} more keys have their default; --all shows them")


def _flatten(prefix: str, value: object) -> Iterable[tuple[object, ...]]:
    """Yield a row for each {value, origin} in nested dictionaries."""
    if not isinstance(value, dict):
        yield prefix, value, ""
    elif set(value) == {"value", "origin"}:
        yield prefix, _format_setting(value["value"]), value["origin"]
    else:
        for key, inner in value.items():
            yield from _flatten(f"{prefix}.{key}" if prefix else str(key), inner)


def _format_setting(value: object) -> object:
    """Return a value as the configuration file has it; a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return toml({key: each for key, each in value.items() if each is not None})
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list) else value


def show_validation(screen: Screen, result: Result) -> None:
    """Show that the configuration file is valid, and its roots."""
    names = ", ".join(result.get("roots", [])) or "none"
    path = f"{result['path']}: valid" if result.get("path") else "no configuration file; defaults are valid"
    screen.line(f"{path}; roots: {names}")


def show_reload(screen: Screen, result: Result) -> None:
    """Show what reloading the configuration adds, changes and removes, or would with --dry-run."""
    verbs = {"added": "would add", "changed": "would change", "removed": "would remove"}
    changes = [(verbs[name] if result.get("dry_run") else name, result.get(name, [])) for name in verbs]
    if not any(names for _, names in changes):
        screen.line("no changes")
    for name, names in changes:
        for entry in names:
            screen.line(f"{name}: {entry}")


def show_generic(screen: Screen, result: Result) -> None:
    """Show any result as names and values."""
    screen.fields(result.items(), indent=0)


VIEWS: dict[str, View] = {
    "ping": show_ping,
    "status": show_status,
    "sync": show_sync,
    "check": show_findings,
    "memory.search": show_hits,
    "memory.get": show_memory,
    "memory.list": show_memories,
    "memory.add": show_stored,
    "memory.update": show_stored,
    "memory.forget": show_forgotten,
    "memory.unarchive": show_stored,
    "plan": show_plan,
    "archive": show_change,
    "reindex": show_reindex,
    "undo": show_change,
    "repair": show_change,
    "dedupe": show_change,
    "backup.list": show_backups,
    "backup.verify": show_backups,
    "backup.create": show_change,
    "backup.restore": show_change,
    "file.restore": show_change,
    "lock.list": show_locks,
    "lock.clear": show_cleared_locks,
    "jobs.list": show_jobs,
    "jobs.run": show_job_results,
    "history.list": show_history,
    "root.list": show_roots,
    "root.add": show_roots,
    "root.remove": show_removed,
    "root.pause": show_roots,
    "root.resume": show_roots,
    "root.confirm": show_roots,
    "config.show": show_settings,
    "config.validate": show_validation,
    "config.reload": show_reload,
    "log.level": lambda screen, result: screen.line(f"log level: {result.get('level')}"),
    "metrics": lambda screen, result: screen.line(str(result.get("text", "")).rstrip("\n")),  # for Prometheus
    "shutdown": lambda screen, result: screen.line(f"memoryd (pid {result.get('pid')}) has stopped"),
}


def print_for_people(method: str, result: dict[str, Any]) -> None:
    """Print a result in the form made for its method; the roots that failed go to standard error."""
    VIEWS.get(method, show_generic)(make_screen(sys.stdout), result)
    sys.stdout.flush()
    for message in result.get("errors", {}).values():
        print(f"memoryd: {printable(str(message))}", file=sys.stderr)  # noqa: T201 - user output


def event_line(event: dict[str, Any]) -> str:
    """Format an event for people: time, topic, root, then the rest as name=value."""
    rest = {key: value for key, value in event.items() if key not in ("at", "topic", "root")}
    details = " ".join(
        f"{key}={_format_value(value)}" for key, value in rest.items() if value not in (None, "", [], {})
    )
    return printable(
        f"{format_time(event.get('at'))} {event.get('topic', ''):<8} {event.get('root', '-'):<12} {details}".rstrip()
    )


def _format_value(value: object) -> str:
    """Format a value of an event for people, without quotes, brackets and braces."""
    if isinstance(value, list):
        return ",".join(map(_format_value, value))
    if isinstance(value, dict):
        return ",".join(f"{name}:{_format_value(each)}" for name, each in value.items())
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
