"""The blocking client of the control socket: one connection, standard library only."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

from memoryd.control.wire import MAX_LINE, error_from_object, peer_identity, readable
from memoryd.errors import DeniedError, MemorydError, NoDaemonError, UsageError

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any

    from memoryd.core.records import JsonObject

_CONNECT_S = 5
_CHUNK = 65_536  # bytes read at once; the allocation of a larger buffer takes longer than the call
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_START = "start it with `memoryd run`, or say where it is with --socket or --state-dir"


class Client:
    """A connection to the daemon. `timeout` is how many seconds to wait for a reply unless `call` names another; None
    waits without limit.

    Every error is a MemorydError: NoDaemonError if nothing answers in time, else the kind that the daemon reported.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float | None = 30.0) -> None:
        self.path = os.fspath(path)
        self._timeout = timeout
        self._sock: socket.socket | None = None
        self._buffer = bytearray()
        self._last_id = 0
        self._events: deque[JsonObject] = deque()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def fileno(self) -> int:
        """Return the descriptor of the connection, for `select`: readable once an event has arrived. There must have
        been a call."""
        assert self._sock is not None
        return self._sock.fileno()

    def call(self, method: str, params: Mapping[str, object] | None = None, timeout: float | None = None) -> Any:
        """Call a method and return its result. Raises the error that the daemon reports, or NoDaemonError."""
        limit = timeout if timeout is not None else self._timeout
        deadline = None if limit is None else time.monotonic() + limit
        self._last_id += 1
        line = _encode({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": dict(params or {})})
        if len(line) > MAX_LINE:
            raise UsageError(f"the request is longer than {MAX_LINE} bytes", hint="send less at once")
        self._send(line + b"\n", deadline)
        while True:
            message = self._receive(deadline)
            if "method" in message:
                self._keep_event(message)
            elif message.get("id") == self._last_id and "result" in message:
                return message["result"]
            elif message.get("id") in (self._last_id, None):
                raise error_from_object(message.get("error"))

    def events(self, topics: Sequence[str] = ()) -> Iterator[JsonObject]:
        """Subscribe, then yield every event {topic, at, ...} as it arrives. Ends when the daemon does."""
        self.call("subscribe", {"topics": list(topics)} if topics else {})
        while True:
            while self._events:
                yield self._events.popleft()
            try:
                self._keep_event(self._receive(None))
            except NoDaemonError:
                return

    def take_events(self) -> list[JsonObject]:
        """Return the events that have arrived before the reply to the last call, each once."""
        events = [*self._events]
        self._events.clear()
        return events

    def _keep_event(self, message: JsonObject) -> None:
        params = message.get("params")
        if message.get("method") == "event" and isinstance(params, dict):
            self._events.append(params)

    # -- the wire ---------------------------------------------------------------------------------

    def _connect(self, limit: float) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A blocking connect with the kernel's time limit. With Python's, a full accept queue fails at
            # once, and a client that retries loses its place in the queue.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(limit), int(limit % 1 * 1e6)))
            sock.connect(self.path)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
        except OSError as error:
            sock.close()
            raise _unreachable(self.path, error) from error
        try:
            _check_server(sock, self.path)
        except MemorydError:
            sock.close()
            raise
        return sock

    def _send(self, data: bytes, deadline: float | None) -> None:
        self._sock = self._sock or self._connect(min(_CONNECT_S, _remaining(deadline) or _CONNECT_S))
        try:
            self._sock.settimeout(_remaining(deadline))
            self._sock.sendall(data)
        except BrokenPipeError:
            return  # the daemon closed first; its last lines can still be read
        except OSError as error:
            raise self._connection_error(error) from error

    def _receive(self, deadline: float | None) -> JsonObject:
        assert self._sock is not None
        end = self._buffer.find(b"\n")
        while end < 0:
            try:
                self._sock.settimeout(_remaining(deadline))
                chunk = self._sock.recv(_CHUNK)
            except OSError as error:
                raise self._connection_error(error) from error
            if not chunk:
                raise self._connection_error(None)
            found = chunk.find(b"\n")
            end = len(self._buffer) + found if found >= 0 else -1
            self._buffer += chunk
        line = self._buffer[:end]
        del self._buffer[: end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise MemorydError(f"the program that answers at {self.path} is not memoryd", hint="see --socket")
        return message

    def _connection_error(self, error: OSError | None) -> NoDaemonError:
        if isinstance(error, TimeoutError):
            return NoDaemonError(
                f"the daemon at {self.path} did not answer in time",
                hint="the request may still be carried out; check `memoryd history`",
            )
        return NoDaemonError(
            f"the daemon at {self.path} went away before it answered",
            hint="start it again; `memoryd history` then shows what was done",
        )


def _unreachable(path: str, error: OSError) -> MemorydError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeniedError(f"no permission to use {path}", hint="run the command as the daemon's user")
    if error.errno in (errno.EAGAIN, errno.ETIMEDOUT) or isinstance(error, TimeoutError):
        return NoDaemonError(
            f"the daemon at {path} does not accept connections", hint="it may be overloaded; try again"
        )
    return NoDaemonError(f"no daemon answers at {path}", hint=_START)


def _check_server(sock: socket.socket, path: str) -> None:
    """Raise DeniedError if another user serves the socket, as one that was made under /tmp before the daemon started:
    that user would read what is stored and answer what an agent believes. Root may ask the daemon of any user."""
    uid, _ = peer_identity(sock)
    if os.geteuid() not in (0, uid) and uid != 0:
        raise DeniedError(
            f"the socket {path} is served by user {uid}, neither by this user nor by root",
            hint="name another one with --socket, or run the command as the user of that daemon",
        )


def _encode(request: Mapping[str, object]) -> bytes:
    try:
        return _to_json(request).encode()
    except UnicodeEncodeError:
        return _to_json(_clean(request)).encode()


def _clean(value: object) -> object:
    """Replace text that is not valid UTF-8 in strings, lists and objects: the command line may hold any bytes."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {readable(str(key)): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, (list, tuple)) else value


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.001, deadline - time.monotonic())
