"""How each result looks to people. One function a method; a method without one gets `generic`.

Results may lack members (an older daemon) or have more; a view shows what it knows and never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from memoryd.cli.screen import Screen, duration, size, when, yes

Result = dict[str, Any]
View = Callable[[Screen, Result], None]


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
            ("findings", _counts(root.get("findings", {}))),
            ("locks", ", ".join(f"{lock.get('path')} ({lock.get('state')})" for lock in locks)),
            ("backups", f"{backups.get('count', 0)}, newest {when(backups.get('newest'))}"),
        ]
    )
    for limit in root.get("limits", []):
        if limit.get("level") != "ok":
            screen.say(f"  ! {_limit(limit)}")


def _limit(limit: Result) -> str:
    of_count = f"{limit.get('count')} of {limit.get('max_count') or 'any'} memories"
    of_bytes = f"{size(limit.get('bytes'))} of {size(limit.get('max_bytes'))}"
    return f"{limit.get('file')}: {limit.get('level')} its {limit.get('kind')} limit ({of_count}, {of_bytes})"


def _counts(summary: Result) -> str:
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


def check(screen: Screen, result: Result) -> None:
    findings = result.get("findings", [])
    if findings:
        screen.table(("severity", "code", "place", "message", "fixable"), map(_finding, findings))
        _truncated(screen, result)
    screen.say(f"findings: {_counts(result.get('summary', {}))}")


def _finding(finding: Result) -> tuple[object, ...]:
    line = f":{finding['line']}" if finding.get("line") else ""
    place = "/".join(filter(None, (finding.get("root"), finding.get("path")))) + line
    severity, code = finding.get("severity"), finding.get("code")
    return severity, code, place, finding.get("message"), yes(finding.get("fixable"))


def _truncated(screen: Screen, result: Result) -> None:
    for name, count in result.get("truncated", {}).items():
        kept = len(result.get(name, []))
        screen.say(f"only the first {kept} of {count} {name}; name one root or file for the rest")


def plan(screen: Screen, result: Result) -> None:
    for root in result.get("roots", []):
        screen.say(f"{root.get('name')}: due {_due(root.get('due'))}")
        _actions(screen, root.get("actions", []))


def _due(due: object) -> str:
    if isinstance(due, dict):
        return ", ".join(f"{job} {when(at)}" for job, at in due.items()) or "-"
    return when(due)


def _actions(screen: Screen, actions: Iterable[Result]) -> None:
    rows = [(a.get("kind"), a.get("path"), _ids(a.get("ids", [])), a.get("why")) for a in actions]
    screen.table(("action", "file", "memories", "why"), rows, empty="nothing to do")


def _ids(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= 3 else f"{', '.join(ids[:2])} and {len(ids) - 2} more"


def change(screen: Screen, result: Result) -> None:
    """A plan, and when it was carried out its receipt."""
    if "plan" in result:
        _actions(screen, result["plan"].get("actions", []))
    if result.get("diff"):
        screen.say(str(result["diff"]).rstrip("\n"))
    if result.get("backups"):
        backups(screen, result)
    for path in result.get("cleared", []):
        screen.say(f"removed {path}")
    if result.get("receipt"):
        screen.say(f"done, receipt {result['receipt']}; take it back with `memoryd undo {result['receipt']}`")


def backups(screen: Screen, result: Result) -> None:
    rows = [
        (
            b.get("id"),
            b.get("root"),
            b.get("file"),
            when(b.get("taken")),
            size(b.get("bytes")),
            yes(b.get("valid")),
        )
        for b in result.get("backups", [])
    ]
    screen.table(("id", "root", "file", "taken", "size", "valid"), rows, empty="no backups")
    _truncated(screen, result)


def locks(screen: Screen, result: Result) -> None:
    rows = [
        (k.get("path"), k.get("state"), k.get("pid") or "-", duration(k.get("age_s")), k.get("evidence"))
        for k in result.get("locks", [])
    ]
    screen.table(("lock", "state", "pid", "age", "evidence"), rows, empty="no locks")


def cleared(screen: Screen, result: Result) -> None:
    locks(screen, result)
    change(screen, {key: result[key] for key in ("cleared", "receipt") if key in result})


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


def history(screen: Screen, result: Result) -> None:
    rows = [
        (
            e.get("receipt"),
            when(e.get("at")),
            e.get("root"),
            e.get("operation"),
            e.get("by"),
            f"{e.get('summary')}{' (undone)' if e.get('undone') else ''}",
        )
        for e in result.get("entries", [])
    ]
    screen.table(
        ("receipt", "when", "root", "operation", "by", "what"), rows, empty="nothing was changed yet"
    )
    _truncated(screen, result)


def roots(screen: Screen, result: Result) -> None:
    rows = [
        (r.get("name"), r.get("state"), r.get("layout"), r.get("mode"), r.get("path"))
        for r in result.get("roots", [])
    ]
    screen.table(
        ("name", "state", "layout", "mode", "path"), rows, empty="no roots; see `memoryd root add --help`"
    )


def settings(screen: Screen, result: Result) -> None:
    screen.say(f"configuration file: {result.get('path') or 'none, defaults only'}")
    rows = list(_flat("", {key: result.get(key, {}) for key in ("daemon", "roots")}))
    screen.table(("key", "value", "origin"), rows)


def _flat(prefix: str, value: object) -> Iterable[tuple[object, ...]]:
    """Nested {key: {value, origin}} as rows."""
    if not isinstance(value, dict):
        yield prefix, value, ""
    elif set(value) == {"value", "origin"}:
        yield prefix, value["value"], value["origin"]
    else:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)


def difference(screen: Screen, result: Result) -> None:
    told = [(name, result.get(name, [])) for name in ("added", "changed", "removed")]
    if not any(names for _, names in told):
        screen.say("nothing changes")
    for name, names in told:
        for entry in names:
            screen.say(f"{name}: {entry}")


def level(screen: Screen, result: Result) -> None:
    screen.say(f"log level: {result.get('level')}")


def metrics(screen: Screen, result: Result) -> None:
    screen.say(str(result.get("text", "")).rstrip("\n"))


def stopping(screen: Screen, result: Result) -> None:
    screen.say(f"memoryd (pid {result.get('pid')}) has stopped")


def generic(screen: Screen, result: Result) -> None:
    screen.fields(result.items(), indent=0)


VIEWS: dict[str, View] = {
    "ping": ping,
    "status": status,
    "sync": sync,
    "check": check,
    "plan": plan,
    "archive": change,
    "reindex": change,
    "undo": change,
    "backup.list": backups,
    "backup.verify": backups,
    "backup.create": change,
    "backup.restore": change,
    "lock.list": locks,
    "lock.clear": cleared,
    "jobs.list": jobs,
    "jobs.run": jobs,
    "history.list": history,
    "root.list": roots,
    "root.add": roots,
    "root.remove": roots,
    "root.pause": roots,
    "root.resume": roots,
    "config.show": settings,
    "config.validate": difference,
    "config.reload": difference,
    "log.level": level,
    "metrics": metrics,
    "shutdown": stopping,
}
