"""The holder named in a lock file, in every known form. Pure.

Times are seconds since the epoch, UTC, as floats.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from msgspec import Struct

MAX_RECORD = 4096  # bytes; no known writer needs 300
MAX_PID = 2**22  # the largest pid_max a kernel takes

_EARLIEST, _LATEST = 946_684_800.0, 4_102_444_800.0  # 2000 and 2100: numbers outside are not times
_MILLISECONDS_FROM = 100_000_000_000.0
_TIME_KEYS = ("timestamp", "started_at", "created_at", "time")
_PID = re.compile(r"[0-9]{1,10}")
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,9})?")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}(\?pidns-[\w:.\-]+)?")  # filelock marks containers like this
_PID_THEN_TIME = re.compile(r"([0-9]{1,10})[ \t:,;][ \t]*([^ \t].*)")
_PID_LABEL = re.compile(r"pid[ \t]*[:=][ \t]*", re.IGNORECASE)
_TIME_LABEL = re.compile(rf"(?<=[\s,;])(?:{'|'.join(_TIME_KEYS)})[ \t]*[:=][ \t]*", re.IGNORECASE)


class LockOwner(Struct, frozen=True):
    """The holder named in a lock file.

    `stamp`: epoch seconds; None if absent or without a zone.
    `start`: filelock's token for the start time of the process, as text.
    `form`: "empty", "unreadable", "json", "pid", "pid time", "pid host" or "pid host token".
    `by_memoryd`: the lock says that memoryd created it.
    """

    pid: int | None = None
    stamp: float | None = None
    host: str | None = None
    start: str | None = None
    form: str = "unreadable"
    by_memoryd: bool = False


EMPTY = LockOwner(form="empty")
UNREADABLE = LockOwner(form="unreadable")


def parse_owner(content: bytes) -> LockOwner:
    """Parse the content of a lock file. PID and time may have labels, as in `pid=4711 time=1760000000`. A form that is
    not known gives UNREADABLE. Never raises."""
    if not content:
        return EMPTY
    if len(content) > MAX_RECORD or b"\0" in content:
        return UNREADABLE
    text = content.decode("utf-8-sig", "replace").strip()
    if not text:
        return EMPTY
    if text.startswith("{"):
        return _from_json(text)
    label = _PID_LABEL.match(text)
    if label is not None:
        text = _TIME_LABEL.sub("", text[label.end() :])
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) == 1:
        return _from_line(lines[0])
    return _from_lines(lines)


def _from_json(text: str) -> LockOwner:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return UNREADABLE
    pid = _pid(record.get("pid")) if isinstance(record, dict) else None
    if pid is None:
        return UNREADABLE
    stamps = (_stamp(record[key]) for key in _TIME_KEYS if key in record)
    return LockOwner(
        pid=pid,
        stamp=next((stamp for stamp in stamps if stamp is not None), None),
        host=_host(record.get("host", record.get("hostname"))),
        form="json",
        by_memoryd=record.get("owner") == "memoryd",
    )


def _host(value: object) -> str | None:
    """Return a host name made printable for logs. A changed one equals no real host, so nothing is cleared for it."""
    if not isinstance(value, str) or not value:
        return None
    return value.encode("ascii", "backslashreplace").decode("ascii")[:300]


def _from_line(line: str) -> LockOwner:
    """Parse a single line: a PID, or a PID and a time with a blank, colon, comma or semicolon between them."""
    pid = _pid(line)
    if pid is not None:
        return LockOwner(pid=pid, form="pid")
    match = _PID_THEN_TIME.fullmatch(line)
    pid = _pid(match[1]) if match else None
    if match is None or pid is None or not _is_time(match[2]):
        return UNREADABLE
    return LockOwner(pid=pid, stamp=_stamp(match[2]), form="pid time")


def _from_lines(lines: list[str]) -> LockOwner:
    """Parse PID and time on two lines, or the lines of filelock: PID, host and, on some platforms, a start token."""
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
    """Return a valid PID or None. 0 and negative numbers mean process groups; 1 may be an agent in a container."""
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


def _stamp(value: object) -> float | None:
    """Return epoch seconds from epoch seconds or milliseconds or ISO 8601 with a zone; None for anything else."""
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
    """Return the content of a lock file of memoryd. No newline: some readers take the whole content as one value."""
    iso = datetime.fromtimestamp(stamp, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f'{{"pid":{pid},"timestamp":"{iso}","host":{json.dumps(host)},"owner":"memoryd"}}'.encode()
