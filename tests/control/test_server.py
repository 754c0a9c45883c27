"""The server with real sockets: no client delays another, and each request gets one reply or a close."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memoryd.control import client as client_module
from memoryd.control import peer
from memoryd.control.client import Client
from memoryd.control.connection import Limits, Outbox
from memoryd.control.methods.method_types import Request
from memoryd.control.methods.recovery import UndoRequest
from memoryd.control.peer import Peer
from memoryd.control.requests import Answer
from memoryd.control.server import Server
from memoryd.control.wire import MAX_LINE
from memoryd.errors import (
    AlreadyRunningError,
    BusyError,
    ConfigError,
    ConflictError,
    DeniedError,
    MemorydError,
    NoDaemonError,
    ShuttingDownError,
    UnauthorisedError,
    UsageError,
)
from memoryd.log import configure

HELLO = {"version": "1.2.3", "pid": 7, "instance": "abc"}


class Daemon:
    """Stub handlers: `archive` waits in a Future until the test completes it."""

    def __init__(self) -> None:
        self.jobs: list[Future[Mapping[str, object]]] = []
        self.arrived = threading.Condition()
        self.release = threading.Event()

    def ping(self, _: Request) -> Answer:
        return {"pid": os.getpid(), "version": "1.2.3", "instance": "abc", "uptime_s": 1.0}

    def archive(self, params: Request) -> Answer:
        future: Future[Mapping[str, object]] = Future()
        with self.arrived:
            self.jobs.append(future)
            self.arrived.notify_all()
        return future

    def check(self, _: Request) -> Answer:
        return {"findings": [{"message": "x" * 1000}] * 3000, "summary": {}}

    def undo(self, params: UndoRequest) -> Answer:
        raise ConflictError("changed since", hint="look", data={"changed": [params.receipt]})

    def status(self, _: Request) -> Answer:
        raise ZeroDivisionError("content of a memory")

    def metrics(self, _: Request) -> Answer:
        self.release.wait(20)
        return {"text": ""}

    def shutdown(self, _: Request) -> Answer:
        return {"stopping": True}

    def wait_jobs(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.jobs) >= count, 20)

    def handlers(self) -> dict[str, Any]:
        names = ("ping", "archive", "check", "undo", "status", "metrics", "shutdown")
        return {name: getattr(self, name) for name in names}


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def socket_path(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "control.sock")


@pytest.fixture
def serve(daemon: Daemon, socket_path: str) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(**options: Any) -> Server:
        server = Server(socket_path, daemon.handlers(), HELLO, **options)
        server.start()
        servers.append(server)
        return server

    yield start
    daemon.release.set()
    for server in servers:
        server.close(0.2)


class RawClient:
    """A client that sends exactly the given lines."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(path)
        self.file = self.sock.makefile("rb")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.sock.close()

    def send(self, *requests: Any) -> None:
        for request in requests:
            line = request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n"
            self.sock.sendall(line)

    def receive(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None


def call(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def ping(path: str) -> Any:
    with Client(path) as client:
        return client.call("ping")


def until(condition: Callable[[], bool]) -> None:
    """Poll for something another thread is about to do."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


def test_the_greeting_and_a_reply(serve: Callable[..., Server], socket_path: str, daemon: Daemon) -> None:
    serve()
    with RawClient(socket_path) as raw:
        hello = raw.receive()
        assert hello["method"] == "hello"
        assert hello["params"] == {"server": "memoryd", "protocol": 1, **HELLO}
        raw.send(call("x", "ping"))
        assert raw.receive() == {"jsonrpc": "2.0", "id": "x", "result": daemon.ping(Request())}


def test_a_client_is_known_by_what_the_kernel_says(serve: Callable[..., Server], socket_path: str) -> None:
    peers: list[Peer] = []

    def authorise(client: Peer) -> bool:
        peers.append(client)
        return True

    serve(authorise=authorise)
    with RawClient(socket_path) as raw:
        raw.receive()
    assert [(each.uid, each.pid) for each in peers] == [(os.geteuid(), os.getpid())]


def test_the_socket_and_its_directory_are_private(serve: Callable[..., Server], socket_path: str) -> None:
    server = serve()
    assert stat.S_IMODE(os.stat(os.path.dirname(socket_path)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(socket_path).st_mode) == 0o600
    server.close()
    assert not os.path.exists(socket_path)
    server.close()


def test_requests_overlap_on_one_connection(serve: Callable[..., Server], socket_path: str, daemon: Daemon) -> None:
    """A later request is answered while an earlier one is still at work; replies are matched by id."""
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(call(1, "archive"), call(2, "archive"), call(3, "ping"))
        assert raw.receive()["id"] == 3
        daemon.jobs[1].set_result({"n": 2})
        assert raw.receive() == {"jsonrpc": "2.0", "id": 2, "result": {"n": 2}}
        daemon.jobs[0].set_exception(BusyError("locked"))
        assert raw.receive()["error"]["code"] == BusyError.rpc_code


def test_two_requests_in_one_write_and_one_in_two(serve: Callable[..., Server], socket_path: str) -> None:
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        both = json.dumps(call(1, "ping")) + "\n\n" + json.dumps(call(2, "ping")) + "\n"
        raw.send(both[:70].encode(), both[70:].encode())
        assert [raw.receive()["id"], raw.receive()["id"]] == [1, 2]


def test_a_notification_gets_no_reply(serve: Callable[..., Server], socket_path: str, daemon: Daemon) -> None:
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        for method in ("ping", "archive", "undo", "nonsense"):
            raw.send({"jsonrpc": "2.0", "method": method})
        daemon.wait_jobs(1)
        daemon.jobs[0].set_result({})
        raw.send(call(5, "ping"))
        assert raw.receive()["id"] == 5


ERRORS: list[tuple[dict[str, Any], int]] = [
    (call(1, "nonsense"), -32601),
    (call(1, "reindex"), -32601),  # in the table, but this daemon does not serve it
    (call(1, "ping", verbose=True), -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, -32602),
    (call(1, "undo", receipt="r1"), ConflictError.rpc_code),
    (call(1, "status"), -32603),
]


@pytest.mark.parametrize(("request_", "code"), ERRORS)
def test_errors_have_their_code_and_leave_the_connection_usable(
    serve: Callable[..., Server], socket_path: str, request_: dict[str, Any], code: int
) -> None:
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(request_)
        error = raw.receive()["error"]
        assert error["code"] == code
        assert error["data"]["code"]
        assert "content of a memory" not in json.dumps(error)
        raw.send(call(2, "ping"))
        assert raw.receive()["id"] == 2


BROKEN = [
    b"\xff\xfe{}\n",
    b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n',
    b"[" * 900_000 + b"\n",
    b"\0\0\n",
    b"{}\n",
    b"[1]\n",
]


@pytest.mark.parametrize("line", BROKEN)
def test_a_malformed_line_gets_one_error_and_the_next_is_served(
    serve: Callable[..., Server], socket_path: str, line: bytes
) -> None:
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(line, call(2, "ping"))
        first, second = raw.receive(), raw.receive()
        assert first["error"]["code"] in (-32700, -32600)
        assert second["id"] == 2


def test_the_line_limit(serve: Callable[..., Server], socket_path: str) -> None:
    """1,048,576 bytes without the newline are served; one more is refused and the connection closed."""
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        request = json.dumps(call(1, "ping")).encode()
        raw.send(request + b" " * (MAX_LINE - len(request)) + b"\n")
        assert raw.receive()["id"] == 1
        raw.send(request + b" " * (MAX_LINE + 1 - len(request)) + b"\n")
        refused = raw.receive()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert raw.receive() is None


def test_an_endless_line_ends_its_connection_while_others_are_served(
    serve: Callable[..., Server], socket_path: str
) -> None:
    serve()
    with RawClient(socket_path) as raw, Client(socket_path) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(64):
                raw.send(b"x" * 1_048_576)
        assert client.call("ping")["version"] == "1.2.3"
        assert raw.receive()["method"] == "hello"
        assert raw.receive()["error"]["code"] == -32600


def test_a_client_that_disconnects_in_the_middle_of_a_line(serve: Callable[..., Server], socket_path: str) -> None:
    server = serve()
    with RawClient(socket_path) as raw:
        raw.send(b'{"jsonrpc":"2.0"')
    until(lambda: server.clients == 0)
    assert ping(socket_path)


def test_an_incomplete_line_has_a_time_limit(serve: Callable[..., Server], socket_path: str) -> None:
    serve(limits=Limits(line_s=0.05))
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(b'{"jsonrpc"')
        assert raw.receive()["error"]["code"] == -32600
        assert raw.receive() is None


def test_an_idle_client_stays(serve: Callable[..., Server], socket_path: str) -> None:
    serve(limits=Limits(line_s=0.02, stall_s=0.02))
    with RawClient(socket_path) as raw:
        raw.receive()
        threading.Event().wait(0.2)
        raw.send(call(1, "ping"))
        assert raw.receive()["id"] == 1


@pytest.mark.slow
def test_a_client_that_never_reads_is_disconnected_and_delays_no_other(
    serve: Callable[..., Server], socket_path: str
) -> None:
    server = serve(limits=Limits(stall_s=0.2, linger_s=0.1))
    with RawClient(socket_path) as stalled, Client(socket_path) as client:
        flood = json.dumps(call(1, "check")).encode() + b"\n"
        with contextlib.suppress(OSError):
            for _ in range(200):
                stalled.send(flood)
        assert client.call("ping")
        until(lambda: server.clients == 1)


def test_pipelining_without_reading_is_slowed_not_broken(serve: Callable[..., Server], socket_path: str) -> None:
    """A client that sends everything first and reads then gets every reply, in order."""
    serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        sender = threading.Thread(target=lambda: raw.send(*[call(n, "ping") for n in range(5000)]))
        sender.start()
        assert [raw.receive()["id"] for _ in range(5000)] == list(range(5000))
        sender.join()


def test_too_many_unanswered_requests(serve: Callable[..., Server], socket_path: str, daemon: Daemon) -> None:
    serve(limits=Limits(pending=2))
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(*[call(n, "archive") for n in range(3)])
        reply = raw.receive()
        assert (reply["id"], reply["error"]["code"]) == (2, BusyError.rpc_code)


def test_completing_the_work_of_a_vanished_client_is_harmless(
    serve: Callable[..., Server], socket_path: str, daemon: Daemon
) -> None:
    server = serve()
    with RawClient(socket_path) as raw:
        raw.send(call(1, "archive"))
        daemon.wait_jobs(1)
    until(lambda: server.clients == 0)
    daemon.jobs[0].set_result({})
    assert ping(socket_path)


def test_a_client_that_only_stopped_sending_still_gets_its_reply(
    serve: Callable[..., Server], socket_path: str, daemon: Daemon
) -> None:
    """`printf ... | nc -U` closes its sending side and then reads."""
    serve()
    with RawClient(socket_path) as raw:
        raw.send(call(1, "ping"), call(2, "archive"))
        raw.sock.shutdown(socket.SHUT_WR)
        raw.receive()
        assert raw.receive()["id"] == 1
        daemon.wait_jobs(1)
        daemon.jobs[0].set_result({})
        assert raw.receive()["id"] == 2
        assert raw.receive() is None


def test_a_hundred_connections(serve: Callable[..., Server], socket_path: str) -> None:
    """The first 64 are served, the rest get one clear line; afterwards new clients are accepted again."""
    server = serve()
    code = "import socket,sys\n"
    code += "s=[socket.socket(socket.AF_UNIX) for _ in range(100)]\n"
    code += f"for x in s: x.connect({socket_path!r}); x.settimeout(20)\n"
    code += "print(*[x.makefile().readline().strip() for x in s],sep='\\n',flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    lines = [json.loads(child.stdout.readline()) for _ in range(100)]
    assert [line.get("method") for line in lines[:64]] == ["hello"] * 64
    assert {line["error"]["code"] for line in lines[64:]} == {BusyError.rpc_code}
    assert all(line["error"]["data"]["hint"] for line in lines[64:])
    assert ping(socket_path), "the daemon's own process is always accepted"
    child.communicate(timeout=20)
    until(lambda: server.clients == 0)


def test_a_blocked_handler_delays_only_its_own_connection(serve: Callable[..., Server], socket_path: str) -> None:
    serve()
    with RawClient(socket_path) as blocked, Client(socket_path) as client:
        blocked.send(call(1, "metrics"))
        began = time.monotonic()
        assert client.call("ping")
        assert time.monotonic() - began < 15, "the handler waits for 20 s"


# -- authorisation -------------------------------------------------------------------------------------


def test_another_user_is_refused(daemon: Daemon) -> None:
    """The kernel reports its uid; it is refused even if the file modes permit it to connect."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user; the check itself is tested below")
    # Not in tmp_path: pytest keeps the directories above it closed to other users.
    with tempfile.TemporaryDirectory() as directory:
        socket_path = f"{directory}/run/control.sock"
        with Server(socket_path, daemon.handlers(), HELLO):
            for path in (directory, f"{directory}/run", socket_path):
                os.chmod(path, 0o777)
            code = "import os,socket;os.setgid(65534);os.setuid(65534)"
            code += f";s=socket.socket(socket.AF_UNIX);s.connect({socket_path!r})"
            code += ";f=s.makefile();print(f.readline(),end='');assert f.readline()==''"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=20)
    reply = json.loads(done.stdout)
    assert (reply["id"], reply["error"]["code"]) == (None, -32001)


LISTEN = """
import os, socket, sys
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen()
print(os.getuid(), flush=True)
client, _ = listener.accept()
print(client.recv(100).decode(), flush=True)
"""


@pytest.mark.parametrize("is_own", [True, False])
def test_a_client_tells_nothing_to_another_user(monkeypatch: pytest.MonkeyPatch, is_own: bool) -> None:
    """A path such as /tmp/x can be taken by anyone before the daemon starts."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        path = f"{directory}/control.sock"
        with subprocess.Popen([sys.executable, "-c", LISTEN, path], stdout=subprocess.PIPE, text=True) as listener:
            assert listener.stdout is not None
            uid = int(listener.stdout.readline())
            monkeypatch.setattr(os, "geteuid", lambda: uid if is_own else uid + 1)
            with pytest.raises(NoDaemonError if is_own else DeniedError) as caught, Client(path) as client:
                client.call("ping")
            assert ("ping" in listener.stdout.read()) is is_own
    assert is_own or f"served by user {uid}" in caught.value.message


def test_root_may_ask_the_daemon_of_any_user(
    serve: Callable[..., Server], socket_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the service that runs as another user is asked by who installed it."""
    serve(authorise=lambda _: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(client_module, "peer_identity", lambda _: (12_345, 1))
    assert ping(socket_path)


def test_the_check_fails_closed(
    serve: Callable[..., Server], socket_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert peer.is_daemon_user(Peer(os.geteuid()))
    assert peer.is_daemon_user(Peer(0))
    assert not peer.is_daemon_user(Peer(os.geteuid() + 12_345))
    a, b = socket.socketpair()
    with a, b:
        assert peer.of_socket(a).uid == os.geteuid()
    with socket.socket(socket.AF_INET) as stranger, pytest.raises(UnauthorisedError):
        peer.of_socket(stranger)
    serve(authorise=lambda _: False)
    with pytest.raises(UnauthorisedError), Client(socket_path) as client:
        client.call("ping")


# -- events --------------------------------------------------------------------------------------


def test_events_reach_their_subscribers_only(serve: Callable[..., Server], socket_path: str) -> None:
    server = serve(clock=lambda: 12.5)
    with RawClient(socket_path) as one, RawClient(socket_path) as two:
        for raw in (one, two):
            raw.receive()
        one.send(call(1, "subscribe", topics=["change", "root"]))
        assert one.receive()["result"] == {"topics": ["change", "root"]}
        two.send(call(1, "subscribe"), call(2, "unsubscribe", topics=["change"]))
        assert two.receive()["id"] == 1
        assert "change" not in two.receive()["result"]["topics"]
        server.publish("change", {"root": "a", "path": "x\udcff"})
        server.publish("job", {"root": "a"})
        server.publish("root", {"root": "b", "at": "then"})
        event = {"jsonrpc": "2.0", "method": "event"}
        first = {"topic": "change", "at": "1970-01-01T00:00:12.500Z", "root": "a", "path": "x\\xff"}
        assert one.receive() == event | {"params": first}
        assert two.receive() == event | {"params": {"topic": "job", "at": "1970-01-01T00:00:12.500Z", "root": "a"}}
        last = {"topic": "root", "at": "then", "root": "b"}
        assert one.receive() == two.receive() == event | {"params": last}


def test_unknown_topics_are_refused(serve: Callable[..., Server], socket_path: str) -> None:
    serve()
    with pytest.raises(UsageError, match="chnge") as caught, Client(socket_path) as client:
        client.call("subscribe", {"topics": ["chnge"]})
    assert "did you mean 'change'" in str(caught.value.hint)


def test_a_slow_subscriber_loses_the_oldest_events_and_gets_their_number(
    serve: Callable[..., Server], socket_path: str
) -> None:
    """Publishing never waits; the newest events are delivered, and the dropped ones counted."""
    server = serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(call(1, "subscribe"))
        raw.receive()
        began = time.monotonic()
        for n in range(3000):
            server.publish("log", {"n": n, "text": "x" * 1000})
        assert time.monotonic() - began < 15
        received, dropped = 0, 0
        while True:
            params = raw.receive()["params"]
            received, dropped = received + 1, dropped + params.get("dropped", 0)
            if params["n"] == 2999:
                break
        assert dropped > 0
        assert received + dropped == 3000


def test_the_outbox_bounds() -> None:
    box = Outbox(max_replies=2, max_bytes=10, max_events=2)
    for n in range(5):
        box.put_event({"n": n})
    assert box.put(1, lambda: b"r")
    assert [make() for make in (box.take(), box.take()) if make][0] == b"r"  # noqa: RUF015 - order of taking is the point
    last = box.take()
    assert last is not None
    assert json.loads(last())["params"] == {"n": 4}
    assert box.put(11, lambda: b"")
    assert not box.put(1, lambda: b"")
    assert not box.wait_capacity(0)
    box.finish()
    assert box.put(1, lambda: b""), "dropped without an error"
    assert box.take() is not None
    assert box.take() is None
    assert box.wait_empty(0)


def test_whoever_waits_for_an_empty_queue_learns_of_the_end_of_a_reservation() -> None:
    box, found = Outbox(), []
    assert box.try_acquire()
    waiting = threading.Thread(target=lambda: found.append(box.wait_empty(600)), name="waits-for-empty")
    waiting.start()

    def waits() -> bool:
        frame = sys._current_frames().get(waiting.ident or 0)  # noqa: SLF001 - documented, in spite of its name
        return frame is not None and frame.f_code.co_name == "wait"

    until(waits)
    box.release(b"")
    waiting.join(30)
    assert found == [True]


def test_a_thread_sends_its_reply_directly_if_the_queue_is_empty() -> None:
    box = Outbox()
    assert box.try_acquire()
    assert not box.try_acquire(), "one at a time"
    assert not box.wait_empty(0)
    assert box.put(1, lambda: b"later")
    box.release(b"the rest")
    assert not box.try_acquire(), "queued lines go first"
    assert [make() for make in (box.take(), box.take()) if make] == [b"the rest", b"later"]
    assert not box.try_acquire(), "the writer is sending"


def test_the_writer_waits_for_a_direct_send_before_it_ends() -> None:
    """Otherwise the descriptor could be reused for another client before everything is sent."""
    box = Outbox()
    assert box.try_acquire()
    box.finish()
    writer = threading.Thread(target=box.take)
    writer.start()
    writer.join(0.2)
    assert writer.is_alive()
    box.release(b"")
    writer.join(5)
    assert not writer.is_alive()
    assert not box.try_acquire()


def test_the_rest_for_a_client_that_is_gone_is_dropped() -> None:
    box = Outbox()
    assert box.try_acquire()
    box.abandon()
    box.release(b"the rest")
    assert box.take() is None


# -- ending --------------------------------------------------------------------------------------


def test_closing_while_requests_are_pending(serve: Callable[..., Server], socket_path: str, daemon: Daemon) -> None:
    """What finishes within the grace is answered with its result, the rest with "shutting down"."""
    server = serve()
    with RawClient(socket_path) as raw:
        raw.receive()
        raw.send(call(1, "archive"), call(2, "archive"))
        daemon.wait_jobs(2)
        daemon.jobs[0].set_result({"done": True})
        server.close(0.3)
        assert raw.receive()["result"] == {"done": True}
        reply = raw.receive()
        assert (reply["id"], reply["error"]["code"]) == (2, ShuttingDownError.rpc_code)
        assert raw.receive() is None
    daemon.jobs[1].set_result({})
    with pytest.raises(NoDaemonError):
        ping(socket_path)


def test_draining_refuses_work_and_still_answers(serve: Callable[..., Server], socket_path: str) -> None:
    server = serve()
    server.drain()
    with Client(socket_path) as client:
        with pytest.raises(ShuttingDownError):
            client.call("archive")
        assert client.call("ping")
        assert client.call("shutdown") == {"stopping": True}, "a second shutdown request is no mistake"


def test_closing_a_server_that_never_started(socket_path: str) -> None:
    Server(socket_path, {}, HELLO).close()


# -- the socket file -----------------------------------------------------------------------------------


def test_a_stale_socket_is_replaced(serve: Callable[..., Server], socket_path: str) -> None:
    os.mkdir(os.path.dirname(socket_path))
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(socket_path)
    serve()
    assert ping(socket_path)


def test_a_live_socket_is_not_replaced(serve: Callable[..., Server], socket_path: str) -> None:
    serve()
    with pytest.raises(AlreadyRunningError):
        Server(socket_path, {}, HELLO).start()
    assert ping(socket_path)


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_anything_else_at_the_path_is_left_alone(socket_path: str, kind: str) -> None:
    os.mkdir(os.path.dirname(socket_path))
    match kind:
        case "file":
            Path(socket_path).write_bytes(b"precious")
        case "link":
            os.symlink("/nowhere", socket_path)
        case _:
            os.mkdir(socket_path)
    before = os.lstat(socket_path)
    with pytest.raises(ConfigError) as caught:
        Server(socket_path, {}, HELLO).start()
    assert caught.value.hint
    assert os.lstat(socket_path) == before


def test_a_directory_others_may_write_is_refused(socket_path: str) -> None:
    os.mkdir(os.path.dirname(socket_path))
    os.chmod(os.path.dirname(socket_path), 0o777)
    with pytest.raises(DeniedError):
        Server(socket_path, {}, HELLO).start()


def test_a_directory_named_memoryd_is_made_private(tmp_path: Path) -> None:
    directory = tmp_path / "memoryd"
    directory.mkdir(mode=0o755)
    with Server(directory / "c.sock", {}, HELLO):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_of_another_owner_is_refused(socket_path: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    os.mkdir(os.path.dirname(socket_path))
    os.chown(os.path.dirname(socket_path), 65534, 65534)
    with pytest.raises(DeniedError):
        Server(socket_path, {}, HELLO).start()


def test_a_path_too_long_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Server(tmp_path / ("x" * 120), {}, HELLO).start()
    assert caught.value.hint


def test_a_socket_that_was_replaced_is_not_removed(serve: Callable[..., Server], socket_path: str) -> None:
    server = serve()
    os.unlink(socket_path)
    Path(socket_path).write_bytes(b"new")
    server.close()
    assert Path(socket_path).read_bytes() == b"new"


def test_a_socket_passed_in_is_used_and_not_removed(daemon: Daemon, tmp_path: Path) -> None:
    socket_path = str(tmp_path / "given.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path)
    listener.listen()
    with Server(listener, daemon.handlers(), HELLO) as server:
        assert server.path == socket_path
        assert ping(socket_path)
    assert os.path.exists(socket_path)


def test_a_passed_socket_goes_to_the_next_process_without_a_lost_request(daemon: Daemon, tmp_path: Path) -> None:
    """Connected clients are still answered by the first server; later ones wait for the second."""
    path = str(tmp_path / "given.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    first = Server(listener.dup(), daemon.handlers(), {**HELLO, "instance": "first"})
    first.start()
    with RawClient(path) as silent, RawClient(path) as busy, ThreadPoolExecutor(1) as pool:
        assert silent.receive()["params"]["instance"] == "first"
        assert busy.receive()["params"]["instance"] == "first"
        busy.send({"jsonrpc": "2.0", "id": 1, "method": "archive"})
        daemon.wait_jobs(1)
        over = pool.submit(first.hand_over, 30)
        until(lambda: all(thread.name != "control-accept" for thread in threading.enumerate()))
        with RawClient(path) as late:
            late.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert not over.done()
            silent.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert "result" in silent.receive()
            assert not over.done()
            daemon.jobs[0].set_result({"plan": {"actions": []}})
            assert "result" in busy.receive()
            over.result(30)
            first.close(0.2)
            with Server(listener, daemon.handlers(), {**HELLO, "instance": "second"}):
                assert late.receive()["params"]["instance"] == "second"
                assert "result" in late.receive()


# -- the client ----------------------------------------------------------------------------------


def test_the_client_raises_what_the_daemon_reports(serve: Callable[..., Server], socket_path: str) -> None:
    serve()
    with Client(socket_path) as client:
        with pytest.raises(ConflictError) as caught:
            client.call("undo", {"receipt": "r\udcff"})
        assert caught.value.data == {"changed": ["r\\xff"]}
        with pytest.raises(MemorydError, match="internal error") as internal:
            client.call("status")
        assert internal.value.data["log_id"] in str(internal.value.hint)
        assert client.call("check")["truncated"] == {"findings": 3000}
        with pytest.raises(UsageError, match="longer"):
            client.call("undo", {"receipt": "x" * MAX_LINE})


def test_the_time_limit_of_a_client_includes_connecting() -> None:
    with tempfile.TemporaryDirectory(prefix="md-") as place, contextlib.ExitStack() as stack:
        path = f"{place}/c"
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(path)
        server.listen(0)
        for _ in range(2):  # its queue is full
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(path)
        began = time.monotonic()
        with pytest.raises(NoDaemonError, match="does not accept"), Client(path, timeout=0.1) as client:
            client.call("ping")
        assert time.monotonic() - began < 4, "the system alone would wait five seconds"


def test_the_client_gives_up_in_time(serve: Callable[..., Server], socket_path: str) -> None:
    serve()
    with Client(socket_path, timeout=0.1) as client, pytest.raises(NoDaemonError, match="in time"):
        client.call("archive")


def test_no_daemon_is_one_error_with_a_hint(socket_path: str, tmp_path: Path) -> None:
    for path in (socket_path, str(tmp_path / ("x" * 200)), str(tmp_path)):
        with pytest.raises(NoDaemonError) as caught:
            ping(path)
        assert "memoryd run" in str(caught.value.hint)


def test_something_else_at_the_socket_is_named(tmp_path: Path) -> None:
    socket_path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(socket_path)
        listener.listen()

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b"220 mail\n")
                sock.recv(10_000)

        done = pool.submit(answer)
        with pytest.raises(MemorydError, match="is not memoryd"), Client(socket_path) as client:
            client.call("ping")
        done.result(20)


def test_the_client_follows_events_until_the_daemon_ends(serve: Callable[..., Server], socket_path: str) -> None:
    server = serve()
    with Client(socket_path) as client:
        following = threading.Event()
        finishing = threading.Thread(target=_finish, args=(server, following))
        finishing.start()
        events = client.events(["job"])
        assert next(events)["n"] == 0
        following.set()
        assert [event["n"] for event in events if event["n"]] == [1, 2]
        finishing.join()


def _finish(server: Server, following: threading.Event) -> None:
    while not following.wait(0.01):
        server.publish("job", {"n": 0})
    server.publish("job", {"n": 1})
    server.publish("job", {"n": 2})
    server.close()


def test_an_opened_server_answers_when_it_is_started(daemon: Daemon, socket_path: str) -> None:
    server = Server(socket_path, daemon.handlers(), HELLO)
    server.open()
    with Client(socket_path) as client, ThreadPoolExecutor(1) as pool:
        reply = pool.submit(client.call, "ping")
        with pytest.raises(TimeoutError):
            reply.result(0.2)
        server.start()
        assert reply.result(20)["instance"] == "abc"
    server.close()


def test_a_server_that_was_only_opened_leaves_no_socket(daemon: Daemon, socket_path: str) -> None:
    server = Server(socket_path, daemon.handlers(), HELLO)
    server.open()
    assert os.path.exists(socket_path)
    server.close()
    assert not os.path.exists(socket_path)


def test_a_loop_of_refused_clients_is_logged_once(
    serve: Callable[..., Server], socket_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(style="json")
    serve(authorise=lambda _: False)
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(socket_path)
            assert b"-32001" in client.recv(4096)
    assert capsys.readouterr().err.count("client_refused") == 1


def test_a_lack_of_descriptors_does_not_fill_the_log(
    serve: Callable[..., Server],
    socket_path: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client that cannot be accepted stays in the queue, so the server tries again and again."""
    configure(style="json")
    server, genuine, failures = serve(), socket.socket.accept, iter(range(5))

    def accept(listener: socket.socket) -> tuple[socket.socket, Any]:
        if next(failures, None) is not None:
            server.request_heartbeat()  # which ends the pause before the next try
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return genuine(listener)

    monkeypatch.setattr(socket.socket, "accept", accept)
    assert ping(socket_path)
    assert next(failures, None) is None
    assert capsys.readouterr().err.count("accept_failed") == 1
