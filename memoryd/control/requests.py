"""Answer request lines with reply lines, and track the unanswered requests of a client."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from memoryd.control import protocol
from memoryd.control.methods.method_types import Result
from memoryd.control.peer import Peer
from memoryd.control.protocol import Body, InvalidRequest, RpcRequest
from memoryd.errors import BusyError, MemorydError, ShuttingDownError
from memoryd.log import get_logger

Answer = Body | Future[Result] | Future[Mapping[str, object]]
Invoke = Callable[[RpcRequest], Answer]
_ResultFuture = Future[Result] | Future[Mapping[str, object]]
Enqueue = Callable[[int, Callable[[], bytes]], None]
"""Queues a line: (approximate bytes, function that encodes the line just before it is sent). Never waits."""


class Replies:
    """The replies to one client. `invoke` does the work, `mutates` is true for methods that are logged with their
    caller, `limit` is the maximum number of requests waiting for their Future."""

    def __init__(
        self, peer: Peer, invoke: Invoke, mutates: Callable[[str], bool], enqueue: Enqueue, limit: int
    ) -> None:
        self._peer = peer
        self._invoke = invoke
        self._mutates = mutates
        self._enqueue = enqueue
        self._limit = limit
        self._pending: dict[int, RpcRequest] = {}
        self._tokens = itertools.count()
        self._changed = threading.Condition()  # guards `_pending` and is notified when it shrinks

    @property
    def pending(self) -> bool:
        """True if any request is unanswered."""
        with self._changed:
            return bool(self._pending)

    def wait_answered(self, timeout: float) -> bool:
        """Return True once nothing is pending; False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, max(0, timeout))

    def abort_pending(self) -> None:
        """Answer all pending requests with "shutting down"; their real results are discarded."""
        with self._changed:
            unanswered, self._pending = self._pending, {}
        error = ShuttingDownError("the daemon is shutting down", hint="`memoryd history` shows what was done")
        for request in unanswered.values():
            self._send(request, protocol.encode_error(request.id, error))

    def answer(self, line: bytes) -> None:
        """Handle one line of the client: at most one reply is queued, now or when its Future completes."""
        request = protocol.decode_request(line)
        if isinstance(request, InvalidRequest):
            self.refuse(request)
            return
        started = time.monotonic()
        try:
            self._admit()
            answer = self._invoke(request)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises becomes an error reply
            self._log_change(request, started, error)
            self._send(request, _error_line(request, error))
            return
        if isinstance(answer, Future):
            self._await(request, started, answer)
            return
        self._log_change(request, started, None)
        self._send(request, protocol.encode_reply(request.id, answer))

    def refuse(self, problem: InvalidRequest) -> None:
        """Answer a line that is not a request."""
        line = protocol.encode_invalid_request(problem)
        self._enqueue(len(line), lambda: line)

    def _admit(self) -> None:
        with self._changed:
            pending = len(self._pending)
        if pending >= self._limit:
            raise BusyError(f"{pending} requests of this connection are still unanswered")

    def _await(self, request: RpcRequest, started: float, future: _ResultFuture) -> None:
        with self._changed:
            token = next(self._tokens)
            self._pending[token] = request
        future.add_done_callback(partial(self._complete, token, request, started))

    def _complete(self, token: int, request: RpcRequest, started: float, future: _ResultFuture) -> None:
        """Queue the reply; called by the thread that finished the work."""
        self._enqueue(0, partial(self._result_line, token, request, future))
        self._log_change(request, started, _failure(future))

    def _result_line(self, token: int, request: RpcRequest, future: _ResultFuture) -> bytes:
        """Return the reply to finished work; an empty line if the request was answered already."""
        with self._changed:
            if self._pending.pop(token, None) is None:
                return b""
            self._changed.notify_all()
        error = _failure(future)
        line = _error_line(request, error) if error else protocol.encode_reply(request.id, future.result(timeout=0))
        return b"" if request.notification else line

    def _send(self, request: RpcRequest, line: bytes) -> None:
        if not request.notification:
            self._enqueue(len(line), lambda: line)

    def _log_change(self, request: RpcRequest, started: float, error: Exception | None) -> None:
        """Log the caller of a method that changes something, without its parameters."""
        if self._mutates(request.method):
            elapsed_ms = round((time.monotonic() - started) * 1000, 1)
            failed = type(error).__name__ if error else None
            peer = self._peer
            get_logger(__name__).info(
                "request", method=request.method, uid=peer.uid, peer_pid=peer.pid, ms=elapsed_ms, error=failed
            )


def _failure(future: _ResultFuture) -> Exception | None:
    """Return the error of finished work, None if it succeeded."""
    if future.cancelled():
        return ShuttingDownError("the work was cancelled because the daemon is stopping")
    error = future.exception(timeout=0)
    if error is not None and not isinstance(error, Exception):
        raise error
    return error


def _error_line(request: RpcRequest, error: Exception) -> bytes:
    """Return the reply for an error. A MemorydError carries its own message. Anything else is a bug: the reply has only
    the number that finds the traceback in the log."""
    if isinstance(error, MemorydError):
        return protocol.encode_error(request.id, error)
    number = uuid.uuid4().hex[:8]
    get_logger(__name__).error("request_failed", method=request.method, log_id=number, exc_info=error)
    public_error = MemorydError("internal error", hint=f"see {number} in the log", data={"log_id": number})
    return protocol.encode_error(request.id, public_error)
