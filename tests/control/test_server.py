"""The server with real sockets: no client delays another, and each request gets one reply or a close."""

from __future__ import annotations

import contextlib
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

from memoryd.control import peer
from memoryd.control.client import Client
from memoryd.control.connection import Limits, Outbox
from memoryd.control.methods import Request
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
        self.peers: list[Peer] = []
        self.arrived = threading.Condition()
        self.release = threading.Event()

    def ping(self, _: Request, who: Peer) -> Answer:
        self.peers.append(who)
        return {"pid": os.getpid(), "version": "1.2.3", "instance": "abc", "uptime_s": 1.0}

    def archive(self, params: Request, _: Peer) -> Answer:
        future: Future[Mapping[str, object]] = Future()
        with self.arrived:
            self.jobs.append(future)
            self.arrived.notify_all()
        return future

    def check(self, _: Request, __: Peer) -> Answer:
        return {"findings": [{"message": "x" * 1000}] * 3000, "summary": {}}

    def undo(self, params: UndoRequest, _: Peer) -> Answer:
        raise ConflictError("changed since", hint="look", data={"changed": [params.receipt]})

    def status(self, _: Request, __: Peer) -> Answer:
        raise ZeroDivisionError("content of a memory")

    def metrics(self, _: Request, __: Peer) -> Answer:
        self.release.wait(20)
        return {"text": ""}

    def shutdown(self, _: Request, __: Peer) -> Answer:
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
def place(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "control.sock")


@pytest.fixture
def serve(daemon: Daemon, place: str) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(**options: Any) -> Server:
        server = Server(place, daemon.handlers(), HELLO, **options)
        server.start()
        servers.append(server)
        return server

    yield start
    daemon.release.set()
    for server in servers:
        server.close(0.2)


class Raw:
    """A client that says exactly what it is told."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(path)
        self.file = self.sock.makefile("rb")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.sock.close()

    def say(self, *requests: Any) -> None:
        for request in requests:
            line = request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n"
            self.sock.sendall(line)

    def hear(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None


def call(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def ask(path: str) -> Any:
    with Client(path) as client:
        return client.call("ping")


def until(condition: Callable[[], bool]) -> None:
    """Poll for something another thread is about to do."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


def test_the_greeting_and_a_reply(serve: Callable[..., Server], place: str, daemon: Daemon) -> None:
    serve()
    with Raw(place) as raw:
        hello = raw.hear()
        assert hello["method"] == "hello"
        assert hello["params"] == {"server": "memoryd", "protocol": 1, **HELLO}
        raw.say(call("x", "ping"))
        assert raw.hear() == {"jsonrpc": "2.0", "id": "x", "result": daemon.ping(Request(), Peer(0))}
    assert (daemon.peers[0].uid, daemon.peers[0].pid) == (os.geteuid(), os.getpid())


def test_the_places_are_private(serve: Callable[..., Server], place: str) -> None:
    server = serve()
    assert stat.S_IMODE(os.stat(os.path.dirname(place)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
    server.close()
    assert not os.path.exists(place)
    server.close()


def test_requests_overlap_on_one_connection(serve: Callable[..., Server], place: str, daemon: Daemon) -> None:
    """A later request is answered while an earlier one is still at work; ids tell them apart."""
    serve()
    with Raw(place) as raw:
        raw.hear()
        raw.say(call(1, "archive"), call(2, "archive"), call(3, "ping"))
        assert raw.hear()["id"] == 3
        daemon.jobs[1].set_result({"n": 2})
        assert raw.hear() == {"jsonrpc": "2.0", "id": 2, "result": {"n": 2}}
        daemon.jobs[0].set_exception(BusyError("locked"))
        assert raw.hear()["error"]["code"] == BusyError.rpc_code


def test_two_requests_in_one_write_and_one_in_two(serve: Callable[..., Server], place: str) -> None:
    serve()
    with Raw(place) as raw:
        raw.hear()
        both = json.dumps(call(1, "ping")) + "\n\n" + json.dumps(call(2, "ping")) + "\n"
        raw.say(both[:70].encode(), both[70:].encode())
        assert [raw.hear()["id"], raw.hear()["id"]] == [1, 2]


def test_a_notification_gets_no_reply(serve: Callable[..., Server], place: str, daemon: Daemon) -> None:
    serve()
    with Raw(place) as raw:
        raw.hear()
        for method in ("ping", "archive", "undo", "nonsense"):
            raw.say({"jsonrpc": "2.0", "method": method})
        daemon.wait_jobs(1)
        daemon.jobs[0].set_result({})
        raw.say(call(5, "ping"))
        assert raw.hear()["id"] == 5


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
    serve: Callable[..., Server], place: str, request_: dict[str, Any], code: int
) -> None:
    serve()
    with Raw(place) as raw:
        raw.hear()
        raw.say(request_)
        error = raw.hear()["error"]
        assert error["code"] == code
        assert error["data"]["code"]
        assert "content of a memory" not in json.dumps(error)
        raw.say(call(2, "ping"))
        assert raw.hear()["id"] == 2


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
    serve: Callable[..., Server], place: str, line: bytes
) -> None:
    serve()
    with Raw(place) as raw:
        raw.hear()
        raw.say(line, call(2, "ping"))
        first, second = raw.hear(), raw.hear()
        assert first["error"]["code"] in (-32700, -32600)
        assert second["id"] == 2


def test_the_line_limit(serve: Callable[..., Server], place: str) -> None:
    """1,048,576 bytes without the newline are served; one more is refused and the connection closed."""
    serve()
    with Raw(place) as raw:
        raw.hear()
        request = json.dumps(call(1, "ping")).encode()
        raw.say(request + b" " * (MAX_LINE - len(request)) + b"\n")
        assert raw.hear()["id"] == 1
        raw.say(request + b" " * (MAX_LINE + 1 - len(request)) + b"\n")
        refused = raw.hear()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert raw.hear() is None


def test_an_endless_line_is_cut_while_others_are_served(serve: Callable[..., Server], place: str) -> None:
    serve()
    with Raw(place) as raw, Client(place) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(64):
                raw.say(b"x" * 1_048_576)
        assert client.call("ping")["version"] == "1.2.3"
        assert raw.hear()["method"] == "hello"
        assert raw.hear()["error"]["code"] == -32600


def test_half_a_line_and_gone(serve: Callable[..., Server], place: str) -> None:
    server = serve()
    with Raw(place) as raw:
        raw.say(b'{"jsonrpc":"2.0"')
    until(lambda: server.clients == 0)
    assert ask(place)


def test_half_a_line_is_not_waited_for_for_ever(serve: Callable[..., Server], place: str) -> None:
    serve(limits=Limits(line_s=0.05))
    with Raw(place) as raw:
        raw.hear()
        raw.say(b'{"jsonrpc"')
        assert raw.hear()["error"]["code"] == -32600
        assert raw.hear() is None


def test_an_idle_client_stays(serve: Callable[..., Server], place: str) -> None:
    serve(limits=Limits(line_s=0.02, stall_s=0.02))
    with Raw(place) as raw:
        raw.hear()
        threading.Event().wait(0.2)
        raw.say(call(1, "ping"))
        assert raw.hear()["id"] == 1


@pytest.mark.slow
def test_a_client_that_never_reads_is_cut_and_nobody_waits_for_it(serve: Callable[..., Server], place: str) -> None:
    server = serve(limits=Limits(stall_s=0.2, linger_s=0.1))
    with Raw(place) as deaf, Client(place) as client:
        flood = json.dumps(call(1, "check")).encode() + b"\n"
        with contextlib.suppress(OSError):
            for _ in range(200):
                deaf.say(flood)
        began = time.monotonic()
        assert client.call("ping")
        assert time.monotonic() - began < 1
        until(lambda: server.clients == 1)


def test_pipelining_without_reading_is_slowed_not_broken(serve: Callable[..., Server], place: str) -> None:
    """A client that sends everything first and reads then gets every reply, in order."""
    serve()
    with Raw(place) as raw:
        raw.hear()
        sender = threading.Thread(target=lambda: raw.say(*[call(n, "ping") for n in range(5000)]))
        sender.start()
        assert [raw.hear()["id"] for _ in range(5000)] == list(range(5000))
        sender.join()


def test_too_many_unanswered_requests(serve: Callable[..., Server], place: str, daemon: Daemon) -> None:
    serve(limits=Limits(pending=2))
    with Raw(place) as raw:
        raw.hear()
        raw.say(*[call(n, "archive") for n in range(3)])
        reply = raw.hear()
        assert (reply["id"], reply["error"]["code"]) == (2, BusyError.rpc_code)


def test_completing_the_work_of_a_vanished_client_is_harmless(
    serve: Callable[..., Server], place: str, daemon: Daemon
) -> None:
    server = serve()
    with Raw(place) as raw:
        raw.say(call(1, "archive"))
        daemon.wait_jobs(1)
    until(lambda: server.clients == 0)
    daemon.jobs[0].set_result({})
    assert ask(place)


def test_a_client_that_only_stopped_sending_still_gets_its_reply(
    serve: Callable[..., Server], place: str, daemon: Daemon
) -> None:
    """`printf ... | nc -U` closes its sending side and then reads."""
    serve()
    with Raw(place) as raw:
        raw.say(call(1, "ping"), call(2, "archive"))
        raw.sock.shutdown(socket.SHUT_WR)
        raw.hear()
        assert raw.hear()["id"] == 1
        daemon.wait_jobs(1)
        daemon.jobs[0].set_result({})
        assert raw.hear()["id"] == 2
        assert raw.hear() is None


def test_a_hundred_connections(serve: Callable[..., Server], place: str) -> None:
    """The first 64 are served, the rest get one clear line; afterwards there is room again."""
    server = serve()
    code = "import socket,sys\n"
    code += "s=[socket.socket(socket.AF_UNIX) for _ in range(100)]\n"
    code += f"for x in s: x.connect({place!r}); x.settimeout(20)\n"
    code += "print(*[x.makefile().readline().strip() for x in s],sep='\\n',flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    lines = [json.loads(child.stdout.readline()) for _ in range(100)]
    assert [line.get("method") for line in lines[:64]] == ["hello"] * 64
    assert {line["error"]["code"] for line in lines[64:]} == {BusyError.rpc_code}
    assert all(line["error"]["data"]["hint"] for line in lines[64:])
    assert ask(place), "the daemon's own process is let in always"
    child.communicate(timeout=20)
    until(lambda: server.clients == 0)


def test_a_blocked_handler_delays_only_its_own_connection(serve: Callable[..., Server], place: str) -> None:
    serve()
    with Raw(place) as blocked, Client(place) as client:
        blocked.say(call(1, "metrics"))
        began = time.monotonic()
        assert client.call("ping")
        assert time.monotonic() - began < 1


# -- who may -------------------------------------------------------------------------------------


def test_another_user_is_refused(daemon: Daemon) -> None:
    """The kernel says who it is: refused by its uid even where the modes would let it in."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else; the check itself is tested below")
    # Not in tmp_path: pytest keeps the directories above it closed to other users.
    with tempfile.TemporaryDirectory() as directory:
        place = f"{directory}/run/control.sock"
        with Server(place, daemon.handlers(), HELLO):
            for path in (directory, f"{directory}/run", place):
                os.chmod(path, 0o777)
            code = "import os,socket;os.setgid(65534);os.setuid(65534)"
            code += f";s=socket.socket(socket.AF_UNIX);s.connect({place!r})"
            code += ";f=s.makefile();print(f.readline(),end='');assert f.readline()==''"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=20)
    reply = json.loads(done.stdout)
    assert (reply["id"], reply["error"]["code"]) == (None, -32001)


def test_the_check_fails_closed(serve: Callable[..., Server], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert peer.own_user(Peer(os.geteuid()))
    assert peer.own_user(Peer(0))
    assert not peer.own_user(Peer(os.geteuid() + 12_345))
    a, b = socket.socketpair()
    with a, b:
        assert peer.of_socket(a).uid == os.geteuid()
    with socket.socket(socket.AF_INET) as stranger, pytest.raises(UnauthorisedError):
        peer.of_socket(stranger)
    serve(authorise=lambda _: False)
    with pytest.raises(UnauthorisedError), Client(place) as client:
        client.call("ping")


# -- events --------------------------------------------------------------------------------------


def test_events_reach_their_subscribers_only(serve: Callable[..., Server], place: str) -> None:
    server = serve(clock=lambda: 12.5)
    with Raw(place) as one, Raw(place) as two:
        for raw in (one, two):
            raw.hear()
        one.say(call(1, "subscribe", topics=["change", "root"]))
        assert one.hear()["result"] == {"topics": ["change", "root"]}
        two.say(call(1, "subscribe"), call(2, "unsubscribe", topics=["change"]))
        assert two.hear()["id"] == 1
        assert "change" not in two.hear()["result"]["topics"]
        server.publish("change", {"root": "a", "path": "x\udcff"})
        server.publish("job", {"root": "a"})
        server.publish("root", {"root": "b", "at": 1.0})
        event = {"jsonrpc": "2.0", "method": "event"}
        first = {"topic": "change", "at": 12.5, "root": "a", "path": "x\\xff"}
        assert one.hear() == event | {"params": first}
        assert two.hear() == event | {"params": {"topic": "job", "at": 12.5, "root": "a"}}
        last = {"topic": "root", "at": 1.0, "root": "b"}
        assert one.hear() == two.hear() == event | {"params": last}


def test_unknown_topics_are_refused(serve: Callable[..., Server], place: str) -> None:
    serve()
    with pytest.raises(UsageError, match="chnge") as caught, Client(place) as client:
        client.call("subscribe", {"topics": ["chnge"]})
    assert "did you mean 'change'" in str(caught.value.hint)


def test_a_slow_subscriber_loses_the_oldest_and_is_told(serve: Callable[..., Server], place: str) -> None:
    """Publishing never waits; the events kept are the newest, and the gap is counted."""
    server = serve()
    with Raw(place) as raw:
        raw.hear()
        raw.say(call(1, "subscribe"))
        raw.hear()
        began = time.monotonic()
        for n in range(3000):
            server.publish("log", {"n": n, "text": "x" * 1000})
        assert time.monotonic() - began < 5
        seen, dropped = 0, 0
        while True:
            params = raw.hear()["params"]
            seen, dropped = seen + 1, dropped + params.get("dropped", 0)
            if params["n"] == 2999:
                break
        assert dropped > 0
        assert seen + dropped == 3000


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
    assert not box.wait_room(0)
    box.finish()
    assert box.put(1, lambda: b""), "nobody to complain to any more"
    assert box.take() is not None
    assert box.take() is None
    assert box.wait_empty(0)


def test_who_has_a_reply_sends_it_himself_where_nothing_waits() -> None:
    box = Outbox()
    assert box.try_acquire()
    assert not box.try_acquire(), "one at a time"
    assert not box.wait_empty(0)
    assert box.put(1, lambda: b"later")
    box.release(b"the rest")
    assert not box.try_acquire(), "what waits goes first"
    assert [make() for make in (box.take(), box.take()) if make] == [b"the rest", b"later"]
    assert not box.try_acquire(), "the writer is at it"


def test_a_claim_at_the_end_holds_the_writer_until_it_is_over() -> None:
    """Else the descriptor could be another client's before all is sent."""
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


def test_closing_while_requests_are_pending(serve: Callable[..., Server], place: str, daemon: Daemon) -> None:
    """What finishes within the grace is answered with its result, the rest with "shutting down"."""
    server = serve()
    with Raw(place) as raw:
        raw.hear()
        raw.say(call(1, "archive"), call(2, "archive"))
        daemon.wait_jobs(2)
        daemon.jobs[0].set_result({"done": True})
        began = time.monotonic()
        server.close(0.3)
        assert time.monotonic() - began < 3
        assert raw.hear()["result"] == {"done": True}
        reply = raw.hear()
        assert (reply["id"], reply["error"]["code"]) == (2, ShuttingDownError.rpc_code)
        assert raw.hear() is None
    daemon.jobs[1].set_result({})
    with pytest.raises(NoDaemonError):
        ask(place)


def test_draining_refuses_work_and_still_answers(serve: Callable[..., Server], place: str) -> None:
    server = serve()
    server.drain()
    with Client(place) as client:
        with pytest.raises(ShuttingDownError):
            client.call("archive")
        assert client.call("ping")
        assert client.call("shutdown") == {"stopping": True}, "asking twice to stop is no mistake"


def test_closing_a_server_that_never_started(place: str) -> None:
    Server(place, {}, HELLO).close()


# -- the place -----------------------------------------------------------------------------------


def test_a_stale_socket_is_replaced(serve: Callable[..., Server], place: str) -> None:
    os.mkdir(os.path.dirname(place))
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(place)
    serve()
    assert ask(place)


def test_a_live_socket_is_not(serve: Callable[..., Server], place: str) -> None:
    serve()
    with pytest.raises(AlreadyRunningError):
        Server(place, {}, HELLO).start()
    assert ask(place)


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_anything_else_at_the_path_is_left_alone(place: str, kind: str) -> None:
    os.mkdir(os.path.dirname(place))
    match kind:
        case "file":
            Path(place).write_bytes(b"precious")
        case "link":
            os.symlink("/nowhere", place)
        case _:
            os.mkdir(place)
    before = os.lstat(place)
    with pytest.raises(ConfigError) as caught:
        Server(place, {}, HELLO).start()
    assert caught.value.hint
    assert os.lstat(place) == before


def test_a_directory_others_may_write_is_refused(place: str) -> None:
    os.mkdir(os.path.dirname(place))
    os.chmod(os.path.dirname(place), 0o777)
    with pytest.raises(DeniedError):
        Server(place, {}, HELLO).start()


def test_a_directory_of_our_own_name_is_made_private(tmp_path: Path) -> None:
    directory = tmp_path / "memoryd"
    directory.mkdir(mode=0o755)
    with Server(directory / "c.sock", {}, HELLO):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_of_another_owner_is_refused(place: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    os.mkdir(os.path.dirname(place))
    os.chown(os.path.dirname(place), 65534, 65534)
    with pytest.raises(DeniedError):
        Server(place, {}, HELLO).start()


def test_a_path_too_long_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Server(tmp_path / ("x" * 120), {}, HELLO).start()
    assert caught.value.hint


def test_a_socket_somebody_replaced_is_not_removed(serve: Callable[..., Server], place: str) -> None:
    server = serve()
    os.unlink(place)
    Path(place).write_bytes(b"new")
    server.close()
    assert Path(place).read_bytes() == b"new"


def test_a_socket_passed_in_is_used_and_not_removed(daemon: Daemon, tmp_path: Path) -> None:
    place = str(tmp_path / "given.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    with Server(listener, daemon.handlers(), HELLO) as server:
        assert server.path == place
        assert ask(place)
    assert os.path.exists(place)


# -- the client ----------------------------------------------------------------------------------


def test_the_client_raises_what_the_daemon_reports(serve: Callable[..., Server], place: str) -> None:
    serve()
    with Client(place) as client:
        with pytest.raises(ConflictError) as caught:
            client.call("undo", {"receipt": "r\udcff"})
        assert caught.value.data == {"changed": ["r\\xff"]}
        with pytest.raises(MemorydError, match="internal error") as internal:
            client.call("status")
        assert internal.value.data["log_id"] in str(internal.value.hint)
        assert client.call("check")["truncated"] == {"findings": 3000}
        assert client.hello["version"] == "1.2.3"
        with pytest.raises(UsageError, match="longer"):
            client.call("undo", {"receipt": "x" * MAX_LINE})


def test_the_client_gives_up_in_time(serve: Callable[..., Server], place: str) -> None:
    serve()
    with Client(place, timeout=0.1) as client, pytest.raises(NoDaemonError, match="in time"):
        client.call("archive")


def test_no_daemon_is_one_error_with_a_hint(place: str, tmp_path: Path) -> None:
    for path in (place, str(tmp_path / ("x" * 200)), str(tmp_path)):
        with pytest.raises(NoDaemonError) as caught:
            ask(path)
        assert "memoryd run" in str(caught.value.hint)


def test_something_else_at_the_socket_is_named(tmp_path: Path) -> None:
    place = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(place)
        listener.listen()

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b"220 mail\n")
                sock.recv(10_000)

        done = pool.submit(answer)
        with pytest.raises(MemorydError, match="is not memoryd"), Client(place) as client:
            client.call("ping")
        done.result(20)


def test_the_client_follows_events_until_the_daemon_ends(serve: Callable[..., Server], place: str) -> None:
    server = serve()
    with Client(place) as client:
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


def test_an_opened_server_answers_when_it_is_started(daemon: Daemon, place: str) -> None:
    server = Server(place, daemon.handlers(), HELLO)
    server.open()
    with Client(place) as client, ThreadPoolExecutor(1) as pool:
        reply = pool.submit(client.call, "ping")
        with pytest.raises(TimeoutError):
            reply.result(0.2)
        server.start()
        assert reply.result(20)["instance"] == "abc"
    server.close()


def test_a_server_that_was_only_opened_leaves_no_socket(daemon: Daemon, place: str) -> None:
    server = Server(place, daemon.handlers(), HELLO)
    server.open()
    assert os.path.exists(place)
    server.close()
    assert not os.path.exists(place)


def test_a_loop_of_refused_clients_is_logged_once(
    serve: Callable[..., Server], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(style="json")
    serve(authorise=lambda _: False)
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place)
            assert b"-32001" in client.recv(4096)
    assert capsys.readouterr().err.count("client_refused") == 1
