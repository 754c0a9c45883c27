"""The server of the control socket: accepts clients, checks their user, and passes requests to handlers.

There is one accepting thread and two threads per client (see connection.py), for at most 64 clients. A handler returns
its result, or a Future for work that goes through the inbox of a root; the thread that completes the Future only queues
the reply. So no client can delay a worker or another client.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType

from memoryd.control import discover, endpoint, peer, protocol
from memoryd.control.connection import Connection, Limits
from memoryd.control.methods import TABLE
from memoryd.control.methods.method_types import TOPICS, Method, Request, Result
from memoryd.control.methods.process import DiscoverResult, EventsRequest, TopicsResult
from memoryd.control.parameters import check_params, name_hint
from memoryd.control.peer import Peer
from memoryd.control.protocol import RpcRequest
from memoryd.control.requests import Answer
from memoryd.control.wire import PROTOCOL, MethodUnknownError
from memoryd.core.dates import iso_ms
from memoryd.errors import BusyError, MemorydError, ShuttingDownError, UnauthorisedError
from memoryd.log import RateLimit, get_logger

Handler = Callable[..., Answer]
"""Answers a checked request, of the type in the method table, with a result or a Future of it. Raises MemorydError
kinds."""

Builtin = Callable[[Request, Connection], Result]


class Server:
    """The control socket. `address`: a path to bind (the caller holds the instance lock), or a listening socket that
    was passed in. `handlers`: by method name; `subscribe`, `unsubscribe` and `rpc.discover` are built in. `hello`:
    members of the greeting besides server and protocol (version, pid, instance).

    `start` raises AlreadyRunningError, DeniedError or ConfigError.
    """

    def __init__(
        self,
        address: str | Path | socket.socket,
        handlers: Mapping[str, Handler],
        hello: Mapping[str, object],
        *,
        authorise: Callable[[Peer], bool] = peer.is_daemon_user,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._handlers = handlers
        self._hello = {"server": "memoryd", "protocol": PROTOCOL, **hello}
        self._authorise = authorise
        self._limits = limits or Limits()
        self._clock = clock
        self._builtins: dict[str, Builtin] = {
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "rpc.discover": self._discover,
        }
        self._lock = threading.Lock()
        self._connections: tuple[Connection, ...] = ()  # replaced, never changed: read without the lock
        self._numbers = itertools.count(1)
        self._log_limits = RateLimit()
        self._draining = False
        self._closing = False
        self._endpoint: endpoint.Endpoint | None = None
        self._wake: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self.heartbeats = 0  # answers to `request_heartbeat`

    # -- lifecycle --------------------------------------------------------------------------------

    def open(self) -> None:
        """Bind and listen. Clients can connect, but are not answered before `start`."""
        address = self._address
        if isinstance(address, socket.socket):
            self._endpoint = endpoint.adopt(address)
        else:
            self._endpoint = endpoint.bind(os.fspath(address))
        self._endpoint.sock.setblocking(False)

    def start(self) -> None:
        """Accept clients and answer them; calls `open` first if needed."""
        if self._endpoint is None:
            self.open()
        assert self._endpoint is not None
        self._wake, wake_reader = socket.socketpair()
        self._acceptor = threading.Thread(
            target=self._accept_all, args=(self._endpoint.sock, wake_reader), name="control-accept", daemon=True
        )
        self._acceptor.start()

    @property
    def path(self) -> str:
        """Path of the socket; valid after `open`."""
        assert self._endpoint is not None
        return self._endpoint.path

    @property
    def clients(self) -> int:
        """Number of connected clients."""
        return len(self._connections)

    def request_heartbeat(self) -> None:
        """Ask the accepting thread to increment `heartbeats`, without waiting. A thread that hangs never does."""
        if self._wake is not None:
            with contextlib.suppress(OSError):  # it has not read the earlier requests, or is about to end
                self._wake.send(b"!", socket.MSG_DONTWAIT)

    def hand_over(self, grace: float) -> None:
        """Stop accepting on a socket that was passed in: a client that connects from now on waits for the next process.
        Connected clients get `grace` seconds for the request they have sent or are about to send. Nothing happens on a
        socket that this process bound, because nobody would accept its clients."""
        if self._endpoint is None or self._endpoint.identity is not None:
            return
        self._stop_accepting(grace)
        deadline = time.monotonic() + grace
        for connection in self._connections:
            connection.await_reply(deadline)

    def _stop_accepting(self, timeout: float) -> None:
        if self._wake is not None and self._acceptor is not None:
            self._wake.close()
            self._acceptor.join(timeout)

    def drain(self) -> None:
        """Refuse new work (jobs and changes) with "shutting down". Reads such as `status` and work under way are still
        answered."""
        self._draining = True

    def close(self, grace: float = 1.0) -> None:
        """Stop accepting, give pending replies `grace` seconds, answer the rest with "shutting down", disconnect every
        client, and unlink the socket if this process bound it. Safe to call twice."""
        with self._lock:
            if self._closing:
                return
            self._closing = self._draining = True
        if self._endpoint is None:
            return  # never opened
        self._stop_accepting(grace + 1)
        self._endpoint.remove()
        self._endpoint.sock.close()
        self._end_connections(time.monotonic() + grace)

    def _end_connections(self, deadline: float) -> None:
        connections = self._connections
        for connection in connections:
            connection.settle(deadline)
        flushed = max(deadline, time.monotonic() + 0.2)
        for connection in connections:
            connection.flush(flushed)
        for connection in connections:
            connection.join(max(0.05, flushed + 0.5 - time.monotonic()))

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- events -----------------------------------------------------------------------------------

    def publish(self, topic: str, event: Mapping[str, object]) -> None:
        """Send `event` to all subscribers of `topic` without waiting. `at` (UTC with `Z`) is added."""
        params = {"topic": topic, "at": iso_ms(self._clock()), **event}
        for connection in self._connections:
            if topic in connection.topics:
                connection.send_event(params)

    def _subscribe(self, request: Request, connection: Connection) -> TopicsResult:
        connection.topics |= _topics(request)
        return TopicsResult(topics=_ordered(connection.topics))

    def _unsubscribe(self, request: Request, connection: Connection) -> TopicsResult:
        connection.topics -= _topics(request)
        return TopicsResult(topics=_ordered(connection.topics))

    def _discover(self, _: Request, __: Connection) -> DiscoverResult:
        return discover.document(self._served().values(), str(self._hello.get("version", "")))

    # -- requests ---------------------------------------------------------------------------------

    def _served(self) -> dict[str, Method]:
        return {n: m for n, m in TABLE.items() if n in self._handlers or n in self._builtins}

    def _invoke(self, connection: Connection, request: RpcRequest) -> Answer:
        method = TABLE.get(request.method)
        served = method and (method.name in self._handlers or method.name in self._builtins)
        if method is None or not served:
            hint = name_hint(request.method, self._served())
            raise MethodUnknownError(f"there is no method {request.method!r}", hint=hint)
        # A second shutdown request is no mistake, so it is the one change still accepted.
        work = method.kind == "job" or (method.mutates and method.name != "shutdown")
        if self._closing or (self._draining and work):
            raise ShuttingDownError("the daemon is shutting down", hint="start it again with `memoryd run`")
        params = check_params(method, request.params)
        builtin = self._builtins.get(method.name)
        if builtin is not None:
            return builtin(params, connection)
        return self._handlers[method.name](params)

    def _mutates(self, name: str) -> bool:
        method = TABLE.get(name)
        return method is not None and method.mutates

    # -- accepting --------------------------------------------------------------------------------

    def _accept_all(self, listener: socket.socket, wake_reader: socket.socket) -> None:
        """Accept clients, and count a heartbeat for data from the other end of `wake_reader`, until it is closed."""
        poll, rest = select.poll(), select.poll()
        poll.register(listener, select.POLLIN)
        for each in (poll, rest):
            each.register(wake_reader, select.POLLIN)
        with wake_reader:
            while True:
                if any(fd == wake_reader.fileno() for fd, _ in poll.poll()):
                    if not wake_reader.recv(64):
                        return
                    self.heartbeats += 1
                try:
                    sock, _ = listener.accept()
                except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                    continue
                except OSError as error:  # out of descriptors or memory: retry when some are free again
                    self._log_limited("accept_failed", str(error))
                    rest.poll(500)
                    continue
                self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        """Serve an authorised client; send any other one the reason and disconnect it."""
        try:
            client = peer.of_socket(sock, next(self._numbers))
            if not self._authorise(client):
                raise UnauthorisedError(
                    f"user {client.uid} may not give commands to this daemon",
                    hint="run the command as its owner",
                )
            # The daemon's own health probe must get through even if other clients use every connection.
            if self.clients >= self._limits.clients and client.pid != os.getpid():
                raise BusyError(f"{self.clients} clients are connected already", hint="close some, then try again")
        except MemorydError as error:
            self._log_limited("client_refused", error.message)
            _reject(sock, protocol.encode_error(None, error))
            return
        self._serve(sock, client)

    def _log_limited(self, event: str, reason: str) -> None:
        suppressed = self._log_limits.suppressed(reason)
        if suppressed is not None:
            more = {"suppressed": suppressed} if suppressed else {}
            get_logger(__name__).warning(event, reason=reason, **more)

    def _serve(self, sock: socket.socket, client: Peer) -> None:
        connection = Connection(
            sock, client, self._invoke, mutates=self._mutates, on_end=self._remove, limits=self._limits
        )
        with self._lock:
            self._connections = (*self._connections, connection)
        try:
            connection.start(protocol.encode_notification("hello", self._hello))
        except RuntimeError as error:  # the system has no more threads
            self._log_limited("client_refused", str(error))
            connection.disconnect()
            sock.close()
            self._remove(connection)

    def _remove(self, connection: Connection) -> None:
        with self._lock:
            self._connections = tuple(c for c in self._connections if c is not connection)


def _reject(sock: socket.socket, line: bytes) -> None:
    """Send one line and close. The send buffer is still empty, so this never waits."""
    with sock:
        try:
            sock.setblocking(False)
            sock.send(line)
            sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            get_logger(__name__).debug("client_gone", reason=str(error))


def refuse_clients(listener: socket.socket, error: MemorydError) -> None:
    """Tell every client that is waiting on a listening socket why no daemon serves it."""
    try:
        listener.setblocking(False)
        while True:
            sock, _ = listener.accept()
            _reject(sock, protocol.encode_error(None, error))
    except OSError:  # no client is waiting any more, or a server has closed the socket
        return


def _topics(request: Request) -> frozenset[str]:
    """Return the topics of a request; all of them if none is named."""
    assert isinstance(request, EventsRequest)
    return frozenset(TOPICS if request.topics is None else request.topics)


def _ordered(topics: Iterable[str]) -> list[str]:
    return [topic for topic in TOPICS if topic in topics]
