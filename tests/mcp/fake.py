"""A control socket with the real server and protocol, and a few memories in a dictionary behind it."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.control.methods import TABLE
from memoryd.control.methods.method_types import Request
from memoryd.control.parameters import check_params
from memoryd.control.requests import Answer
from memoryd.control.server import Server
from memoryd.errors import ConflictError, InvalidMemoryError, NotFoundError, SensitiveError, UnknownRootError
from tests.parameters import given

Values = dict[str, Any]

METHODS = ("status", *(f"memory.{verb}" for verb in ("search", "get", "list", "add", "update", "forget")))
LAYOUTS = {"agents": "jsonl-store", "notes": "markdown-topics", "private": "user-document"}


class FakeDaemon:
    """`memories[root][id]` is the native object; `calls` lists the calls; `fail`: the error to answer with."""

    def __init__(self, **memories: dict[str, Values]) -> None:
        self.memories: dict[str, dict[str, Values]] = {name: {} for name in LAYOUTS} | memories
        self.calls: list[tuple[str, Values]] = []
        self.fail: Exception | None = None
        self._lock = threading.Lock()
        self.socket = ""  # set while the context is entered
        self._server: Server | None = None

    def __enter__(self) -> FakeDaemon:
        self.socket = f"{tempfile.mkdtemp(prefix='md-')}/c"  # the name of a socket must be short
        return self.start()

    def __exit__(self, *unused: object) -> None:
        self.stop()
        shutil.rmtree(os.path.dirname(self.socket))

    def start(self) -> FakeDaemon:
        handlers = {name: self._handler(name) for name in METHODS}
        self._server = Server(self.socket, handlers, {"version": "1", "pid": 1, "instance": "i"})
        self._server.start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.close(0.2)
            self._server = None

    def calls_of(self, method: str) -> list[Values]:
        return [params for name, params in self.calls if name == method]

    def __call__(self, method: str, params: Mapping[str, Any]) -> Values:
        """Answer a call without a socket, in place of a `caller`."""
        return self._answer(method, given(check_params(TABLE[method], params)))

    # -- answering --------------------------------------------------------------------------------

    def _handler(self, name: str) -> Any:
        def handle(request: Request) -> Answer:
            return self._answer(name, given(request))

        return handle

    def _answer(self, name: str, params: Values) -> Values:
        with self._lock:
            self.calls.append((name, dict(params)))
            if self.fail is not None:
                raise self.fail
            result: Values = getattr(self, name.replace("memory.", ""))(params)
            return result

    def _roots(self, params: Values) -> list[str]:
        wanted: list[str] = [params["root"]] if "root" in params else params.get("roots", list(self.memories))
        for root in wanted:
            if root not in self.memories:
                raise UnknownRootError(f"there is no root {root!r}", hint=f"the roots are: {', '.join(self.memories)}")
        return wanted

    def _rows(self, params: Values) -> Iterator[tuple[str, str, Values]]:
        for root in self._roots(params):
            for key, memory in self.memories[root].items():
                yield root, key, memory

    def _one(self, params: Values) -> tuple[str, str, Values]:
        matches = [row for row in self._rows(params) if row[1] == params["id"]]
        if not matches:
            raise NotFoundError(f"there is no memory {params['id']}", hint="`memoryd search` finds ids")
        if len(matches) > 1:
            raise ConflictError("the id is in several roots", data={"candidates": [row[0] for row in matches]})
        return matches[0]

    def status(self, params: Values) -> Values:
        rows = [
            {"name": root, "layout": LAYOUTS.get(root), "state": "ok", "path": f"/m/{root}", "memories": len(memories),
             "watch": {"mode": "inotify"}}
            for root, memories in self.memories.items() if root in self._roots(params)
        ]  # fmt: skip
        return {"state": "ok", "pid": 1, "version": "1", "uptime_s": 2.5, "roots": rows, "jobs": [], "resources": {}}

    def search(self, params: Values) -> Values:
        words = params["query"].lower().split()
        hits = []
        for root, key, memory in self._rows(params):
            text = str(memory.get("content") or memory.get("text"))
            score = sum(word in text.lower() for word in words) / len(words)
            if score:
                snippet = text if "max_tokens" in params else text[:40]
                hits.append(
                    self._hit(root, key, memory) | {"snippet": snippet, "score": score, "why": {"words": score}}
                )
        hits.sort(key=lambda hit: -hit["score"])
        fresh = {root: {"state": "fresh", "generation": 3, "lag_ms": 0.0} for root in self._roots(params)}
        best = hits[: params.get("limit", 10)]
        more: Values = {}
        if "max_tokens" in params and best:
            more["embedding"] = "\n".join(f"{hit['snippet']} ({hit['root']} {hit['id']})" for hit in best)
        return {"hits": best, "took_ms": 0.5, "fresh": fresh, **more}

    def get(self, params: Values) -> Values:
        root, key, memory = self._one(params)
        if "offset" in params:
            part = memory["text"][params["offset"] : params["offset"] + 10]
            return {"root": root, "id": key, "path": "f", "part": part, "next_offset": params["offset"] + 10}
        text = {"text": memory["text"]} if "text" in memory else {}
        return {"root": root, "id": key, "path": "f", "line": 1, "memory": memory, "archived": False, **text}

    def list(self, params: Values) -> Values:
        rows = [self._hit(*row) for row in self._rows(params)]
        start = int(params.get("cursor", 0))
        end = start + params.get("limit", 50)
        return {"memories": rows[start:end]} | ({"next_cursor": str(end)} if end < len(rows) else {})

    def add(self, params: Values) -> Values:
        [root] = self._roots(params)
        text = str(params["memory"].get("content", ""))
        if "ghp_" in text:
            raise SensitiveError("Security violation: Cannot store sensitive data", hint="store where it is kept")
        if not text:
            findings = [{"field": "content", "rule": "is missing"}]
            raise InvalidMemoryError("the memory does not fit", data={"findings": findings})
        key = f"new/{len(self.memories[root])}#ü"
        self.memories[root][key] = params["memory"]
        return {"root": root, "id": key, "path": "f", "receipt": "r-1"}

    def update(self, params: Values) -> Values:
        root, key, memory = self._one(params)
        self.memories[root][key] = {**memory, **params["changes"]}
        return {"root": root, "id": key, "path": "f", "receipt": "r-2"}

    def forget(self, params: Values) -> Values:
        root, key, _ = self._one(params)
        del self.memories[root][key]
        return {"root": root, "id": key, "path": "f", "receipt": "r-3"}

    @staticmethod
    def _hit(root: str, key: str, memory: Values) -> Values:
        title = str(memory.get("content", key))[:20]
        return {"root": root, "id": key, "path": "f", "line": 1, "title": title, "type": memory.get("type"),
                "tags": memory.get("tags", []), "archived": False}  # fmt: skip
