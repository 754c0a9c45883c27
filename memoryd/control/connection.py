"""One client: a thread that reads and answers, a queue of output, and a thread that writes what cannot be sent at once.

A client affects its own two threads only, whatever it does: not reading, sending slowly, sending half a line or a
gigabyte without a newline, or disconnecting during a request.
"""

from __future__ import annotations

import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memoryd.control import protocol
from memoryd.control.peer import Peer
from memoryd.control.protocol import LineReader, Problem, RpcRequest, encode_notification
from memoryd.control.requests import Answer, Replies
from memoryd.control.wire import INVALID_REQUEST
from memoryd.log import get_logger

Make = Callable[[], bytes]
"""Makes the line when its turn comes, in the writer's thread: encoding never burdens who enqueues."""


class Outbox:
    """The queue of one connection: filled by any thread, emptied by its writer."""

    def __init__(self, max_replies: int = 1024, max_bytes: int = 8 * 1024 * 1024, max_events: int = 256) -> None:
        self._max_replies = max_replies
        self._max_bytes = max_bytes
        self._replies: deque[tuple[int, Make]] = deque()
        self._events: deque[Mapping[str, object]] = deque()
        self._max_events = max_events
        self._bytes = 0
        self._dropped = 0
        self._sending = False
        self._claimed = False
        self._finished = False
        self._abandoned = False
        self._changed = threading.Condition()

    def try_acquire(self) -> bool:
        """Return True if nothing is queued or being sent; until `release` nobody else sends."""
        with self._changed:
            if self._claimed or self._sending or self._finished or self._replies or self._events:
                return False
            self._claimed = True
            return True

    def release(self, rest: bytes) -> None:
        """End what `try_acquire` began; the unsent rest goes before everything queued meanwhile."""
        with self._changed:
            self._claimed = False
            if rest and not self._abandoned:
                self._replies.appendleft((len(rest), lambda: rest))
                self._bytes += len(rest)
            if self._replies or self._events or self._finished:
                self._changed.notify_all()

    def put(self, size: int, make: Make) -> bool:
        """Enqueue a reply of about `size` bytes without waiting; False if the queue is full. After `finish` nothing is
        taken, and the result is True because there is nobody to tell."""
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
        """Enqueue an event; if there are too many, drop the oldest."""
        with self._changed:
            if self._finished:
                return
            if len(self._events) >= self._max_events:
                self._events.popleft()
                self._dropped += 1
            self._events.append(params)
            self._changed.notify_all()

    def take(self) -> Make | None:
        """Wait for the next line and return what makes it. None once finished and empty."""
        with self._changed:
            self._sending = False
            self._changed.notify_all()
            while self._claimed or not (self._replies or self._events or self._finished):
                self._changed.wait(60)
            if not (self._replies or self._events):
                return None
            self._sending = True
            return self._pop()

    def _pop(self) -> Make:
        if self._replies:
            size, make = self._replies.popleft()
            self._bytes -= size
            return make
        params = self._events.popleft()
        if self._dropped:
            params = {**params, "dropped": self._dropped}
            self._dropped = 0
        return lambda: encode_notification("event", params)

    def wait_room(self, timeout: float) -> bool:
        """Return True once the queue is short enough to read the next request; False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(self._has_room, timeout)

    def _has_room(self) -> bool:
        roomy = len(self._replies) < self._max_replies // 4 and self._bytes < self._max_bytes // 4
        return self._finished or roomy

    def wait_empty(self, timeout: float) -> bool:
        """Return True once everything queued has been sent or will never be; False after `timeout` seconds."""
        with self._changed:
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


# On macOS a client that only closed its sending side looks the same as one that is gone.
_HANGUP_IS_FINAL = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what clients can cost, in seconds and counts. `line_s`: from the first byte of a line to its last;
    `stall_s`: without accepting a byte of what is sent; `pending`: unanswered requests of one client."""

    clients: int = 64
    line_s: float = 30.0
    stall_s: float = 10.0
    pending: int = 64
    linger_s: float = 1.0
    chunk: int = 65_536


class Connection:
    """One connected client. `invoke` answers a request, `mutates` says which methods are logged, `ended` is called
    once."""

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        invoke: Callable[[Connection, RpcRequest], Answer],
        *,
        mutates: Callable[[str], bool],
        ended: Callable[[Connection], None],
        limits: Limits,
    ) -> None:
        sock.setblocking(False)
        self.peer = peer
        self.topics: frozenset[str] = frozenset()
        self._sock = sock
        self._ended = ended
        self._limits = limits
        self._outbox = Outbox()
        self._lines = LineReader()
        self._replies = Replies(peer, lambda request: invoke(self, request), mutates, self._enqueue, limits.pending)
        self._reader = threading.Thread(target=self._read_all, name=f"control-in-{peer.connection}", daemon=True)
        self._writer = threading.Thread(target=self._write_all, name=f"control-out-{peer.connection}", daemon=True)

    def start(self, hello: bytes) -> None:
        """Greet the client with that line, then read and answer."""
        self._enqueue(len(hello), lambda: hello)
        self._writer.start()
        self._reader.start()

    def event(self, params: Mapping[str, object]) -> None:
        """Send one event when its turn comes; never waits."""
        self._outbox.put_event(params)

    # -- ending -----------------------------------------------------------------------------------

    def settle(self, deadline: float) -> None:
        """Wait until `deadline` (monotonic) for pending replies, then answer the rest with "shutting down" and accept
        nothing more."""
        self._replies.wait_answered(deadline - time.monotonic())
        self._replies.give_up()
        self._outbox.finish()

    def flush(self, deadline: float) -> None:
        """Send the last lines after `settle`, until `deadline`, then disconnect."""
        self._outbox.wait_empty(max(0, deadline - time.monotonic()))
        self.cut()

    def join(self, timeout: float) -> None:
        """Wait for both threads, for `timeout` seconds each."""
        for thread in (self._writer, self._reader):
            if thread is not threading.current_thread():
                thread.join(timeout)

    def cut(self) -> None:
        """Disconnect now; both threads wake up."""
        self._outbox.abandon()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # already gone

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
        """Return True when the client closed its side, False when we end the connection."""
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
                self._replies.answer(line)
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
        self._replies.refuse(problem)
        return False

    def _linger_half_closed(self) -> None:
        """Stay for pending replies and events of a client that has closed its sending side (`printf ... | nc -U`),
        until it is really gone."""
        while self._replies.pending or self.topics:
            if _ready(self._sock, 0, 0.2):
                self.topics = frozenset()
                if not _HANGUP_IS_FINAL:
                    self._replies.wait_answered(self._limits.stall_s)
                return

    def _discard(self) -> None:
        """Read on for a moment after the end, so that a client that is still sending receives our last line instead of
        a broken pipe."""
        until = time.monotonic() + self._limits.linger_s
        while time.monotonic() < until:
            try:
                if _ready(self._sock, select.POLLIN, 0.1) and not self._sock.recv(1_048_576):
                    return
            except OSError:
                return

    # -- writing ----------------------------------------------------------------------------------

    def _enqueue(self, size: int, make: Callable[[], bytes]) -> None:
        """Queue a line without waiting; a client with too much unread is disconnected."""
        if self._outbox.try_acquire():
            self._send_at_once(make)
        elif not self._outbox.put(size, make):
            self.cut()

    def _send_at_once(self, make: Callable[[], bytes]) -> None:
        """Send in the current thread as much as the client accepts without waiting."""
        rest = b""
        try:
            rest = make()
            rest = rest[self._sock.send(rest) :] if rest else b""
        except (BlockingIOError, InterruptedError):
            pass  # the writer's thread waits for it
        except OSError as error:
            get_logger(__name__).debug("client_unreachable", connection=self.peer.connection, reason=str(error))
            rest = b""
            self.cut()
        finally:
            self._outbox.release(rest)

    def _write_all(self) -> None:
        try:
            while (make := self._outbox.take()) is not None:
                self._send_all(make())
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            get_logger(__name__).debug("client_unreachable", connection=self.peer.connection, reason=str(error))
            self.cut()
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
