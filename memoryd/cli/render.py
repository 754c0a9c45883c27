"""Printing the result of a control method: exactly as JSON, or for people."""

from __future__ import annotations

import json
import sys
from typing import Any

from memoryd.cli.screen import make_screen, shown, when


def as_json(document: Any) -> None:
    """One JSON document: the result and nothing else. Indented for a person's terminal."""
    out = sys.stdout
    utf8 = (out.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not utf8, indent=2 if out.isatty() else None)
    out.write(text + "\n")
    out.flush()


def for_people(method: str, result: dict[str, Any]) -> None:
    from memoryd.cli.views import VIEWS, generic  # noqa: PLC0415 - not needed with --json

    VIEWS.get(method, generic)(make_screen(sys.stdout), result)
    sys.stdout.flush()


def event_line(event: dict[str, Any]) -> str:
    """One event for people: time, topic, root, then the rest as name=value."""
    rest = {key: value for key, value in event.items() if key not in ("at", "topic", "root")}
    told = " ".join(f"{key}={value}" for key, value in rest.items())
    return shown(f"{when(event.get('at'))} {event.get('topic', ''):<8} {event.get('root', '-'):<12} {told}".rstrip())
