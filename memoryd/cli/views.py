"""How each result looks to people. One function a method; a method without one gets `generic`.

Results may lack members (an older daemon) or have more; a view shows what it knows and never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memoryd.cli.found import forgotten, hits, listed, memory, stored
from memoryd.cli.overview import Result, counts, jobs, ping, status, sync
from memoryd.cli.screen import Screen, duration, size, when, yes

View = Callable[[Screen, Result], None]


def check(screen: Screen, result: Result) -> None:
    findings = result.get("findings", [])
    if findings:
        screen.table(("severity", "code", "place", "message", "fixable"), map(_finding, findings))
        _truncated(screen, result)
    screen.say(f"findings: {counts(result.get('summary', {}))}")


def _finding(finding: Result) -> tuple[object, ...]:
    line = f":{finding['line']}" if finding.get("line") else ""
    place = "/".join(filter(None, (finding.get("root"), finding.get("path")))) + line
    severity, code = finding.get("severity"), finding.get("code")
    return severity, code, place, finding.get("message"), yes(finding.get("fixable"))


def _truncated(screen: Screen, result: Result, below: str = "") -> None:
    """What was cut off for the line's length; of it what stands `below` a name."""
    cut = {name: count for name, count in result.get("truncated", {}).items() if name.startswith(below)}
    for name, count in cut.items():
        if isinstance(result.get(name), list):
            screen.say(f"only the first {len(result[name])} of {count} {name}; name one root or file for the rest")
        else:  # a list within another one
            screen.say(f"{name}: {count} in all, of which not all are told")


def plan(screen: Screen, result: Result) -> None:
    for root in result.get("roots", []):
        screen.say(f"{root.get('name')}: due {_due(root.get('due'))}")
        _actions(screen, root.get("actions", []))
    _truncated(screen, result)


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
        _truncated(screen, result, "plan.")
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
    screen.table(("receipt", "when", "root", "operation", "by", "what"), rows, empty="nothing was changed yet")
    _truncated(screen, result)


def roots(screen: Screen, result: Result) -> None:
    rows = [
        (r.get("name"), r.get("state"), r.get("layout"), r.get("mode"), r.get("path")) for r in result.get("roots", [])
    ]
    screen.table(("name", "state", "layout", "mode", "path"), rows, empty="no roots; see `memoryd root add --help`")


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
    "memory.search": hits,
    "memory.get": memory,
    "memory.list": listed,
    "memory.add": stored,
    "memory.update": stored,
    "memory.forget": forgotten,
    "memory.unarchive": stored,
    "plan": plan,
    "archive": change,
    "reindex": change,
    "undo": change,
    "repair": change,
    "dedupe": change,
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
    "root.confirm": roots,
    "config.show": settings,
    "config.validate": difference,
    "config.reload": difference,
    "log.level": level,
    "metrics": metrics,
    "shutdown": stopping,
}
