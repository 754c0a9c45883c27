"""How memories look to people: what a search finds, one memory whole, a list, and what became of a stored one."""

from __future__ import annotations

import json
import shlex
import sys

from memoryd.cli.overview import Result
from memoryd.cli.screen import Screen, when

PASSING_MS = 2000


def hits(screen: Screen, result: Result) -> None:
    """With a budget of tokens the text alone, ready to paste; what else is to be known goes beside it."""
    if "embedding" in result:
        text = str(result["embedding"]).rstrip("\n")
        if text:
            screen.say(text)
        _stale(Screen(sys.stderr, fancy=False), result)
        return
    found = result.get("hits", [])
    for number, hit in enumerate(found):
        if number:
            screen.say()
        _hit(screen, hit)
    if not found:
        screen.say("nothing found")
    _stale(screen, result)


def _hit(screen: Screen, hit: Result) -> None:
    archived = " (archived)" if hit.get("archived") else ""
    screen.head(f"{hit.get('title') or hit.get('id')}{archived}")
    facts = [hit.get("type"), when(hit["created"]) if hit.get("created") else None, ", ".join(hit.get("tags") or ())]
    told = [f"{_place(hit)}  {hit.get('id')}", " · ".join(str(fact) for fact in facts if fact)]
    snippet = str(hit.get("snippet") or "").strip()
    for line in (*told, *snippet.splitlines()):
        if line:
            screen.say(f"  {line}")


def _place(row: Result) -> str:
    line = f":{row['line']}" if row.get("line") else ""
    return f"{row.get('root')}/{row.get('path')}{line}"


def _stale(screen: Screen, result: Result) -> None:
    """An answer that may be behind the files says so; not where it is by the moment that every change takes."""
    for name, fresh in result.get("fresh", {}).items():
        passing = fresh.get("state") == "stale" and 0 < fresh.get("lag_ms", 0) < PASSING_MS
        if fresh.get("state") != "fresh" and not passing:
            screen.say(f"! {name}: what is known is {fresh.get('state')}; see `memoryd status {name}`")
        if fresh.get("withheld"):
            screen.say(f"! {name}: {fresh['withheld']}")


def memory(screen: Screen, result: Result) -> None:
    """As its agent wrote it; where it stands only on a terminal, so that it can be piped on."""
    if screen.fancy:
        archived = " (archived)" if result.get("archived") else ""
        screen.head(f"{_place(result)}  {result.get('id')}{archived}")
    text = result.get("text")
    native = result.get("memory", {})
    screen.say((text if isinstance(text, str) else json.dumps(native, ensure_ascii=False, indent=2)).rstrip("\n"))


def listed(screen: Screen, result: Result) -> None:
    rows = [
        (m.get("id"), m.get("root"), m.get("type") or "-", when(m.get("created")), m.get("title") or "-")
        for m in result.get("memories", [])
    ]
    screen.table(("id", "root", "type", "created", "title"), rows, empty="no memories")
    if result.get("next_cursor"):
        screen.say(f"there are more: --cursor {result['next_cursor']}")
    _stale(screen, result)


def stored(screen: Screen, result: Result) -> None:
    screen.say(f"{result.get('id')} is in {_place(result)}")
    _done(screen, result)


def forgotten(screen: Screen, result: Result) -> None:
    identity = str(result.get("id"))
    screen.say(f"{identity} is forgotten; `memoryd unarchive {shlex.quote(identity)}` brings it back")
    _done(screen, result)


def _done(screen: Screen, result: Result) -> None:
    for warning in result.get("warnings", []):
        screen.say(f"! {warning}")
    receipt = result.get("receipt")
    if receipt:
        screen.say(f"done, receipt {receipt}; take it back with `memoryd undo {receipt}`")
    else:
        screen.say("nothing had to be changed")
