"""The send queue of one client, bounded so that a client that does not read costs nothing.

Replies go before events. Too many replies end the connection; too many events drop the oldest, and the next one sent
says how many were `dropped`. If nothing is queued, a thread with a reply may acquire the client and send it itself:
switching threads costs more than sending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping

from memoryd.control.protocol import encode_notification

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
