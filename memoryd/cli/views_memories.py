"""Output for people: search results, single memories, lists, and stored or forgotten memories."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence

from memoryd.cli.screen import Screen, epoch_of, format_time
from memoryd.cli.views_status import Result

NORMAL_LAG_MS = 2000  # a smaller lag of the index is normal after a change and not reported


def show_hits(screen: Screen, result: Result) -> None:
    """Show search results. With a token budget, only the text goes to the screen; remarks go to standard error."""
    if "embedding" in result:
        text = str(result["embedding"]).rstrip("\n")
        if text:
            screen.line(text)
        remarks = Screen(sys.stderr, fancy=False)
        _show_period(remarks, result)
        _show_freshness(remarks, result)
        return
    hits = result.get("hits", [])
    for number, hit in enumerate(hits):
        if number:
            screen.line()
        _hit(screen, hit)
    if not hits:
        screen.line("nothing found")
    _show_missing_words(screen, result.get("missing_words", ()), hits)
    _show_period(screen, result)
    _show_freshness(screen, result)


def _show_missing_words(screen: Screen, missing: Sequence[str], hits: Sequence[Result]) -> None:
    """Show how misspelt words were read, and the other words that no memory has."""
    read_as = {word: other for hit in hits for word, other in (hit.get("why", {}).get("read_as") or {}).items()}
    for word, other in read_as.items():
        screen.line(f"! read {word} as {other}")
    parts = {part for word in read_as for part in (word, *word.split("-"))}
    if others := [word for word in missing if word.lower() not in parts]:
        screen.line(f"! no memory has: {', '.join(others)}")


def _show_period(screen: Screen, result: Result) -> None:
    """Show which time the question names, and whether the results are from then."""
    period, hits = result.get("period"), result.get("hits", [])
    if period is None:
        return
    parts = [f'! read "{period["words"]}" as {_days_of(period)}']
    if period["empty"]:
        parts += ["no memory is from then"]
    if hits and not any(hit.get("why", {}).get("period") for hit in hits):
        parts += ["these are from other times"]
    screen.line("; ".join(parts))


def _days_of(period: Result) -> str:
    """Return the first and the last day of a period; with the time if it does not begin or end at midnight here."""
    since, until = (format_time(period[name])[:16] for name in ("since", "until"))
    end = epoch_of(period["until"])
    if since.endswith(("00:00", "-")) and until.endswith(("00:00", "-")):
        since, until = since[:10], format_time(end - 1 if end is not None else None)[:10]
    if period["until"] is None:
        return f"{since} and later"
    if period["since"] is None:
        return f"{until} and earlier"
    return since if since == until else f"{since} to {until}"


def _hit(screen: Screen, hit: Result) -> None:
    archived = " (archived)" if hit.get("archived") else ""
    marked = _pattern_of(hit.get("why", {}).get("terms", ()))
    screen.heading(f"{hit.get('title') or hit.get('id')}{archived}", marked)
    facts = [
        "weak match" if hit.get("confidence") == "weak" else None,
        hit.get("type"),
        screen.when(hit["created"]) if hit.get("created") else None,
        ", ".join(hit.get("tags") or ()),
    ]
    screen.paragraph(f"{_location(hit)}  {hit.get('id')}")
    snippet = str(hit.get("snippet") or "").strip()
    if snippet == hit.get("title"):
        snippet = ""  # the title is the whole memory
    if any(facts):
        screen.paragraph(" · ".join(str(fact) for fact in facts if fact))
    for line in snippet.splitlines():
        screen.paragraph(line, marked=marked)


def _pattern_of(terms: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern of the words that a search has found; `warm*` is the start of a word."""

    def form(term: str) -> str:
        word = re.escape(term.removesuffix("*"))
        if not term.isascii():
            return word  # the script may have no spaces
        return rf"(?<!\w){word}" + (r"\w*" if term.endswith("*") else r"(?!\w)")

    return re.compile("|".join(map(form, terms)), re.IGNORECASE) if terms else None


def _location(row: Result) -> str:
    line = f":{row['line']}" if row.get("line") else ""
    return f"{row.get('root')}/{row.get('path')}{line}"


def _show_freshness(screen: Screen, result: Result) -> None:
    """Report roots whose index lags behind the files more than usual, and why results are incomplete."""
    roots = result.get("fresh", {})
    for reason in dict.fromkeys(fresh["semantic"] for fresh in roots.values() if fresh.get("semantic")):
        screen.line(f"! only words were compared, not meanings: {reason}")
    for name, fresh in roots.items():
        normal = fresh.get("state") == "stale" and 0 < fresh.get("lag_ms", 0) < NORMAL_LAG_MS
        if fresh.get("reason") == "paused":
            screen.line(f"! {name}: paused; resume it with `memoryd root resume {name}`")
        elif fresh.get("reason"):
            screen.line(f"! {name}: {fresh['reason']}")
        elif fresh.get("state") != "fresh" and not normal:
            screen.line(f"! {name}: the index is {fresh.get('state')}; see `memoryd status {name}`")
        if fresh.get("withheld") and (len(roots) == 1 or not (result.get("hits") or result.get("memories"))):
            screen.line(f"! {name}: {str(fresh['withheld']).replace('`user`', '`--user`')}")


def show_memory(screen: Screen, result: Result) -> None:
    """Show a memory as its agent wrote it, with its location only on a terminal, so that it can be piped."""
    if screen.fancy:
        archived = " (archived)" if result.get("archived") else ""
        screen.heading(f"{_location(result)}  {result.get('id')}{archived}")
    text = result.get("text")
    memory = result.get("memory", {})
    screen.line((text if isinstance(text, str) else json.dumps(memory, ensure_ascii=False, indent=2)).rstrip("\n"))


def show_memories(screen: Screen, result: Result) -> None:
    """Show memories as a table."""
    rows = [
        (m.get("id"), m.get("root"), m.get("type") or "-", screen.when(m.get("created")), m.get("title") or "-")
        for m in result.get("memories", [])
    ]
    screen.table(("id", "root", "type", "created", "title"), rows, empty="no memories", one_line=("title",))
    if result.get("next_cursor"):
        screen.line(f"more with --cursor {result['next_cursor']}")
    _show_freshness(screen, result)


def show_stored(screen: Screen, result: Result) -> None:
    """Show where memories were stored."""
    for each in result.get("memories") or [result]:
        screen.line(f"{each.get('id')} is in {_location({**result, **each})}")
    _show_receipt(screen, result)


def show_forgotten(screen: Screen, result: Result) -> None:
    """Show that a memory was forgotten, and how to restore it."""
    identity = str(result.get("id"))
    screen.line(f"forgot {identity}; to restore it: `memoryd unarchive {shlex.quote(identity)}`")
    _show_receipt(screen, result)


def _show_receipt(screen: Screen, result: Result) -> None:
    for warning in result.get("warnings", []):
        screen.line(f"! {warning}")
    receipt = result.get("receipt")
    if receipt:
        screen.line(f"done, receipt {receipt}; to undo it: `memoryd undo {receipt}`")
    else:
        screen.line("nothing to change")
