"""What a lock file says about its holder, in every way known to be written. Pure.

Times are seconds since the epoch, UTC, as floats.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MAX_RECORD = 4096  # bytes; no known writer needs 300
MAX_PID = 2**22  # the largest pid_max a kernel takes

_EARLIEST, _LATEST = 946_684_800.0, 4_102_444_800.0  # 2000 and 2100: outside, a number is no time
_MILLISECONDS_FROM = 100_000_000_000.0
_TIME_KEYS = ("timestamp", "started_at", "created_at", "time")
_PID = re.compile(r"[0-9]{1,10}")
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,9})?")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}(\?pidns-[\w:.\-]+)?")  # filelock marks containers so
_PID_THEN_TIME = re.compile(r"([0-9]{1,10})[ \t:][ \t]*([^ \t].*)")


@dataclass(frozen=True, slots=True)
class LockOwner:
    """What a lock file says about its holder. `stamp` is None when absent or without a zone.

    `start` is filelock's token for the start of the process, kept as text. `form` names how it was
    written: "empty", "unreadable", "json", "pid", "pid time", "pid host" or "pid host token". `ours` where it says
    that memoryd made it.
    """

    pid: int | None = None
    stamp: float | None = None
    host: str | None = None
    start: str | None = None
    form: str = "unreadable"
    ours: bool = False


EMPTY = LockOwner(form="empty")
UNREADABLE = LockOwner(form="unreadable")


def parse_owner(content: bytes) -> LockOwner:
    """Reads every known way to write a lock file; anything else has no readable pid. Never raises."""
    if not content:
        return EMPTY
    if len(content) > MAX_RECORD or b"\0" in content:
        return UNREADABLE
    text = content.decode("utf-8", "replace").strip()
    if not text:
        return EMPTY
    if text.startswith("{"):
        return _from_json(text)
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) == 1:
        return _from_line(lines[0])
    return _from_lines(lines)


def _from_json(text: str) -> LockOwner:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return UNREADABLE
    pid = _pid(found.get("pid")) if isinstance(found, dict) else None
    if pid is None:
        return UNREADABLE
    stamps = (_stamp(found[key]) for key in _TIME_KEYS if key in found)
    return LockOwner(
        pid=pid,
        stamp=next((stamp for stamp in stamps if stamp is not None), None),
        host=_host(found.get("host", found.get("hostname"))),
        form="json",
        ours=found.get("owner") == "memoryd",
    )


def _host(value: object) -> str | None:
    """Printable in any log. A name that had to be changed for that equals no real host: nothing goes."""
    if not isinstance(value, str) or not value:
        return None
    return value.encode("ascii", "backslashreplace").decode("ascii")[:300]


def _from_line(line: str) -> LockOwner:
    """A bare pid, `PID TIME` or `PID:TIME`."""
    pid = _pid(line)
    if pid is not None:
        return LockOwner(pid=pid, form="pid")
    match = _PID_THEN_TIME.fullmatch(line)
    pid = _pid(match[1]) if match else None
    if match is None or pid is None or not _is_time(match[2]):
        return UNREADABLE
    return LockOwner(pid=pid, stamp=_stamp(match[2]), form="pid time")


def _from_lines(lines: list[str]) -> LockOwner:
    """Pid and time, or filelock's lines: pid, host and, where the platform has one, a start token."""
    pid = _pid(lines[0])
    if pid is None or len(lines) > 3:
        return UNREADABLE
    if len(lines) == 2 and _is_time(lines[1]):
        return LockOwner(pid=pid, stamp=_stamp(lines[1]), form="pid time")
    if not _HOST.fullmatch(lines[1]):
        return UNREADABLE
    if len(lines) == 2:
        return LockOwner(pid=pid, host=lines[1], form="pid host")
    if not re.fullmatch(r"[0-9]{1,40}", lines[2]):
        return UNREADABLE
    return LockOwner(pid=pid, host=lines[1], start=lines[2], form="pid host token")


def _pid(value: object) -> int | None:
    """A process that can be asked about: 0 and negative numbers would ask about groups. 1 may well be the agent:
    in a container it is the first process."""
    if isinstance(value, str) and _PID.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 1 <= value <= MAX_PID else None


def _is_time(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or _moment(text) is not None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _stamp(value: Any) -> float | None:
    """Epoch seconds or milliseconds, or ISO 8601 with a zone; None for all else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, str):
        moment = _moment(value)
        if moment is None or moment.tzinfo is None:
            return None
        try:
            value = moment.timestamp()
        except OverflowError:
            return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _LATEST * 1000:
        return None
    seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
    return float(seconds) if _EARLIEST <= seconds <= _LATEST else None


def encode_owner(pid: int, stamp: float, host: str) -> bytes:
    """memoryd's own record. It has no newline: some readers take the whole content as one value."""
    iso = datetime.fromtimestamp(stamp, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f'{{"pid":{pid},"timestamp":"{iso}","host":{json.dumps(host)},"owner":"memoryd"}}'.encode()
