"""The page of `memoryd report`: one HTML file without scripts, links to other places, or anything to load.

Whatever is not `Html` is escaped where it is put in, control and bidirectional characters included. Colours only repeat
what words and shapes say; the browser chooses between light and dark.
"""

from __future__ import annotations

import html
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from memoryd.cli.screen import format_size, format_time, printable
from memoryd.cli.views import finding_place
from memoryd.cli.views_status import Result, format_counts, format_state, limit_share, name_action
from memoryd.layouts.codes import CODES

MONTHS = 24
DAYS = 30
ROWS = 50  # of a table; a line names the command that has the rest
CHANGES = 15
PLACES = 10  # of each kind of finding
WIDTH, HEIGHT, BASE = 720, 150, 120  # of a chart, and the bottom of its bars
LABEL = 64  # the width of a date below a bar
LONG = 30  # characters of a word from which its cell may break it

SEVERITIES = ("error", "warning", "info")

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --bar: #0b62b8; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #e6edf3; --soft: #9aa4af; --line: #363d46; --bar: #6cb2ff; }
}
body { margin: 0 auto; max-width: 62rem; padding: 1rem 1.25rem 3rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 2.2rem 0 .6rem; }
h1 { margin-top: .5rem; }
h2 { border-top: 2px solid var(--line); padding-top: 1.2rem; }
p, figure { margin: .5rem 0; }
a { color: var(--bar); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .4rem 0 1rem; }
caption, summary, figcaption, .note { color: var(--soft); text-align: left; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top;
  min-width: 3.5rem; }
td { unicode-bidi: isolate; }
.long { overflow-wrap: anywhere; min-width: 14rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
time { white-space: nowrap; }
code { font: .85em ui-monospace, monospace; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 11px; text-anchor: end; }
.full { fill: var(--bar); }
.hollow { fill: none; stroke: var(--bar); stroke-width: 1; }
.axis { stroke: var(--line); }
meter { width: 9rem; height: 1.1rem; vertical-align: middle; }
"""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Bar(NamedTuple):
    """One bar of a chart: the filled part, and the hollow one above it."""

    name: str
    full: int
    hollow: int = 0


def escaped(value: object) -> Html:
    """Return any value as HTML; what is HTML already stays."""
    return value if isinstance(value, Html) else Html(html.escape(printable(str(value))))


def page_of(status: Result, parts: Mapping[str, Mapping[str, Result]], now: float) -> str:
    """Return the page. `status`: the result of that method; `parts`: the results of others by root and method, each
    `{error}` where there is none."""
    roots = status.get("roots", [])
    names = str(roots[0].get("name")) if len(roots) == 1 else f"{len(roots)} roots"
    head = f"memoryd {status.get('version')}, {status.get('state')}; written {format_time(now)}"
    body = [
        join("h1", "Memories of ", Html(f"<bdi>{escaped(names)}</bdi>")),
        join("p", head),
        *([join("p", "! ", status["notice"])] if status.get("notice") else []),
        _overview(roots),
        *(_root(number, root, parts[root["name"]], status, now) for number, root in enumerate(roots)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escaped(f'memoryd report: {names}')}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def join(tag: str, *values: object) -> Html:
    """Return an element with these values."""
    return Html(f"<{tag}>{''.join(map(escaped, values))}</{tag}>")


def when(at: object) -> Html:
    """Return a time as local date and time; a dash for nothing."""
    return join("time", format_time(at))


def code(command: Sequence[object]) -> Html:
    """Return a command line that can be pasted into a shell."""
    return join("code", shlex.join(map(str, command)))


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[object]], more: Html | None = None) -> Html:
    """Return a table with at most ROWS rows; `more` says where the rest is. Columns of numbers are aligned to the
    right. Without rows, only the caption says so."""
    every = [*rows]
    if not every:
        return join("p", f"{caption}: none.")
    shown = every[:ROWS]
    numeric = [all(isinstance(row[at], int) for row in shown) for at in range(len(headers))]
    kind = [' class="number"' if each else "" for each in numeric]
    head = "".join(f'<th scope="col"{each}>{escaped(name)}</th>' for name, each in zip(headers, kind, strict=True))
    lines = [
        "".join(f"<td{each or _width(cell)}>{escaped(cell)}</td>" for cell, each in zip(row, kind, strict=True))
        for row in shown
    ]
    rest = join("p", f"{len(every) - ROWS:,} more", *([": ", more] if more else [])) if len(every) > ROWS else ""
    text = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return Html(
        f'<div class="scroll"><table>\n<caption>{escaped(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{text}\n</tbody>\n</table></div>{rest}"
    )


def _width(cell: object) -> str:
    """Return the class of a cell with a word that would make its table too wide."""
    is_long = not isinstance(cell, Html) and any(len(word) > LONG for word in str(cell).split())
    return ' class="long"' if is_long else ""


def chart(title: str, bars: Sequence[Bar]) -> Html:
    """Return bars as a figure. Each has its numbers as a tooltip; a table beside the chart has them for everybody."""
    most = max((bar.full + bar.hollow for bar in bars), default=0)
    if not most:
        return join("p", f"{title}: none.")
    step = WIDTH / len(bars)
    shapes = [f'<line class="axis" x1="0" y1="{BASE}" x2="{WIDTH}" y2="{BASE}"/>']
    every = max(1, round(len(bars) / 8))
    for number, bar in enumerate(bars):
        full, hollow = (BASE - 4) * bar.full / most, (BASE - 4) * bar.hollow / most
        at, wide = number * step + step * 0.12, step * 0.76
        label = f"{bar.name}: {bar.full + bar.hollow:,}" + (f", {bar.hollow:,} of them archived" if bar.hollow else "")
        rect = '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
        shapes.append(
            f"<g><title>{escaped(label)}</title>"
            + (rect.format("full", at, BASE - full, wide, full) if bar.full else "")
            + (rect.format("hollow", at, BASE - full - hollow, wide, hollow) if bar.hollow else "")
            + "</g>"
        )
        if (len(bars) - 1 - number) % every == 0 and at + wide > LABEL:
            shapes.append(f'<text x="{at + wide:.1f}" y="{HEIGHT - 12}">{escaped(bar.name)}</text>')
    label = escaped(f"{title} (the highest bar: {most:,})")
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
    return Html(f"<figure><figcaption>{label}</figcaption>{svg}</figure>")


def details(summary: str, content: Html) -> Html:
    """Return content that is shown on request."""
    return Html(f"<details><summary>{escaped(summary)}</summary>{content}</details>")


# --- the sections


def _overview(roots: Sequence[Result]) -> Html:
    headers = ("root", "state", "memories", "archived", "files", "size", "findings", "backups")
    return table(
        "All roots" if len(roots) != 1 else "The root",
        headers,
        (
            (
                Html(f'<a href="#root-{number}">{escaped(root.get("name"))}</a>'),
                format_state(root),
                root.get("memories", 0),
                root.get("archived", 0),
                root.get("files", 0),
                format_size(root.get("bytes", 0)),
                format_counts(root.get("findings", {})),
                root.get("backups", {}).get("count", 0),
            )
            for number, root in enumerate(roots)
        ),
        code(["memoryd", "status"]),
    )


def _root(number: int, root: Result, parts: Mapping[str, Result], status: Result, now: float) -> Html:
    name = root.get("name")
    jobs = [job for job in status.get("jobs", []) if job.get("root") == name]
    sections = [
        Html(f'<h2 id="root-{number}"><bdi>{escaped(name)}</bdi></h2>'),
        join("p", f"{root.get('layout') or 'no layout'}, {root.get('mode')}: ", join("code", root.get("path"))),
        *(join("p", f"! {reason}") for reason in root.get("reasons", [])),
        join("h3", "Growth"),
        _growth(parts["memory.list"], now),
        join("h3", "Limits"),
        _limits(root.get("limits", [])),
        join("h3", "Upkeep"),
        _changes(name, parts["history.list"], now),
        _plan(name, parts["plan"], jobs),
        _backups(name, parts["backup.list"]),
        join("h3", "Findings"),
        _findings(name, parts["check"]),
    ]
    return Html("\n".join(sections))


def _missing(part: Result) -> Html:
    """Return why there is no result; nothing if there is one."""
    return join("p", f"! not available: {part['error']}") if "error" in part else Html()


def _growth(listed: Result, now: float) -> Html:
    """Return the memories by the month of their creation, and the newest ones."""
    counts = {row["month"]: (row["memories"], row["archived"]) for row in listed.get("months", [])}
    undated = sum(counts.pop(None, (0, 0)))
    live, archived, rows = 0, 0, []
    totals: dict[str, Bar] = {}
    for month in sorted({*counts, *(axis := _months_until(datetime.fromtimestamp(now, UTC)))}):
        created = counts.get(month, (0, 0))
        live, archived = live + created[0], archived + created[1]
        totals[month] = Bar(month, live, archived)
        if month in counts:
            rows.append((month, sum(created), created[1], live + archived))
    future = sum(sum(counts[month]) for month in counts if month > axis[-1])
    withheld = {str(each["withheld"]) for each in listed.get("fresh", {}).values() if each.get("withheld")}
    newest = [
        (
            each.get("title") or each.get("id"),
            each.get("type") or "-",
            when(each.get("created")),
            each.get("path"),
        )
        for each in listed.get("memories", [])
    ]
    parts = [
        _missing(listed),
        chart("Memories that exist now, by the end of each month; hollow: archived", [totals[month] for month in axis]),
        chart(
            "Created in each month; hollow: archived since", [Bar(month, *counts.get(month, (0,))) for month in axis]
        ),
        details("The numbers", table("By month (UTC)", ("month", "created", "archived", "in all"), rows[::-1])),
        *([join("p", f"Without a time of creation: {undated:,} more.")] if undated else []),
        *([join("p", f"! Created in the future: {future:,}.")] if future else []),
        *(join("p", f"! not listed: {each}") for each in withheld),
        table("The newest memories", ("title", "type", "created", "file"), newest),
    ]
    return Html("\n".join(parts))


def _months_until(last: datetime) -> list[str]:
    """Return MONTHS months up to this one, as 2026-11."""
    end = last.year * 12 + last.month - 1
    return [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(end - MONTHS + 1, end + 1)]


def _limits(limits: Sequence[Result]) -> Html:
    def bar(limit: Result) -> Html:
        share = limit_share(limit)
        text = f"{share * 100:.0f} %"
        return Html(
            f'<meter max="1" low="0.85" high="0.99" optimum="0" value="{min(share, 1):.3f}">{text}</meter> {text}'
        )

    rows = [
        (
            limit.get("file"),
            bar(limit),
            f"{limit.get('count'):,} of {limit.get('max_count') or 'any'}",
            f"{format_size(limit.get('bytes'))} of {format_size(limit.get('max_bytes'))}",
            f"{limit.get('level')} ({limit.get('kind')} limit)",
            limit.get("hint") or "-",
        )
        for limit in sorted(limits, key=limit_share, reverse=True)
    ]
    return table("Files with a limit", ("file", "used", "memories", "size", "level", "advice"), rows)


def _changes(name: object, history: Result, now: float) -> Html:
    """Return what memoryd did: its changes by day, by kind, and the latest."""
    entries = history.get("entries", [])
    by_day = Counter(format_time(each.get("at"))[:10] for each in entries)
    today = datetime.fromtimestamp(now, UTC).astimezone().date()
    days = [str(today - timedelta(back)) for back in reversed(range(DAYS))]
    kinds = Counter((str(each.get("operation")), str(each.get("by"))) for each in entries)
    latest = [
        (
            when(each.get("at")),
            each.get("operation"),
            each.get("by"),
            f"{each.get('summary')}{' (undone)' if each.get('undone') else ''}",
            join("code", each.get("receipt")),
        )
        for each in entries[:CHANGES]
    ]
    rest = history.get("truncated", {}).get("entries")
    parts = [
        _missing(history),
        chart(f"Changes by memoryd in the last {DAYS} days", [Bar(day, by_day[day]) for day in days]),
        table(
            "What memoryd did", ("operation", "by", "times"), ((*kind, times) for kind, times in kinds.most_common())
        ),
        *([join("p", f"Counted: the newest {len(entries):,} of {rest:,} changes.")] if rest else []),
        table("The latest changes", ("when", "operation", "by", "what", "receipt"), latest),
        *([join("p", Html("<code>memoryd undo RECEIPT</code> takes a change back."))] if latest else []),
        *([join("p", "All of them: ", code(["memoryd", "history", name]))] if len(entries) > CHANGES else []),
    ]
    return Html("\n".join(parts))


def _plan(name: object, plan: Result, jobs: Sequence[Result]) -> Html:
    """Return what upkeep would do now, and when each job runs."""
    actions = [action for root in plan.get("roots", []) for action in root.get("actions", [])]
    rows = [(*name_action(each), len(each.get("ids", [])), each.get("why"), each.get("job") or "-") for each in actions]
    schedule = [
        (
            job.get("name"),
            job.get("schedule"),
            when(job.get("last_run")),
            job.get("last_error") or job.get("last_result") or "-",
            f"when writing is allowed: {job['waits']}" if job.get("waits") else when(job.get("next_run")),
        )
        for job in jobs
    ]
    headers = ("action", "file", "memories", "why", "job")
    return Html(
        _missing(plan)
        + table("What upkeep would do now", headers, rows, code(["memoryd", "plan", name]))
        + table("When it runs", ("job", "schedule", "last run", "result", "next run"), schedule)
    )


def _backups(name: object, listed: Result) -> Html:
    """Return the versions kept of each file."""
    files: dict[str, list[Result]] = {}
    for each in listed.get("backups", []):
        files.setdefault(str(each.get("file") or "all files"), []).append(each)
    rows = [
        (
            file,
            len(kept),
            when(max(str(each.get("taken") or "") for each in kept)),
            format_size(sum(each.get("bytes") or 0 for each in kept)),
            sum(not each.get("valid") for each in kept),
        )
        for file, kept in sorted(files.items())
    ]
    more = code(["memoryd", "backup", "list", name])
    return Html(_missing(listed) + table("Backups", ("file", "versions", "newest", "size", "damaged"), rows, more))


def _findings(name: object, checked: Result) -> Html:
    """Return the findings by severity and code, each with what to do and the first places."""
    groups: dict[tuple[int, str], list[Result]] = {}
    for each in checked.get("findings", []):
        severity = SEVERITIES.index(each["severity"]) if each.get("severity") in SEVERITIES else len(SEVERITIES)
        groups.setdefault((severity, str(each.get("code"))), []).append(each)
    rows = [_finding(name, code_, found) for (_, code_), found in sorted(groups.items(), key=lambda item: item[0])]
    rest = checked.get("truncated", {}).get("findings")
    parts = [
        _missing(checked),
        join("p", f"In all: {format_counts(checked['summary'])}.") if "summary" in checked else Html(),
        table("What was found", ("severity", "finding", "times", "meaning", "what to do", "where"), rows),
        *([join("p", f"{rest:,} in all, not all of them counted: ", code(["memoryd", "check", name]))] if rest else []),
    ]
    return Html("\n".join(parts))


def _finding(name: object, finding: str, found: Sequence[Result]) -> tuple[object, ...]:
    """Return one row: the findings with the same code."""
    severity = found[0].get("severity")
    meaning = CODES[finding].meaning if finding in CODES else found[0].get("message")
    if any(each.get("fixable") for each in found):
        repair = code(["memoryd", "repair", name, "--code", finding])
        to_do = Html(f"{repair}, with <code>--dry-run</code> to see it first")
    elif severity == "info":
        to_do = escaped("nothing has to be done")
    else:
        to_do = escaped("correct it by hand; memoryd leaves it unchanged")
    places = [
        join("li", join("code", finding_place(each)), ": ", each.get("message")) for each in found[:PLACES]
    ]  # fmt: skip
    more = join("li", f"and {len(found) - PLACES:,} more") if len(found) > PLACES else ""
    where = details(finding_place(found[0]), Html(f"<ul>{''.join(places)}{more}</ul>"))
    return severity, join("code", finding), len(found), meaning, to_do, where
