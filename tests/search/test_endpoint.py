"""The endpoint embedder against a test server: what is sent, accepted and reported."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from memoryd.core.vectors import unpack
from memoryd.errors import EmbedderError
from memoryd.search.embedding.endpoint import BATCH, Endpoint
from tests.search.embeddings import Server, ordinary

KEY = "key-that-nobody-may-see"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_a_vector_for_each_text_in_order(server: Server) -> None:
    endpoint = Endpoint(server.url + "/", "small", 2, KEY)
    texts = ["x" * (number + 1) for number in range(BATCH + 3)]
    found = [unpack(vector, 2) for vector in endpoint.embed(texts)]
    assert [round(first / second) for first, second in found] == [len(text) for text in texts]
    assert all(sum(number * number for number in each) == pytest.approx(1) for each in found)
    assert [len(body["input"]) for _, _, body in server.asked] == [BATCH, 3]
    path, headers, body = server.asked[0]
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["model"] == "small"
    assert endpoint.name == "endpoint:small:2", "vectors of another model or size are never mixed with these"


def test_texts_without_a_word_are_not_sent(server: Server) -> None:
    vectors = Endpoint(server.url, "small", 2).embed(["", "ab", " \n"])
    assert [any(vector) for vector in vectors] == [False, True, False]
    assert server.asked[0][2]["input"] == ["ab"]
    assert "Authorization" not in server.asked[0][1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {}), "answers 401"),
        ((404, {}), "answers 404"),
        ((500, b"oops"), "answers 500"),
        ((302, b""), "answers 302"),
        ((200, b"<html>"), "did not return embeddings"),
        ((200, {"data": [{"index": 0}]}), "did not return embeddings"),
        ((200, {"data": []}), "returned 0 embeddings for 1 texts"),
        ((200, {"data": [{"index": 0, "embedding": [1, 2, 3]}]}), "vectors of 3 numbers, not 2"),
        ((200, b'{"data": [{"index": 0, "embedding": [1, NaN]}]}'), "returned non-finite numbers"),
        ((200, {"data": [{"index": 0, "embedding": [0, 0]}]}), "no direction"),
    ],
)
def test_unusable_answers_are_reported(server: Server, answer: tuple[int, Any], said: str) -> None:
    server.answer = lambda _: answer
    with pytest.raises(EmbedderError) as caught:
        Endpoint(server.url, "small", 2, KEY).embed(["a text nobody may see"])
    assert said in caught.value.message
    for told in (caught.value.message, caught.value.hint or "", str(caught.value.__cause__)):
        assert KEY not in told
        assert "nobody may see" not in told


def test_a_server_that_is_not_there(server: Server) -> None:
    url = server.url
    server.http.server_close()
    with pytest.raises(EmbedderError, match="cannot be reached"):
        Endpoint(url, "small", 2).embed(["a"])


def test_a_service_without_network_access_gets_a_hint(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that RestrictAddressFamilies=AF_UNIX causes."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", refused)
    with pytest.raises(EmbedderError, match="cannot be reached") as caught:
        Endpoint(server.url, "small", 2).embed(["a"])
    assert "RestrictAddressFamilies" in (caught.value.hint or "")


def test_a_server_that_does_not_answer(server: Server) -> None:
    answered = threading.Event()

    def late(body: dict[str, Any]) -> tuple[int, Any]:
        answered.wait(30)
        return ordinary(body)

    server.answer = late
    with pytest.raises(EmbedderError, match="cannot be reached"):
        Endpoint(server.url, "small", 2, timeout_s=0.2).embed(["a"])
    answered.set()
