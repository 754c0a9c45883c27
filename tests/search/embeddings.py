"""An embeddings server for tests: it gives the prepared answers and records the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server:
    """Answers by `answer(request) -> (status, body)`; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.answer: Callable[[dict[str, Any]], tuple[int, Any]] = ordinary
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append((self.path, dict(self.headers), body))
                status, said = server.answer(body)
                content = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(BrokenPipeError):  # who asked has gone, as a test may want it
                    self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def ordinary(body: dict[str, Any]) -> tuple[int, Any]:
    """Two numbers by the length of each text, in an order of its own."""
    rows = [{"index": number, "embedding": [len(text), 1.0]} for number, text in enumerate(body["input"])]
    return 200, {"data": rows[::-1]}
