"""One client: a thread that reads and answers, a thread that writes.

Nothing a client does reaches further than its own two threads: not reading, sending slowly, half a
line, a gigabyte without newline, or vanishing with a request under way.
"""

from __future__ import annotations

import itertools
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from memoryd.control import protocol
from memoryd.control.outbox import Outbox
from memoryd.control.peer import Peer
from memoryd.control.protocol import LineReader, Problem, Request
from memoryd.control.wire import INVALID_REQUEST, MAX_LINE
from memoryd.errors import BusyError, MemorydError, ShuttingDownError
from memoryd.log import get_logger

# On macOS a client that only closed its sending side looks the same as one that is gone.
_HANGUP_IS_FINAL = sys.platform.startswith("linux")

Answer = dict[str, Any] | Future[dict[str, Any]]
Invoke = Callable[["Connection", Request], Answer]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and counts that bound what clients can cost. `line_s`: from a line's first byte to its
    last; `stall_s`: without taking a byte of what is sent; `pending`: unanswered requests of one client."""

    clients: int = 64
    line_s: float = 30.0
    stall_s: float = 10.0
    pending: int = 64
    linger_s: float = 1.0
    chunk: int = 65_536


class Connection:
    """`invoke` answers a request; `mutates` tells which methods are logged; `ended` is called once."""

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        invoke: Invoke,
        *,
        mutates: Callable[[str], bool],
        ended: Callable[[Connection], None],
        limits: Limits,
    ) -> None:
        sock.setblocking(False)
        self.peer = peer
        self.topics: frozenset[str] = frozenset()
        self._sock = sock
        self._invoke = invoke
        self._mutates = mutates
        self._ended = ended
        self._limits = limits
        self._outbox = Outbox()
        self._lines = LineReader()
        self._pending: dict[int, Request] = {}
        self._tokens = itertools.count()
        self._lock = threading.Condition()  # guards, and tells changes of, `_pending`
        self._reader = threading.Thread(
            target=self._read_all, name=f"control-in-{peer.connection}", daemon=True
        )
        self._writer = threading.Thread(
            target=self._write_all, name=f"control-out-{peer.connection}", daemon=True
        )

    def start(self, hello: bytes) -> None:
        self.send(hello)
        self._writer.start()
        self._reader.start()

    def send(self, line: bytes) -> None:
        """Enqueue; a client with that much unread is cut off."""
        self._enqueue(len(line), lambda: line)

    def event(self, params: dict[str, Any]) -> None:
        self._outbox.put_event(params)

    # -- ending -----------------------------------------------------------------------------------

    def settle(self, deadline: float) -> None:
        """Wait, until `deadline` (monotonic), for the replies under way; then answer what is still
        pending with "shutting down" and take nothing more."""
        self._wait_answered(max(0, deadline - time.monotonic()))
        with self._lock:
            left, self._pending = self._pending, {}
        error = ShuttingDownError("the daemon is shutting down", hint="`memoryd history` tells what was done")
        for request in left.values():
            if not request.notification:
                self.send(protocol.encode_error(request.id, error))
        self._outbox.finish()

    def flush(self, deadline: float) -> None:
        """After `settle`: let the last lines out, until `deadline`, then end it."""
        self._outbox.wait_empty(max(0, deadline - time.monotonic()))
        self.cut()

    def join(self, timeout: float) -> None:
        for thread in (self._writer, self._reader):
            if thread is not threading.current_thread():
                thread.join(timeout)

    def cut(self) -> None:
        """End it now; both threads wake up."""
        self._outbox.abandon()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # already gone

    def _has_pending(self) -> bool:
        with self._lock:
            return bool(self._pending)

    # -- reading ----------------------------------------------------------------------------------

    def _read_all(self) -> None:
        try:
            if self._read_requests():
                self._linger_half_closed()
        except OSError as error:
            get_logger(__name__).debug("client_gone", connection=self.peer.connection, reason=str(error))
        finally:
            self._outbox.finish()
            self._writer.join(self._limits.stall_s + 1)
            self._discard()
            self._sock.close()
            self._ended(self)

    def _read_requests(self) -> bool:
        """True when the client closed its side, False when we end the connection."""
        since: float | None = None
        while True:
            left = None if since is None else since + self._limits.line_s - time.monotonic()
            if left is not None and (left <= 0 or not _ready(self._sock, select.POLLIN, left)):
                hint = f"a line must be complete within {self._limits.line_s:g} s"
                return self._refuse(Problem(None, INVALID_REQUEST, "half a line and no end; closing", hint))
            if left is None:
                _ready(self._sock, select.POLLIN, None)
            chunk = self._receive()
            if chunk is None:
                continue
            if not chunk:
                return True
            lines = self._lines.feed(chunk)
            for line in lines:
                if not self._outbox.wait_room(self._limits.stall_s):
                    return False
                self._answer(line)
            if self._lines.too_long:
                return self._refuse(protocol.TOO_LONG)
            started = bool(lines) or since is None
            since = (time.monotonic() if started else since) if self._lines.partial else None

    def _receive(self) -> bytes | None:
        try:
            return self._sock.recv(self._limits.chunk)
        except (BlockingIOError, InterruptedError):
            return None

    def _refuse(self, problem: Problem) -> bool:
        self.send(protocol.encode_problem(problem))
        return False

    def _linger_half_closed(self) -> None:
        """The client has no more requests but may still read (`printf ... | nc -U`): stay for the
        replies under way, and for its events until it is really gone."""
        while self._has_pending() or self.topics:
            if _ready(self._sock, 0, 0.2):
                self.topics = frozenset()
                if not _HANGUP_IS_FINAL:
                    self._wait_answered(self._limits.stall_s)
                return

    def _wait_answered(self, timeout: float) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._pending, timeout)

    def _discard(self) -> None:
        """Read on for a moment after we have ended it, so that a client in the middle of sending gets
        our last line instead of a broken pipe."""
        until = time.monotonic() + self._limits.linger_s
        while time.monotonic() < until:
            try:
                if _ready(self._sock, select.POLLIN, 0.1) and not self._sock.recv(1_048_576):
                    return
            except OSError:
                return

    # -- answering --------------------------------------------------------------------------------

    def _answer(self, line: bytes) -> None:
        request = protocol.decode_request(line)
        if isinstance(request, Problem):
            self.send(protocol.encode_problem(request))
            return
        started = time.monotonic()
        try:
            self._admit()
            answer = self._invoke(self, request)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises becomes an error reply
            self._reply(request, self._error_line(request, error), started, error)
            return
        if isinstance(answer, Future):
            with self._lock:
                token = next(self._tokens)
                self._pending[token] = request
            answer.add_done_callback(partial(self._done, token, started))
        else:
            self._reply(request, self._result_line(request, answer), started)

    def _admit(self) -> None:
        with self._lock:
            waiting = len(self._pending)
        if waiting >= self._limits.pending:
            raise BusyError(f"{waiting} requests of this connection are still unanswered")

    def _done(self, token: int, started: float, future: Future[dict[str, Any]]) -> None:
        """Called by the thread that finished the work: only enqueues."""
        with self._lock:
            request = self._pending.get(token)
        if request is not None:
            self._enqueue(0, partial(self._settled_line, token, request, started, future))

    def _settled_line(
        self, token: int, request: Request, started: float, future: Future[dict[str, Any]]
    ) -> bytes:
        """In the writer's thread: the reply to a finished job, or nothing if it was answered already."""
        with self._lock:
            if self._pending.pop(token, None) is None:
                return b""
            self._lock.notify_all()
        failed: Exception | None = None
        try:
            line = self._result_line(request, future.result(timeout=0))
        except CancelledError:
            failed = ShuttingDownError("the work was cancelled because the daemon is stopping")
            line = protocol.encode_error(request.id, failed)
        except Exception as error:  # noqa: BLE001 - whatever the work raised becomes an error reply
            failed = error
            line = self._error_line(request, error)
        self._note(request, started, failed)
        return b"" if request.notification else line

    def _reply(self, request: Request, line: bytes, started: float, error: Exception | None = None) -> None:
        self._note(request, started, error)
        if not request.notification:
            self.send(line)

    def _result_line(self, request: Request, result: dict[str, Any]) -> bytes:
        return protocol.encode_reply(request.id, result, MAX_LINE)

    def _error_line(self, request: Request, error: Exception) -> bytes:
        """MemorydErrors say themselves what to tell; anything else is a fault of ours, told by the
        number under which the log has the traceback."""
        if isinstance(error, MemorydError):
            return protocol.encode_error(request.id, error)
        number = uuid.uuid4().hex[:8]
        get_logger(__name__).error("request_failed", method=request.method, log_id=number, exc_info=error)
        told = MemorydError("internal error", hint=f"the log has it as {number}", data={"log_id": number})
        return protocol.encode_error(request.id, told)

    def _note(self, request: Request, started: float, error: Exception | None) -> None:
        if self._mutates(request.method):
            took = round((time.monotonic() - started) * 1000, 1)
            failed = type(error).__name__ if error else None
            peer = self.peer
            get_logger(__name__).info(
                "request", method=request.method, uid=peer.uid, peer_pid=peer.pid, ms=took, error=failed
            )

    # -- writing ----------------------------------------------------------------------------------

    def _enqueue(self, size: int, make: Callable[[], bytes]) -> None:
        if not self._outbox.put(size, make):
            self.cut()

    def _write_all(self) -> None:
        try:
            while (make := self._outbox.take()) is not None:
                self._send_all(make())
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            get_logger(__name__).debug(
                "client_unreachable", connection=self.peer.connection, reason=str(error)
            )
            self.cut()
        finally:
            self._outbox.abandon()

    def _send_all(self, line: bytes) -> None:
        """Raises OSError when the client takes nothing for `stall_s`. Python ignores SIGPIPE."""
        view = memoryview(line)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except (BlockingIOError, InterruptedError):
                if not _ready(self._sock, select.POLLOUT, self._limits.stall_s):
                    raise TimeoutError("the client does not read") from None


def _ready(sock: socket.socket, mask: int, timeout: float | None) -> bool:
    """Poll one socket; `timeout` in seconds, None waits. Errors and hang-ups count as ready."""
    poll = select.poll()
    poll.register(sock, mask)
    return bool(poll.poll(None if timeout is None else max(0, timeout) * 1000))
