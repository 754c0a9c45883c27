"""One client: a thread that reads and answers, an output queue, and a thread that sends what is queued.

A misbehaving client affects only its own two threads, whether it does not read, sends slowly, sends half a line or a
gigabyte without a newline, or disconnects during a request.
"""

from __future__ import annotations

import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from msgspec import Struct

from memoryd.control import protocol
from memoryd.control.peer import Peer
from memoryd.control.protocol import InvalidRequest, LineReader, RpcRequest, encode_notification
from memoryd.control.requests import Answer, Replies
from memoryd.control.wire import INVALID_REQUEST
from memoryd.log import get_logger

LineFactory = Callable[[], bytes]
"""Encodes a line just before it is sent, in the writer's thread, so that enqueueing stays cheap."""


class Outbox:
    """The queue of one connection: filled by any thread, emptied by its writer."""

    def __init__(self, max_replies: int = 1024, max_bytes: int = 8 * 1024 * 1024, max_events: int = 256) -> None:
        self._max_replies = max_replies
        self._max_bytes = max_bytes
        self._replies: deque[tuple[int, LineFactory]] = deque()
        self._events: deque[Mapping[str, object]] = deque()
        self._max_events = max_events
        self._bytes = 0
        self._dropped = 0
        self._sending = False
        self._claimed = False
        self._finished = False
        self._abandoned = False
        self._draining = False  # somebody waits, or has waited, for the queue to be empty
        self._changed = threading.Condition()

    def try_acquire(self) -> bool:
        """Reserve the socket if nothing is queued or being sent. If True, no other thread sends until `release`."""
        with self._changed:
            if self._claimed or self._sending or self._finished or self._replies or self._events:
                return False
            self._claimed = True
            return True

    def release(self, rest: bytes) -> None:
        """End the reservation of `try_acquire`. The unsent `rest` goes to the head of the queue."""
        with self._changed:
            self._claimed = False
            if rest and not self._abandoned:
                self._replies.appendleft((len(rest), lambda: rest))
                self._bytes += len(rest)
            if self._replies or self._events or self._finished or self._draining:
                self._changed.notify_all()

    def put(self, size: int, make: LineFactory) -> bool:
        """Enqueue a reply of about `size` bytes without waiting; False if the queue is full. After `finish` the reply
        is dropped and the result is True."""
        with self._changed:
            if self._finished:
                return True
            if len(self._replies) >= self._max_replies or self._bytes > self._max_bytes:
                return False
            self._replies.append((size, make))
            self._bytes += size
            self._changed.notify_all()
            return True

    def put_event(self, params: Mapping[str, object]) -> None:
        """Enqueue an event. If the queue is full, drop the oldest one."""
        with self._changed:
            if self._finished:
                return
            if len(self._events) >= self._max_events:
                self._events.popleft()
                self._dropped += 1
            self._events.append(params)
            self._changed.notify_all()

    def take(self) -> LineFactory | None:
        """Wait for the next line and return its factory; None once the queue is finished and empty."""
        with self._changed:
            self._sending = False
            self._changed.notify_all()
            while self._claimed or not (self._replies or self._events or self._finished):
                self._changed.wait(60)
            if not (self._replies or self._events):
                return None
            self._sending = True
            return self._pop()

    def _pop(self) -> LineFactory:
        if self._replies:
            size, make = self._replies.popleft()
            self._bytes -= size
            return make
        params = self._events.popleft()
        if self._dropped:
            params = {**params, "dropped": self._dropped}
            self._dropped = 0
        return lambda: encode_notification("event", params)

    def wait_capacity(self, timeout: float) -> bool:
        """Return True once the queue is short enough to read the next request; False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(self._has_capacity, timeout)

    def _has_capacity(self) -> bool:
        has_capacity = len(self._replies) < self._max_replies // 4 and self._bytes < self._max_bytes // 4
        return self._finished or has_capacity

    def wait_empty(self, timeout: float) -> bool:
        """Return True once everything queued has been sent or will never be; False after `timeout` seconds."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(self._is_idle, timeout)

    def _is_idle(self) -> bool:
        return not (self._replies or self._events or self._sending or self._claimed)

    def finish(self) -> None:
        """Accept nothing more; what is queued is still sent."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Accept and send nothing more."""
        with self._changed:
            self._finished = self._abandoned = True
            self._sending = False
            self._replies.clear()
            self._events.clear()
            self._bytes = 0
            self._changed.notify_all()


# On macOS a client that closed only its sending side looks the same as one that has disconnected.
_HANGUP_IS_FINAL = sys.platform.startswith("linux")


class Limits(Struct, frozen=True):
    """Limits on the resources of clients. `clients`: connections at once; `line_s`: seconds from the first byte of a
    line to its last; `stall_s`: seconds in which a client accepts no byte; `pending`: unanswered requests of one
    client; `linger_s`: seconds of reading on after the last reply; `chunk`: bytes read at once."""

    clients: int = 64
    line_s: float = 30.0
    stall_s: float = 10.0
    pending: int = 64
    linger_s: float = 1.0
    chunk: int = 65_536


class Connection:
    """One connected client. `invoke` answers a request, `mutates` is true for methods that are logged, and `on_end` is
    called once, when the connection has ended."""

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        invoke: Callable[[Connection, RpcRequest], Answer],
        *,
        mutates: Callable[[str], bool],
        on_end: Callable[[Connection], None],
        limits: Limits,
    ) -> None:
        sock.setblocking(False)
        self.peer = peer
        self.topics: frozenset[str] = frozenset()
        self._sock = sock
        self._on_end = on_end
        self._limits = limits
        self._outbox = Outbox()
        self._lines = LineReader()
        self._first_line = threading.Event()
        self._replies = Replies(peer, lambda request: invoke(self, request), mutates, self._enqueue, limits.pending)
        self._reader = threading.Thread(target=self._read_all, name=f"control-in-{peer.connection}", daemon=True)
        self._writer = threading.Thread(target=self._write_all, name=f"control-out-{peer.connection}", daemon=True)

    def start(self, hello: bytes) -> None:
        """Send the greeting, then read requests and answer them."""
        self._enqueue(len(hello), lambda: hello)
        self._writer.start()
        self._reader.start()

    def send_event(self, params: Mapping[str, object]) -> None:
        """Queue one event for sending, without waiting."""
        self._outbox.put_event(params)

    # -- ending -----------------------------------------------------------------------------------

    def await_reply(self, deadline: float) -> None:
        """Wait until `deadline` (monotonic) for the first request of a new client and for all pending replies."""
        self._first_line.wait(max(0.0, deadline - time.monotonic()))
        self._replies.wait_answered(deadline - time.monotonic())
        self._outbox.wait_empty(max(0.0, deadline - time.monotonic()))

    def settle(self, deadline: float) -> None:
        """Wait until `deadline` (monotonic) for pending replies, then answer the rest with "shutting down" and accept
        nothing more."""
        self._replies.wait_answered(deadline - time.monotonic())
        self._replies.abort_pending()
        self._outbox.finish()

    def flush(self, deadline: float) -> None:
        """Send the last lines after `settle`, until `deadline`, then disconnect."""
        self._outbox.wait_empty(max(0, deadline - time.monotonic()))
        self.disconnect()

    def join(self, timeout: float) -> None:
        """Wait for both threads, for `timeout` seconds each."""
        for thread in (self._writer, self._reader):
            if thread is not threading.current_thread():
                thread.join(timeout)

    def disconnect(self) -> None:
        """Disconnect now; both threads wake up."""
        self._outbox.abandon()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # already disconnected

    # -- reading ----------------------------------------------------------------------------------

    def _read_all(self) -> None:
        try:
            if self._read_requests():
                self._linger_half_closed()
        except OSError as error:
            get_logger(__name__).debug("client_gone", connection=self.peer.connection, reason=str(error))
        finally:
            self._first_line.set()  # a client that has gone sends none
            self._outbox.finish()
            self._writer.join(self._limits.stall_s + 1)
            self._discard()
            self._sock.close()
            self._on_end(self)

    def _read_requests(self) -> bool:
        """Answer requests until the end. Returns True if the client closed its side, False if the server must."""
        since: float | None = None
        while True:
            remaining = None if since is None else since + self._limits.line_s - time.monotonic()
            if remaining is not None and (remaining <= 0 or not _ready(self._sock, select.POLLIN, remaining)):
                hint = f"a line must be complete within {self._limits.line_s:g} s"
                return self._refuse(
                    InvalidRequest(None, INVALID_REQUEST, "incomplete line; the connection is closed", hint)
                )
            if remaining is None:
                _ready(self._sock, select.POLLIN, None)
            chunk = self._receive()
            if chunk is None:
                continue
            if not chunk:
                return True
            lines = self._lines.feed(chunk)
            for line in lines:
                if not self._outbox.wait_capacity(self._limits.stall_s):
                    return False
                self._replies.answer(line)
                self._first_line.set()
            if self._lines.too_long:
                return self._refuse(protocol.TOO_LONG)
            started = bool(lines) or since is None
            since = (time.monotonic() if started else since) if self._lines.partial else None

    def _receive(self) -> bytes | None:
        try:
            return self._sock.recv(self._limits.chunk)
        except (BlockingIOError, InterruptedError):
            return None

    def _refuse(self, problem: InvalidRequest) -> bool:
        self._replies.refuse(problem)
        return False

    def _linger_half_closed(self) -> None:
        """Keep sending pending replies and events to a client that closed only its sending side (`printf ... | nc -U`),
        until it disconnects."""
        while self._replies.pending or self.topics:
            if _ready(self._sock, 0, 0.2):
                self.topics = frozenset()
                if not _HANGUP_IS_FINAL:
                    self._replies.wait_answered(self._limits.stall_s)
                return

    def _discard(self) -> None:
        """Read and discard input for `linger_s`, so that a client that is still sending receives the last line instead
        of a broken pipe."""
        deadline = time.monotonic() + self._limits.linger_s
        while time.monotonic() < deadline:
            try:
                if _ready(self._sock, select.POLLIN, 0.1) and not self._sock.recv(1_048_576):
                    return
            except OSError:
                return

    # -- writing ----------------------------------------------------------------------------------

    def _enqueue(self, size: int, make: Callable[[], bytes]) -> None:
        """Queue a line without waiting. Disconnects a client that has too much unread."""
        if self._outbox.try_acquire():
            self._send_at_once(make)
        elif not self._outbox.put(size, make):
            self.disconnect()

    def _send_at_once(self, make: Callable[[], bytes]) -> None:
        """Send from the current thread as much as the client accepts without waiting; queue the rest."""
        rest = b""
        try:
            rest = make()
            rest = rest[self._sock.send(rest) :] if rest else b""
        except (BlockingIOError, InterruptedError):
            pass  # the writer's thread sends it
        except OSError as error:
            get_logger(__name__).debug("client_unreachable", connection=self.peer.connection, reason=str(error))
            rest = b""
            self.disconnect()
        finally:
            self._outbox.release(rest)

    def _write_all(self) -> None:
        try:
            while (make := self._outbox.take()) is not None:
                self._send_all(make())
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            get_logger(__name__).debug("client_unreachable", connection=self.peer.connection, reason=str(error))
            self.disconnect()
        finally:
            self._outbox.abandon()

    def _send_all(self, line: bytes) -> None:
        """Send everything. Raises OSError if the client accepts nothing for `stall_s`. Python ignores SIGPIPE."""
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
