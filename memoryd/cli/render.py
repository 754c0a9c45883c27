"""Print the result of a control method, as JSON or for people."""

from __future__ import annotations

import json
import sys
from typing import Any

from memoryd.cli.screen import format_time, make_screen, printable


def print_json(document: object) -> None:
    """Print one JSON document, indented on a terminal."""
    out = sys.stdout
    utf8 = (out.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not utf8, indent=2 if out.isatty() else None)
    out.write((text if text.isprintable() else "".join(map(_escaped, text))) + "\n")
    out.flush()


def _escaped(char: str) -> str:
    """Escape DEL, C1 and bidirectional controls, which JSON allows unescaped but a terminal would interpret."""
    if char == "\n" or char.isprintable():
        return char
    return json.dumps(char)[1:-1] if ord(char) > 0x7F else f"\\u{ord(char):04x}"


def print_for_people(method: str, result: dict[str, Any]) -> None:
    """Print a result in the form made for its method."""
    from memoryd.cli.views import VIEWS, show_generic  # noqa: PLC0415 - not needed with --json

    VIEWS.get(method, show_generic)(make_screen(sys.stdout), result)
    sys.stdout.flush()


def event_line(event: dict[str, Any]) -> str:
    """Format an event for people: time, topic, root, then the rest as name=value."""
    rest = {key: value for key, value in event.items() if key not in ("at", "topic", "root")}
    details = " ".join(f"{key}={value}" for key, value in rest.items())
    return printable(
        f"{format_time(event.get('at'))} {event.get('topic', ''):<8} {event.get('root', '-'):<12} {details}".rstrip()
    )
