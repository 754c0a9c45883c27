"""JSON-RPC 2.0, one UTF-8 JSON object a line, without sockets: bytes to requests and results to bytes.

Nothing here raises on any input. NaN and infinities become null (JSON has neither), undecodable file names become
readable text, and a result too long for a line is shortened and says so in `truncated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import msgspec
from msgspec import Struct

from memoryd.control import wire
from memoryd.control.methods.method_types import Result
from memoryd.control.wire import MAX_LINE, readable
from memoryd.core.secrets import redact_values
from memoryd.errors import MemorydError

Id = str | int | None
Body = Result | Mapping[str, object]
"""The result of a method: a typed one, or the members of a JSON object."""

_CODES = {
    wire.PARSE_ERROR: "parse-error",
    wire.INVALID_REQUEST: "invalid-request",
    wire.METHOD_NOT_FOUND: "method-not-found",
    wire.INVALID_PARAMS: "usage",
    wire.INTERNAL_ERROR: "internal",
}


class RpcRequest(Struct, frozen=True):
    """One call. A notification has no id and gets no reply."""

    id: Id
    method: str
    params: object
    notification: bool = False


class InvalidRequest(Struct, frozen=True):
    """A line that is not a request: the parts of the error that answers it."""

    id: Id
    code: int
    message: str
    hint: str | None = None


TOO_LONG = InvalidRequest(
    None,
    wire.INVALID_REQUEST,
    f"the line is longer than {MAX_LINE} bytes; the connection is closed",
    "send smaller requests, one a line",
)


class LineReader:
    """Split a byte stream into lines. Holds at most one line limit and one chunk in memory."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self.too_long = False

    @property
    def partial(self) -> bool:
        """True if an incomplete line is buffered."""
        return bool(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without newline; blank ones are skipped. Once a line exceeds the
        limit, `too_long` is set and nothing more is returned."""
        lines: list[bytes] = []
        start = 0
        while not self.too_long:
            end = chunk.find(b"\n", start)
            piece = chunk[start:] if end < 0 else chunk[start:end]
            if len(self._buffer) + len(piece) > self._limit:
                self.too_long = True
                self._buffer.clear()
                break
            self._buffer += piece
            if end < 0:
                break
            if self._buffer.strip():
                lines.append(bytes(self._buffer))
            self._buffer.clear()
            start = end + 1
        return lines


def decode_request(line: bytes) -> RpcRequest | InvalidRequest:
    """Decode one line to a request, or to the error that answers it. Never raises."""
    try:
        message = msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        return InvalidRequest(None, wire.PARSE_ERROR, f"this is not JSON: {_reason(error)}", "one JSON object a line")
    if isinstance(message, list):
        return InvalidRequest(None, wire.INVALID_REQUEST, "batches are not supported", "send one object a line")
    if not isinstance(message, dict):
        return InvalidRequest(None, wire.INVALID_REQUEST, "a request is a JSON object")
    notification = "id" not in message
    request_id = message.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, (str, int, type(None))):
        return InvalidRequest(None, wire.INVALID_REQUEST, "an id is a string or a whole number")
    if message.get("jsonrpc") != "2.0":
        return InvalidRequest(request_id, wire.INVALID_REQUEST, 'a request carries "jsonrpc": "2.0"')
    method = message.get("method")
    if not isinstance(method, str):
        return InvalidRequest(request_id, wire.INVALID_REQUEST, "a request names its method as a string")
    return RpcRequest(request_id, method, message.get("params"), notification)


def _reason(error: Exception) -> str:
    """Return why a line did not decode, without quoting it."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} of a string is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def encode_reply(request_id: Id, result: Body, limit: int = MAX_LINE) -> bytes:
    """Return the reply as one line with its newline. In a result above `limit` bytes the longest lists are truncated,
    at any depth, and `truncated` maps their names (`plan.actions.0.ids`) to their full lengths. A result that cannot be
    shortened becomes an error."""
    shown = redact_values(result)
    line = encode({"jsonrpc": "2.0", "id": request_id, "result": shown})
    return line if len(line) <= limit + 1 else _encode_shortened(request_id, shown, limit)


def fits(result: Body) -> bool:
    """Return True if a result fits into one line without truncation, whatever the id of its request."""
    return len(encode(result)) + 1024 < MAX_LINE


def _encode_shortened(request_id: Id, result: Body, limit: int) -> bytes:
    members = _plain_members(result, 0)
    lengths: dict[str, int] = {}
    while True:
        lists: list[_List] = []
        _measure(members, "", lists)
        if not lists:
            hint = "name one root, file or id, or use a limit, to get less at once"
            error = MemorydError(f"the reply exceeds the limit of {limit} bytes per line", hint=hint)
            return encode_error(request_id, error)
        _, name, longest = max(lists, key=itemgetter(0))
        lengths.setdefault(name, len(longest))
        del longest[len(longest) // 2 :]
        line = encode({"jsonrpc": "2.0", "id": request_id, "result": {**members, "truncated": lengths}})
        if len(line) <= limit + 1:
            return line


_List = tuple[int, str, list[object]]


def _measure(value: object, name: str, lists: list[_List]) -> int:
    """Return the approximate bytes of a value without the lists inside it. Append (bytes, name, list) to `lists` for
    each non-empty list."""
    if isinstance(value, dict):
        prefix = f"{name}." if name else ""
        return sum(len(key) + 4 + _measure(each, prefix + key, lists) for key, each in value.items())
    if isinstance(value, list):
        size = sum(1 + _measure(each, f"{name}.{number}", lists) for number, each in enumerate(value))
        if value:
            lists.append((size, name, value))
        return 2
    return len(encode(value))


def encode_error(request_id: Id, error: MemorydError) -> bytes:
    """Return the reply for a raised error: code, message, data{code, hint?, ...}."""
    return encode({"jsonrpc": "2.0", "id": request_id, "error": redact_values(wire.error_object(error))})


def encode_invalid_request(problem: InvalidRequest) -> bytes:
    """Return the reply for a line that was not a request."""
    data: dict[str, object] = {"code": _CODES[problem.code], **({"hint": problem.hint} if problem.hint else {})}
    body = {"code": problem.code, "message": problem.message, "data": data}
    return encode({"jsonrpc": "2.0", "id": problem.id, "error": body})


def encode_notification(method: str, params: Mapping[str, object]) -> bytes:
    """Return a notification, such as an event, as one line."""
    return encode({"jsonrpc": "2.0", "method": method, "params": redact_values(params)})


def encode(message: object) -> bytes:
    """Return any value as one line. What JSON cannot represent becomes text; nothing raises."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(_plain(message, 0)) + b"\n"


def _plain(value: object, depth: int) -> object:
    """Convert a value to JSON's own types: the slow path."""
    if depth > 64:
        return "…"
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, (Mapping, msgspec.Struct)):
        return _plain_members(value, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 4096 else f"{value:#x}"
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return readable(str(value))


def _plain_members(value: Mapping[str, object] | msgspec.Struct, depth: int) -> dict[str, object]:
    members = msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
    return {_key(key): _plain(item, depth + 1) for key, item in members.items() if item is not msgspec.UNSET}


def _key(key: object) -> str:
    return readable(key if isinstance(key, str) else str(key))
